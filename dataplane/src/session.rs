//! The life of a session, top down:
//!
//! ```text
//! accept → handshake → status
//!                    → login (→ authenticate) → admit → claim → connect → play ⇄ transfer → end
//! ```
//!
//! One async function a phase; each takes the connection and the facts so far and gives more facts.

mod authenticate;
mod claim;
mod connect;
mod handshake;
mod login;
mod play;
mod status;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use self::play::measure;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use moonbridge_protocol::handshake::Next;
use moonbridge_protocol::login as packets;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use uuid::Uuid;

use self::handshake::{Greeting, Hello};
use self::play::{Play, Start};
use crate::authenticate::Authenticator;
use crate::conn::Conn;
use crate::error::{Kind, Phase, SessionError, Side};
use crate::node::Node;
use crate::registry::Playing;
use crate::trace::{LoginTimes, SessionContext};

/// What a stranger may send in one frame before it is known: a handshake has at most 776 bytes, a login 17.
const STRANGER_FRAME: usize = 1024;

/// A connection that was accepted.
pub(crate) struct Arrival {
    pub(crate) stream: TcpStream,
    pub(crate) address: SocketAddr,
    /// Its place among those that have not logged in.
    pub(crate) place: OwnedSemaphorePermit,
    /// Who finds out who the player is; nobody in offline mode.
    pub(crate) authenticator: Option<Arc<Authenticator>>,
}

/// Serves one connection to its end.
///
/// The two halves are boxed one after the other, so that a session in play does not keep the room that its login took; the first
/// before there is a future, which would keep room for what it is given.
pub(crate) fn serve(node: Arc<Node>, arrival: Arrival) -> impl Future<Output = Result<(), SessionError>> {
    let before_play = Box::pin(before_play(node, arrival));
    async move {
        match before_play.await? {
            Some(play) => Box::pin(play.run()).await.error.map_or(Ok(()), Err),
            None => Ok(()),
        }
    }
}

/// Everything up to play; nothing comes of a ping.
async fn before_play(node: Arc<Node>, arrival: Arrival) -> Result<Option<Box<Play>>, SessionError> {
    let accepted = SystemTime::now();
    let Arrival { stream, address, place, authenticator } = arrival;
    let mut conn = Conn::new(stream);
    let greeting = match until_shutdown(&node, handshake::greet(&mut conn, &node.config.timeouts)).await {
        Ok(greeting) => greeting,
        Err(error) => {
            conn.finish(&[], login::PATIENCE).await;
            return Err(error);
        }
    };
    let hello = match greeting {
        Greeting::LegacyPing(ping) => return status::answer_legacy(conn, &node, &ping).await.map(|()| None),
        Greeting::Hello(hello) => hello,
    };
    match hello.next {
        Next::Status => until_shutdown(&node, status::serve(conn, &node, &hello)).await.map(|()| None),
        Next::Login => log_in(node, conn, hello, Stranger { address, place, authenticator, accepted }).await.map(Some),
    }
}

/// Strangers do not hold up a node that shuts down.
async fn until_shutdown<T>(node: &Node, work: impl Future<Output = Result<T, SessionError>>) -> Result<T, SessionError> {
    tokio::select! {
        done = work => done,
        () = node.shutdown.cancelled() => Err(SessionError::new(Phase::Handshake, Side::Control, Kind::Closed, "the node shuts down")),
    }
}

/// What is known of whoever logs in before the login.
struct Stranger {
    address: SocketAddr,
    place: OwnedSemaphorePermit,
    authenticator: Option<Arc<Authenticator>>,
    accepted: SystemTime,
}

async fn log_in(node: Arc<Node>, mut conn: Conn, hello: Hello, stranger: Stranger) -> Result<Box<Play>, SessionError> {
    let Stranger { address, place, authenticator, accepted } = stranger;
    let greeted = SystemTime::now();
    let deadline = Instant::now() + node.config.timeouts.login;
    let id = Uuid::now_v7();
    let taken = async {
        let facts = login::identify(&mut conn, hello, address, authenticator.as_deref(), deadline).await?;
        let authenticated = SystemTime::now();
        let snapshot = login::admit(&node)?;
        let mut registration = claim::claim(&node, &mut conn, id, &facts, &snapshot, deadline).await?;
        let admitted = SystemTime::now();
        let entered = connect::first_backend(&mut conn, &node, &snapshot, &facts, &mut registration, deadline).await?;
        Ok((facts, authenticated, admitted, registration, entered))
    };
    let taken = tokio::select! {
        taken = taken => taken,
        () = node.shutdown.cancelled() => {
            let text = "The proxy is restarting. Please join again.";
            Err(login::Turned::new(Phase::Login, Side::Control, Kind::Closed, text))
        }
    };
    let (facts, authenticated, admitted, mut registration, (backend, entered)) = match taken {
        Ok(taken) => taken,
        Err(login::Turned { text, error }) => {
            let mut last = Vec::new();
            if let Some(text) = text {
                packets::put_disconnect(&mut last, &text);
            }
            conn.finish(&last, login::PATIENCE).await;
            return Err(error);
        }
    };
    drop(place);
    let playing = SystemTime::now();
    let context = SessionContext::begin(id, &facts, &backend, LoginTimes { accepted, greeted, authenticated, admitted, playing });
    registration.begin(Playing {
        backend: backend.as_str().into(),
        host: moonbridge_proto::routing::normalise_host(&facts.host).into(),
        address,
        protocol: facts.version.protocol.unsigned_abs(),
        trace: context.trace(),
    });
    node.tally.began();
    tracing::info!(session = %id, trace = context.trace_id(), player = facts.name, %address, backend, "session begins");
    let start = Start { node, facts, registration, context, player: conn, backend, connection: entered.conn };
    Ok(Box::new(Play::new(start)))
}
