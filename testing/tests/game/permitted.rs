//! Who may use which command: by grants with the command line, while the players play on.

use serde_json::json;

use crate::support::{Stage, commands, goes_to, heard, says};

const REFUSED: &str = "You do not have permission to use this command.";

/// Each command that not everybody may use, what it says once it is allowed, and whether that is of its own accord.
const GATED: [(&str, &str, &str); 6] = [
    ("glist", "/glist", "Players online: 2"),
    ("find", "/find Bob", "Bob is on arena."),
    ("send", "/send Nobody lobby", "Nobody is not online."),
    ("alert", "/alert all hear", "[Alert] all hear"),
    ("kick", "/kick Nobody", "Nobody is not online."),
    ("moonbridge", "/moonbridge info", "Control plane: attached"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_command_waits_for_its_permission_and_only_for_its_own() {
    let mut stage = Stage::start_with("[commands]\nrate = 1000\nburst = 1000\n", json!({})).await;
    let (mut alice, bob) = stage.alice_and_bob().await;

    for (_, line, answer) in GATED {
        says(&mut alice, line, &[REFUSED]).await;
        assert!(!heard(&alice).iter().any(|line| line == answer), "{line}: {}", alice.log());
    }
    for (name, line, answer) in GATED {
        let permission = format!("moonbridge.command.{name}");
        stage.grant(&stage.net.b, "Alice", &permission, "true").await;
        says(&mut alice, line, &[answer]).await;
        // The others stay closed.
        for (other, line, _) in GATED.iter().filter(|(other, ..)| *other != name) {
            says(&mut alice, line, &[REFUSED]).await;
            assert_ne!(*other, name);
        }
        stage.net.a.cli().ok(&["permission", "user", "Alice", "unset", &permission]).await;
        stage.holds("Alice", &permission, "undefined").await;
        says(&mut alice, line, &[REFUSED]).await;
    }

    // Those for everybody, until it is taken from her.
    for (name, line) in [("server", "/server"), ("hub", "/hub"), ("ping", "/ping")] {
        says(&mut alice, line, &[]).await;
        stage.grant(&stage.net.b, "Alice", &format!("moonbridge.command.{name}"), "false").await;
        says(&mut alice, line, &[REFUSED]).await;
    }
    assert!(commands(&stage.lobby).is_empty(), "what she may not do does not pass either: {}", stage.lobby.log());
    assert!(heard(&bob).iter().all(|line| line == "[Alert] all hear"), "{}", bob.log());
    stage.assert_well(&[&alice, &bob]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_one_backend_holds_there_and_from_the_cutover_on() {
    let mut stage = Stage::start().await;
    let mut alice = stage.alice().await;
    stage.net.b.cli().ok(&["permission", "user", "Alice", "set", "moonbridge.command.glist", "--context", "world=arena"]).await;
    stage.holds("Alice", "moonbridge.command.glist", "undefined").await;
    says(&mut alice, "/glist", &[REFUSED]).await;
    alice.say("/server arena").await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;
    stage.is_on("Alice", "arena").await;
    says(&mut alice, "/glist", &["[arena] (1)", "Players online: 1"]).await;
    alice.say("/hub").await;
    goes_to(&mut alice, &mut stage.lobby, "Alice", 0).await;
    says(&mut alice, "/glist", &[REFUSED]).await;
    stage.assert_well(&[&alice]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_backend_is_neither_shown_nor_entered_without_its_permission() {
    let mut stage = Stage::start().await;
    stage.net.a.cli().ok(&["backend", "restrict", "arena"]).await;
    stage.net.in_force().await;
    let mut alice = stage.alice().await;
    says(&mut alice, "/server", &["You are on lobby.", "There is nowhere else to go."]).await;
    says(&mut alice, "/server arena", &["There is no server arena."]).await;
    stage.grant(&stage.net.b, "Alice", "moonbridge.server.arena", "true").await;
    says(&mut alice, "/server", &["You are on lobby.", "You can go to: arena, lobby"]).await;
    alice.say("/server arena").await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;

    // Whoever may send, sends anybody.
    alice.say("/hub").await;
    goes_to(&mut alice, &mut stage.lobby, "Alice", 0).await;
    stage.grant(&stage.net.b, "Alice", "moonbridge.server.arena", "false").await;
    stage.grant(&stage.net.b, "Alice", "moonbridge.command.send", "true").await;
    stage.is_on("Alice", "lobby").await;
    says(&mut alice, "/send Alice arena", &["Alice is being sent to arena."]).await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;
    stage.assert_well(&[&alice]);
}
