//! The embedded store: one machine, one process, one redb file.
//!
//! Everything is in memory; the file holds what must survive, which is all entries under no lease. Leases and the keys under them
//! are presence and end with the process. The revision counter is one for both and never goes back, not even for revisions
//! that only memory has seen: the file holds a mark above all that were used.
//!
//! One thread of its own changes and writes (`writer`); readers take from memory. Watches and older pages are served from
//! the newest 10,000 revisions.

mod file;
mod leases;
mod memory;
mod writer;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};

use self::file::File;
use self::memory::Memory;
use self::writer::{Reply, Request, Waiting, Writer};
use super::{Batch, Committed, Entry, LeaseId, List, Page, Store, StoreError, StoreRevision, Txn, Watch, check_lease};

/// How long a call may take; only a disk that hangs makes one take that long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// So many requests wait for the writer at most.
const QUEUE: usize = 1_024;

/// A watcher on quiet keys is told so after so many revisions of other keys.
const PROGRESS: StoreRevision = 1_000;

/// An open embedded store. Dropping it closes the file; watches on it then end with [`StoreError::Unavailable`].
pub struct Embedded {
    id: String,
    memory: Arc<RwLock<Memory>>,
    newest: watch::Receiver<StoreRevision>,
    /// Why the file can no longer be written, if so.
    failed: watch::Receiver<Option<String>>,
    places: Arc<Semaphore>,
    /// `None` only while it is dropped.
    requests: Option<mpsc::Sender<Waiting>>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl Embedded {
    /// Opens the store in this folder; creates both if need be. It reads the whole file: call it at the start, not later on.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] if another process (or this one) has it open, or the folder cannot be used;
    /// [`StoreError::Damaged`] if the file is no whole store. The messages say what to do.
    pub fn open(dir: &Path) -> Result<Embedded, StoreError> {
        let (file, contents) = File::open(dir)?;
        let memory = Arc::new(RwLock::new(Memory::new(contents.entries, contents.reserved)));
        let (newest_sender, newest) = watch::channel(contents.reserved);
        let (failed_sender, failed) = watch::channel(None);
        let (requests, waiting) = mpsc::channel();
        let writer = Writer::new(file, Arc::clone(&memory), newest_sender, contents.reserved, failed_sender);
        let writer = std::thread::Builder::new().name("store".into()).spawn(move || writer.run(&waiting));
        let writer = writer.map_err(|error| StoreError::Unusable(format!("cannot start its thread: {error}")))?;
        let places = Arc::new(Semaphore::new(QUEUE));
        Ok(Embedded { id: contents.id, memory, newest, failed, places, requests: Some(requests), writer: Some(writer) })
    }

    /// Has the writer do something.
    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, StoreError> {
        let answer = async {
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())?;
            let (reply, answer) = oneshot::channel();
            let requests = self.requests.as_ref().ok_or_else(closed)?;
            requests.send(Waiting { request: request(reply), _place: place }).map_err(|_| closed())?;
            answer.await.map_err(|_| closed())?
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unavailable(format!("its disk did not write for {} s", REQUEST_TIMEOUT.as_secs()))),
        }
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        // The folder is free for the next one when this returns. It takes one commit at most.
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("it is closed".into())
}

#[tonic::async_trait]
impl Store for Embedded {
    fn id(&self) -> &str {
        &self.id
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        Ok(memory.get(key).map(|entry| Entry::clone(entry)))
    }

    async fn list(&self, list: List) -> Result<Page, StoreError> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner).page(&list)
    }

    async fn txn(&self, txn: Txn) -> Result<Committed, StoreError> {
        txn.check()?;
        self.ask(|reply| Request::Txn(txn, reply)).await
    }

    async fn watch(&self, prefix: &str, from: StoreRevision) -> Result<Watch, StoreError> {
        let watcher = Watcher {
            memory: Arc::clone(&self.memory),
            newest: self.newest.clone(),
            prefix: prefix.to_owned(),
            next: from.max(1),
            told: from.max(1),
        };
        Ok(Box::pin(futures::stream::unfold(Some(watcher), |watcher| async {
            let mut watcher = watcher?;
            let batch = watcher.batch().await;
            let rest = batch.is_ok().then_some(watcher);
            Some((batch, rest))
        })))
    }

    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        check_lease(ttl)?;
        self.ask(|reply| Request::Grant(ttl, reply)).await
    }

    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.ask(|reply| Request::KeepAlive(lease, reply)).await
    }

    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.ask(|reply| Request::Revoke(lease, reply)).await
    }

    async fn lost(&self) -> String {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(why) => format!("its file cannot be written: {}", why.as_deref().unwrap_or_default()),
            Err(_) => "it is closed".to_owned(),
        }
    }
}

/// A watch's place in the history. It holds no events: one that is slow falls out of the history, not into memory.
struct Watcher {
    memory: Arc<RwLock<Memory>>,
    newest: watch::Receiver<StoreRevision>,
    prefix: String,
    /// The first revision not looked at.
    next: StoreRevision,
    /// The first revision that the watcher does not know of.
    told: StoreRevision,
}

impl Watcher {
    async fn batch(&mut self) -> Result<Batch, StoreError> {
        loop {
            self.newest.borrow_and_update();
            let batch = self.memory.read().unwrap_or_else(PoisonError::into_inner).since(&self.prefix, self.next)?;
            if batch.revision < self.next {
                self.newest.changed().await.map_err(|_| closed())?;
                continue;
            }
            self.next = batch.revision + 1;
            if !batch.events.is_empty() || self.next - self.told >= PROGRESS {
                self.told = self.next;
                return Ok(batch);
            }
        }
    }
}
