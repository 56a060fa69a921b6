//! Where players come in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::error::{Kind, SessionError};
use crate::node::Node;
use crate::report::Reports;
use crate::session;
use crate::worker::Workers;

/// Connections that the kernel keeps until they are accepted: room for a burst of reconnects.
const BACKLOG: i32 = 4096;

/// After a failed accept (no descriptors left): time for sessions to end.
const BREATHER: Duration = Duration::from_millis(50);

/// Opens the listening socket.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts until the node shuts down, each connection as a task in `sessions`.
pub(crate) async fn accept(node: Arc<Node>, listener: TcpListener, workers: Arc<Workers>, sessions: TaskTracker) {
    let places = Arc::new(Semaphore::new(node.config.limits.connections_before_login.min(Semaphore::MAX_PERMITS)));
    let reports = Arc::new(Reports::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = node.shutdown.cancelled() => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                reports.tell(&format_args!("cannot accept connections: {error}"));
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            reports.tell(&format_args!(
                "{address}: closed at once, too many connections have not logged in (limits.connections_before_login)"
            ));
            continue;
        };
        // A socket belongs to the runtime it was made on; the session's worker takes it over.
        let Ok(stream) = stream.into_std() else { continue };
        let (node, reports) = (node.clone(), reports.clone());
        workers.spawn(sessions.track_future(async move {
            let Ok(stream) = TcpStream::from_std(stream).and_then(|stream| stream.set_nodelay(true).map(|()| stream)) else { return };
            if let Err(error) = session::serve(node, stream, address, place).await {
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
