//! What the hot path costs: no allocation, once it is warm.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::{frame, login, name, play};
use tokio::sync::{Semaphore, oneshot};

use super::stage::{self, PATIENCE, v5};
use crate::commands::Table;
use crate::session::{Arrival, serve};

const NAME: &str = "Steve";

/// Bursts each way before any is counted, and those that are.
const WARM: usize = 50;
const MEASURED: usize = 500;

/// What the session has been through, and what is on.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Neither commands nor the backend's plugin channel.
    Plain,
    /// Both.
    WithCommands,
    /// Both, and it has been moved to another backend.
    Moved,
}

#[test]
fn a_warm_session_allocates_nothing() {
    allocates_nothing(Kind::Plain);
}

#[test]
fn nor_does_one_with_commands_and_the_plugin_channel() {
    allocates_nothing(Kind::WithCommands);
}

#[test]
fn nor_does_one_that_was_moved() {
    allocates_nothing(Kind::Moved);
}

fn allocates_nothing(kind: Kind) {
    let listen = || TcpListener::bind("127.0.0.1:0").expect("bind");
    let (front, lobby, hub) = (listen(), listen(), listen());
    let address = |listener: &TcpListener| listener.local_addr().expect("address");
    let addresses = vec![("lobby".into(), address(&lobby).to_string()), ("hub".into(), address(&hub).to_string())];
    let node = stage::node_with(addresses, OnKick::Fallback, |config| {
        if kind == Kind::Plain {
            config.commands.table = Arc::new(Table::EMPTY);
        }
    });
    for backend in ["lobby", "hub"] {
        stage::plugin_channel(&node, backend, kind != Kind::Plain);
    }

    let (in_world, is_in_world) = oneshot::channel();
    let (warm, is_warm) = oneshot::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (done, is_done) = oneshot::channel();
    let node_address = address(&front);
    // The peers live on another thread and are not counted.
    let peers = thread::spawn(move || {
        let mut peers = Peers::log_in(node_address, &lobby);
        in_world.send(()).expect("told");
        if kind == Kind::Moved {
            peers.be_moved(&hub);
        }
        peers.exchange(WARM);
        warm.send(()).expect("told");
        may_go_on.recv().expect("told");
        peers.exchange(MEASURED);
        done.send(peers).map_err(drop).expect("told");
    });

    let runtime = crate::session::measure::runtime().expect("runtime");
    let (served, player_address) = front.accept().expect("accept");
    served.set_nonblocking(true).expect("nonblocking");
    served.set_nodelay(true).expect("no delay");
    let _in_runtime = runtime.enter();
    let stream = tokio::net::TcpStream::from_std(served).expect("registered");
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a place");
    let session = runtime.spawn(serve(node.clone(), Arrival { stream, address: player_address, place, authenticator: None }));
    runtime.block_on(is_in_world).expect("in the world");
    if kind == Kind::Moved {
        let moved = stage::transfer(&node, "hub");
        let outcome = runtime.block_on(stage::outcome(moved));
        assert!(outcome.succeeded, "{outcome:?}");
    }
    runtime.block_on(is_warm).expect("warm");
    let mut ended = None;
    let counted = allocation_counter::measure(|| {
        go_on.send(()).expect("told");
        ended = Some(runtime.block_on(is_done).expect("done"));
    });
    drop(ended);
    runtime.block_on(session).expect("ends").expect("without trouble");
    peers.join().expect("peers");
    // The channels between the threads may allocate once.
    assert!(counted.count_total <= 2, "{MEASURED} bursts each way: {counted:?}");
}

/// The far ends of the session's sockets.
struct Peers {
    player: TcpStream,
    backend: TcpStream,
}

impl Peers {
    /// Logs in, and into a world.
    fn log_in(node: SocketAddr, backend: &TcpListener) -> Peers {
        let mut player = TcpStream::connect(node).expect("connect");
        set_up(&player);
        let mut hello = Vec::new();
        handshake::put(&mut hello, &Handshake { protocol: 5, host: "x", port: 1, next: Next::Login });
        login::put_login_start(&mut hello, NAME);
        player.write_all(&hello).expect("written");
        let backend = accept(backend);
        let mut peers = Peers { player, backend };
        hear(&mut peers.player, &login_success());
        peers.enter_world();
        peers
    }

    /// Is moved to this backend, and only then hangs up on the old side.
    fn be_moved(&mut self, to: &TcpListener) {
        let old = std::mem::replace(&mut self.backend, accept(to));
        self.enter_world();
        drop(old);
    }

    /// Join Game, and the player's settings in answer; what the node puts between is taken.
    fn enter_world(&mut self) {
        let mut mark = Vec::new();
        frame::put(&mut mark, 0x50, |out| out.extend_from_slice(b"in the world"));
        let mut world = Vec::new();
        stage::join(1).put(&mut world, v5());
        self.backend.write_all(&[&*world, &mark].concat()).expect("written");
        hear(&mut self.player, &mark);
        let mut settings = Vec::new();
        play::put_client_settings(&mut settings, v5(), b"\x05en_US\x08\x00\x01\x01\x01");
        self.player.write_all(&[&*settings, &mark].concat()).expect("written");
        hear(&mut self.backend, &mark);
    }

    /// Sends so many bursts in pieces that cut frames apart, and reads what comes back for each.
    fn exchange(&mut self, times: usize) {
        let burst = burst();
        let mut echo = vec![0; burst.len()];
        for _ in 0..times {
            let (head, tail) = burst.split_at(burst.len() / 2 + 3);
            for piece in [head, tail] {
                self.backend.write_all(piece).expect("written");
            }
            self.player.read_exact(&mut echo).expect("read");
            self.player.write_all(&echo).expect("written");
            self.backend.read_exact(&mut echo).expect("read");
            assert!(echo == burst, "the keep-alive came back with the backend's own id");
        }
    }
}

/// Takes the node's next connection up to Login Success.
fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().expect("accept");
    set_up(&stream);
    let mut start = Vec::new();
    login::put_login_start(&mut start, NAME);
    hear(&mut stream, &start);
    stream.write_all(&login_success()).expect("written");
    stream
}

fn set_up(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    stream.set_nodelay(true).expect("no delay");
}

/// Reads until `last` is the last that has come.
fn hear(stream: &mut TcpStream, last: &[u8]) {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    while !heard.ends_with(last) {
        let read = stream.read(&mut piece).expect("read");
        assert!(read > 0, "the node hung up after {:?}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..read]);
    }
}

fn login_success() -> Vec<u8> {
    let mut success = Vec::new();
    login::put_login_success(&mut success, v5(), name::offline_uuid(NAME), NAME);
    success
}

/// A burst as in the session benchmark: 32 frames of 32 bytes, and a keep-alive and a message between plugins among them.
fn burst() -> Vec<u8> {
    let mut out = Vec::new();
    for index in 0..32u8 {
        frame::put(&mut out, 0x50, |out| out.extend_from_slice(&[index; 31]));
    }
    play::put_plugin_message_clientbound(&mut out, v5(), "WECUI", b"s|cuboid");
    play::put_keep_alive_clientbound(&mut out, v5(), 12345);
    out
}
