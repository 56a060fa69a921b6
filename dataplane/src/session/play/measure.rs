//! A session's relay over memory, without sockets, clocks or a runtime, and a whole session over a socket of the measurer's:
//! so that their instructions can be counted.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use moonbridge_protocol::channels::{Channels, REGISTER};
use moonbridge_protocol::forge::HANDSHAKE;
use moonbridge_protocol::forge::candidate::{Candidate, ClientFacts};
use moonbridge_protocol::forge::ids::ModIds;
use moonbridge_protocol::forge::lead::Lead;
use moonbridge_protocol::forge::message::{Message, ServerHello};
use moonbridge_protocol::forge::mods::ModList;
use moonbridge_protocol::play::{self, JoinGame};
use moonbridge_protocol::version::Version;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::super::Arrival;
use super::cutover::put_cutover;
use super::state::State;
use crate::commands::Table;
use crate::config::Commands;
use crate::error::SessionError;
use crate::node::Node;
use crate::relay::link::Link;
use crate::relay::outlet::Outlet;
use crate::relay::socket::{Source, Target};
use crate::relay::{Sink, pump};
use crate::timer::Timers;
use crate::worker;

/// A runtime as a worker has it, on this thread, which is scheduled as a worker's: sessions can be served on it.
///
/// # Errors
/// If it cannot be started, or the thread that keeps its timers.
pub fn runtime() -> io::Result<Runtime> {
    Timers::keep("timers", pending())?.keep_for_this_thread();
    worker::schedule_in_batches().map_err(io::Error::other)?;
    worker::runtime()?.into_inner().ok_or_else(|| io::Error::other("a runtime that was just built"))
}

/// Serves this connection to its end, as one that was accepted in offline mode.
///
/// # Errors
/// Why the session did not end well.
pub async fn serve(node: Arc<Node>, stream: TcpStream, address: SocketAddr) -> Result<(), SessionError> {
    let Ok(place) = Arc::new(Semaphore::new(1)).try_acquire_owned() else { return Ok(()) };
    super::super::serve(node, Arrival { stream, address, place, authenticator: None }).await
}

/// What the session has been through before it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// A vanilla client has come into its first world.
    Vanilla,
    /// A Forge client has, after its handshake.
    Forge,
    /// A vanilla client has been moved to another backend.
    VanillaMoved,
    /// A Forge client has been moved to another Forge server, with a reset.
    ForgeMoved,
}

/// A session in play between two ends in memory.
#[derive(Debug)]
pub struct Session {
    state: State,
    player: Link<Feed, Drain>,
    backend: Link<Feed, Drain>,
}

/// Gives the bytes that it was fed with.
#[derive(Debug, Default)]
struct Feed(Vec<u8>);

/// Takes any bytes.
#[derive(Debug, Default)]
struct Drain(u64);

impl Source for Feed {
    fn may_have_more(&self) -> bool {
        !self.0.is_empty()
    }

    fn poll_more(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.may_have_more() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_read(&mut self, _: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.0.is_empty() {
            return Poll::Pending;
        }
        let read = self.0.len();
        space[..read].copy_from_slice(&self.0);
        self.0.clear();
        Poll::Ready(Ok(read))
    }
}

impl Target for Drain {
    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0 += bytes.len() as u64;
        Poll::Ready(Ok(bytes.len()))
    }
}

impl Session {
    /// A session with this past, and with all on that the node looks for in players' lines and on backends' plugin channel.
    pub fn new(past: Past) -> Session {
        Session::with(past, &Commands::default(), true)
    }

    /// The same with all of that off.
    pub fn without_commands(past: Past) -> Session {
        Session::with(past, &Commands { table: Arc::new(Table::EMPTY), ..Commands::default() }, false)
    }

    fn with(past: Past, commands: &Commands, plugins: bool) -> Session {
        let version = Version::newest();
        let link = || Link::over(Feed::default(), Outlet::plain(Drain::default()));
        let mut session = Session { state: State::new(version, false, 1024, commands), player: link(), backend: link() };
        session.state.plugin_channel.begin(plugins);
        let forge = matches!(past, Past::Forge | Past::ForgeMoved);
        if forge {
            session.shake_hands();
        }
        session.backend_says(|out| world(1).put(out, version));
        session.settle();
        if matches!(past, Past::VanillaMoved | Past::ForgeMoved) {
            session.be_moved(forge);
            session.settle();
        }
        session
    }

    /// One turn: these bytes from the backend to the player, and those from the player to the backend. Gives how many have
    /// been passed on in all.
    pub fn turn(&mut self, clientbound: &[u8], serverbound: &[u8]) -> u64 {
        let cx = &mut Context::from_waker(Waker::noop());
        let Session { state, player, backend } = self;
        backend.source().0.extend_from_slice(clientbound);
        player.source().0.extend_from_slice(serverbound);
        let rules = state.clientbound_rules();
        let _ = pump(cx, backend, &mut Sink::Link(player), rules, &mut 0, |frame| state.see_clientbound(frame));
        let rules = state.serverbound_rules();
        let _ = pump(cx, player, &mut Sink::Link(backend), rules, &mut 0, |frame| state.see_serverbound(frame));
        let written = |link: &Link<Feed, Drain>| link.out.plain_sink().map_or(0, |drain| drain.0);
        written(player) + written(backend)
    }

    fn backend_says(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut frames = Vec::new();
        write(&mut frames);
        self.turn(&frames, &[]);
    }

    fn player_says(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut frames = Vec::new();
        write(&mut frames);
        self.turn(&[], &frames);
    }

    /// The client's settings, with which it has come into its world.
    fn settle(&mut self) {
        let version = self.state.version;
        self.player_says(|out| play::put_client_settings(out, version, b"\x05en_US\x08\x00\x01\x01\x01"));
    }

    /// The handshake with the first Forge server.
    fn shake_hands(&mut self) {
        let version = self.state.version;
        let (mods, ids) = (mods(), ids());
        self.backend_says(|out| {
            Message::ServerHello(ServerHello { protocol: 2, dimension: 0 }).put_clientbound(out, version);
        });
        self.player_says(|out| {
            play::put_plugin_message_serverbound(out, version, REGISTER, b"FML|HS\0FML\0FORGE");
            Message::ClientHello { protocol: 2 }.put_serverbound(out, version);
            Message::ModList(mods.fields()).put_serverbound(out, version);
        });
        self.backend_says(|out| {
            Message::ModList(mods.fields()).put_clientbound(out, version);
            Message::ModIdData(&ids).put_clientbound(out, version);
            for phase in [2, 3] {
                Message::Ack { phase }.put_clientbound(out, version);
            }
        });
        self.player_says(|out| {
            for phase in [2, 3, 4, 5] {
                Message::Ack { phase }.put_serverbound(out, version);
            }
        });
    }

    /// A cutover to another server, as `cut_over` does it.
    fn be_moved(&mut self, forge: bool) {
        let state = &mut self.state;
        let (version, join) = (state.version, world(2));
        let mut held = Vec::new();
        let mut lead = Lead::Vanilla;
        if forge && let Some(facts) = ClientFacts::of(version, &state.forge, &Channels::default(), true) {
            let mut candidate = Candidate::new(facts);
            let mut hello = Vec::new();
            Message::ServerHello(ServerHello { protocol: 2, dimension: 0 }).write(&mut hello);
            let _ = candidate.see(&hello, &mut Vec::new());
            play::put_plugin_message_clientbound(&mut held, version, HANDSHAKE, &hello);
            Message::ModList(mods().fields()).put_clientbound(&mut held, version);
            Message::ModIdData(&ids()).put_clientbound(&mut held, version);
            for phase in [2, 3] {
                Message::Ack { phase }.put_clientbound(&mut held, version);
            }
            lead = Lead::plan(&state.forge, &candidate, &join, false).unwrap_or(Lead::Vanilla);
        }
        let plugins = state.plugin_channel.is_on();
        state.change_backend(&mut Vec::new());
        state.plugin_channel.begin(plugins);
        let mut out = Vec::new();
        put_cutover(&mut out, state, lead, held, Some((&join, join.dimension)));
        state.fenced = true;
        if forge {
            self.player_says(|out| {
                Message::ClientHello { protocol: 2 }.put_serverbound(out, version);
                Message::ModList(mods().fields()).put_serverbound(out, version);
                for phase in [2, 3, 4, 5] {
                    Message::Ack { phase }.put_serverbound(out, version);
                }
            });
        }
    }

    /// Whether it is as its past says: in a world, with the fence down, and a Forge client at the end of its handshake.
    pub fn is_in_play(&self) -> bool {
        let State { in_world, fenced, forge, .. } = &self.state;
        *in_world && !fenced && !forge.watches_clientbound() && forge.may_reset().is_ok()
    }

    /// How many keep-alives the player has not answered.
    pub fn unanswered(&self) -> usize {
        self.state.ledger.outstanding()
    }
}

fn world(entity_id: i32) -> JoinGame {
    JoinGame { entity_id, gamemode: 0, dimension: 0, difficulty: 1, max_players: 20, level_type: "default".into() }
}

fn mods() -> ModList {
    ModList::of([("FML", "7.10.99.99"), ("Forge", "10.13.4.1614")])
}

fn ids() -> Vec<u8> {
    let mut ids = Vec::new();
    ModIds { mappings: vec![("\u{1}minecraft:stone", 1)], ..ModIds::default() }.write(&mut ids);
    ids
}
