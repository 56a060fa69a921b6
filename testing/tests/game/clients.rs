//! The same with other clients: quarry's of both protocols, and encrypted.

use moonbridge_testing::network::Up;
use moonbridge_testing::peer::{Backend, Kind, Player, Seen};
use moonbridge_testing::session_server::SessionServer;
use serde_json::json;

use crate::support::{commands, goes_to, plugin_asks, plugin_says, says};

async fn plays(kind: Kind, online: bool) {
    let (mut lobby, lobby_port) = Backend::serve(Kind::Npm, "lobby", json!({ "dimension": 0, "commands": ["/home"] })).await;
    let (mut arena, arena_port) = Backend::serve(Kind::Npm, "arena", json!({ "dimension": -1 })).await;
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let (url, backends) = (sessions.url(), [format!("lobby=127.0.0.1:{lobby_port}"), format!("arena=127.0.0.1:{arena_port}")]);
    let mut arguments = vec!["--backend", &backends[0], "--backend", &backends[1]];
    let mut options = json!({});
    if online {
        arguments.extend(["--online", "--session-server", &url]);
        options = sessions.online(&account);
    }
    let up = Up::start(&arguments).await;
    up.cli.ok(&["permission", "group", "set", "default", "moonbridge.command.find"]).await;
    let mut alice = Player::join(kind, up.listen.port(), "Alice", options);
    alice.in_world().await;
    lobby.joined("Alice").await;
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;

    says(&mut alice, "/find alice", &["Alice is on lobby."]).await;
    for (text, wanted) in [("/h", vec!["/home", "/hub"]), ("/server ar", vec!["arena"]), ("/find A", vec!["Alice"])] {
        alice.command("complete", json!({ "text": text })).await;
        let completed = |seen: &Seen| if let Seen::Completed { matches } = seen { Some(matches.clone()) } else { None };
        let mut matches = alice.expect("completions", completed).await;
        matches.sort();
        assert_eq!(matches, wanted, "{text}");
    }
    plugin_asks(&mut lobby, "Alice", &["GetServer"], json!(["GetServer", "lobby"])).await;
    plugin_says(&mut lobby, "Alice", &["Message", "Alice", "§aé😀"]).await;
    alice.chat("é😀").await;
    for _ in 0..3 {
        alice.say("/server arena").await;
        goes_to(&mut alice, &mut arena, "Alice", -1).await;
        says(&mut alice, "/server lobby ", &[]).await;
        goes_to(&mut alice, &mut lobby, "Alice", 0).await;
    }
    alice.say("plays on").await;
    lobby.chat("plays on").await;
    lobby.say("and hears").await;
    alice.chat("and hears").await;
    assert!(commands(&lobby).is_empty() && commands(&arena).is_empty());
    alice.assert_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn quarry() {
    plays(Kind::Quarry, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quarry_of_protocol_4() {
    plays(Kind::Quarry4, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_online() {
    plays(Kind::Npm, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quarry_online() {
    plays(Kind::Quarry, true).await;
}
