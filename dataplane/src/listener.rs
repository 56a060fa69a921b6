//! Where players come in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::future::join_all;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::error::{Kind, SessionError};
use crate::node::Node;
use crate::report::Reports;
use crate::session;
use crate::worker::Workers;

/// Connections that the kernel keeps until they are accepted: room for a burst of reconnects.
const BACKLOG: i32 = 4096;

/// After a failed accept (no descriptors left): time for sessions to end.
const BREATHER: Duration = Duration::from_millis(50);

/// Opens every listening socket, and notes in `config` which addresses they really have.
///
/// # Errors
/// If one cannot be opened, or would let strangers in under any name without permission.
pub(crate) fn bind_all(config: &mut Config) -> anyhow::Result<Vec<TcpListener>> {
    let mut sockets = Vec::new();
    for listener in std::iter::once(&mut config.listener).chain(&mut config.more_listeners) {
        listener.check().context("authentication")?;
        anyhow::ensure!(listener.authentication == crate::config::Authentication::Offline, "online mode is not there yet");
        let socket = bind(listener.listen).with_context(|| {
            format!("cannot listen on {}: is another server running there? Choose another address (listen)", listener.listen)
        })?;
        listener.listen = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// What the listeners of a node share.
struct Entrance {
    node: Arc<Node>,
    workers: Arc<Workers>,
    sessions: TaskTracker,
    /// For connections that have not logged in.
    places: Arc<Semaphore>,
    reports: Arc<Reports>,
}

/// Accepts on all sockets until the node shuts down, each connection as a task in `sessions`.
pub(crate) async fn accept_all(node: Arc<Node>, sockets: Vec<TcpListener>, workers: Arc<Workers>, sessions: TaskTracker) {
    let places = Arc::new(Semaphore::new(node.config.limits.connections_before_login.min(Semaphore::MAX_PERMITS)));
    let entrance = Entrance { node, workers, sessions, places, reports: Arc::default() };
    join_all(sockets.into_iter().map(|socket| entrance.accept(socket))).await;
}

impl Entrance {
    async fn accept(&self, socket: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = self.node.shutdown.cancelled() => return,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, address),
                Err(error) => {
                    self.reports.tell(&format_args!("cannot accept connections: {error}"));
                    tokio::time::sleep(BREATHER).await;
                }
            }
        }
    }

    /// Hands a connection to a worker, if there is a place for it.
    fn admit(&self, stream: TcpStream, address: SocketAddr) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.reports.tell(&format_args!(
                "{address}: closed at once, too many connections have not logged in (limits.connections_before_login)"
            ));
            return;
        };
        // A socket belongs to the runtime it was made on; the session's worker takes it over.
        let Ok(stream) = stream.into_std() else { return };
        let (node, reports) = (self.node.clone(), self.reports.clone());
        self.workers.spawn(self.sessions.track_future(async move {
            let Ok(stream) = TcpStream::from_std(stream).and_then(|stream| stream.set_nodelay(true).map(|()| stream)) else { return };
            if let Err(error) = session::serve(node.clone(), stream, address, place).await {
                node.tally.failed(&error);
                report(&reports, address, &error);
            }
        }));
    }
}

fn report(reports: &Reports, address: SocketAddr, error: &SessionError) {
    if error.kind == Kind::Closed {
        tracing::debug!(%address, phase = error.phase.as_str(), side = error.side.as_str(), "hung up: {}", error.detail);
        return;
    }
    let (phase, side, kind) = (error.phase.as_str(), error.side.as_str(), error.kind.as_str());
    reports.tell(&format_args!("{address}: {} (phase={phase} side={side} kind={kind})", error.detail));
}
