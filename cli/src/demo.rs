//! The built-in limbo backends of `up --demo`: offline-mode servers of protocols 4 and 5 that hold a real client in a small
//! world of one chunk, so that MoonBridge can be tried without a Minecraft server.

mod connection;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections that a limbo holds at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4_096;

/// How long the connections may take to end once asked to.
const GRACE: Duration = Duration::from_secs(2);

/// A limbo backend that listens on a loopback port of its own.
#[derive(Debug)]
pub struct Limbo {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What a limbo's connections share.
#[derive(Debug)]
struct Shared {
    name: String,
    next_entity: AtomicI32,
    online: AtomicU32,
}

impl Limbo {
    /// Listens on a free loopback port. `name` is what players are told the limbo is called.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn bind(name: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Shared { name: name.to_owned(), next_entity: AtomicI32::new(1), online: AtomicU32::new(0) };
        Ok(Limbo { listener, address, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The limbo's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Serves until `shutdown`, then disconnects the players with a reason and returns.
    pub async fn run(self, shutdown: CancellationToken) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listener, &places) => accepted,
            };
            match accepted {
                Ok((stream, place)) => {
                    let serve = connection::serve(stream, self.shared.clone(), shutdown.clone());
                    connections.spawn(async move {
                        serve.await;
                        drop(place);
                    });
                }
                // Out of file descriptors, most likely: others may end meanwhile.
                Err(error) => {
                    tracing::warn!(limbo = self.shared.name, %error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        connections.close();
        if tokio::time::timeout(GRACE, connections.wait()).await.is_err() {
            tracing::warn!(limbo = self.shared.name, left = connections.len(), "connections did not end in time");
        }
    }
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

impl Shared {
    fn entity(&self) -> i32 {
        // Wraps after two thousand million joins; an entity id only has to be unlike those of the players online.
        self.next_entity.fetch_add(1, Ordering::Relaxed)
    }
}

/// A player counted as online; no longer when dropped.
struct Online<'a>(&'a AtomicU32);

impl<'a> Online<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Online(count)
    }
}

impl Drop for Online<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
