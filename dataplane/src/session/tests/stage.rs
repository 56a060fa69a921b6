//! A node's session over real sockets, with a scripted player and scripted backends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::snapshot::{Backend, Forwarding, OnKick, Revision, Route, Snapshot};
use moonbridge_proto::v1;
use moonbridge_protocol::frame::MAX_FRAME;
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::play::{self, JoinGame};
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{Clientbound, Serverbound, Version};
use moonbridge_protocol::{frame, login};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::Arrival;
use crate::authenticate::Authenticator;
use crate::config::Config;
use crate::conn::{Conn, OwnFrame};
use crate::node::Node;
use crate::registry::{Outcome, SessionCommand};
use crate::timer::timeout;

pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn v5() -> &'static Version {
    Version::of(5).expect("protocol 5")
}

/// A backend's listening socket.
pub(super) struct Host {
    pub(super) name: String,
    listener: TcpListener,
}

/// A connection seen from the far end: the player's, or a backend's.
pub(super) struct Peer(pub(super) Conn);

pub(super) async fn host(name: &str) -> Host {
    Host { name: name.to_owned(), listener: TcpListener::bind("127.0.0.1:0").await.expect("bind") }
}

/// A node whose route `*` leads to these hosts.
pub(super) fn node(hosts: &[&Host], on_kick: OnKick, change: impl FnOnce(&mut Config)) -> Arc<Node> {
    let address = |host: &&Host| (host.name.clone(), host.listener.local_addr().expect("address").to_string());
    node_with(hosts.iter().map(address).collect(), on_kick, change)
}

/// A node whose route `*` leads to these names and addresses.
pub(super) fn node_with(backends: Vec<(String, String)>, on_kick: OnKick, change: impl FnOnce(&mut Config)) -> Arc<Node> {
    let mut config = Config::default();
    change(&mut config);
    let node = Node::new(config, CancellationToken::new());
    let mut snapshot = Snapshot { revision: Revision { store_id: "test".into(), number: 1 }, ..Snapshot::default() };
    let mut names = Vec::new();
    for (name, address) in backends {
        let address = address.parse().expect("host and port");
        // On, it is announced to the backend; see [`plugin_channel`].
        let (drained, restricted, plugin_channel_off) = (false, false, true);
        let backend = Backend { name: name.clone(), address, forwarding: Forwarding::None, drained, restricted, plugin_channel_off };
        snapshot.backends.insert(name.clone(), Arc::new(backend));
        names.push(name);
    }
    snapshot.routes.insert("*".into(), Arc::new(Route { host: "*".into(), backends: names, on_kick }));
    node.put_in_force(snapshot);
    Arc::new(node)
}

/// From here on this backend wants a permission.
pub(super) fn restrict(node: &Node, name: &str) {
    let mut snapshot = Snapshot::clone(&node.snapshot.load_full().expect("a snapshot"));
    let backend = snapshot.backends.get_mut(name).expect("a backend");
    *backend = Arc::new(Backend { restricted: true, ..Backend::clone(backend) });
    node.put_in_force(snapshot);
}

/// From here on this backend's plugins are obeyed, or not.
pub(super) fn plugin_channel(node: &Node, name: &str, on: bool) {
    let mut snapshot = Snapshot::clone(&node.snapshot.load_full().expect("a snapshot"));
    let backend = snapshot.backends.get_mut(name).expect("a backend");
    *backend = Arc::new(Backend { plugin_channel_off: !on, ..Backend::clone(backend) });
    node.put_in_force(snapshot);
}

/// The next question to the network.
pub(super) async fn asked(node: &Node) -> v1::Ask {
    loop {
        if let Some(ask) = node.network.take(1).pop() {
            return ask;
        }
        timeout(PATIENCE, node.network.asked()).await.expect("asked in time");
    }
}

/// Answers the next question to the network.
pub(super) async fn answer(node: &Node, answer: v1::AskAnswer) -> v1::Ask {
    let ask = asked(node).await;
    node.network.answered(v1::AskAnswer { id: ask.id, ..answer });
    ask
}

/// A socket to the node, served as one that was accepted in offline mode.
pub(super) async fn connect(node: &Arc<Node>) -> Peer {
    connect_to(node, None).await
}

/// A socket to the node, served as one that was accepted.
pub(super) async fn connect_to(node: &Arc<Node>, authenticator: Option<Arc<Authenticator>>) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let player = TcpStream::connect(listener.local_addr().expect("address")).await.expect("connect");
    let (stream, address) = listener.accept().await.expect("accept");
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a place");
    tokio::spawn(super::super::serve(node.clone(), Arrival { stream, address, place, authenticator }));
    Peer(Conn::new(player))
}

/// Logs a player in; the host has accepted it and sent Login Success, not yet a world.
pub(super) async fn log_in(node: &Arc<Node>, host: &Host, name: &str) -> (Peer, Peer) {
    let mut player = connect(node).await;
    player.greet(name, 5).await;
    let backend = host.accept().await;
    let success = player.frame().await;
    assert_eq!(success.id, 2, "Login Success");
    (player, backend)
}

/// Logs a player in and into a world.
pub(super) async fn play(node: &Arc<Node>, host: &Host, name: &str) -> (Peer, Peer) {
    let (mut player, mut backend) = log_in(node, host, name).await;
    backend.send(|out| join(1).put(out, v5())).await;
    assert_eq!(player.clientbound().await.0, Clientbound::JoinGame);
    (player, backend)
}

pub(super) fn join(entity_id: i32) -> JoinGame {
    JoinGame { entity_id, gamemode: 0, dimension: 0, difficulty: 1, max_players: 20, level_type: "default".into() }
}

/// Asks the only session to move; the outcome comes later.
pub(super) fn transfer(node: &Node, to: &str) -> oneshot::Receiver<Outcome> {
    let (reply, outcome) = oneshot::channel();
    let command = SessionCommand::Transfer { to: to.into(), as_player: false, traceparent: String::new(), deadline: None, reply };
    let (sessions, _) = node.registry.subscribe();
    assert_eq!(sessions.len(), 1);
    node.registry.command(&sessions[0].id.parse().expect("a UUID"), command).map_err(|(why, _)| why).expect("delivered");
    outcome
}

/// Moves the only session to `host`, whose world has this entity id, and sees it arrive.
pub(super) async fn move_to(node: &Node, host: &Host, player: &mut Peer, entity_id: i32) -> Peer {
    let moved = transfer(node, &host.name);
    let mut backend = host.accept().await;
    backend.send(|out| join(entity_id).put(out, v5())).await;
    player.joins(entity_id, -1).await;
    player.respawns(0).await;
    assert!(outcome(moved).await.succeeded);
    backend
}

pub(super) async fn outcome(outcome: oneshot::Receiver<Outcome>) -> Outcome {
    timeout(PATIENCE, outcome).await.expect("an outcome in time").expect("an outcome")
}

impl Host {
    /// Takes the next player up to Login Success.
    pub(super) async fn accept(&self) -> Peer {
        let mut peer = self.hear().await;
        peer.send(|out| login::put_login_success(out, v5(), moonbridge_protocol::name::offline_uuid("x"), "x")).await;
        peer
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("address")
    }

    pub(super) async fn hear_raw(&self) -> (TcpStream, SocketAddr) {
        timeout(PATIENCE, self.listener.accept()).await.expect("a connection in time").expect("accept")
    }

    /// Takes the next player up to Login Start.
    pub(super) async fn hear(&self) -> Peer {
        let (stream, _) = self.hear_raw().await;
        let mut peer = Peer(Conn::new(stream));
        assert_eq!(peer.frame().await.id, handshake::ID);
        peer.frame().await;
        peer
    }
}

impl Peer {
    pub(super) async fn greet(&mut self, name: &str, protocol: i32) {
        self.send(|out| {
            handshake::put(out, &Handshake { protocol, host: "play.example.net", port: 25565, next: Next::Login });
            login::put_login_start(out, name);
        })
        .await;
    }

    pub(super) async fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.0.write(&out, Instant::now() + PATIENCE).await.expect("written");
    }

    pub(super) async fn send_frame(&mut self, id: i32, payload: &[u8]) {
        self.send(|out| frame::put(out, id, |out| out.extend_from_slice(payload))).await;
    }

    pub(super) async fn frame(&mut self) -> OwnFrame {
        self.0.frame(MAX_FRAME, Instant::now() + PATIENCE).await.expect("a frame")
    }

    /// The next frame, as a player reads it.
    pub(super) async fn clientbound(&mut self) -> (Clientbound, OwnFrame) {
        let frame = self.frame().await;
        (u8::try_from(frame.id).map_or(Clientbound::Other, |id| v5().clientbound(id)), frame)
    }

    /// The next frame, as a backend reads it.
    pub(super) async fn serverbound(&mut self) -> (Serverbound, OwnFrame) {
        let frame = self.frame().await;
        (u8::try_from(frame.id).map_or(Serverbound::Other, |id| v5().serverbound(id)), frame)
    }

    /// The next frame is a chat line for the player.
    pub(super) async fn hears(&mut self, line: &str) {
        let (kind, frame) = self.clientbound().await;
        assert_eq!(kind, Clientbound::Chat, "{frame:?}");
        assert_eq!(play::read_chat(&frame.payload).expect("chat").plain(), line);
    }

    /// The next frame is this chat line of the player's.
    pub(super) async fn is_told(&mut self, line: &str) {
        let (kind, frame) = self.serverbound().await;
        assert_eq!(kind, Serverbound::Chat, "{frame:?}");
        assert_eq!(play::read_chat_serverbound(&frame.payload).expect("chat"), line);
    }

    pub(super) async fn say(&mut self, line: &str) {
        self.send(|out| play::put_chat_serverbound(out, v5(), line)).await;
    }

    pub(super) async fn show(&mut self, line: &str) {
        self.send(|out| play::put_chat(out, v5(), &Text::legacy(line))).await;
    }

    /// The next frame is a Join Game of this entity id and dimension.
    pub(super) async fn joins(&mut self, entity_id: i32, dimension: i32) {
        let (kind, frame) = self.clientbound().await;
        assert_eq!(kind, Clientbound::JoinGame, "{frame:?}");
        let join = JoinGame::read(v5(), &frame.payload).expect("Join Game");
        assert_eq!((join.entity_id, join.dimension), (entity_id, dimension));
    }

    /// The next frame is a Respawn in this dimension.
    pub(super) async fn respawns(&mut self, dimension: i32) {
        let (kind, frame) = self.clientbound().await;
        assert_eq!(kind, Clientbound::Respawn, "{frame:?}");
        assert_eq!(play::Respawn::read(v5(), &frame.payload).expect("Respawn").dimension, dimension);
    }

    /// The stream ends with nothing more on it.
    pub(super) async fn ends(&mut self) {
        let end = self.0.frame(MAX_FRAME, Instant::now() + PATIENCE).await;
        assert!(matches!(end, Err(crate::error::Trouble::Closed)), "{end:?}");
    }
}
