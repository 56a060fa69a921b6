//! Online mode, with a client that does what it should, and with clients that do not.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_crypto::cfb8::Secret;
use moonbridge_proto::snapshot::OnKick;
use moonbridge_protocol::frame::MAX_FRAME;
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::login::{self, EncryptionResponse, LoginClientbound};
use moonbridge_protocol::version::{ENCRYPTION_RESPONSE, LOGIN_DISCONNECT};
use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey;
use tokio::time::Instant;

use super::stage::{Host, PATIENCE, Peer, connect, connect_to, host, join, node, v5};
use crate::authenticate::Authenticator;
use crate::authenticate::tests::responder::{Responder, Say, http, profile};
use crate::config::SessionServer;
use crate::node::Node;

const ID: &str = "069a79f444e94726a5befca90e38aaf5";
const SECRET: [u8; 16] = *b"sixteen secrets!";

/// A node in online mode, whose session server answers like this.
struct Stage {
    node: Arc<Node>,
    lobby: Host,
    responder: Responder,
    authenticator: Arc<Authenticator>,
}

/// What the client was asked.
struct Asked {
    key: PublicKey,
    token: Vec<u8>,
}

impl Asked {
    fn seal(&self, bytes: &[u8]) -> Vec<u8> {
        self.key.pkcs1v15_encrypt(bytes).expect("short enough")
    }
}

impl Stage {
    async fn new(say: Say) -> Stage {
        Stage::patient(say, PATIENCE).await
    }

    async fn patient(say: Say, login: Duration) -> Stage {
        let lobby = host("lobby").await;
        let responder = Responder::start(vec![say]).await;
        let config = SessionServer { url: responder.url().parse().expect("a URL"), ..SessionServer::default() };
        let authenticator = Arc::new(Authenticator::start(&config).await.expect("a key"));
        let node = node(&[&lobby], OnKick::Fallback, |config| config.timeouts.login = login);
        Stage { node, lobby, responder, authenticator }
    }

    /// Logs in up to the Encryption Request.
    async fn greet(&self, name: &str) -> (Peer, Asked) {
        let mut player = connect_to(&self.node, Some(self.authenticator.clone())).await;
        player.greet(name, 5).await;
        let frame = player.frame().await;
        assert_eq!(LoginClientbound::of(frame.id), LoginClientbound::EncryptionRequest);
        let (server_id, der, token) = login::read_encryption_request(&frame.payload).expect("readable");
        assert_eq!((server_id, token.len()), ("", 4));
        (player, Asked { key: PublicKey::from_public_key_der(der).expect("a key"), token: token.to_vec() })
    }

    /// Logs in up to the Encryption Response, and encrypts from there.
    async fn prove(&self, name: &str) -> (Peer, Asked) {
        let (mut player, asked) = self.greet(name).await;
        player.respond(&asked.seal(&SECRET), &asked.seal(&asked.token)).await;
        player.0.encrypt(&Secret::new(SECRET));
        (player, asked)
    }
}

impl Peer {
    async fn respond(&mut self, secret: &[u8], token: &[u8]) {
        self.send(|out| login::put_encryption_response(out, EncryptionResponse { secret, token })).await;
    }

    /// The next frame says why, and nothing comes after it.
    async fn is_refused(&mut self, why: &str) {
        let frame = self.frame().await;
        assert_eq!(frame.id, LOGIN_DISCONNECT);
        let reason = login::read_disconnect(&frame.payload).expect("readable").plain();
        assert!(reason.contains(why), "{reason:?} does not say {why:?}");
        self.ends().await;
    }
}

#[tokio::test]
async fn a_player_is_who_the_session_server_says_and_plays_encrypted() {
    let stage = Stage::new(http("200 OK", &profile(ID, "Alice"))).await;
    let (mut player, _) = stage.prove("alice").await;
    let mut backend = stage.lobby.accept().await;
    let success = player.frame().await;
    let dashed = "069a79f4-44e9-4726-a5be-fca90e38aaf5";
    assert_eq!(login::read_login_success(&success.payload), Ok((dashed, "Alice")));
    backend.send(|out| join(1).put(out, v5())).await;
    player.joins(1, 0).await;
    player.say("from the player").await;
    backend.is_told("from the player").await;
    backend.show("to the player").await;
    player.hears("to the player").await;
    assert_eq!(stage.responder.heads().len(), 1);
}

#[tokio::test]
async fn whom_nobody_vouches_for_reads_why() {
    for (say, why) in [
        (Say::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()), "not authenticated"),
        (http("429 Too Many Requests", ""), "servers are busy"),
        (http("500 Internal Server Error", ""), "servers are down"),
        (http("200 OK", "garbage"), "servers are down"),
        (http("200 OK", &profile(ID, "Mallory")), "Name mismatch"),
    ] {
        let stage = Stage::new(say).await;
        stage.prove("Alice").await.0.is_refused(why).await;
    }
    let stage = Stage::patient(Say::Silence, Duration::from_millis(500)).await;
    stage.prove("Alice").await.0.is_refused("down or very slow").await;
    stage.responder.until(1, 0).await;
}

#[tokio::test]
async fn a_wrong_token_is_told_to_a_client_that_encrypts_already() {
    let stage = Stage::new(Say::Silence).await;
    let (mut player, asked) = stage.greet("Alice").await;
    let wrong: Vec<u8> = asked.token.iter().map(|byte| !byte).collect();
    player.respond(&asked.seal(&SECRET), &asked.seal(&wrong)).await;
    player.0.encrypt(&Secret::new(SECRET));
    player.is_refused("verify token").await;
    assert_eq!(stage.responder.heads().len(), 0);
}

#[tokio::test]
async fn a_response_that_has_no_secret_is_told_in_the_open() {
    let stage = Stage::new(Say::Silence).await;
    for secret in [&b""[..], &SECRET[..15], &[7; 17], &[7; 32]] {
        let (mut player, asked) = stage.greet("Alice").await;
        player.respond(&asked.seal(secret), &asked.seal(&asked.token)).await;
        player.is_refused("16 bytes").await;
    }
    // Garbage, of every length that can be.
    for length in [0, 1, 127, 128, 129, 256] {
        let (mut player, _) = stage.greet("Alice").await;
        player.respond(&vec![0x5a; length], &vec![0xa5; length]).await;
        player.is_refused("encryption response is wrong").await;
    }
    let (mut player, asked) = stage.greet("Alice").await;
    player.respond(&vec![0x5a; 257], &asked.seal(&asked.token)).await;
    player.is_refused("cannot be read").await;
    let (mut player, _) = stage.greet("Alice").await;
    player.send_frame(ENCRYPTION_RESPONSE, &[0x80, 0, 0x80, 0]).await;
    player.is_refused("cannot be read").await;
    let (mut player, _) = stage.greet("Alice").await;
    player.send(|out| login::put_login_start(out, "Alice")).await;
    player.is_refused("cannot be read").await;
    assert_eq!(stage.responder.heads().len(), 0);
}

#[tokio::test]
async fn what_comes_while_the_session_server_is_asked_ends_the_login() {
    let stage = Stage::new(Say::Silence).await;
    let (mut player, asked) = stage.prove("Alice").await;
    stage.responder.until(1, 1).await;
    player.respond(&asked.seal(&SECRET), &asked.seal(&asked.token)).await;
    player.is_refused("second encryption response").await;
    stage.responder.until(1, 0).await;

    // A client that goes on in plaintext, at once or later; what it reads is encrypted all the same.
    for at_once in [true, false] {
        let (mut player, asked) = stage.greet("Alice").await;
        let before = stage.responder.heads().len();
        let mut said = Vec::new();
        login::put_encryption_response(&mut said, EncryptionResponse { secret: &asked.seal(&SECRET), token: &asked.seal(&asked.token) });
        let plain = [0x03, 0x00, 0x01, 0x61].repeat(500);
        if at_once {
            said.extend_from_slice(&plain);
        }
        player.send(|out| out.extend_from_slice(&said)).await;
        if !at_once {
            stage.responder.until(before + 1, 1).await;
            player.send(|out| out.extend_from_slice(&plain)).await;
        }
        player.0.encrypt(&Secret::new(SECRET));
        player.is_refused("not encrypted as it should be").await;
    }
}

#[tokio::test]
async fn half_a_frame_in_plaintext_is_found_out_before_play() {
    let stage = Stage::new(http("200 OK", &profile(ID, "Alice"))).await;
    let (mut player, asked) = stage.greet("Alice").await;
    let mut said = Vec::new();
    login::put_encryption_response(&mut said, EncryptionResponse { secret: &asked.seal(&SECRET), token: &asked.seal(&asked.token) });
    // Decrypts to the length of a frame that does not come.
    let mut half = [0x7f];
    moonbridge_crypto::cfb8::Encryptor::new(&Secret::new(SECRET)).encrypt(&mut half);
    said.extend_from_slice(&half);
    player.send(|out| out.extend_from_slice(&said)).await;
    player.0.encrypt(&Secret::new(SECRET));
    player.is_refused("not encrypted as it should be").await;
}

#[tokio::test]
async fn a_client_that_does_not_answer_or_leaves_is_not_waited_for() {
    let stage = Stage::patient(Say::Silence, Duration::from_millis(300)).await;
    let (mut player, _) = stage.greet("Alice").await;
    player.is_refused("took too long").await;
    assert_eq!(stage.responder.heads().len(), 0);

    let stage = Stage::new(Say::Silence).await;
    let (player, _) = stage.prove("Alice").await;
    stage.responder.until(1, 1).await;
    drop(player);
    stage.responder.until(1, 0).await;
}

#[tokio::test]
async fn a_node_that_shuts_down_says_so_encrypted() {
    let stage = Stage::new(Say::Silence).await;
    let (mut player, _) = stage.prove("Alice").await;
    stage.responder.until(1, 1).await;
    stage.node.shutdown.cancel();
    player.is_refused("restarting").await;
    stage.responder.until(1, 0).await;
}

#[tokio::test]
async fn in_offline_mode_nobody_asked_for_an_encryption_response() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let mut player = connect(&node).await;
    player.respond(&[1; 128], &[2; 128]).await;
    let end = player.0.frame(MAX_FRAME, Instant::now() + PATIENCE).await;
    assert!(end.is_err(), "it is no handshake: {end:?}");

    let mut instead = connect(&node).await;
    instead
        .send(|out| {
            handshake::put(out, &Handshake { protocol: 5, host: "localhost", port: 25565, next: Next::Login });
            login::put_encryption_response(out, EncryptionResponse { secret: &[1; 128], token: &[2; 128] });
        })
        .await;
    instead.is_refused("not asked for").await;

    let mut player = connect(&node).await;
    player
        .send(|out| {
            handshake::put(out, &Handshake { protocol: 5, host: "localhost", port: 25565, next: Next::Login });
            login::put_login_start(out, "Alice");
            login::put_encryption_response(out, EncryptionResponse { secret: &[1; 128], token: &[2; 128] });
        })
        .await;
    player.is_refused("not asked for").await;
}
