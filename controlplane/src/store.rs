//! Where the control plane keeps what it knows: one trait, two implementations, one conformance suite for both
//! (`testing/tests/store_conformance.rs`).
//!
//! Keys are UTF-8 paths below the store's own prefix; values are encoded protobuf messages. A *revision* is the store's own
//! counter: every committed transaction that changes something moves it by one (etcd's moves for other users of the cluster, too).

pub mod embedded;
pub mod etcd;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;

/// A revision of the whole store.
pub type StoreRevision = u64;

/// A lease: keys put under it vanish when it is revoked or not kept alive for its time. Positive.
pub type LeaseId = i64;

/// A key and its value as of some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, below the store's prefix.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision that last changed this key.
    pub modified: StoreRevision,
    /// The lease that it is kept under, or 0.
    pub lease: LeaseId,
}

/// Which part of the keys to list.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Keys that begin with this.
    pub prefix: String,
    /// Only keys after this one (exclusive); empty means from the beginning.
    pub after: String,
    /// At most so many entries; 0 means [`PAGE`], and more than that is cut down to it.
    pub limit: usize,
    /// As of this revision; `None` means the newest. Pages of one listing give the first page's revision.
    pub at: Option<StoreRevision>,
}

/// A page of a listing, in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The revision that all pages of this listing are of.
    pub revision: StoreRevision,
    /// Whether more entries follow the last one.
    pub more: bool,
}

/// A condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The key does not exist.
    Absent(String),
    /// The key exists and was last changed at this revision.
    Modified(String, StoreRevision),
    /// The key exists.
    Present(String),
}

impl Compare {
    /// That a key is as it was read: `None`, not there.
    #[must_use]
    pub fn unchanged(key: &str, entry: Option<&Entry>) -> Self {
        match entry {
            Some(entry) => Self::Modified(key.to_owned(), entry.modified),
            None => Self::Absent(key.to_owned()),
        }
    }
}

/// A change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets a key, under a lease or (0) none.
    Put {
        /// The key.
        key: String,
        /// Its new value.
        value: Vec<u8>,
        /// The lease to keep it under, or 0.
        lease: LeaseId,
    },
    /// Removes a key; no error if it is not there.
    Delete(String),
}

/// Compares, then changes: all or nothing. At most [`MAX_OPERATIONS`] compares and as many changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// All must hold.
    pub compares: Vec<Compare>,
    /// Made in order; no key twice.
    pub changes: Vec<Change>,
}

/// etcd's default `--max-txn-ops`.
pub const MAX_OPERATIONS: usize = 128;

/// etcd's default `--max-request-bytes`: 1.5 MiB for a whole transaction, keys and values.
pub const MAX_BYTES: usize = 1_572_864;

/// What a compare or a change is counted as beside its key and value: its encoding, and the store's prefix.
const OPERATION_BYTES: usize = 64;

/// The most entries of a page.
pub const PAGE: usize = 1_000;

impl Txn {
    /// What both stores refuse, so that nothing works with one store only.
    ///
    /// # Errors
    /// [`StoreError::Invalid`]: too many operations, too many bytes, an empty key, a key changed twice, a negative lease.
    pub fn check(&self) -> Result<(), StoreError> {
        let invalid = |problem: String| Err(StoreError::Invalid(problem));
        if self.compares.len() > MAX_OPERATIONS || self.changes.len() > MAX_OPERATIONS {
            let (compares, changes) = (self.compares.len(), self.changes.len());
            return invalid(format!("{compares} compares and {changes} changes; at most {MAX_OPERATIONS} of each"));
        }
        let mut bytes = OPERATION_BYTES * (self.compares.len() + self.changes.len());
        for Compare::Absent(key) | Compare::Modified(key, _) | Compare::Present(key) in &self.compares {
            bytes += key.len();
            if key.is_empty() {
                return invalid("an empty key".into());
            }
        }
        let mut changed = BTreeSet::new();
        for change in &self.changes {
            let key = match change {
                Change::Put { key, value, lease } => {
                    bytes += value.len();
                    if *lease < 0 {
                        return invalid(format!("the lease {lease} of {key:?} is negative"));
                    }
                    key
                }
                Change::Delete(key) => key,
            };
            bytes += key.len();
            if key.is_empty() {
                return invalid("an empty key".into());
            }
            if !changed.insert(key) {
                return invalid(format!("{key:?} is changed twice"));
            }
        }
        if bytes > MAX_BYTES {
            return invalid(format!("{bytes} bytes; at most {MAX_BYTES}"));
        }
        Ok(())
    }
}

/// The longest time of a lease.
const LONGEST_LEASE: Duration = Duration::from_secs(365 * 24 * 3_600);

/// What both stores ask of a lease's time.
fn check_lease(ttl: Duration) -> Result<(), StoreError> {
    if ttl.is_zero() || ttl > LONGEST_LEASE {
        return Err(StoreError::Invalid(format!("a lease of {ttl:?}; at most 365 days, and not 0")));
    }
    Ok(())
}

impl List {
    /// How many entries a page of this listing may hold: 1 to [`PAGE`].
    #[must_use]
    pub fn page(&self) -> usize {
        if self.limit == 0 { PAGE } else { self.limit.min(PAGE) }
    }
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The changes are made, at this revision.
    Yes(StoreRevision),
    /// A compare did not hold; nothing was changed.
    Conflict,
}

/// A change that a watch saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The key was set.
    Put(Entry),
    /// The key was removed (deleted, or its lease ended).
    Delete {
        /// The key.
        key: String,
        /// The revision that removed it.
        modified: StoreRevision,
    },
}

/// The events of one or more whole revisions, in order; never half a revision. One without events says that nothing
/// happened to the watched keys up to its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The newest revision that this batch brings the watcher to.
    pub revision: StoreRevision,
    /// Its events on the watched keys; may be empty.
    pub events: Vec<Event>,
}

/// A watch: batches until the first error, which ends it.
pub type Watch = Pin<Box<dyn Stream<Item = Result<Batch, StoreError>> + Send>>;

/// What can go wrong with a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The revision asked for is no longer kept: list again and go on from there.
    #[error("the store no longer keeps revision {0}")]
    Compacted(StoreRevision),
    /// The lease does not exist (any more).
    #[error("the lease {0} has ended")]
    NoLease(LeaseId),
    /// The store cannot be reached or does not answer in time.
    #[error("the store is away: {0}")]
    Unavailable(String),
    /// The embedded store cannot be opened as things are: its folder is in use, or cannot be read or written.
    #[error("{0}")]
    Unusable(String),
    /// The request cannot be carried out as it is (too many operations, too large, a key twice).
    #[error("the store refuses the request: {0}")]
    Invalid(String),
    /// The store's own data cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

/// A store. Every call ends within the implementation's request timeout (5 s by default).
#[tonic::async_trait]
pub trait Store: Send + Sync + 'static {
    /// Which store this is: made once, when it is created, and never changed.
    fn id(&self) -> &str;

    /// One entry, as of the newest revision.
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;

    /// A page of a listing.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if `list.at` is no longer kept, [`StoreError::Invalid`] if it is still to come.
    async fn list(&self, list: List) -> Result<Page, StoreError>;

    /// Carries out a transaction. It is durable before this returns (keys under a lease may be kept in memory only).
    ///
    /// # Errors
    /// [`StoreError::Invalid`] (see [`Txn::check`]), [`StoreError::NoLease`]; after [`StoreError::Unavailable`] it may have been
    /// carried out or not.
    async fn txn(&self, txn: Txn) -> Result<Committed, StoreError>;

    /// All changes of keys with this prefix, from revision `from` (inclusive) on, which may be still to come. A revision that is
    /// no longer kept, and a watcher that reads too slowly, come out as [`StoreError::Compacted`] on the watch itself.
    async fn watch(&self, prefix: &str, from: StoreRevision) -> Result<Watch, StoreError>;

    /// A new lease for this long (etcd rounds up to whole seconds, at least 2).
    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseId, StoreError>;

    /// Lets the lease live for its whole time again.
    ///
    /// # Errors
    /// [`StoreError::NoLease`] if it has ended.
    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<(), StoreError>;

    /// Ends the lease; its keys are removed in one revision (or a few, if they are very many).
    ///
    /// # Errors
    /// [`StoreError::NoLease`] if it has ended before.
    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError>;

    /// Waits until this value is of no more use, and says why: etcd was emptied or restored from a backup, or the embedded store's
    /// file could not be written. Whoever used it has to open the store anew and to forget all that was read from this one.
    async fn lost(&self) -> String {
        std::future::pending().await
    }
}
