//! The tab key: what the node adds to the backend's words, and what it knows by itself, across nodes.

use std::time::{Duration, Instant};

use moonbridge_testing::paper_node;
use moonbridge_testing::peer::{Player, Seen, Served};
use serde_json::json;

use crate::support::{Stage, goes_to};

/// The tab key, and the answer.
async fn completes(player: &mut Player, text: &str) -> Vec<String> {
    player.command("complete", json!({ "text": text })).await;
    completed(player, text).await
}

async fn completed(player: &mut Player, text: &str) -> Vec<String> {
    player
        .expect(
            &format!("completions of {text:?}"),
            |seen| if let Seen::Completed { matches } = seen { Some(matches.clone()) } else { None },
        )
        .await
}

fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort();
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commands_beginning_is_completed_by_both_and_arguments_by_whose_command_it_is() {
    let backend = json!({ "commands": ["/home", "/hub", "/help", "/server", "/find me", "Alice", "/home sweet"] });
    let mut stage = Stage::start_with("[commands.kick]\nnames = [\"kick\", \"hinaus\"]\n", backend).await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;

    // Only what she may use is added, and what both have is there once.
    assert_eq!(sorted(completes(&mut alice, "/h").await), ["/help", "/home", "/home sweet", "/hub"]);
    assert_eq!(completes(&mut alice, "/se").await, ["/server"]);
    assert_eq!(sorted(completes(&mut alice, "/").await), ["/find me", "/help", "/home", "/home sweet", "/hub", "/ping", "/server"]);
    stage.grant(&stage.net.b, "Alice", "moonbridge.command.*", "true").await;
    assert_eq!(sorted(completes(&mut alice, "/h").await), ["/help", "/hinaus", "/home", "/home sweet", "/hub"]);
    assert_eq!(sorted(completes(&mut alice, "/se").await), ["/send", "/server"]);
    // A backend without commands; another player's own permissions.
    assert_eq!(completes(&mut bob, "/s").await, ["/server"]);

    // Arguments, of backends and of players wherever they are.
    assert_eq!(sorted(completes(&mut alice, "/server ").await), ["arena", "lobby"]);
    assert_eq!(completes(&mut alice, "/server AR").await, ["arena"]);
    assert_eq!(completes(&mut alice, "/find b").await, ["Bob"]);
    assert_eq!(sorted(completes(&mut alice, "/kick ").await), ["Alice", "Bob"]);
    assert_eq!(completes(&mut alice, "/send Bob l").await, ["lobby"]);
    assert_eq!(
        completes(&mut alice, "/send a").await.into_iter().filter(|word| word != "all").collect::<Vec<_>>().len(),
        2,
        "arena, Alice"
    );
    assert_eq!(completes(&mut bob, "/kick ").await, Vec::<String>::new(), "he may not");

    // The backend is not asked for those, and all else is its own affair.
    let asked = |stage: &Stage| {
        let text = |served| if let Served::Completing { text, .. } = served { Some(text) } else { None };
        stage.lobby.all().into_iter().filter_map(text).collect::<Vec<_>>()
    };
    assert_eq!(asked(&stage), ["/h", "/se", "/", "/h", "/se"]);
    assert_eq!(completes(&mut alice, "Al").await, ["Alice"]);
    assert_eq!(completes(&mut alice, "/home ").await, ["/home sweet"]);
    assert_eq!(completes(&mut alice, "hello b").await, Vec::<String>::new());
    assert_eq!(asked(&stage)[5..], ["Al", "/home ", "hello b"]);

    // A restricted backend is not spoken of.
    stage.net.a.cli().ok(&["backend", "restrict", "arena"]).await;
    stage.net.in_force().await;
    assert_eq!(completes(&mut alice, "/server ").await, ["lobby"]);
    stage.assert_well(&[&alice, &bob]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_slow_or_never_answers_keeps_no_player_from_the_nodes_words() {
    let mut stage = Stage::start_with("", json!({ "commands": ["/hello"], "completeAfterMs": -1 })).await;
    let mut alice = stage.alice().await;

    // After a second the node answers alone.
    let began = Instant::now();
    assert_eq!(completes(&mut alice, "/h").await, ["/hub"]);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    // The answer that is owed comes after all: as it is, and no other is taken for it.
    stage.lobby.command("complete", json!({ "player": "Alice", "matches": ["/hello"] })).await;
    assert_eq!(completed(&mut alice, "the late answer").await, ["/hello"]);

    // At another backend nothing is owed, and what the old one still says does not come.
    alice.command("complete", json!({ "text": "/hu" })).await;
    stage.lobby.expect("the request", |served| matches!(served, Served::Completing { text, .. } if text == "/hu").then_some(())).await;
    alice.say("/server arena").await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;
    stage.arena.expect("her settings", |served| matches!(served, Served::Settings { .. }).then_some(())).await;
    let before = alice.all().iter().filter(|seen| matches!(seen, Seen::Completed { .. })).count();
    assert!((2..=3).contains(&before), "{}", alice.log());
    stage.arena.set(json!({ "commands": ["/hurry"] })).await;
    alice.command("complete", json!({ "text": "/hur" })).await;
    let merged = |seen: &Seen| matches!(seen, Seen::Completed { matches } if matches == &["/hurry"]).then_some(());
    alice.expect("the new backend's words", merged).await;
    assert_eq!(sorted(completes(&mut alice, "/hu").await), ["/hub", "/hurry"]);
    stage.assert_well(&[&alice]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_players_a_hundred_are_named() {
    let mut stage = Stage::permitted().await;
    let mut alice = stage.alice().await;
    let crowd: Vec<_> = (0..250).map(|number| (format!("Paper_{number:03}"), "lobby")).collect();
    let _crowd = paper_node::crowd(&stage.net.b.url(), &crowd).await.expect("attached");
    stage.net.known(&["Paper_000", "Paper_249"]).await;
    let names = completes(&mut alice, "/find p").await;
    assert_eq!(names.len(), 100, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("Paper_")), "{names:?}");
    assert_eq!(completes(&mut alice, "/find Paper_24").await.len(), 10);
    assert_eq!(completes(&mut alice, "/find paper_249").await, ["Paper_249"]);
    stage.assert_well(&[&alice]);
}
