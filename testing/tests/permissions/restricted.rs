//! Restricted backends: who may go there, and how soon a change is in force.

use std::net::SocketAddr;

use moonbridge_proto::v1::PermissionAnswer;
use moonbridge_testing::model::stage::DOMAIN;
use moonbridge_testing::network::Net;
use moonbridge_testing::peer::{Backend, Kind, Player};
use serde_json::json;

use crate::support::{Client, SECOND, host, join, node, within};

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Done when: refused, granted by CLI on the other replica, moved within a second, without rejoining. And the way back.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_the_other_replica_opens_a_backend_within_a_second_without_rejoining() {
    let (mut vip, vip_port) = Backend::serve(Kind::Npm, "vip", json!({ "dimension": -1 })).await;
    let (mut lobby, lobby_port) = Backend::serve(Kind::Npm, "lobby", json!({ "dimension": 0 })).await;
    let net = Net::start(&[("vip", loopback(vip_port)), ("lobby", loopback(lobby_port))]).await;
    net.a.cli().ok(&["backend", "restrict", "vip"]).await;
    net.in_force().await;

    // The route begins with vip: she is refused there, and gets its next.
    let mut alice = Player::join(Kind::Npm, net.first.listen.port(), "Alice", json!({}));
    assert_eq!(alice.in_world().await, 0);
    lobby.joined("Alice").await;
    net.known(&["Alice"]).await;
    let ran = net.a.cli().run(&["transfer", "start", "Alice", "--to", "vip", "--as-player"]).await.ended(1);
    assert!(ran.said().contains("not_permitted") && ran.said().contains("moonbridge.server.vip"), "{ran:?}");

    let client = Client::at(&net.a).await;
    net.b.cli().ok(&["permission", "user", "Alice", "set", "moonbridge.server.vip"]).await;
    within(SECOND, "moved after the grant", || async {
        let moved = client.go("Alice", "vip").await;
        if moved.reason == "ok" {
            return Ok(());
        }
        assert_eq!(moved.reason, "not_permitted", "{moved:?}");
        Err(moved.detail)
    })
    .await;
    vip.joined("Alice").await;
    alice.say("in without rejoining").await;
    vip.chat("in without rejoining").await;

    // Taken away where it was not given; who is there stays.
    net.a.cli().ok(&["permission", "user", "alice", "unset", "moonbridge.server.vip"]).await;
    client.live_within(SECOND, "Alice", "moonbridge.server.vip", PermissionAnswer::Undefined).await;
    alice.say("still here").await;
    vip.chat("still here").await;
    client.moves("Alice", "lobby").await;
    assert_eq!(client.go("Alice", "vip").await.reason, "not_permitted");
    // An admin may send anybody anywhere.
    client.moves("Alice", "vip").await;
    alice.assert_well();

    let rows = net.b.cli().rows(&["audit", "--what", "permission", "--target", "Alice"]).await;
    let after: Vec<_> = rows.iter().map(|row| row["after"].to_string()).collect();
    assert_eq!(after.len(), 2, "{rows:?}");
    assert!(after[1].contains("moonbridge.server.vip") && !after[0].contains("moonbridge.server.vip"), "newest first: {rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_go_there_is_let_in_at_once_and_who_may_go_nowhere_is_told() {
    let (vip, lobby) = (host("vip", 1).await, host("lobby", 2).await);
    let net = Net::start(&[("vip", vip.address), ("lobby", lobby.address)]).await;
    let client = Client::at(&net.b).await;
    net.a.cli().ok(&["route", "set", "closed.example.net", "--backends", "vip"]).await;
    net.a.cli().ok(&["backend", "restrict", "vip"]).await;
    net.in_force().await;

    let bob = join(&net.first, DOMAIN, "Bob").await;
    bob.is_on(&lobby.setup()).await;
    net.known(&["Bob"]).await;
    drop(bob);
    // Offline, by the name under which he was here last; by a group of his.
    client.group("members", vec![node("moonbridge.server.*", true)]).await;
    net.in_force().await;
    client.set("bob", node("group.members", true)).await;
    let bob = join(&net.second, DOMAIN, "Bob").await;
    bob.is_on(&vip.setup()).await;
    bob.assert_well();

    let carol = join(&net.second, "closed.example.net", "Carol").await;
    carol.ended().await;
    let told = carol.with(|model| model.kicked().map(str::to_owned));
    assert!(told.as_deref().is_some_and(|told| told.contains("You do not have permission to join this server.")), "{told:?}");
    // Neither was the backend asked.
    assert!(!format!("{:?}", vip.events()).contains("Carol"), "{}", vip.log());

    let ran = net.a.cli().ok(&["route", "test", DOMAIN, "--player", "Bob", "-o", "json"]).await;
    assert!(!ran.stdout.contains("restricted"), "{ran:?}");
    let ran = net.a.cli().run(&["route", "test", DOMAIN, "-o", "json"]).await;
    assert!(ran.stdout.contains("restricted"), "{ran:?}");
}
