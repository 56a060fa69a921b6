//! What all parts of a replica share, and the tasks that keep it up to date.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::audit;
use crate::commands::{self, Commands, sweeper};
use crate::deliveries::{self, Deliveries};
use crate::follow::follow;
use crate::keys;
use crate::nodes::Attached;
use crate::permissions::sweep;
use crate::permissions::users::Users;
use crate::presence::{self, Presence};
use crate::snapshots::{Resources, Snapshots};
use crate::store::Store;
use crate::tokens::{self, Tokens};

/// A replica: its store, and its views of it.
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) lease: Duration,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) commands: Arc<Commands>,
    pub(crate) deliveries: Arc<Deliveries>,
    pub(crate) users: Arc<Users>,
    pub(crate) tokens: Arc<Tokens>,
    /// The streams of nodes that this replica has.
    pub(crate) attached: Attached,
    pub(crate) shutdown: CancellationToken,
}

impl Replica {
    pub(crate) fn new(name: String, lease: Duration, store: Arc<dyn Store>, shutdown: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            name,
            lease,
            store,
            snapshots: Snapshots::new(),
            presence: Presence::new(),
            commands: Commands::new(),
            deliveries: Deliveries::new(),
            users: Users::new(),
            tokens: Tokens::new(),
            attached: Attached::default(),
            shutdown,
        })
    }

    /// Starts the tasks that follow the store and end commands; they end at shutdown.
    pub(crate) fn spawn(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let resources = Resources::new(self.snapshots.clone(), self.store.id());
        tasks.spawn(follow(self.store.clone(), keys::RESOURCES, resources, self.shutdown.clone()));
        tasks.spawn(follow(self.store.clone(), keys::PRESENCE, presence::Follower(self.presence.clone()), self.shutdown.clone()));
        tasks.spawn(follow(self.store.clone(), keys::COMMANDS, commands::Follower(self.commands.clone()), self.shutdown.clone()));
        tasks.spawn(follow(self.store.clone(), keys::DELIVERIES, deliveries::Follower(self.deliveries.clone()), self.shutdown.clone()));
        let replica = self.clone();
        tasks.spawn(async move { deliveries::run(&replica.deliveries, &*replica.store, replica.shutdown.clone()).await });
        let replica = self.clone();
        tasks.spawn(async move { replica.users.follow(&*replica.store, replica.shutdown.clone()).await });
        let replica = self.clone();
        tasks.spawn(async move { sweep::run(&*replica.store, replica.shutdown.clone()).await });
        tasks.spawn(follow(self.store.clone(), keys::TOKENS, tokens::Follower(self.tokens.clone()), self.shutdown.clone()));
        tasks.spawn(audit::keep(self.store.clone(), self.shutdown.clone()));
        let replica = self.clone();
        tasks.spawn(async move {
            let (store, shutdown) = (&*replica.store, replica.shutdown.clone());
            sweeper::run(store, &replica.commands, &replica.presence, replica.lease, shutdown).await;
        });
    }

    /// Waits until there is a snapshot, and presence and tokens are known; false at shutdown.
    pub(crate) async fn synced(&self) -> bool {
        let synced = async {
            self.tokens.caught_up(1).await;
            let (mut snapshot, mut presence) = (self.snapshots.subscribe(), self.presence.synced());
            snapshot.wait_for(Option::is_some).await.is_ok() && presence.wait_for(|synced| *synced).await.is_ok()
        };
        self.shutdown.run_until_cancelled(synced).await.unwrap_or(false)
    }
}
