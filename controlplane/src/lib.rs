//! A MoonBridge control-plane replica: the store, the nodes' streams, the admin API.

pub mod config;
pub mod store;

pub use config::Config;

use std::net::SocketAddr;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What a replica tells once it serves.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// Where it listens; the port is the real one when the configuration said 0.
    pub listen: SocketAddr,
}

/// Runs a replica until `shutdown` is cancelled or something makes going on impossible.
///
/// # Errors
/// When it cannot begin: the address is taken, the store's folder is in use, a TLS or token file cannot be read.
pub async fn run(config: Config, shutdown: CancellationToken, ready: oneshot::Sender<Ready>) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(config.listen).await?;
    let _ = ready.send(Ready { listen: listener.local_addr()? });
    shutdown.cancelled().await;
    Ok(())
}
