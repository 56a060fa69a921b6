//! The thread that alone changes the embedded store. It takes what waits as one batch: all of it is decided in order, written to
//! the disk with one commit, and only then shown to readers and watchers and acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::file::File;
use super::leases::Leases;
use super::memory::{Changed, Memory, Revision};
use crate::store::{Change, Committed, Compare, Entry, LeaseId, StoreError, StoreRevision, Txn};

/// So many revisions are reserved on the disk at once, so that those of memory-only changes need no commit each.
const RESERVE: StoreRevision = 10_000;

/// So many requests go into one commit at most.
const BATCH: usize = 256;

/// A request to the writer.
pub(super) enum Request {
    Txn(Txn, Reply<Committed>),
    Grant(Duration, Reply<LeaseId>),
    KeepAlive(LeaseId, Reply<()>),
    Revoke(LeaseId, Reply<()>),
}

/// Where the answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A waiting request and the place that it takes in the bounded queue.
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) _place: OwnedSemaphorePermit,
}

/// The writer's side of the store.
pub(super) struct Writer {
    file: File,
    memory: Arc<RwLock<Memory>>,
    newest: watch::Sender<StoreRevision>,
    leases: Leases,
    reserved: StoreRevision,
    /// Why the file can no longer be written, if so. redb needs it opened again then, and so do we: what it holds is not known.
    failed: watch::Sender<Option<String>>,
}

/// A batch that is decided but not yet written.
struct Pending {
    revision: StoreRevision,
    revisions: VecDeque<Revision>,
    /// Keys that the batch changed, as they are after it.
    entries: BTreeMap<String, Option<Arc<Entry>>>,
    /// Those of them that the file must change.
    durable: BTreeMap<String, Option<Arc<Entry>>>,
    acknowledge: Vec<Acknowledge>,
}

/// Gives the answer: the decided one, or the error that met the whole batch.
type Acknowledge = Box<dyn FnOnce(Option<StoreError>)>;

impl Writer {
    pub(super) fn new(
        file: File,
        memory: Arc<RwLock<Memory>>,
        newest: watch::Sender<StoreRevision>,
        reserved: StoreRevision,
        failed: watch::Sender<Option<String>>,
    ) -> Writer {
        Writer { file, memory, newest, leases: Leases::default(), reserved, failed }
    }

    /// Works until all senders are gone.
    pub(super) fn run(mut self, requests: &Receiver<Waiting>) {
        loop {
            let first = match self.leases.next_end() {
                Some(end) => requests.recv_timeout(end.saturating_duration_since(Instant::now())),
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let first = match first {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut pending = self.begin();
            // What waits comes before what expires: a keep-alive that arrived during a slow commit is in time.
            for waiting in first.into_iter().chain(requests.try_iter()).take(BATCH) {
                self.decide(waiting.request, &mut pending);
            }
            while let Some(lease) = self.leases.ended(Instant::now()) {
                tracing::debug!(lease, "a lease was not kept alive");
                self.end_lease(lease, &mut pending);
            }
            self.finish(pending);
        }
        // The rest of the reserved revisions was not used: an orderly end gives them back.
        let revision = self.revision();
        if !self.has_failed()
            && revision < self.reserved
            && let Err(error) = self.file.commit(&BTreeMap::new(), Some(revision))
        {
            tracing::warn!(%error, "the store's file could not be written at the end");
        }
    }

    fn begin(&self) -> Pending {
        Pending {
            revision: self.revision(),
            revisions: VecDeque::new(),
            entries: BTreeMap::new(),
            durable: BTreeMap::new(),
            acknowledge: Vec::new(),
        }
    }

    fn revision(&self) -> StoreRevision {
        self.memory.read().unwrap_or_else(PoisonError::into_inner).revision()
    }

    fn decide(&mut self, request: Request, pending: &mut Pending) {
        match request {
            Request::Txn(txn, reply) => {
                let decided = self.decide_txn(txn, pending);
                pending.answer(decided, reply);
            }
            Request::Grant(ttl, reply) => {
                let lease = self.leases.grant(ttl, Instant::now());
                pending.answer(Ok(lease), reply);
            }
            Request::KeepAlive(lease, reply) => {
                let lives = self.leases.keep_alive(lease, Instant::now());
                pending.answer(if lives { Ok(()) } else { Err(StoreError::NoLease(lease)) }, reply);
            }
            Request::Revoke(lease, reply) => {
                let lived = self.end_lease(lease, pending);
                pending.answer(if lived { Ok(()) } else { Err(StoreError::NoLease(lease)) }, reply);
            }
        }
    }

    fn decide_txn(&mut self, txn: Txn, pending: &mut Pending) -> Result<Committed, StoreError> {
        let holds = |compare: &Compare| match compare {
            Compare::Absent(key) => self.entry(key, pending).is_none(),
            Compare::Present(key) => self.entry(key, pending).is_some(),
            Compare::Modified(key, revision) => self.entry(key, pending).is_some_and(|entry| entry.modified == *revision),
        };
        if !txn.compares.iter().all(holds) {
            return Ok(Committed::Conflict);
        }
        for change in &txn.changes {
            if let Change::Put { lease, .. } = change
                && *lease != 0
                && !self.leases.contains(*lease)
            {
                return Err(StoreError::NoLease(*lease));
            }
        }
        let number = pending.revision + 1;
        let mut changes = Vec::with_capacity(txn.changes.len());
        for change in txn.changes {
            let (key, after) = match change {
                Change::Put { key, value, lease } => (key.clone(), Some(Arc::new(Entry { key, value, modified: number, lease }))),
                Change::Delete(key) => (key, None),
            };
            let before = self.entry(&key, pending);
            if before.is_some() || after.is_some() {
                changes.push(Changed { key, before, after });
            }
        }
        self.push(changes, pending);
        Ok(Committed::Yes(pending.revision))
    }

    /// Ends a lease and removes its keys; `false` if there is no such lease.
    fn end_lease(&mut self, lease: LeaseId, pending: &mut Pending) -> bool {
        let Some(keys) = self.leases.end(lease) else { return false };
        let removed = keys.into_iter().map(|key| Changed { before: self.entry(&key, pending), key, after: None });
        let removed = removed.collect();
        self.push(removed, pending);
        true
    }

    /// The entry as it is after what is decided so far.
    fn entry(&self, key: &str, pending: &Pending) -> Option<Arc<Entry>> {
        match pending.entries.get(key) {
            Some(entry) => entry.clone(),
            None => self.memory.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned(),
        }
    }

    /// Makes the changes the next revision, if there are any.
    fn push(&mut self, changes: Vec<Changed>, pending: &mut Pending) {
        if changes.is_empty() {
            return;
        }
        let lease = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.lease);
        let durable = |entry: &Option<Arc<Entry>>| entry.as_ref().is_some_and(|entry| entry.lease == 0);
        for Changed { key, before, after } in &changes {
            self.leases.moved(key, lease(before), lease(after));
            if durable(before) || durable(after) {
                let kept = after.clone().filter(|entry| entry.lease == 0);
                pending.durable.insert(key.clone(), kept);
            }
            pending.entries.insert(key.clone(), after.clone());
        }
        pending.revision += 1;
        pending.revisions.push_back(Revision { number: pending.revision, changes });
    }

    /// Writes, shows, acknowledges.
    fn finish(&mut self, pending: Pending) {
        if let Err(error) = self.write(&pending) {
            pending.acknowledge.into_iter().for_each(|acknowledge| acknowledge(Some(error.clone())));
            return;
        }
        if !pending.revisions.is_empty() {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            pending.revisions.into_iter().for_each(|revision| memory.apply(revision));
            drop(memory);
            self.newest.send_replace(pending.revision);
        }
        pending.acknowledge.into_iter().for_each(|acknowledge| acknowledge(None));
    }

    fn write(&mut self, pending: &Pending) -> Result<(), StoreError> {
        if !self.has_failed() {
            let reserved = (pending.revision > self.reserved).then(|| pending.revision + RESERVE);
            if pending.durable.is_empty() && reserved.is_none() {
                return Ok(());
            }
            match self.file.commit(&pending.durable, reserved) {
                Ok(()) => {
                    self.reserved = reserved.unwrap_or(self.reserved);
                    return Ok(());
                }
                Err(error) => {
                    tracing::error!(%error, "the store's file cannot be written; nothing is stored until it is opened anew");
                    self.failed.send_replace(Some(error.to_string()));
                }
            }
        }
        Err(unwritable(self.failed.borrow().as_deref().unwrap_or_default()))
    }

    fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }
}

/// What every change is answered once the file could not be written.
fn unwritable(why: &str) -> StoreError {
    StoreError::Unavailable(format!("its file cannot be written ({why}): see to the disk"))
}

impl Pending {
    fn answer<T: 'static>(&mut self, decided: Result<T, StoreError>, reply: Reply<T>) {
        self.acknowledge.push(Box::new(move |error| {
            // The asker may have given up; that is its own business.
            let _ = reply.send(error.map_or(decided, Err));
        }));
    }
}
