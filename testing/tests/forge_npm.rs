//! Modded players and servers over npm, with MoonBridge between them: logging in, moving, and what is brought along.

use std::time::Duration;

use moonbridge_protocol::wire::Reader;
use moonbridge_testing::network::Up;
use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use moonbridge_testing::wire::Wire;
use serde_json::{Value, json};

fn mods() -> Value {
    json!([["FML", "7.10.99.99"], ["Forge", "10.13.4.1614"], ["TConstruct", "1.7.10-1.8.8"]])
}

/// Backends by name, port and options, and a node before them.
struct Net {
    backends: Vec<Backend>,
    up: Up,
}

async fn net(backends: &[(&str, Value)]) -> Net {
    let mut arguments = Vec::new();
    let mut running = Vec::new();
    for (name, options) in backends {
        let (backend, port) = Backend::serve(Kind::Npm, name, options.clone()).await;
        running.push(backend);
        arguments.extend(["--backend".to_owned(), format!("{name}=127.0.0.1:{port}")]);
    }
    let up = Up::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await;
    Net { backends: running, up }
}

impl Net {
    async fn join(&mut self, fml: Value) -> Player {
        let mut alice = Player::join(Kind::Npm, self.up.listen.port(), "Alice", json!({ "virtualHost": "play", "fml": fml }));
        alice.in_world().await;
        self.backends[0].joined("Alice").await;
        self.up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
        alice
    }

    /// Moves the player to backend `to`, where both hear each other.
    async fn moves(&mut self, alice: &mut Player, to: usize, name: &str) {
        let ran = self.up.cli.run(&["transfer", "start", "Alice", "--to", name]).await;
        assert!(ran.code == 0 && ran.said().contains("succeeded"), "{ran:?}\n{}{}", alice.log(), self.backends[to].log());
        self.backends[to].joined("Alice").await;
        self.plays(alice, to).await;
    }

    async fn plays(&mut self, alice: &mut Player, on: usize) {
        let line = format!("line {}", alice.all().len());
        alice.say(&line).await;
        self.backends[on].chat(&line).await;
        self.backends[on].say(&line).await;
        alice.chat(&line).await;
        alice.assert_well();
    }
}

/// What the client has in force: the hash of the ids that it took last, and how often it was reset.
fn ids_and_resets(alice: &Player) -> (Option<String>, usize) {
    let all = alice.all();
    let ids = all.iter().rev().find_map(|seen| if let Seen::ForgeIds { sha256, .. } = seen { Some(sha256.clone()) } else { None });
    (ids, all.iter().filter(|seen| **seen == Seen::ForgeReset).count())
}

/// The ids of a backend, as it said them on its newest connection.
fn ids_of(backend: &Backend) -> Option<String> {
    backend.all().iter().rev().find_map(|served| if let Served::ForgeIds { sha256, .. } = served { Some(sha256.clone()) } else { None })
}

/// Two servers with equal lists and one with another: there and back, with 450 KB of ids each.
#[tokio::test(flavor = "multi_thread")]
async fn between_equal_and_different_servers() {
    let fml = |seed: u32| json!({ "mods": mods(), "ids": { "bytes": 450_000, "seed": seed } });
    let other = json!([["FML", "7.10.99.99"], ["Forge", "10.13.4.1614"], ["TConstruct", "1.7.10-1.7.0"]]);
    let mut net = net(&[
        ("one", json!({ "dimension": 0, "fml": fml(1) })),
        ("equal", json!({ "dimension": -1, "fml": fml(1) })),
        ("ids", json!({ "dimension": 500, "fml": fml(2) })),
        ("other", json!({ "fml": { "mods": other, "clientNeedsNot": ["TConstruct"] } })),
        ("plain", json!({ "dimension": 0 })),
    ])
    .await;
    let mut alice = net.join(json!({ "mods": mods(), "channels": ["TConstruct"] })).await;
    assert_eq!(ids_and_resets(&alice), (ids_of(&net.backends[0]), 0));
    net.moves(&mut alice, 1, "equal").await;
    assert_eq!(ids_and_resets(&alice).1, 0, "its ids are those that the client has: {}", alice.log());
    net.moves(&mut alice, 2, "ids").await;
    assert_eq!(ids_and_resets(&alice), (ids_of(&net.backends[2]), 1));
    assert!(
        alice.all().contains(&Seen::ForgeHello { dimension: 500 })
            && alice.all().contains(&Seen::ForgeDimension { dimension: 500, provider: 0 })
    );
    assert_eq!(
        alice.all().iter().rev().find_map(|seen| if let Seen::Respawn { dimension } = seen { Some(*dimension) } else { None }),
        Some(500)
    );
    let refused = net.up.cli.run(&["transfer", "start", "Alice", "--to", "other"]).await;
    assert!(refused.code == 1 && refused.said().contains("forge_mods_differ") && refused.said().contains("TConstruct"), "{refused:?}");
    net.plays(&mut alice, 2).await;
    net.moves(&mut alice, 4, "plain").await;
    net.moves(&mut alice, 0, "one").await;
    assert_eq!(ids_and_resets(&alice), (ids_of(&net.backends[0]), 2));
    // On each but the first connection its channels came before any message of a mod's.
    for backend in &net.backends[1..] {
        let first = backend
            .all()
            .into_iter()
            .find_map(|served| if let Served::Plugin { channel, hex, .. } = served { Some((channel, hex)) } else { None });
        if let Some((channel, hex)) = first {
            assert!(channel == "REGISTER" && hex.contains("54436f6e737472756374"), "{channel}: {}", backend.log());
        }
        assert!(!backend.all().iter().any(|served| matches!(served, Served::Error { .. })), "{}", backend.log());
    }
    assert_eq!(net.up.stop().await, 0);
}

/// The largest ids, and plugin messages that are longer than vanilla's.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_messages() {
    let fml = |seed: u32| json!({ "mods": mods(), "ids": { "bytes": 2_097_050, "seed": seed } });
    let mut net = net(&[("one", json!({ "fml": fml(1) })), ("two", json!({ "fml": fml(2) }))]).await;
    let mut alice = net.join(json!({ "mods": mods(), "channels": ["TConstruct"] })).await;
    for (to, name) in [(1, "two"), (0, "one")] {
        net.moves(&mut alice, to, name).await;
        assert_eq!(ids_and_resets(&alice).0, ids_of(&net.backends[to]));
        let hex = "5a".repeat(500_000);
        net.backends[to].command("plugin", json!({ "channel": "TConstruct", "hex": hex })).await;
        alice.expect("the message", |seen| matches!(seen, Seen::Plugin { hex: came, .. } if *came == hex).then_some(())).await;
        alice.command("plugin", json!({ "channel": "TConstruct", "hex": hex })).await;
        net.backends[to]
            .expect("the message", |served| matches!(served, Served::Plugin { hex: came, .. } if *came == hex).then_some(()))
            .await;
    }
}

/// npm minecraft-protocol-forge, which knows one handshake only, with acks of its own: it logs in, and goes where it needs no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_others() {
    let mut net = net(&[
        ("one", json!({ "fml": { "mods": mods() } })),
        ("equal", json!({ "dimension": -1, "fml": { "mods": mods() } })),
        ("plain", json!({})),
    ])
    .await;
    let mut alice = net.join(json!({ "mods": mods(), "library": true })).await;
    for (to, name) in [(1, "equal"), (2, "plain"), (0, "one")] {
        net.moves(&mut alice, to, name).await;
    }
}

/// Servers that stop in the handshake: the player stays, and plays.
#[tokio::test(flavor = "multi_thread")]
async fn candidates_that_stop() {
    let fml = |more: Value| {
        let mut fml = json!({ "mods": mods(), "ids": { "count": 100, "first": 300 } });
        fml.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        fml
    };
    let mut net = net(&[("one", json!({ "fml": { "mods": mods() } })), ("two", json!({ "fml": fml(json!({})) }))]).await;
    let mut alice = net.join(json!({ "mods": mods() })).await;
    for fault in ["hello", "mods", "ids", "ack", "complete", "join"]
        .map(|place| json!({ "close": place }))
        .into_iter()
        .chain([json!({ "reject": "not today" })])
    {
        net.backends[1].set(json!({ "fml": fml(fault.clone()) })).await;
        let refused = net.up.cli.run(&["transfer", "start", "Alice", "--to", "two"]).await;
        assert_eq!(refused.code, 1, "{fault}: {refused:?}");
        net.plays(&mut alice, 0).await;
    }
    assert_eq!(ids_and_resets(&alice).1, 0);
    net.backends[1].set(json!({ "fml": fml(json!({})) })).await;
    net.moves(&mut alice, 1, "two").await;
}

/// The server list's answer names the mods of the route's backend, once the node has asked it.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_list_names_the_mods() {
    let net = net(&[("one", json!({ "fml": { "mods": [["Forge", "10.13.4.1614"]] } }))]).await;
    let wanted = json!({ "type": "FML", "modList": [{ "modid": "Forge", "version": "10.13.4.1614" }] });
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let mut asking = Wire::connect(net.up.listen).await.expect("it listens");
        asking.handshake(5, "localhost", 1).await.expect("it reads");
        asking.send(0, &[]).await.expect("it reads");
        let answer = asking.receive_id(0).await.expect("an answer");
        let line = Reader::new(&answer).string(32_767).expect("a string").to_owned();
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        if answer["modinfo"] == wanted {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{answer}");
        // The answer waits a second at most for what is not known yet.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
