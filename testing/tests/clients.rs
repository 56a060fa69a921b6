//! The players and backends of the other tests work with each other, without MoonBridge between them: when a test through a node fails, it is not them.

use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use moonbridge_testing::session_server::{Answer, SessionServer};
use serde_json::json;

async fn meet(backend: Kind, player: Kind, protocol: i32) {
    let (mut backend, port) = Backend::serve(backend, "lobby", json!({ "dimension": -1, "tab": ["§aAnna"], "keepAliveMs": 200 })).await;
    let mut player = Player::join(player, port, "Alice", json!({ "virtualHost": "play.example.net" }));

    let uuid = player.expect("Login Success", |seen| if let Seen::Login { uuid, .. } = seen { Some(uuid.clone()) } else { None }).await;
    assert_eq!(uuid, "10920508-d5d8-3eed-93d2-92f193afe7d7", "the UUID that every offline server gives Alice");
    assert_eq!(player.in_world().await, -1);
    player.expect("the tab list", |seen| (*seen == Seen::Tab { name: "§aAnna".into(), online: true }).then_some(())).await;
    let shaken = backend
        .expect(
            "the handshake",
            |served| if let Served::Handshake { host, protocol, .. } = served { Some((host.clone(), *protocol)) } else { None },
        )
        .await;
    assert_eq!(shaken, ("play.example.net".to_owned(), protocol));
    backend.joined("Alice").await;

    player.say("up").await;
    backend.chat("up").await;
    backend.say("down").await;
    player.chat("down").await;
    for _ in 0..3 {
        let known = backend
            .expect("an answered keep-alive", |served| if let Served::KeepAlive { known, .. } = served { Some(*known) } else { None })
            .await;
        assert!(known);
    }

    backend.command("kick", json!({ "reason": "bye" })).await;
    assert_eq!(player.kicked().await, ("bye".to_owned(), "play".to_owned()));
    player.end().await;
    backend.left("Alice").await;
    backend.set(json!({ "refuse": "full" })).await;
    let mut refused = Player::join(Kind::Npm, port, "Bob", json!({}));
    assert_eq!(refused.kicked().await, ("full".to_owned(), "login".to_owned()));
    refused.end().await;
}

#[tokio::test]
async fn npm_player_on_npm_backend() {
    meet(Kind::Npm, Kind::Npm, 5).await;
}

#[tokio::test]
async fn quarry_player_on_npm_backend() {
    meet(Kind::Npm, Kind::Quarry, 5).await;
}

#[tokio::test]
async fn npm_player_on_quarry_backend() {
    meet(Kind::Quarry, Kind::Npm, 5).await;
}

#[tokio::test]
async fn quarry_player_on_quarry_backend_in_protocol_4() {
    meet(Kind::Quarry4, Kind::Quarry4, 4).await;
}

/// In online mode, with both libraries' own login, hash and cipher: what the session server of the tests says is what they expect of Mojang's.
async fn meet_online(backend: Kind, player: Kind) {
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let (mut backend, port) = Backend::serve(backend, "lobby", json!({ "sessionServer": sessions.url() })).await;
    let mut alice = Player::join(player, port, "Alice", sessions.online(&account));
    let uuid = alice.expect("Login Success", |seen| if let Seen::Login { uuid, .. } = seen { Some(uuid.clone()) } else { None }).await;
    assert_eq!(uuid, account.uuid.to_string());
    alice.in_world().await;
    backend.joined("Alice").await;
    alice.say("up").await;
    backend.chat("up").await;
    backend.say("down").await;
    alice.chat("down").await;
    let requests = sessions.requests();
    assert_eq!(
        requests.iter().map(|request| request.path.as_str()).collect::<Vec<_>>(),
        ["/session/minecraft/join", "/session/minecraft/hasJoined"]
    );
    assert_eq!(requests[1].value("username"), Some("Alice"));
}

#[tokio::test]
async fn npm_player_on_npm_backend_in_online_mode() {
    meet_online(Kind::Npm, Kind::Npm).await;
}

#[tokio::test]
async fn quarry_player_on_npm_backend_in_online_mode() {
    meet_online(Kind::Npm, Kind::Quarry).await;
}

#[tokio::test]
async fn npm_player_on_quarry_backend_in_online_mode() {
    meet_online(Kind::Quarry, Kind::Npm).await;
}

#[tokio::test]
async fn quarry_player_on_quarry_backend_in_protocol_4_in_online_mode() {
    meet_online(Kind::Quarry4, Kind::Quarry4).await;
}

/// Without having joined, with another's token, and where the session server says no. quarry's server leaves such a player waiting.
#[tokio::test]
async fn an_npm_backend_in_online_mode_lets_nobody_else_in() {
    let sessions = SessionServer::start().await;
    let (account, stranger) = (sessions.account("Alice"), sessions.account("Bob"));
    let (_backend, port) = Backend::serve(Kind::Npm, "lobby", json!({ "sessionServer": sessions.url() })).await;
    for (player, online, answer) in [
        (Kind::Npm, json!({ "skipJoin": true }), Answer::Truth),
        (Kind::Quarry, json!({ "skipJoin": true }), Answer::Truth),
        (Kind::Npm, json!({ "accessToken": stranger.access_token }), Answer::Truth),
        (Kind::Quarry, json!({ "accessToken": stranger.access_token }), Answer::Truth),
        (Kind::Npm, json!({}), Answer::Status(204)),
    ] {
        let mut options = sessions.online(&account);
        options["online"].as_object_mut().expect("an object").extend(online.as_object().cloned().unwrap_or_default());
        sessions.answer(answer);
        let mut refused = Player::join(player, port, "Alice", options);
        refused.end().await;
        assert!(!refused.all().iter().any(|seen| matches!(seen, Seen::Login { .. })), "{}", refused.log());
    }
}
