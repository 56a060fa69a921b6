//! The snapshot of the resources that nodes run on, kept up to date from the store, and the recent ones before it, so that a node
//! that lags a little is sent the difference only.

mod generations;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use moonbridge_proto::snapshot::{Backend, Revision, Route, Settings, Snapshot};
use moonbridge_proto::v1;
use prost::Message;
use tokio::sync::watch;

use crate::follow::View;
use crate::keys;
use crate::permissions::FIRST_GENERATION;
use crate::store::{Batch, Entry, Event, StoreRevision};
use generations::Generations;

/// How many snapshots are kept to make deltas from. They share what they have in common, except for the icon (20 KiB), and are of two
/// generations of permissions at most.
const HISTORY: usize = 64;

/// What brings a node to the newest snapshot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Push {
    Full(v1::Snapshot),
    Delta(v1::SnapshotDelta),
}

/// The newest snapshot and some before it.
pub(crate) struct Snapshots {
    newest: watch::Sender<Option<Arc<Snapshot>>>,
    history: Mutex<VecDeque<Arc<Snapshot>>>,
}

impl Snapshots {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { newest: watch::Sender::new(None), history: Mutex::default() })
    }

    /// The newest snapshot, and every later one.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<Snapshot>>> {
        self.newest.subscribe()
    }

    /// The newest snapshot now; `None` before there is one.
    pub(crate) fn newest(&self) -> Option<Arc<Snapshot>> {
        self.newest.borrow().clone()
    }

    /// Waits for a snapshot with this number, or a later one.
    pub(crate) async fn reached(&self, number: u64) -> Arc<Snapshot> {
        let mut newest = self.newest.subscribe();
        let reached = newest.wait_for(|newest| newest.as_ref().is_some_and(|newest| newest.revision.number >= number)).await;
        // The sender is ours: it does not go.
        reached.ok().and_then(|newest| newest.clone()).unwrap_or_default()
    }

    /// The network's settings now.
    pub(crate) fn settings(&self) -> Settings {
        self.newest.borrow().as_ref().map(|newest| newest.settings.clone()).unwrap_or_default()
    }

    /// What a node needs that holds this revision, and where it brings it; `None` if it holds the newest (or there is none yet).
    pub(crate) fn push_from(&self, held: Option<&Revision>) -> Option<(Revision, Push)> {
        let newest = self.newest.borrow().clone()?;
        if held == Some(&newest.revision) {
            return None;
        }
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let older = held.and_then(|held| history.iter().find(|snapshot| snapshot.revision == *held)).cloned();
        drop(history);
        let push = match older {
            Some(older) => Push::Delta(older.delta_to(&newest)),
            None => Push::Full(v1::Snapshot::from(&*newest)),
        };
        Some((newest.revision.clone(), push))
    }

    fn publish(&self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        // A number that went back is another history (a restored backup): nothing of the old one is a base.
        if history.back().is_some_and(|last| last.revision.number >= snapshot.revision.number) {
            history.clear();
        }
        // Groups and tracks of all the generations that there have been would be too many: this one's are kept, and the last before.
        if history.back().is_some_and(|last| last.permission_generation != snapshot.permission_generation) {
            let before = history.len() - 1;
            history.drain(..before);
        }
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(snapshot.clone());
        drop(history);
        self.newest.send_replace(Some(snapshot));
    }
}

/// Keeps [`Snapshots`] equal to the resources in the store.
pub(crate) struct Resources {
    snapshots: Arc<Snapshots>,
    current: Current,
}

impl Resources {
    pub(crate) fn new(snapshots: Arc<Snapshots>, store_id: &str) -> Self {
        Self { snapshots, current: Current::new(store_id) }
    }
}

impl View for Resources {
    fn reset(&mut self, entries: Vec<Entry>, _: StoreRevision) {
        let before = &self.current.snapshot;
        let mut current = Current::of(&before.revision.store_id, &entries);
        generations::share(before, &mut current.snapshot);
        self.current = current;
        let known = self.snapshots.newest.borrow().as_ref().is_some_and(|newest| **newest == self.current.snapshot);
        if !known {
            self.snapshots.publish(self.current.snapshot.clone());
        }
    }

    fn apply(&mut self, batch: Batch) {
        let before = self.current.snapshot.revision.number;
        for event in batch.events {
            match event {
                Event::Put(entry) => self.current.put(&entry),
                Event::Delete { key, modified } => self.current.remove(&key, modified),
            }
        }
        if self.current.snapshot.revision.number != before {
            tracing::debug!(revision = %self.current.snapshot.revision, "new snapshot");
            self.snapshots.publish(self.current.snapshot.clone());
        }
    }
}

/// The snapshot that these entries below [`keys::RESOURCES`] make.
pub(crate) fn snapshot_of(store_id: &str, entries: &[Entry]) -> Snapshot {
    Current::of(store_id, entries).snapshot
}

/// The snapshot as it is now, and what waits beside it.
struct Current {
    snapshot: Snapshot,
    generations: Generations,
}

impl Current {
    fn new(store_id: &str) -> Self {
        let revision = Revision { store_id: store_id.to_owned(), number: 0 };
        let permission_generation = FIRST_GENERATION.into();
        Self { snapshot: Snapshot { revision, permission_generation, ..Snapshot::default() }, generations: Generations::default() }
    }

    fn of(store_id: &str, entries: &[Entry]) -> Self {
        let mut current = Self::new(store_id);
        // The head says whose revisions count.
        let (head, rest): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.key == keys::PERMISSION_HEAD);
        for entry in head.into_iter().chain(rest) {
            current.put(entry);
        }
        current
    }

    /// Enters one resource. A value that cannot be read leaves what was there: the nodes keep the last good one.
    fn put(&mut self, entry: &Entry) {
        self.moved(&entry.key, entry.modified);
        let Self { snapshot, generations } = self;
        let outcome = if entry.key == keys::SETTINGS {
            read::<v1::Settings, Settings>(entry).map(|settings| snapshot.settings = settings)
        } else if let Some(name) = entry.key.strip_prefix(keys::BACKENDS) {
            read::<v1::Backend, Backend>(entry).map(|backend| {
                snapshot.backends.insert(name.to_owned(), Arc::new(backend));
            })
        } else if let Some(host) = entry.key.strip_prefix(keys::ROUTES) {
            read::<v1::Route, Route>(entry).map(|route| {
                snapshot.routes.insert(host.to_owned(), Arc::new(route));
            })
        } else {
            generations.put(snapshot, entry)
        };
        if let Err(problem) = outcome {
            tracing::error!(key = entry.key, problem, "this resource in the store is unusable and is ignored: set it anew");
        }
    }

    fn remove(&mut self, key: &str, modified: StoreRevision) {
        self.moved(key, modified);
        let Self { snapshot, generations } = self;
        if key == keys::SETTINGS {
            snapshot.settings = Settings::default();
        } else if let Some(name) = key.strip_prefix(keys::BACKENDS) {
            snapshot.backends.remove(name);
        } else if let Some(host) = key.strip_prefix(keys::ROUTES) {
            snapshot.routes.remove(host);
        } else {
            generations.remove(snapshot, key);
        }
    }

    /// What is not visible does not move the snapshot.
    fn moved(&mut self, key: &str, modified: StoreRevision) {
        if generations::shows(&self.snapshot, key) {
            let number = &mut self.snapshot.revision.number;
            *number = (*number).max(modified);
        }
    }
}

fn read<Raw, Valid>(entry: &Entry) -> Result<Valid, String>
where
    Raw: Message + Default,
    Valid: TryFrom<Raw, Error = Vec<v1::FieldError>>,
{
    let raw = Raw::decode(&*entry.value).map_err(|error| error.to_string())?;
    Valid::try_from(raw).map_err(|mistakes| shown(&mistakes))
}

/// Mistakes as one line.
pub(crate) fn shown(mistakes: &[v1::FieldError]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
