//! A MoonBridge control-plane replica: the store, the nodes' streams, the admin API.
//!
//! Replicas are equal and keep nothing that matters outside the [`store`]. Each follows the store ([`follow`]) into three views:
//! the resources' newest snapshot ([`snapshots`]), who is online where ([`presence`]) and the commands ([`commands`]). Views are
//! for reading, waking and counting; whatever is decided is decided by a transaction that compares. Nodes attach to any replica
//! ([`nodes`]), admins call any ([`admin`]); where things lie in the store is written in [`keys`].

#![allow(rustdoc::private_intra_doc_links)]

mod admin;
mod attempts;
mod audit;
mod auth;
mod commands;
pub mod config;
mod deliveries;
mod follow;
mod keys;
mod nodes;
mod permissions;
mod presence;
mod replica;
mod resources;
mod serve;
mod snapshots;
mod status;
pub mod store;
mod tokens;

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
/// A store in etcd that is away is waited for; `ready` is sent when the replica serves and knows what the store has.
///
/// # Errors
/// When it cannot begin: the address is taken, the store's folder is in use, a TLS, token or icon file cannot be used.
pub async fn run(config: Config, shutdown: CancellationToken, ready: oneshot::Sender<Ready>) -> anyhow::Result<()> {
    serve::run(config, shutdown, ready).await
}
