//! The planes apart: replicas and nodes as processes of their own, over etcd and over the embedded store, coming and going.

use moonbridge_testing::etcd::Etcd;
use moonbridge_testing::network::{Plane, folder};
use moonbridge_testing::peer::{Backend, Kind, Player, Served};
use serde_json::{Value, json};

struct Pair {
    one: Backend,
    two: Backend,
    backends: [(&'static str, u16); 2],
}

async fn backends() -> Pair {
    let (one, one_port) = Backend::serve(Kind::Npm, "one", json!({ "dimension": 0 })).await;
    let (two, two_port) = Backend::serve(Kind::Npm, "two", json!({ "dimension": -1 })).await;
    Pair { one, two, backends: [("one", one_port), ("two", two_port)] }
}

async fn configure(replica: &Plane, backends: &[(&str, u16)]) {
    for (name, port) in backends {
        replica.cli().ok(&["backend", "set", name, "--address", &format!("127.0.0.1:{port}")]).await;
    }
    let names: Vec<&str> = backends.iter().map(|(name, _)| *name).collect();
    replica.cli().ok(&["route", "set", "*", "--backends", &names.join(",")]).await;
}

fn on_etcd(etcd: &Etcd) -> String {
    format!("lease = \"3s\"\n[store.etcd]\nendpoints = [\"{}\"]\nprefix = \"/test/\"\n", etcd.url())
}

fn node_of(replicas: &[&Plane]) -> String {
    let urls: Vec<String> = replicas.iter().map(|replica| replica.url()).collect();
    format!("control = {urls:?}\nworkers = 2\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_enters_at_one_replica_and_is_executed_by_a_node_on_the_other() {
    let etcd = Etcd::start().await.expect("etcd");
    let mut net = backends().await;
    let a = Plane::replica("a", &on_etcd(&etcd)).await;
    let mut b = Plane::replica("b", &on_etcd(&etcd)).await;
    configure(&a, &net.backends).await;
    // One node on each, so that a command for either has a way to go from one of the two replicas.
    let first = Plane::node("first", &node_of(&[&a])).await;
    let second = Plane::node("second", &node_of(&[&b, &a])).await;
    let nodes = a.cli().until(&["node", "list"], |rows| rows.len() == 2).await;
    let replica_of = |name: &str| nodes.iter().find(|row| row["name"] == name).map(|row| row["replica"].clone());
    assert_eq!((replica_of("first"), replica_of("second")), (Some(json!("a")), Some(json!("b"))));

    let mut alice = Player::join(Kind::Npm, first.listen.port(), "Alice", json!({}));
    let mut bob = Player::join(Kind::Npm, second.listen.port(), "Bob", json!({}));
    alice.in_world().await;
    bob.in_world().await;
    for replica in [&a, &b] {
        replica.cli().until(&["player", "list"], |rows| rows.len() == 2).await;
    }
    for (replica, player) in [(&b, "Alice"), (&a, "Bob")] {
        let ran = replica.cli().ok(&["transfer", "start", player, "--to", "two"]).await;
        assert!(ran.said().contains("succeeded"), "{ran:?}");
        net.two.joined(player).await;
    }

    // The replica that the second node is on dies without a word: presence, sessions and commands go on over the other.
    b.process.kill().await;
    let rows = a.cli().until(&["node", "list"], |rows| rows.iter().any(|row| row["name"] == "second" && row["replica"] == "a")).await;
    assert_eq!(rows.len(), 2);
    let players = a.cli().rows(&["player", "list"]).await;
    assert_eq!(players.len(), 2, "no presence is lost with a replica: {players:?}");
    let ran = a.cli().ok(&["transfer", "start", "Bob", "--to", "one"]).await;
    assert!(ran.said().contains("succeeded"), "{ran:?}");
    bob.say("back").await;
    net.one.chat("back").await;
    alice.assert_well();
    bob.assert_well();
    b.restart().await;
    b.cli().until(&["player", "list"], |rows| rows.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_leaves_no_ghosts() {
    let etcd = Etcd::start().await.expect("etcd");
    let net = backends().await;
    let a = Plane::replica("a", &on_etcd(&etcd)).await;
    configure(&a, &net.backends).await;
    let mut first = Plane::node("first", &node_of(&[&a])).await;
    let second = Plane::node("second", &node_of(&[&a])).await;
    a.cli().until(&["node", "list"], |rows| rows.len() == 2).await;
    let mut alice = Player::join(Kind::Npm, first.listen.port(), "Alice", json!({}));
    let mut bob = Player::join(Kind::Npm, second.listen.port(), "Bob", json!({}));
    alice.in_world().await;
    bob.in_world().await;
    a.cli().until(&["player", "list"], |rows| rows.len() == 2).await;
    first.process.kill().await;
    alice.end().await;
    let rows = a.cli().until(&["player", "list"], |rows| rows.len() == 1).await;
    assert_eq!(rows[0]["name"], "Bob");
    a.cli().until(&["node", "list"], |rows| rows.len() == 1).await;
    bob.assert_well();
    // She may come back over the other node at once.
    let mut again = Player::join(Kind::Npm, second.listen.port(), "Alice", json!({}));
    again.in_world().await;
    a.cli().until(&["player", "list"], |rows| rows.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_control_plane_gone_sessions_go_on_and_new_players_are_admitted() {
    let mut net = backends().await;
    let data = folder();
    let mut replica = Plane::replica("only", &format!("[store.embedded]\ndata_dir = \"{}\"\n", data.path().join("store").display())).await;
    configure(&replica, &net.backends).await;
    let node = Plane::node("edge", &node_of(&[&replica])).await;
    let mut alice = Player::join(Kind::Npm, node.listen.port(), "Alice", json!({}));
    alice.in_world().await;
    net.one.joined("Alice").await;
    replica.cli().until(&["player", "list"], |rows| rows.len() == 1).await;

    replica.process.kill().await;
    let ran = replica.cli().run(&["player", "list"]).await;
    assert_eq!(ran.code, 3, "unreachable: {ran:?}");
    alice.say("anybody there?").await;
    net.one.chat("anybody there?").await;
    let mut bob = Player::join(Kind::Npm, node.listen.port(), "Bob", json!({}));
    bob.in_world().await;
    net.one.joined("Bob").await;
    // A fallback needs no control plane either.
    net.one.command("kick", json!({ "reason": "restart", "player": "Bob" })).await;
    net.two.joined("Bob").await;

    replica.restart().await;
    let are_on = |rows: &[Value]| {
        let on = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| row["backend"].clone());
        rows.len() == 2 && on("Alice") == Some(json!("one")) && on("Bob") == Some(json!("two"))
    };
    replica.cli().until(&["player", "list"], are_on).await;
    let ran = replica.cli().ok(&["transfer", "start", "Alice", "--to", "two"]).await;
    assert!(ran.said().contains("succeeded"), "{ran:?}");
    net.two.joined("Alice").await;
    alice.assert_well();
    bob.assert_well();
    // Keep-alives went their way all the while.
    let strange = net.one.all().into_iter().filter(|served| matches!(served, Served::KeepAlive { known: false, .. })).count();
    assert_eq!(strange, 0, "{}", net.one.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_etcd_frozen_players_play_on() {
    let mut etcd = Etcd::start().await.expect("etcd");
    let mut net = backends().await;
    let a = Plane::replica("a", &on_etcd(&etcd)).await;
    configure(&a, &net.backends).await;
    let node = Plane::node("edge", &node_of(&[&a])).await;
    let mut alice = Player::join(Kind::Npm, node.listen.port(), "Alice", json!({}));
    alice.in_world().await;
    net.one.joined("Alice").await;
    a.cli().until(&["player", "list"], |rows| rows.len() == 1).await;
    etcd.kill().expect("it runs");
    let mut bob = Player::join(Kind::Npm, node.listen.port(), "Bob", json!({}));
    bob.in_world().await;
    alice.say("still here").await;
    net.one.chat("still here").await;
    etcd.restart().await.expect("etcd again");
    a.cli().until_answered(&["player", "list"], |rows| rows.len() == 2).await;
    alice.assert_well();
    bob.assert_well();
}

/// Waits until two nodes are at the same revision, one newer than this.
async fn both_beyond(replica: &Plane, revision: u64) -> u64 {
    let at = |rows: &[Value]| rows.iter().map(|row| row["revision"].as_u64().unwrap_or(0)).collect::<Vec<_>>();
    let rows = replica.cli().until(&["node", "list"], |rows| matches!(at(rows)[..], [a, b] if a == b && a > revision)).await;
    at(&rows)[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_reach_every_node() {
    let etcd = Etcd::start().await.expect("etcd");
    let mut net = backends().await;
    let a = Plane::replica("a", &on_etcd(&etcd)).await;
    let b = Plane::replica("b", &on_etcd(&etcd)).await;
    let first = Plane::node("first", &node_of(&[&a])).await;
    let second = Plane::node("second", &node_of(&[&b])).await;
    // One change at a time: of several, both nodes could be seen at the same middle one.
    let mut revision = 0;
    for (name, port) in &net.backends {
        a.cli().ok(&["backend", "set", name, "--address", &format!("127.0.0.1:{port}")]).await;
        revision = both_beyond(&b, revision).await;
    }
    a.cli().ok(&["route", "set", "*", "--backends", "one,two"]).await;
    revision = both_beyond(&b, revision).await;
    for (node, name) in [(&first, "Alice"), (&second, "Bob")] {
        let mut player = Player::join(Kind::Npm, node.listen.port(), name, json!({}));
        player.in_world().await;
        net.one.joined(name).await;
    }
    b.cli().ok(&["backend", "drain", "one"]).await;
    both_beyond(&a, revision).await;
    for (node, name) in [(&first, "Carl"), (&second, "Dora")] {
        let mut player = Player::join(Kind::Npm, node.listen.port(), name, json!({}));
        player.in_world().await;
        net.two.joined(name).await;
    }
}
