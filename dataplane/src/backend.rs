//! Getting a player into a backend: dial it, log in there, and go on to the point that is asked for.

mod hello;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use moonbridge_proto::snapshot::{Address, Backend};
use moonbridge_protocol::forwarding::Property;
use moonbridge_protocol::login::{self, LoginClientbound};
use moonbridge_protocol::play::JoinGame;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::Version;
use moonbridge_protocol::wire::WireError;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use self::hello::hello;
pub(crate) use self::world::{ClientEnd, Handshake, Held};
use crate::conn::{self, Conn, OwnFrame};
use crate::error::Trouble;
use crate::timer::{timeout, timeout_at};

/// A backend's login packets are small; Login Disconnect may carry a long text (a string of 32,767 characters).
const LOGIN_LIMIT: usize = 128 * 1024;

/// How long a backend may take to close its side after a failed login.
const CLOSE: Duration = Duration::from_secs(2);

/// Who a player is: what a login has found out.
#[derive(Debug, Clone)]
pub(crate) struct Player {
    /// As typed.
    pub(crate) name: String,
    /// Of the account, or in offline mode derived from the name.
    pub(crate) uuid: Uuid,
    /// Of the account's profile (its skin); none in offline mode.
    pub(crate) properties: Arc<[Property]>,
    /// Where the player connects from.
    pub(crate) address: SocketAddr,
    /// The version it speaks.
    pub(crate) version: &'static Version,
    /// The handshake's host as it came, with whatever follows a NUL.
    pub(crate) host: String,
    /// The handshake's port.
    pub(crate) port: u16,
}

/// How far to go.
pub(crate) enum Until {
    /// The backend's Login Success: what follows goes to the player as it comes.
    LoginSuccess,
    /// Its Join Game: whatever comes before is held, and Forge's handshake is had on the way.
    JoinGame(Handshake),
}

/// The limits of one attempt.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// For the TCP connect alone.
    pub(crate) connect: Duration,
    /// For all of it.
    pub(crate) deadline: Instant,
    /// Bytes that may be held before Join Game.
    pub(crate) held: usize,
    /// Where the memory for them is reserved, in units of [`BUDGET_UNIT`].
    pub(crate) budget: Arc<Semaphore>,
}

/// What is reserved at a time of the node's memory for transfers.
pub(crate) const BUDGET_UNIT: usize = 1 << 20;

/// A backend that has taken the player.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) conn: Conn,
    /// What came before Join Game.
    pub(crate) held: Held,
    /// The world and how Forge's handshake went, if that far was asked for.
    pub(crate) world: Option<(JoinGame, Handshake)>,
    pub(crate) times: Times,
}

/// When the steps of an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) began: SystemTime,
    pub(crate) connected: SystemTime,
    pub(crate) entered: SystemTime,
}

/// A backend that has not taken the player.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// One of a bounded set: `dial_failed`, `login_refused`, `login_stalled`, `candidate_closed`, `backend_garbage`,
    /// `backend_online_mode`, `forwarding_too_long`, `no_buffer`, `no_backend`, and Forge's: `forge_refused`,
    /// `forge_mods_differ`, `forge_garbage`, `forge_missing`, `forge_stalled`.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) detail: String,
    /// What the backend itself says to the player.
    pub(crate) text: Option<Text>,
    /// When the connection stood, if it came to that.
    pub(crate) connected: Option<SystemTime>,
    /// The close of a connection that had become a session there: before it has ended, no other backend is tried.
    pub(crate) closing: Option<JoinHandle<()>>,
}

impl Refusal {
    pub(crate) fn new(reason: &'static str, detail: impl Into<String>) -> Refusal {
        Refusal { reason, detail: detail.into(), text: None, connected: None, closing: None }
    }

    fn said(text: Text) -> Refusal {
        Refusal { reason: "login_refused", detail: text.plain(), text: Some(text), connected: None, closing: None }
    }

    fn field(packet: &'static str) -> impl FnOnce(WireError) -> Refusal {
        move |error| Refusal::new("backend_garbage", format!("its {packet} cannot be read: {error}"))
    }
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Refusal {
        let reason = match &trouble {
            Trouble::Closed | Trouble::Network(_) => "candidate_closed",
            Trouble::TimedOut(_) => "login_stalled",
            Trouble::Frame(_) | Trouble::Field { .. } | Trouble::Unexpected { .. } => "backend_garbage",
        };
        Refusal::new(reason, trouble.to_string())
    }
}

/// Dials `backend` and logs the player in there. A connection that fails after its Login Success has become a session of the
/// backend's, and a player must not have two: its close is under way when this returns ([`Refusal::closing`]).
pub(crate) async fn enter(backend: &Backend, player: &Player, until: Until, limits: Limits) -> Result<Entered, Refusal> {
    let began = SystemTime::now();
    let stream = dial(&backend.address, &limits).await?;
    let connected = SystemTime::now();
    let mut conn = Conn::new(stream);
    let mut held = Held::default();
    let refused = |refusal| Refusal { connected: Some(connected), ..refusal };
    log_in(&mut conn, backend, player, &limits).await.map_err(refused)?;
    let world = match until {
        Until::LoginSuccess => None,
        Until::JoinGame(mut handshake) => match world::reach(&mut conn, player.version, &mut handshake, &mut held, &limits).await {
            Ok(join) => Some((join, handshake)),
            Err(refusal) => {
                let closing = tokio::spawn(conn::close(conn.into_stream(), CLOSE));
                return Err(Refusal { closing: Some(closing), ..refused(refusal) });
            }
        },
    };
    Ok(Entered { conn, held, world, times: Times { began, connected, entered: SystemTime::now() } })
}

/// Gives up an entering that is under way: whatever session it came to at the backend is closed, and that awaited for a while.
pub(crate) async fn abandon(entering: impl Future<Output = Result<Entered, Refusal>>) {
    let closed = async {
        match entering.await {
            Ok(entered) => conn::close(entered.conn.into_stream(), CLOSE).await,
            Err(Refusal { closing: Some(closing), .. }) => {
                // It panics in no case.
                let _ = closing.await;
            }
            Err(_) => {}
        }
    };
    let _ = timeout(CLOSE, closed).await;
}

/// Opens a connection to a backend.
pub(crate) async fn dial(address: &Address, limits: &Limits) -> Result<TcpStream, Refusal> {
    let failed = |detail: String| Refusal::new("dial_failed", format!("{address}: {detail}"));
    let deadline = limits.deadline.min(Instant::now() + limits.connect);
    let late = || failed(format!("no answer within {:?}", limits.connect));
    // Resolved anew each time: in a cluster, names move.
    let resolved = timeout_at(deadline, lookup_host((address.host.as_str(), address.port))).await.map_err(|_| late())?;
    let sockets: Vec<_> = resolved.map_err(|error| failed(error.to_string()))?.collect();
    let mut last = failed("the name has no addresses".into());
    for (index, socket) in sockets.iter().enumerate() {
        // Each address gets its part of the time, so that one that does not answer does not cost the others.
        let share = deadline.saturating_duration_since(Instant::now()) / (sockets.len() - index) as u32;
        match timeout(share, TcpStream::connect(socket)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = failed(error.to_string()),
            Err(_) => last = late(),
        }
    }
    Err(last)
}

/// From the handshake to Login Success.
async fn log_in(conn: &mut Conn, backend: &Backend, player: &Player, limits: &Limits) -> Result<(), Refusal> {
    conn.write(&hello(&backend.forwarding, player)?, limits.deadline).await?;
    let OwnFrame { id, payload, .. } = conn.frame(LOGIN_LIMIT, limits.deadline).await?;
    match LoginClientbound::of(id) {
        // What it calls the player is its own affair (nick plugins); from here on it holds a session.
        LoginClientbound::LoginSuccess => Ok(()),
        LoginClientbound::Disconnect => Err(Refusal::said(login::read_disconnect(&payload).map_err(Refusal::field("Disconnect"))?)),
        LoginClientbound::EncryptionRequest => Err(Refusal::new(
            "backend_online_mode",
            "it asks for encryption: set online-mode=false on backends, the node authenticates players",
        )),
        LoginClientbound::SetCompression | LoginClientbound::Unknown(_) => {
            Err(Refusal::new("backend_garbage", format!("it sent packet {id:#04x} where Login Success was expected")))
        }
    }
}
