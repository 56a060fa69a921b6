//! The first bytes: a handshake, or a ping of a client older than 1.7.

use std::time::Duration;

use moonbridge_protocol::handshake::{self, Next};
use moonbridge_protocol::legacy_ping::{self, Detected, LegacyPing};
use tokio::time::Instant;

use super::STRANGER_FRAME;
use crate::config::Timeouts;
use crate::conn::Conn;
use crate::error::{Phase, SessionError, Trouble};
use crate::timer::timeout_at;

/// A legacy ping has no length: after its first bytes, this long a silence ends it.
const LEGACY_SILENCE: Duration = Duration::from_millis(500);

/// What a stranger wants.
pub(super) enum Greeting {
    LegacyPing(LegacyPing),
    Hello(Hello),
}

/// A handshake, owned.
#[derive(Debug, Clone)]
pub(super) struct Hello {
    pub(super) protocol: i32,
    /// As it came, with whatever follows a NUL.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) next: Next,
}

/// Reads the greeting.
pub(super) async fn greet(conn: &mut Conn, timeouts: &Timeouts) -> Result<Greeting, SessionError> {
    let trouble = |trouble| SessionError::player(Phase::Handshake, trouble);
    let deadline = Instant::now() + timeouts.handshake;
    if let Some(ping) = legacy(conn, deadline, timeouts.handshake).await.map_err(trouble)? {
        return Ok(Greeting::LegacyPing(ping));
    }
    let frame = conn.frame(STRANGER_FRAME, deadline).await.map_err(trouble)?;
    if frame.id != handshake::ID {
        return Err(trouble(Trouble::Unexpected { id: frame.id, expected: "a handshake" }));
    }
    let read = handshake::read(&frame.payload).map_err(|error| trouble(Trouble::Field { packet: "handshake", error }))?;
    Ok(Greeting::Hello(Hello { protocol: read.protocol, host: read.host.to_owned(), port: read.port, next: read.next }))
}

async fn legacy(conn: &mut Conn, deadline: Instant, patience: Duration) -> Result<Option<LegacyPing>, Trouble> {
    loop {
        match legacy_ping::detect(conn.inbox()) {
            Detected::No => return Ok(None),
            Detected::Ping(ping) => return Ok(Some(ping)),
            Detected::Need => {}
        }
        let silence = if conn.inbox().is_empty() { deadline } else { deadline.min(Instant::now() + LEGACY_SILENCE) };
        let room = legacy_ping::MAX_PING.max(STRANGER_FRAME);
        match timeout_at(silence, conn.fill(room)).await {
            Ok(Ok(1..)) if conn.inbox().len() <= room => {}
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(0)) if conn.inbox().is_empty() => return Err(Trouble::Closed),
            Err(_) if conn.inbox().is_empty() => return Err(Trouble::TimedOut(patience)),
            // Silent, closed, or long enough: what it is must show now.
            _ => {
                return Ok(match legacy_ping::detect_silent(conn.inbox()) {
                    Detected::Ping(ping) => Some(ping),
                    _ => None,
                });
            }
        }
    }
}
