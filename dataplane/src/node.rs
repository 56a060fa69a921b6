//! What all parts of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use moonbridge_proto::snapshot::Snapshot;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::backend::BUDGET_UNIT;
use crate::config::Config;
use crate::metrics::Tally;
use crate::mod_info::ModInfos;
use crate::network::Network;
use crate::permissions::Rules;
use crate::recording::Places;
use crate::registry::Registry;

/// A node: what its listeners, sessions and control client share. Readers never lock.
pub struct Node {
    /// Made anew at every start.
    pub id: uuid::Uuid,
    /// How it was set up; its listeners have the addresses that they really listen on.
    pub config: Config,
    /// What it runs on; `None` until the control plane has sent the first snapshot.
    pub snapshot: ArcSwapOption<Snapshot>,
    /// How many snapshots there have been: whoever keeps something of one sees by it when to look again.
    pub(crate) snapshots: AtomicU64,
    /// What its players' permissions are resolved by: a part of the snapshot.
    pub(crate) rules: ArcSwapOption<Rules>,
    /// Cancelled once there is a snapshot.
    pub in_force: CancellationToken,
    /// Its live sessions.
    pub registry: Arc<Registry>,
    /// What its sessions ask of the whole network.
    pub(crate) network: Network,
    /// Players on the other nodes, as the control plane last said.
    pub players_elsewhere: AtomicU32,
    /// Takes no new sessions.
    pub drained: AtomicBool,
    /// The process is to end: stop listening, end the sessions with a reason, then return.
    pub shutdown: CancellationToken,
    /// What candidates may hold of the node's memory, in units of [`BUDGET_UNIT`].
    pub(crate) transfer_budget: Arc<Semaphore>,
    /// What Forge backends say of their mods.
    pub(crate) mod_infos: ModInfos,
    /// Room for recordings of its sessions.
    pub(crate) recordings: Places,
    /// What became of its connections.
    pub(crate) tally: Arc<Tally>,
}

impl Node {
    /// A node of this configuration, without a snapshot yet.
    pub fn new(config: Config, shutdown: CancellationToken) -> Node {
        // At least what one transfer may hold: else a large one could never end.
        let budget = config.limits.node_buffers.max(config.limits.transfer_buffer).div_ceil(BUDGET_UNIT);
        let id = uuid::Uuid::now_v7();
        let registry = Registry::of(id, &config.name);
        Node {
            id,
            transfer_budget: Arc::new(Semaphore::new(budget.min(Semaphore::MAX_PERMITS))),
            config,
            snapshot: ArcSwapOption::empty(),
            snapshots: AtomicU64::new(0),
            rules: ArcSwapOption::empty(),
            in_force: CancellationToken::new(),
            registry: Arc::new(registry),
            network: Network::default(),
            players_elsewhere: AtomicU32::new(0),
            drained: AtomicBool::new(false),
            shutdown,
            mod_infos: ModInfos::default(),
            recordings: Places::default(),
            tally: Arc::default(),
        }
    }

    /// Puts a snapshot in force for everything that begins from here on.
    pub fn put_in_force(&self, mut snapshot: Snapshot) {
        self.rules.store(Some(Rules::follow(self.rules.load_full(), &mut snapshot)));
        self.snapshot.store(Some(Arc::new(snapshot)));
        self.snapshots.fetch_add(1, Ordering::Release);
        self.in_force.cancel();
    }

    /// Players to show in the server list: this node's at this moment, and the other nodes' as far as they are known.
    pub(crate) fn players(&self) -> u32 {
        let own = u32::try_from(self.registry.len()).unwrap_or(u32::MAX);
        if self.registry.is_attached() { own.saturating_add(self.players_elsewhere.load(Ordering::Relaxed)) } else { own }
    }
}
