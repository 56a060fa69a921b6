//! With the control plane away: what was known holds, what was to end ends, and what is not known is no yes.

use moonbridge_proto::v1::PermissionAnswer::{True, Undefined};
use moonbridge_testing::network::Net;
use moonbridge_testing::process::SOON;

use crate::support::{Client, clock_says, host, join, node, node_until, now, unset};

const VIP: &str = "moonbridge.server.vip";

/// With nobody to ask, fallbacks show what nodes think.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_set_holds_expiry_works_and_the_unknown_is_not_allowed() {
    let (early, late) = (host("early", 1).await, host("late", 2).await);
    let (vip, hub) = (host("vip", 3).await, host("hub", 4).await);
    let backends = [("early", early.address), ("late", late.address), ("vip", vip.address), ("hub", hub.address)];
    let mut net = Net::start(&backends).await;
    for (route, backends) in [("early.example", "early,vip,hub"), ("late.example", "late,vip,hub"), ("new.example", "vip,hub")] {
        net.a.cli().ok(&["route", "set", route, "--backends", backends]).await;
    }
    net.a.cli().ok(&["backend", "restrict", "vip"]).await;
    net.in_force().await;

    let alice = join(&net.first, "late.example", "Alice").await;
    let bob = join(&net.second, "late.example", "Bob").await;
    let carol = join(&net.second, "early.example", "Carol").await;
    let dave = join(&net.first, "late.example", "Dave").await;
    for (player, on) in [(&alice, &late), (&bob, &late), (&carol, &early), (&dave, &late)] {
        player.is_on(&on.setup()).await;
    }
    net.known(&["Alice", "Bob", "Carol", "Dave"]).await;
    let client = Client::at(&net.a).await;
    client.set("Alice", node(VIP, true)).await;
    client.set("Dave", node(VIP, true)).await;
    drop(dave);
    let expiry = now() + 12;
    let revision = client.set("Bob", node_until(expiry, VIP, true)).await;
    client.set("Carol", node_until(expiry, VIP, true)).await;
    for name in ["Alice", "Bob", "Carol"] {
        client.live_within(SOON, name, VIP, True).await;
    }

    net.a.process.kill().await;
    net.b.process.kill().await;
    early.kick("restarting");
    carol.is_on(&vip.setup()).await;
    assert!(now() < expiry, "this machine is too slow for this test");
    // He may; but nobody can say so now.
    let dave = join(&net.second, "new.example", "Dave").await;
    dave.is_on(&hub.setup()).await;

    clock_says(expiry).await;
    late.kick("restarting");
    bob.is_on(&hub.setup()).await;
    alice.is_on(&vip.setup()).await;
    for player in [&alice, &bob, &carol, &dave] {
        player.assert_well();
    }

    net.a.restart().await;
    net.b.restart().await;
    net.known(&["Alice", "Bob", "Carol", "Dave"]).await;
    let client = Client::at(&net.b).await;
    assert_eq!(client.live("Bob", VIP).await.0, Undefined);
    assert_eq!(client.live("Alice", VIP).await.0, True);
    assert_eq!(client.user("Bob").await.revision, revision, "nobody wrote");
    client.live_within(SOON, "Dave", VIP, True).await;
    assert_eq!(client.go("Dave", "vip").await.reason, "ok");
    assert_eq!(client.go("Bob", "vip").await.reason, "not_permitted");
}

/// A change that a node missed, because its replica was gone and it was on none, is in force once it is on one again.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_missed_reaches_it_when_it_is_back() {
    let (lobby, vip) = (host("lobby", 1).await, host("vip", 2).await);
    let mut net = Net::start(&[("lobby", lobby.address), ("vip", vip.address)]).await;
    let alice = join(&net.second, "any.example", "Alice").await;
    alice.is_on(&lobby.setup()).await;
    net.known(&["Alice"]).await;
    let client = Client::at(&net.a).await;
    client.set("Alice", node(VIP, true)).await;
    client.group("guests", vec![]).await;
    client.live_within(SOON, "Alice", VIP, True).await;

    // The node knows of this replica alone.
    let uuid = client.user("Alice").await.user.expect("stored").uuid;
    net.b.process.kill().await;
    client.change_user(&uuid, vec![unset(VIP)], None).await.expect("changed");
    client.set(&uuid, node("group.guests", true)).await;
    client.change_group("guests", vec![node("moonbridge.command.hub", true)]).await;
    net.b.restart().await;
    net.known(&["Alice"]).await;
    client.live_within(SOON, "Alice", VIP, Undefined).await;
    client.live_within(SOON, "Alice", "moonbridge.command.hub", True).await;
    alice.assert_well();
}
