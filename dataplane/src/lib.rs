//! A MoonBridge node: logs players in, relays their frames, moves them between backends.
//!
//! [`run`] is the whole of it. Players come in through `listener`, live on a `worker` as a `session`, and are found by the
//! control plane's commands (`control`) through the [`registry`]. What all share is a [`node::Node`].

mod authenticate;
mod backend;
mod cipher;
pub mod claims;
pub mod commands;
pub mod config;
mod conn;
pub mod control;
pub mod error;
mod listener;
mod metrics;
mod mod_info;
mod network;
pub mod node;
pub mod permissions;
pub mod recording;
pub mod registry;
mod relay;
mod report;
mod runtime;
mod session;
mod timer;
mod trace;
mod worker;

#[doc(hidden)]
pub use self::relay::measure as relay_alone;
#[doc(hidden)]
pub use self::session::measure;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::node::Node;
use crate::timer::timeout;
use crate::worker::Workers;

/// A node that serves.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// Where players connect; of several listeners the first.
    pub listen: SocketAddr,
}

/// Runs a node until `shutdown` is cancelled and its sessions have ended (or `timeouts.drain` has passed). Says `ready` once
/// it listens and holds its first snapshot.
///
/// # Errors
/// If an address cannot be listened on, or would let strangers in under any name unasked, or threads cannot be started.
pub async fn run(mut config: Config, shutdown: CancellationToken, ready: oneshot::Sender<Ready>) -> anyhow::Result<()> {
    let doors = listener::open_all(&mut config).await?;
    let listen = config.listener.listen;
    let workers = Arc::new(Workers::start(&config).context("cannot start the workers")?);
    let drain = config.timeouts.drain;
    let node = Arc::new(Node::new(config, shutdown.clone()));
    metrics::export(&node, workers.cipher().cloned().collect());
    let sessions = TaskTracker::new();
    let control = tokio::spawn(control::run(node.clone()));
    let accept = tokio::spawn(listener::accept_all(node.clone(), doors, workers.clone(), sessions.clone()));
    tokio::select! {
        () = node.in_force.cancelled() => {
            tracing::info!(%listen, node = node.config.name, id = %node.id, "serving players");
            let _ = ready.send(Ready { listen });
            shutdown.cancelled().await;
        }
        () = shutdown.cancelled() => {}
    }
    accept.await?;
    node.registry.close();
    sessions.close();
    if timeout(drain, sessions.wait()).await.is_err() {
        tracing::warn!(left = sessions.len(), "sessions did not end in time and are cut off");
    }
    node.recordings.empty().await;
    control.await?;
    Ok(())
}
