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

use crate::authenticate::Authenticator;
use crate::config::{Authentication, Config};
use crate::error::{Kind, SessionError};
use crate::node::Node;
use crate::report::Reports;
use crate::session::{self, Arrival};
use crate::worker::Workers;

/// Connections that the kernel keeps until they are accepted: room for a burst of reconnects.
const BACKLOG: i32 = 4096;

/// After a failed accept (no descriptors left): time for sessions to end.
const BREATHER: Duration = Duration::from_millis(50);

/// Somewhere that players connect to.
pub(crate) struct Door {
    socket: TcpListener,
    /// Who finds out who they are; nobody in offline mode.
    authenticator: Option<Arc<Authenticator>>,
}

/// Opens every listening socket, and notes in `config` which addresses they really have.
///
/// # Errors
/// If one cannot be opened, or would let strangers in under any name without permission; or if there is no key for online mode.
pub(crate) async fn open_all(config: &mut Config) -> anyhow::Result<Vec<Door>> {
    let Config { listener, more_listeners, session_server, .. } = config;
    let mut doors = Vec::new();
    let mut shared = None;
    for listener in std::iter::once(listener).chain(more_listeners) {
        listener.check().context("authentication")?;
        let socket = bind(listener.listen).with_context(|| {
            format!("cannot listen on {}: is another server running there? Choose another address (listen)", listener.listen)
        })?;
        listener.listen = socket.local_addr()?;
        if listener.authentication == Authentication::Online && shared.is_none() {
            shared = Some(Arc::new(Authenticator::start(session_server).await.context("cannot authenticate players")?));
        }
        let authenticator = match listener.authentication {
            Authentication::Offline => None,
            Authentication::Online => shared.clone(),
        };
        tracing::info!(listen = %listener.listen, online = authenticator.is_some(), "listening");
        doors.push(Door { socket, authenticator });
    }
    Ok(doors)
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

/// Accepts at all doors until the node shuts down, each connection as a task in `sessions`.
pub(crate) async fn accept_all(node: Arc<Node>, doors: Vec<Door>, workers: Arc<Workers>, sessions: TaskTracker) {
    let places = Arc::new(Semaphore::new(node.config.limits.connections_before_login.min(Semaphore::MAX_PERMITS)));
    let entrance = Entrance { node, workers, sessions, places, reports: Arc::default() };
    join_all(doors.into_iter().map(|door| entrance.accept(door))).await;
}

impl Entrance {
    async fn accept(&self, door: Door) {
        loop {
            let accepted = tokio::select! {
                accepted = door.socket.accept() => accepted,
                () = self.node.shutdown.cancelled() => return,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, address, door.authenticator.clone()),
                Err(error) => {
                    self.reports.tell(&format_args!("cannot accept connections: {error}"));
                    crate::timer::sleep(BREATHER).await;
                }
            }
        }
    }

    /// Hands a connection to a worker, if there is a place for it.
    fn admit(&self, stream: TcpStream, address: SocketAddr, authenticator: Option<Arc<Authenticator>>) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.reports.tell(&format_args!(
                "{address}: closed at once, too many connections have not logged in (limits.connections_before_login)"
            ));
            return;
        };
        // A socket belongs to the runtime it was made on; the session's worker takes it over.
        let Ok(stream) = stream.into_std() else { return };
        let (node, reports) = (self.node.clone(), self.reports.clone());
        self.workers.spawn(|load| {
            self.sessions.track_future(async move {
                let _load = load;
                let Ok(stream) = TcpStream::from_std(stream).and_then(|stream| stream.set_nodelay(true).map(|()| stream)) else { return };
                let arrival = Arrival { stream, address, place, authenticator };
                if let Err(error) = session::serve(node.clone(), arrival).await {
                    node.tally.failed(&error);
                    report(&reports, address, &error);
                }
            })
        });
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
