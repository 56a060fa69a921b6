//! The modded players and servers of the other tests work with each other, without MoonBridge between them: when a test through a node fails, it is not them.

use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use serde_json::{Value, json};

/// What a server and its players have.
fn mods() -> Value {
    json!([["FML", "7.10.99.99"], ["Forge", "10.13.4.1614"], ["TConstruct", "1.7.10-1.8.8"]])
}

async fn serve(options: Value) -> (Backend, u16) {
    Backend::serve(Kind::Npm, "modded", options).await
}

/// The player's phases, until it is in the world.
async fn phases(player: &mut Player) -> Vec<String> {
    player.in_world().await;
    player.all().into_iter().filter_map(|seen| if let Seen::ForgePhase { phase } = seen { Some(phase) } else { None }).collect()
}

fn acks(backend: &Backend) -> Vec<i8> {
    backend.all().into_iter().filter_map(|served| if let Served::ForgeAck { phase, .. } = served { Some(phase) } else { None }).collect()
}

#[tokio::test]
async fn a_modded_player_logs_in() {
    let fml = json!({ "mods": mods(), "ids": { "bytes": 450_000 } });
    let (mut backend, port) = serve(json!({ "dimension": 500, "fml": fml })).await;
    let mut alice =
        Player::join(Kind::Npm, port, "Alice", json!({ "virtualHost": "play", "fml": { "mods": mods(), "channels": ["TConstruct"] } }));
    assert_eq!(phases(&mut alice).await, ["waiting_server_data", "waiting_server_complete", "pending_complete", "complete", "done"]);
    backend.joined("Alice").await;
    alice.say("up").await;
    backend.chat("up").await;
    assert_eq!(acks(&backend), [2, 3, 4, 5]);

    // What each said has come to the other whole.
    let seen = alice.all();
    assert!(seen.contains(&Seen::ForgeHello { dimension: 500 }) && seen.contains(&Seen::ForgeDimension { dimension: 500, provider: 0 }));
    let sent = backend
        .eventually(
            "the ids",
            |served| if let Served::ForgeIds { bytes, sha256, .. } = served { Some((*bytes, sha256.clone())) } else { None },
        )
        .await;
    let came = seen.iter().find_map(|seen| if let Seen::ForgeIds { bytes, sha256 } = seen { Some((*bytes, sha256.clone())) } else { None });
    assert_eq!(came, Some(sent.clone()));
    assert!(sent.0 > 449_900, "{}", sent.0);
    let wanted: Vec<(String, String)> = serde_json::from_value(mods()).expect("pairs");
    backend
        .eventually("the player's mods", |served| matches!(served, Served::ForgeMods { mods, .. } if *mods == wanted).then_some(()))
        .await;
    let (host, registered) = (
        backend
            .eventually("the handshake", |served| if let Served::Handshake { host, .. } = served { Some(host.clone()) } else { None })
            .await,
        backend.eventually("its channels", |served| {
            matches!(served, Served::Plugin { channel, hex, .. } if channel == "REGISTER" && hex.ends_with("0054436f6e737472756374"))
                .then_some(())
        }),
    );
    assert_eq!(host, "play\0FML\0");
    registered.await;
    alice.assert_well();
}

/// The largest that Forge can say, and messages of each size at which the length changes its form.
#[tokio::test]
async fn long_messages_come_whole() {
    let (mut backend, port) = serve(json!({ "fml": { "mods": [], "ids": { "bytes": 2_097_050 } } })).await;
    let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": {} }));
    let bytes = alice.expect("the ids", |seen| if let Seen::ForgeIds { bytes, .. } = seen { Some(*bytes) } else { None }).await;
    assert!((2_097_000..=2_097_050).contains(&bytes), "{bytes}");
    alice.in_world().await;
    for bytes in [1, 32_767, 32_768, 65_535, 65_536, 1_000_000] {
        let hex = "ab".repeat(bytes);
        backend.command("plugin", json!({ "channel": "mod", "hex": hex })).await;
        alice
            .expect("the message", |seen| {
                matches!(seen, Seen::Plugin { channel, hex: came } if channel == "mod" && *came == hex).then_some(())
            })
            .await;
        alice.command("plugin", json!({ "channel": "mod", "hex": hex })).await;
        backend
            .expect("the message", |served| {
                matches!(served, Served::Plugin { channel, hex: came, .. } if channel == "mod" && *came == hex).then_some(())
            })
            .await;
    }
    alice.assert_well();
}

/// The ways in which clients acknowledge: the npm library's too, which takes nothing but empty Mod Id Data.
#[tokio::test]
async fn clients_that_acknowledge_otherwise() {
    for (fml, wanted) in [
        (json!({ "mods": mods(), "acks": { "3": null } }), vec![2, 4, 5]),
        (json!({ "mods": mods(), "acks": { "4": 0 } }), vec![2, 3, 0, 5]),
        (json!({ "mods": mods(), "library": true }), vec![2, 3, 0, 5]),
    ] {
        let (mut backend, port) = serve(json!({ "fml": { "mods": mods() } })).await;
        let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": fml }));
        assert_eq!(phases(&mut alice).await.last().map(String::as_str), Some("done"));
        alice.say("up").await;
        backend.chat("up").await;
        assert_eq!(acks(&backend), wanted);
        alice.assert_well();
    }
}

#[tokio::test]
async fn a_reset_leads_back_to_the_beginning() {
    let (mut backend, port) = serve(json!({ "fml": { "mods": mods() } })).await;
    for (knows, phase) in [(true, "hello"), (false, "error")] {
        let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": { "mods": mods(), "knowsReset": knows } }));
        assert_eq!(phases(&mut alice).await.last().map(String::as_str), Some("done"));
        backend.joined("Alice").await;
        backend.command("plugin", json!({ "channel": "FML|HS", "hex": "fe00" })).await;
        alice.expect("the phase after it", |seen| matches!(seen, Seen::ForgePhase { phase: now } if now == phase).then_some(())).await;
        if knows {
            // Where nothing but Server Hello is taken: another reset costs the connection.
            assert!(alice.all().contains(&Seen::ForgeReset));
            alice.assert_well();
            backend.command("plugin", json!({ "channel": "FML|HS", "hex": "fe00" })).await;
        }
        alice.end().await;
        backend.left("Alice").await;
    }
}

/// A client with mods ends its handshake at a Join Game, and then takes a reset.
#[tokio::test]
async fn a_modded_player_on_a_vanilla_server() {
    let (mut backend, port) = serve(json!({})).await;
    let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": { "mods": mods() } }));
    assert_eq!(phases(&mut alice).await, ["done"]);
    backend.joined("Alice").await;
    // Server Hello, said to a client that is done: nothing happens. After a reset it is taken.
    for hex in ["000200000000", "fe00", "000200000000"] {
        backend.command("plugin", json!({ "channel": "FML|HS", "hex": hex })).await;
    }
    backend
        .expect("its mods", |served| {
            matches!(served, Served::Plugin { channel, hex, .. } if channel == "FML|HS" && hex.starts_with("02")).then_some(())
        })
        .await;
    let phases: Vec<_> =
        alice.all().into_iter().filter_map(|seen| if let Seen::ForgePhase { phase } = seen { Some(phase) } else { None }).collect();
    assert_eq!(phases, ["done", "hello", "waiting_server_data"]);
    alice.assert_well();
}

#[tokio::test]
async fn servers_and_players_that_do_not_fit() {
    let other = json!([["FML", "7.10.99.99"], ["Forge", "10.13.4.1614"], ["TConstruct", "1.7.10-1.7.0"]]);
    // The server has another version; it refuses.
    let (_backend, port) = serve(json!({ "fml": { "mods": other } })).await;
    let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": { "mods": mods() } }));
    assert_eq!(alice.kicked().await, ("Mod rejections [TConstruct]".to_owned(), "play".to_owned()));
    // The server does not mind, the client does.
    let (_backend, port) = serve(json!({ "fml": { "mods": other, "clientNeedsNot": ["TConstruct"] } })).await;
    let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": { "mods": mods() } }));
    alice
        .expect("its reason", |seen| matches!(seen, Seen::Error { message } if message == "Mod rejections [TConstruct]").then_some(()))
        .await;
    alice.end().await;
    // Neither minds.
    let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": { "mods": mods(), "clientOnly": ["TConstruct"] } }));
    alice.in_world().await;
    // Blocks of a mod that the client has not.
    let ids = json!({ "count": 3, "name": "Natura:tree" });
    let (_backend, port) = serve(json!({ "fml": { "mods": mods(), "ids": ids } })).await;
    let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": { "mods": mods() } }));
    alice
        .expect("its reason", |seen| matches!(seen, Seen::Error { message } if message.starts_with("Fatally missing")).then_some(()))
        .await;
    alice.end().await;
}

/// Servers that stop at each place of the handshake, by silence or by closing.
#[tokio::test]
async fn servers_that_stop() {
    for (place, last) in [
        ("hello", None),
        ("mods", Some("waiting_server_data")),
        ("ids", Some("waiting_server_complete")),
        ("ack", Some("pending_complete")),
        ("complete", Some("complete")),
        ("join", Some("done")),
    ] {
        let (mut backend, port) = serve(json!({ "fml": { "mods": mods(), "stall": place } })).await;
        for how in ["stalled", "closed"] {
            if how == "closed" {
                backend.set(json!({ "fml": { "mods": mods(), "close": place } })).await;
            }
            let mut alice = Player::join(Kind::Npm, port, "Alice", json!({ "fml": { "mods": mods() } }));
            backend
                .expect("the place", |served| {
                    matches!(served, Served::ForgePhase { phase, .. } if *phase == format!("{how}_{place}")).then_some(())
                })
                .await;
            if how == "closed" {
                alice.end().await;
            } else if let Some(last) = last {
                alice.expect("its last phase", |seen| matches!(seen, Seen::ForgePhase { phase } if phase == last).then_some(())).await;
                alice.assert_well();
            }
            assert!(!alice.all().iter().any(|seen| matches!(seen, Seen::Join { .. })), "{place}: {}", alice.log());
        }
    }
}

/// What some clients want to see before they join as modded ones.
#[tokio::test]
async fn the_server_list_names_the_mods() {
    let (_backend, port) = serve(json!({ "fml": { "mods": [["Forge", "10.13.4.1614"]] } })).await;
    let mut asking = Player::join(Kind::Npm, port, "Alice", json!({ "status": true }));
    let data = asking.expect("the answer", |seen| if let Seen::Status { data } = seen { Some(data.clone()) } else { None }).await;
    assert_eq!(data["modinfo"], json!({ "type": "FML", "modList": [{ "modid": "Forge", "version": "10.13.4.1614" }] }));
}
