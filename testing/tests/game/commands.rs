//! What each command does, across nodes.

use moonbridge_testing::peer::{Player, Seen};

use crate::support::{EVERYTHING, Stage, commands, goes_to, heard, says};

#[tokio::test(flavor = "multi_thread")]
async fn server_and_hub_take_the_player_there_and_a_click_does_too() {
    let mut stage = Stage::start().await;
    let mut alice = stage.alice().await;

    says(&mut alice, "/server", &["You are on lobby."]).await;
    let list = alice.expect("the list of servers", |seen| said(seen, "You can go to: arena, lobby")).await;
    let click = r#""clickEvent":{"action":"run_command","value":"/server arena"}"#;
    assert!(list.replace(' ', "").contains(&click.replace(' ', "")), "{list}");
    assert!(!list.replace(' ', "").contains("/serverlobby"), "she is there: {list}");

    // What the client does when it is clicked on.
    alice.say("/server arena").await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;
    stage.is_on("Alice", "arena").await;
    says(&mut alice, "/server", &["You are on arena."]).await;
    says(&mut alice, "/SERVER ARENA", &["You are on arena already."]).await;
    says(&mut alice, "/server nowhere", &["There is no server nowhere."]).await;
    stage.net.a.cli().ok(&["backend", "drain", "lobby"]).await;
    stage.net.in_force().await;
    says(&mut alice, "/server lobby", &["lobby takes no players at the moment."]).await;
    stage.net.a.cli().ok(&["backend", "undrain", "lobby"]).await;
    stage.net.in_force().await;

    // The first of her route.
    alice.say("/hub").await;
    goes_to(&mut alice, &mut stage.lobby, "Alice", 0).await;
    says(&mut alice, "/hub", &["You are on lobby already."]).await;
    alice.say("still playing").await;
    stage.lobby.chat("still playing").await;
    assert!(commands(&stage.lobby).is_empty() && commands(&stage.arena).is_empty(), "they are the node's");
    stage.assert_well(&[&alice]);
}

/// The raw component, if its text is this.
fn said(seen: &Seen, wanted: &str) -> Option<String> {
    match seen {
        Seen::Chat { text, raw } if text == wanted => Some(raw.clone()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn glist_find_and_ping_tell_of_the_whole_network() {
    let mut stage = Stage::permitted().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;

    for player in [&mut alice, &mut bob] {
        says(player, "/glist", &["[arena] (1)", "[lobby] (1)", "Players online: 2"]).await;
        says(player, "/glist all", &["[arena] (1): Bob", "[lobby] (1): Alice", "Players online: 2"]).await;
    }
    says(&mut alice, "/find bob", &["Bob is on arena."]).await;
    says(&mut bob, "/find Alice", &["Alice is on lobby."]).await;
    says(&mut alice, "/find Nobody", &["Nobody is not online."]).await;
    says(&mut alice, "/find", &["Usage: /find PLAYER"]).await;

    alice.say("/ping").await;
    let ping = alice.expect("her ping", ping).await;
    assert!(ping < 10_000, "{ping}");

    // He leaves, and both nodes' players know.
    bob.command("quit", serde_json::json!({})).await;
    let gone = |rows: &[serde_json::Value]| rows.len() == 1;
    stage.net.a.cli().until(&["player", "list"], gone).await;
    says(&mut alice, "/find Bob", &["Bob is not online."]).await;
    says(&mut alice, "/glist", &["[lobby] (1)", "Players online: 1"]).await;
    assert!(!heard(&alice).iter().any(|line| line == "[arena] (0)"), "only those with players: {}", alice.log());
    says(&mut alice, "/glist all", &["[arena] (0)", "[lobby] (1): Alice", "Players online: 1"]).await;
    stage.assert_well(&[&alice]);
}

fn ping(seen: &Seen) -> Option<u32> {
    let Seen::Chat { text, .. } = seen else { return None };
    text.strip_prefix("Your ping is ")?.strip_suffix(" ms.")?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn send_moves_a_player_of_another_node_those_of_a_backend_and_everybody() {
    let mut stage = Stage::permitted().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;

    says(&mut alice, "/send bob lobby", &["bob is being sent to lobby."]).await;
    goes_to(&mut bob, &mut stage.lobby, "Bob", 0).await;
    stage.is_on("Bob", "lobby").await;

    says(&mut alice, "/send current arena", &["Players being sent to arena: 2"]).await;
    both_go(&mut stage, &mut alice, &mut bob, "arena").await;
    says(&mut bob, "/send arena lobby", &["Players being sent to lobby: 2"]).await;
    both_go(&mut stage, &mut alice, &mut bob, "lobby").await;
    says(&mut alice, "/send all arena", &["Players being sent to arena: 2"]).await;
    both_go(&mut stage, &mut alice, &mut bob, "arena").await;

    says(&mut alice, "/send Nobody lobby", &["Nobody is not online."]).await;
    says(&mut alice, "/send Bob nowhere", &["There is no server nowhere."]).await;
    says(&mut alice, "/send lobby arena", &["There is nobody to send to arena."]).await;
    says(&mut alice, "/send Bob", &["Usage: /send PLAYER|current|all|SERVER TARGET"]).await;
    stage.net.a.cli().ok(&["backend", "drain", "lobby"]).await;
    stage.net.in_force().await;
    says(&mut alice, "/send Bob lobby", &["lobby takes no players at the moment."]).await;

    // They are in the records like an admin's, with whoever typed them.
    let transfers = stage.net.b.cli().ok(&["transfer", "list", "-o", "json"]).await;
    assert!(transfers.stdout.contains("succeeded"), "{transfers:?}");
    stage.assert_well(&[&alice, &bob]);
}

async fn both_go(stage: &mut Stage, alice: &mut Player, bob: &mut Player, backend: &str) {
    let dimension = if backend == "arena" { -1 } else { 0 };
    for (player, name) in [(alice, "Alice"), (bob, "Bob")] {
        let there = |seen: &Seen| matches!(seen, Seen::Respawn { dimension: seen } if *seen == dimension).then_some(());
        player.expect(&format!("{name} in {backend}"), there).await;
        stage.is_on(name, backend).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alert_is_read_by_everybody_once_and_kick_ends_a_session_of_another_node() {
    let mut stage = Stage::permitted().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;

    says(&mut alice, "/alert &cDown  in {player} minutes", &["[Alert] Down  in {player} minutes"]).await;
    bob.chat("[Alert] Down  in {player} minutes").await;
    says(&mut bob, "/alert second", &["[Alert] second"]).await;
    alice.chat("[Alert] second").await;
    for player in [&alice, &bob] {
        let alerts = heard(player).iter().filter(|line| line.starts_with("[Alert]")).count();
        assert_eq!(alerts, 2, "each once: {}", player.log());
    }
    says(&mut alice, "/alert", &["Usage: /alert TEXT"]).await;

    says(&mut alice, "/kick bob for  being &lrude", &["bob was kicked."]).await;
    assert_eq!(bob.kicked().await, ("You were kicked: for  being rude".to_owned(), "play".to_owned()));
    bob.end().await;
    stage.arena.left("Bob").await;
    says(&mut alice, "/kick Nobody", &["Nobody is not online."]).await;
    says(&mut alice, "/kick", &["Usage: /kick PLAYER [REASON]"]).await;

    let mut bob = crate::support::join(&stage.net.second, "Bob").await;
    bob.in_world().await;
    stage.net.known(&["Bob"]).await;
    says(&mut alice, "/kick Bob", &["Bob was kicked."]).await;
    assert_eq!(bob.kicked().await.0, "You were kicked by a moderator.");
    stage.assert_well(&[&alice]);
}

#[tokio::test(flavor = "multi_thread")]
async fn moonbridge_says_what_it_is_and_what_the_player_may() {
    let mut stage = Stage::permitted().await;
    let mut alice = stage.alice().await;
    says(&mut alice, "/moonbridge version", &[&format!("MoonBridge {}", env!("CARGO_PKG_VERSION"))]).await;
    alice.say("/moonbridge info").await;
    let session = alice
        .expect("her session", |seen| match seen {
            Seen::Chat { text, .. } => text.strip_prefix("You are Alice on lobby, session ").map(str::to_owned),
            _ => None,
        })
        .await;
    let shown = stage.net.b.cli().ok(&["player", "show", "Alice", "-o", "json"]).await;
    assert!(shown.stdout.contains(&session), "{session}: {shown:?}");
    alice.chat("Control plane: attached").await;

    let granted = format!("{EVERYTHING}: true");
    alice.say(&format!("/moonbridge permission {EVERYTHING}")).await;
    alice.expect("what she may", |seen| starts(seen, &granted)).await;
    stage.grant(&stage.net.b, "Alice", "moonbridge.server.vault", "false").await;
    alice.say("/moonbridge permission Alice moonbridge.server.vault").await;
    let shown = alice.expect("what she may not", |seen| starts(seen, "moonbridge.server.vault: false")).await;
    assert!(shown.contains("world=lobby"), "with her contexts: {shown}");
    alice.say("/moonbridge permission something.else").await;
    alice.expect("what nobody has said", |seen| starts(seen, "something.else: undefined")).await;
    says(&mut alice, "/moonbridge permission Bob a.b", &["Usage: /moonbridge version | info | permission PERMISSION"]).await;
    stage.assert_well(&[&alice]);
}

fn starts(seen: &Seen, wanted: &str) -> Option<String> {
    match seen {
        Seen::Chat { text, .. } if text.starts_with(wanted) => Some(text.clone()),
        _ => None,
    }
}
