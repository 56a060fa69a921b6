//! What a session answers on its node, and when it works it out anew.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use moonbridge_proto::v1;
use moonbridge_proto::v1::PermissionAnswer::{self, False, True, Undefined};
use moonbridge_proto::v1::permission_edit::Edit;
use moonbridge_protocol::name::offline_uuid;
use moonbridge_testing::collector::Collector;
use moonbridge_testing::model::server::{Fault, How, Place, Served};
use moonbridge_testing::model::stage::DOMAIN;
use moonbridge_testing::network::{Net, Nodes, folder};
use moonbridge_testing::process::SOON;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Client, SECOND, clock_says, host, join, node, node_on, node_until, now};

const FLY: &str = "essentials.fly";

/// The first answer after a transfer's outcome is that of the new backend, and up to the cutover the old one's holds.
#[tokio::test(flavor = "multi_thread")]
async fn the_world_changes_with_the_cutover() {
    let (lobby, arena) = (host("lobby", 1).await, host("arena", 2).await);
    let net = Net::start(&[("lobby", lobby.address), ("arena", arena.address)]).await;
    let alice = join(&net.second, DOMAIN, "Alice").await;
    alice.is_on(&lobby.setup()).await;
    net.known(&["Alice"]).await;
    // Asked over the other replica.
    let client = Client::at(&net.a).await;
    client.set("Alice", node_on("lobby", FLY, false)).await;
    client.set("Alice", node_on("arena", FLY, true)).await;
    client.live_within(SECOND, "Alice", FLY, False).await;

    for _ in 0..5 {
        for (to, wanted) in [("arena", True), ("lobby", False)] {
            client.moves("Alice", to).await;
            let (answer, contexts) = client.live("Alice", FLY).await;
            assert_eq!(answer, wanted, "right after the transfer to {to}, in {contexts}");
            assert!(contexts.contains(&format!("world={to}")), "{contexts}");
        }
    }

    // While a candidate takes its time she is where she was.
    arena.plan(|_, _| Some(Fault { place: Place::Success, how: How::Hold }));
    arena.forget_events();
    client.start("Alice", "arena", false).await;
    arena.until("being logged in to", |_, served| matches!(served, Served::Login { .. }).then_some(())).await;
    assert_eq!(client.live("Alice", FLY).await.0, False);
    arena.release();
    alice.is_on(&arena.setup()).await;
    assert_eq!(client.live("Alice", FLY).await.0, True);

    // A fallback is a cutover, too.
    arena.kick("restarting");
    alice.is_on(&lobby.setup()).await;
    assert_eq!(client.live("Alice", FLY).await.0, False);
    alice.assert_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_node_runs_out_in_time_without_a_write() {
    let lobby = host("lobby", 1).await;
    let net = Net::start(&[("lobby", lobby.address)]).await;
    let alice = join(&net.first, DOMAIN, "Alice").await;
    alice.is_on(&lobby.setup()).await;
    net.known(&["Alice"]).await;
    let client = Client::at(&net.b).await;
    client.group("guests", vec![]).await;
    net.in_force().await;
    let expiry = now() + 4;
    client.set("Alice", node(FLY, false)).await;
    client.set("Alice", node("group.guests", true)).await;
    let revision = client.set("Alice", node_until(expiry, "moonbridge.command.list", true)).await;
    client.change_group("guests", vec![node_until(expiry, "moonbridge.command.hub", true)]).await;
    for permission in ["moonbridge.command.list", "moonbridge.command.hub"] {
        client.live_within(SECOND, "Alice", permission, True).await;
    }
    assert_eq!(client.check("Alice", &[FLY]).await.valid_until, expiry);
    assert!(now() < expiry, "this machine is too slow for this test");

    clock_says(expiry - 1).await;
    let early = client.live("Alice", "moonbridge.command.list").await.0;
    assert!(early == True || now() >= expiry, "{early:?} before its time");
    clock_says(expiry).await;
    for permission in ["moonbridge.command.list", "moonbridge.command.hub"] {
        assert_eq!(client.live("Alice", permission).await.0, Undefined, "{permission}: over, on the node");
        assert_eq!(client.check("Alice", &[permission]).await.answers, [i32::from(Undefined)], "{permission}: over, at a replica");
    }
    assert_eq!(client.live("Alice", FLY).await.0, False, "the rest stays");
    assert_eq!(client.user("Alice").await.revision, revision, "nobody wrote");
    alice.assert_well();
}

/// How often the first node has worked out what a player has, by what it sent from here on.
async fn resolved(collector: &Collector) -> f64 {
    let asked = SystemTime::now();
    collector.point("moonbridge.permissions.resolved", |point| point.at > asked).await.value
}

/// Sessions are asked after every change, since they work things out when asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_group_is_worked_out_anew_for_those_who_inherit_it_alone() {
    const MODS: [&str; 3] = ["Alice", "Bob", "Carol"];
    const OTHERS: [&str; 4] = ["Dave", "Erin", "Frank", "Grace"];
    const ASKED: &str = "moonbridge.command.alert";
    let collector = Collector::start().await;
    let lobby = host("lobby", 1).await;
    let endpoint = collector.endpoint();
    let environment = [("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint.as_str()), ("OTEL_METRIC_EXPORT_INTERVAL", "50")];
    let net = Net::start_with(&[("lobby", lobby.address)], Nodes { environment: &environment, ..Nodes::default() }).await;
    let client = Client::at(&net.b).await;
    client.group("staff", vec![]).await;
    client.group("mod", vec![node("group.staff", true)]).await;
    client.group("builder", vec![]).await;

    let names = [&MODS[..], &OTHERS[..]].concat();
    let mut players = Vec::new();
    for name in &names {
        let player = join(&net.first, DOMAIN, name).await;
        player.is_on(&lobby.setup()).await;
        players.push(player);
    }
    net.known(&names).await;
    // Each has something of its own, so that no two share what was worked out.
    for name in &names {
        client.set(name, node(&format!("its.own.{name}"), true)).await;
    }
    for name in MODS {
        client.set(name, node("group.mod", true)).await;
    }
    // The only parent of theirs: they are not in `default` any more.
    for name in &OTHERS[..2] {
        let builder = v1::SetParent { group: "builder".into(), ..v1::SetParent::default() };
        client.change_user(name, vec![Edit::SetParent(builder)], None).await.expect("changed");
    }
    let ask_all = async |wanted: PermissionAnswer| {
        for name in &names {
            let (answer, _) = client.live(name, ASKED).await;
            assert_eq!(answer, if MODS.contains(name) { wanted } else { Undefined }, "{name}");
        }
    };
    // Each user's change is at its node: it is seen by its own node, which came first, and by its parent.
    for name in &names {
        client.live_within(SOON, name, &format!("its.own.{name}"), True).await;
    }
    client.change_group("staff", vec![node(ASKED, true)]).await;
    net.in_force().await;
    for name in MODS {
        client.live_within(SOON, name, ASKED, True).await;
    }
    ask_all(True).await;
    let before = resolved(&collector).await;
    ask_all(True).await;
    assert_eq!(resolved(&collector).await, before, "nothing has changed");

    // Inherited over another group.
    client.change_group("staff", vec![node(ASKED, false)]).await;
    client.live_within(SOON, MODS[0], ASKED, False).await;
    ask_all(False).await;
    let after = resolved(&collector).await;
    assert_eq!(after - before, MODS.len() as f64, "those who inherit it, each once");

    // One user is its own affair; of a group that nobody has, nobody takes notice.
    client.group("nobody", vec![node(ASKED, true)]).await;
    client.set(MODS[1], node("moonbridge.command.find", true)).await;
    client.live_within(SOON, MODS[1], "moonbridge.command.find", True).await;
    net.in_force().await;
    ask_all(False).await;
    assert_eq!(resolved(&collector).await - after, 1.0, "only {} was worked out anew", MODS[1]);

    // The others have `default`, which was not stored so far, and keep it beside another parent.
    let before = resolved(&collector).await;
    client.change_group("default", vec![node("moonbridge.command.server", true)]).await;
    let in_default = [&MODS[..], &OTHERS[2..]].concat();
    for name in &in_default {
        client.live_within(SOON, name, "moonbridge.command.server", True).await;
    }
    ask_all(False).await;
    assert_eq!(resolved(&collector).await - before, in_default.len() as f64);
    for player in &players {
        player.assert_well();
    }
}

/// Two hundred changes, one after the other, from both replicas: each is in force in order, and the last one stays.
#[tokio::test(flavor = "multi_thread")]
async fn many_changes_end_as_the_last_one_says() {
    let lobby = host("lobby", 1).await;
    let net = Net::start(&[("lobby", lobby.address)]).await;
    let alice = join(&net.second, DOMAIN, "Alice").await;
    alice.is_on(&lobby.setup()).await;
    net.known(&["Alice"]).await;
    let clients = [Client::at(&net.a).await, Client::at(&net.b).await];
    let mut slowest = Duration::ZERO;
    for round in 0..200 {
        let value = round % 2 == 0;
        clients[round / 2 % 2].set("Alice", node(FLY, value)).await;
        // Only now and then is it looked at: a newer change must not be undone by an older one that comes late.
        if round % 20 == 19 {
            let took = clients[0].live_within(SECOND, "Alice", FLY, if value { True } else { False }).await;
            slowest = slowest.max(took);
        }
    }
    println!("the slowest was in force after {slowest:?}");
    assert_eq!(clients[0].live("Alice", FLY).await.0, False);
    alice.assert_well();
}

/// Two exports that give a player the same by other ways: by its own nodes, or by the group that everybody has. A mixture gives less.
fn exports(folder: &Path, players: &[&str]) -> [String; 2] {
    let nodes = |nodes: &[(&str, bool)]| {
        let nodes: Vec<_> = nodes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        json!({ "nodes": nodes })
    };
    let write = |name: &str, everybody: &[(&str, bool)], own: &[(&str, bool)]| {
        let users: serde_json::Map<_, _> = players.iter().map(|player| (offline_uuid(player).to_string(), nodes(own))).collect();
        let export = json!({"groups": {"default": nodes(everybody)}, "users": users});
        let file = folder.join(name);
        std::fs::write(&file, export.to_string()).expect("a file in a new folder");
        file.to_str().expect("a plain path").to_owned()
    };
    let by_group = write("group.json", &[(ONE, true), (OTHER, true)], &[("its.own", true)]);
    let by_user = write("user.json", &[(ONE, false), (OTHER, false)], &[(ONE, true), (OTHER, true), ("group.default", true)]);
    [by_group, by_user]
}

const ONE: &str = "moonbridge.command.list";
const OTHER: &str = "moonbridge.command.find";

/// Sessions that are asked all the time, on both nodes, and both replicas, while imports come.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_in_force_at_once_for_whoever_is_online() {
    const IMPORTS: usize = 20;
    const PLAYERS: [&str; 2] = ["Alice", "Bob"];
    let lobby = host("lobby", 1).await;
    let net = Net::start(&[("lobby", lobby.address)]).await;
    let (alice, bob) = (join(&net.first, DOMAIN, PLAYERS[0]).await, join(&net.second, DOMAIN, PLAYERS[1]).await);
    for player in [&alice, &bob] {
        player.is_on(&lobby.setup()).await;
    }
    net.known(&PLAYERS).await;
    let folder = folder();
    let files = exports(folder.path(), &PLAYERS);
    let import = async |file: &str| net.a.cli().ok(&["permission", "import", file, "--replace"]).await;
    import(&files[0]).await;
    let clients = [Client::at(&net.a).await, Client::at(&net.b).await];
    for player in PLAYERS {
        for permission in [ONE, OTHER] {
            clients[0].live_within(SOON, player, permission, True).await;
        }
    }

    let over = Arc::new(AtomicBool::new(false));
    let mut asking = JoinSet::new();
    for (player, client) in PLAYERS.into_iter().zip(clients) {
        let over = over.clone();
        asking.spawn(async move {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                for permission in [ONE, OTHER] {
                    let (answer, contexts) = client.live(player, permission).await;
                    assert_eq!(answer, True, "{permission} of {player} in {contexts}, question {asked}");
                }
                assert_eq!(client.check(player, &[ONE, OTHER]).await.answers, [i32::from(True); 2], "{player}, question {asked}");
                asked += 1;
            }
            asked
        });
    }
    for round in 1..=IMPORTS {
        import(&files[round % 2]).await;
    }
    over.store(true, Ordering::Relaxed);
    while let Some(asked) = asking.join_next().await {
        let asked = asked.expect("the same answer every time");
        println!("asked {asked} times");
        assert!(asked > 5, "they were hardly asked while the imports came");
    }
    alice.assert_well();
    bob.assert_well();
}
