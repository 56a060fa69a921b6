//! What can go wrong with a session: in which phase, on whose side, of which kind. All three are bounded sets, fit for labels.

use std::fmt;
use std::io;

use moonbridge_protocol::frame::FrameError;
use moonbridge_protocol::wire::WireError;

/// Where in a session's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Until the handshake packet is read.
    Handshake,
    /// Server-list pings.
    Status,
    /// Until the player's name is known.
    Login,
    /// Until it is known, in online mode, whose name that is.
    Authenticate,
    /// Until a backend has taken the player.
    Connect,
    /// In the game.
    Play,
}

/// Whose fault, or who went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The player's connection.
    Player,
    /// A backend's connection.
    Backend,
    /// The node or its control plane.
    Control,
    /// The session server.
    SessionServer,
}

/// What kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The peer hung up: no error.
    Closed,
    /// The network failed.
    Network,
    /// It did not come in time.
    TimedOut,
    /// Frames or fields that cannot be read.
    Malformed,
    /// A frame longer than the phase allows.
    TooLong,
    /// The peer's version is not supported.
    Version,
    /// Refused by a rule: name, account, route, drain.
    Refused,
    /// It says that it cannot serve now.
    Unavailable,
}

/// A session's end by trouble.
#[derive(Debug, Clone)]
pub struct SessionError {
    /// Where.
    pub phase: Phase,
    /// Whose.
    pub side: Side,
    /// What.
    pub kind: Kind,
    /// For people.
    pub detail: String,
}

impl SessionError {
    pub(crate) fn new(phase: Phase, side: Side, kind: Kind, detail: impl fmt::Display) -> SessionError {
        SessionError { phase, side, kind, detail: detail.to_string() }
    }

    /// Trouble of the player's own.
    pub(crate) fn player(phase: Phase, trouble: Trouble) -> SessionError {
        SessionError::new(phase, Side::Player, trouble.kind(), trouble)
    }
}

impl Phase {
    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Handshake => "handshake",
            Phase::Status => "status",
            Phase::Login => "login",
            Phase::Authenticate => "authenticate",
            Phase::Connect => "connect",
            Phase::Play => "play",
        }
    }
}

impl Side {
    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Side::Player => "player",
            Side::Backend => "backend",
            Side::Control => "control",
            Side::SessionServer => "session_server",
        }
    }
}

impl Kind {
    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Closed => "closed",
            Kind::Network => "network",
            Kind::TimedOut => "timed_out",
            Kind::Malformed => "malformed",
            Kind::TooLong => "too_long",
            Kind::Version => "version",
            Kind::Refused => "refused",
            Kind::Unavailable => "unavailable",
        }
    }
}

/// Trouble with one connection before play.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Network(#[from] io::Error),
    #[error("nothing complete came within {0:.1?}")]
    TimedOut(std::time::Duration),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{packet}: {error}")]
    Field { packet: &'static str, error: WireError },
    #[error("packet {id:#04x} where {expected} was expected")]
    Unexpected { id: i32, expected: &'static str },
}

impl Trouble {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Trouble::Closed => Kind::Closed,
            Trouble::Network(error) if hung_up(error) => Kind::Closed,
            Trouble::Network(_) => Kind::Network,
            Trouble::TimedOut(_) => Kind::TimedOut,
            Trouble::Frame(FrameError::TooLong { .. }) => Kind::TooLong,
            Trouble::Frame(_) | Trouble::Field { .. } | Trouble::Unexpected { .. } => Kind::Malformed,
        }
    }
}

/// Whether an I/O error only says that the peer has gone.
pub(crate) fn hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof)
}
