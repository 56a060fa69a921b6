//! What all parts of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use arc_swap::ArcSwapOption;
use moonbridge_proto::snapshot::Snapshot;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::registry::Registry;

/// A node: what its listeners, sessions and control client share. Readers never lock.
pub struct Node {
    /// Made anew at every start.
    pub id: uuid::Uuid,
    /// How it was set up.
    pub config: Config,
    /// What it runs on; `None` until the control plane has sent the first snapshot.
    pub snapshot: ArcSwapOption<Snapshot>,
    /// Its live sessions.
    pub registry: Arc<Registry>,
    /// Players on the whole network as the control plane last said; the node's own count is at least shown.
    pub network_players: AtomicU32,
    /// Takes no new sessions.
    pub drained: AtomicBool,
    /// The process is to end: stop listening, end the sessions with a reason, then return.
    pub shutdown: CancellationToken,
}
