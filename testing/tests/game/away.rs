//! The control plane is away: what the node can do alone goes on, and what it cannot says so.

use std::time::Duration;

use moonbridge_testing::peer::{Player, Seen};
use serde_json::json;

use crate::support::{Stage, goes_to, says};

const UNAVAILABLE: &str = "The network cannot be asked at the moment: try again in a moment.";

#[tokio::test(flavor = "multi_thread")]
async fn without_replicas_players_go_where_they_want_and_questions_are_answered_with_why_not() {
    let mut stage = Stage::permitted().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;
    stage.net.a.process.kill().await;
    stage.net.b.process.kill().await;

    for line in ["/glist", "/find Bob", "/send Bob lobby", "/alert now", "/kick Bob"] {
        says(&mut alice, line, &[UNAVAILABLE]).await;
    }
    alice.say("/moonbridge info").await;
    alice.chat("Control plane: away").await;
    alice.command("complete", json!({ "text": "/server ar" })).await;
    alice.expect("completions", |seen| (*seen == Seen::Completed { matches: vec!["arena".into()] }).then_some(())).await;
    alice.say("/server arena").await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;
    alice.say("/hub").await;
    goes_to(&mut alice, &mut stage.lobby, "Alice", 0).await;

    // Back on the same addresses: the nodes come by themselves.
    stage.net.a.restart().await;
    stage.net.b.restart().await;
    finds(&mut alice, "Bob", "arena").await;
    finds(&mut bob, "Alice", "lobby").await;
    stage.assert_well(&[&alice, &bob]);
}

/// Asks where somebody is until the network answers.
async fn finds(player: &mut Player, whom: &str, backend: &str) {
    let found = format!("{whom} is on {backend}.");
    loop {
        player.say(&format!("/find {whom}")).await;
        let answer = player.expect("an answer", |seen| if let Seen::Chat { text, .. } = seen { Some(text.clone()) } else { None }).await;
        if answer == found {
            return;
        }
        // Its node is not attached, or the replica does not know of everybody yet.
        assert!(
            [UNAVAILABLE, &format!("{whom} is not online.")].contains(&answer.as_str()) || answer.starts_with("You are typing"),
            "{answer}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
