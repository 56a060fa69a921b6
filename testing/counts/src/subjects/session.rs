//! A session of a real node over loopback sockets. It is served on this thread; its player and its backends live on another, and
//! callgrind counts each thread for itself. The kernel's instructions are not among those that are counted.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use moonbridge_dataplane::commands::Table;
use moonbridge_dataplane::config::Config;
use moonbridge_dataplane::measure;
use moonbridge_dataplane::node::Node;
use moonbridge_dataplane::registry::SessionCommand;
use moonbridge_proto::snapshot::{Backend, Forwarding, OnKick, Route, Snapshot};
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::play::{self, JoinGame};
use moonbridge_protocol::version::Version;
use moonbridge_protocol::{frame, login, name};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::callgrind::counted_by_callgrind;

/// What of the thread is counted.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// Every poll of the session's task.
    Session,
    /// Everything that the worker does for it: tokio's runtime, too.
    Worker,
}

/// What kind of session it is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Where it began, with all on that is on by default.
    Initial,
    /// The same, whose backend asks for a sign of life as often as a server of 1.7 with 20 bursts a second.
    KeptAlive,
    /// It has been moved to another backend.
    Moved,
    /// As initial, but without players' commands and the backends' plugin channel.
    Plain,
}

const NAME: &str = "Steve";

/// How long a peer waits for the next bytes: under callgrind all is slow.
const PATIENCE: Duration = Duration::from_secs(60);

const BURSTS_BETWEEN_KEEP_ALIVES: u64 = 40;

/// Echoes before any is counted, and those that are.
const WARM: u64 = 50;
const COUNTED: u64 = 400;

/// A backend writes `frames` frames of `payload` bytes at once and the player sends them back, again and again; how many frames
/// have come back.
pub(super) fn echo(part: Part, kind: Kind, frames: u64, payload: usize) -> anyhow::Result<u64> {
    let front = TcpListener::bind("127.0.0.1:0")?;
    let backends = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let node = node(&backends, kind != Kind::Plain)?;
    let (in_world, mut is_in_world) = oneshot::channel();
    let (warm, mut is_warm) = oneshot::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let (done, mut is_done) = oneshot::channel();
    let address = front.local_addr()?;
    let peers = thread::spawn(move || -> anyhow::Result<()> {
        let mut peers = Peers::log_in(address, &backends[0])?;
        let _ = in_world.send(());
        if kind == Kind::Moved {
            peers.be_moved(&backends[1])?;
        }
        let burst = Burst::new(frames, payload, kind == Kind::KeptAlive);
        peers.echo(&burst, WARM)?;
        let _ = warm.send(());
        may_go_on.recv()?;
        peers.echo(&burst, COUNTED)?;
        let _ = done.send(());
        Ok(())
    });

    let runtime = measure::runtime()?;
    let counting = Arc::new(AtomicBool::new(false));
    serve(&runtime, &front, &node, counting.clone())?;
    let through = move || -> anyhow::Result<()> {
        runtime.block_on(&mut is_in_world)?;
        if kind == Kind::Moved {
            runtime.block_on(transfer(&node))?;
        }
        runtime.block_on(&mut is_warm)?;
        go_on.send(())?;
        match part {
            Part::Session => {
                counting.store(true, Ordering::Relaxed);
                runtime.block_on(&mut is_done)?;
                counting.store(false, Ordering::Relaxed);
            }
            Part::Worker => {
                let mut ended = Ok(());
                counted_by_callgrind(&mut || ended = runtime.block_on(&mut is_done));
                ended?;
            }
        }
        Ok(())
    }();
    let peers = peers.join().map_err(|_| anyhow!("the peers' thread panicked"))?;
    if let Err(error) = through {
        bail!("{error:#}; and its peers: {peers:?}");
    }
    peers?;
    Ok(COUNTED * frames)
}

/// A node whose one route leads to these backends, with commands and the plugin channel or without.
fn node(backends: &[TcpListener; 2], commands: bool) -> anyhow::Result<Arc<Node>> {
    let mut snapshot = Snapshot::default();
    let mut names = Vec::new();
    for (listener, name) in backends.iter().zip(["first", "second"]) {
        let address = listener.local_addr()?.to_string();
        let address = address.parse().map_err(|error| anyhow!("{address}: {error}"))?;
        let (drained, restricted, plugin_channel_off) = (false, false, !commands);
        let backend = Backend { name: name.into(), address, forwarding: Forwarding::None, drained, restricted, plugin_channel_off };
        snapshot.backends.insert(name.into(), Arc::new(backend));
        names.push(name.into());
    }
    snapshot.routes.insert("*".into(), Arc::new(Route { host: "*".into(), backends: names, on_kick: OnKick::Disconnect }));
    let mut config = Config::default();
    if !commands {
        config.commands.table = Arc::new(Table::EMPTY);
    }
    let node = Node::new(config, CancellationToken::new());
    node.put_in_force(snapshot);
    Ok(Arc::new(node))
}

/// Takes the next player, whose session's polls are counted while `counting` says so.
fn serve(runtime: &Runtime, front: &TcpListener, node: &Arc<Node>, counting: Arc<AtomicBool>) -> anyhow::Result<()> {
    let (stream, address) = front.accept()?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let _in_runtime = runtime.enter();
    let mut session = Box::pin(measure::serve(node.clone(), tokio::net::TcpStream::from_std(stream)?, address));
    runtime.spawn(poll_fn(move |cx| {
        if !counting.load(Ordering::Relaxed) {
            return session.as_mut().poll(cx);
        }
        let mut polled = Poll::Pending;
        counted_by_callgrind(&mut || polled = session.as_mut().poll(cx));
        polled
    }));
    Ok(())
}

/// Moves the only player to the second backend.
async fn transfer(node: &Node) -> anyhow::Result<()> {
    let (sessions, _) = node.registry.subscribe();
    node.registry.unsubscribe();
    let id = sessions.first().context("nobody is there")?.id.parse()?;
    let (reply, outcome) = oneshot::channel();
    let command = SessionCommand::Transfer { to: "second".into(), as_player: false, traceparent: String::new(), deadline: None, reply };
    node.registry.command(&id, command).map_err(|(why, _)| anyhow!("{why:?}"))?;
    let outcome = outcome.await?;
    ensure!(outcome.succeeded, "{outcome:?}");
    Ok(())
}

/// The far ends of the session's sockets.
struct Peers {
    player: TcpStream,
    backend: TcpStream,
}

impl Peers {
    /// Logs a player in and into a world.
    fn log_in(node: SocketAddr, backend: &TcpListener) -> anyhow::Result<Peers> {
        let mut player = TcpStream::connect(node)?;
        player.set_nodelay(true)?;
        player.set_read_timeout(Some(PATIENCE))?;
        let mut hello = Vec::new();
        let version = Version::newest();
        handshake::put(&mut hello, &Handshake { protocol: version.protocol, host: "localhost", port: 25565, next: Next::Login });
        login::put_login_start(&mut hello, NAME);
        player.write_all(&hello)?;
        let mut backend = accept(backend)?;
        let success = login_success();
        backend.write_all(&success)?;
        hear(&mut player, &success)?;
        let mut peers = Peers { player, backend };
        peers.enter_world()?;
        Ok(peers)
    }

    /// Is moved to this backend, and only then hangs up on the old side.
    fn be_moved(&mut self, to: &TcpListener) -> anyhow::Result<()> {
        let mut backend = accept(to)?;
        backend.write_all(&login_success())?;
        let old = std::mem::replace(&mut self.backend, backend);
        self.enter_world()?;
        drop(old);
        Ok(())
    }

    /// The backend sends its Join Game, the player its settings; all that the node puts between is taken.
    fn enter_world(&mut self) -> anyhow::Result<()> {
        let version = Version::newest();
        let mut mark = Vec::new();
        frame::put(&mut mark, 0x50, |out| out.extend_from_slice(b"in the world"));
        let mut world = Vec::new();
        let join = JoinGame { entity_id: 1, gamemode: 0, dimension: 0, difficulty: 1, max_players: 20, level_type: "default".into() };
        join.put(&mut world, version);
        self.backend.write_all(&[&*world, &mark].concat())?;
        hear(&mut self.player, &mark)?;
        let mut settings = Vec::new();
        play::put_client_settings(&mut settings, version, b"\x05en_US\x08\x00\x01\x01\x01");
        self.player.write_all(&[&*settings, &mark].concat())?;
        hear(&mut self.backend, &mark)
    }

    fn echo(&mut self, burst: &Burst, times: u64) -> anyhow::Result<()> {
        for index in 0..times {
            let frames = if index % BURSTS_BETWEEN_KEEP_ALIVES == 0 { &burst.with_keep_alive } else { &burst.frames };
            let mut heard = vec![0; frames.len()];
            self.backend.write_all(frames)?;
            self.player.read_exact(&mut heard)?;
            self.player.write_all(&heard)?;
            self.backend.read_exact(&mut heard)?;
            ensure!(heard == *frames, "what comes back is not what was sent");
        }
        Ok(())
    }
}

/// What is sent with one write.
struct Burst {
    frames: Vec<u8>,
    /// The same with a keep-alive behind, whose answer is the same in both directions, if there are any.
    with_keep_alive: Vec<u8>,
}

impl Burst {
    fn new(frames: u64, payload: usize, keep_alives: bool) -> Burst {
        let mut burst = Vec::new();
        for index in 0..frames {
            frame::put(&mut burst, 0x50, |out| out.extend(std::iter::repeat_n(index as u8, payload)));
        }
        let mut with_keep_alive = burst.clone();
        if keep_alives {
            play::put_keep_alive_clientbound(&mut with_keep_alive, Version::newest(), 12345);
        }
        Burst { frames: burst, with_keep_alive }
    }
}

/// Takes a connection of the node's up to its Login Start.
fn accept(listener: &TcpListener) -> anyhow::Result<TcpStream> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut start = Vec::new();
    login::put_login_start(&mut start, NAME);
    hear(&mut stream, &start)?;
    Ok(stream)
}

/// Reads until `last` is the last that has come.
fn hear(stream: &mut TcpStream, last: &[u8]) -> anyhow::Result<()> {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    while !heard.ends_with(last) {
        let read = stream.read(&mut piece)?;
        ensure!(read > 0, "the node has hung up after {:?}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..read]);
    }
    Ok(())
}

fn login_success() -> Vec<u8> {
    let mut out = Vec::new();
    login::put_login_success(&mut out, Version::newest(), name::offline_uuid(NAME), NAME);
    out
}
