//! Making a change: one transaction that compares what it was decided on, with the record of the audit in it, tried again when somebody
//! else got in between.

use std::time::Duration;

use prost::Message;
use tonic::Status;

use super::head::{Head, decode, entry_at};
use super::{journal, unreadable};
use crate::audit;
use crate::auth::Caller;
use crate::keys;
use crate::replica::Replica;
use crate::status;
use crate::store::{Change, Committed, Compare, Entry, MAX_BYTES, StoreRevision, Txn};

/// So often a change is tried that others get in the way of.
const ATTEMPTS: u32 = 20;
/// The largest record that is stored; the rest of a transaction is for keys and the audit.
pub(super) const MAX_RECORD: usize = MAX_BYTES - (384 << 10);
/// Groups that one call may name as new parents, or a track have: each is a compare.
pub(super) const MAX_GROUPS: usize = 100;

/// A change, decided on something that may have changed meanwhile.
pub(super) struct Plan {
    /// The head is compared beside them.
    pub(super) compares: Vec<Compare>,
    pub(super) changes: Vec<Change>,
    /// Whether the snapshot is another after it.
    pub(super) moves_snapshot: bool,
    /// What the audit says of it.
    pub(super) entry: audit::Entry,
}

/// The attempts of one change, and who makes it.
pub(super) struct Attempts<'a> {
    replica: &'a Replica,
    caller: &'a Caller,
    made: u32,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(replica: &'a Replica, caller: &'a Caller) -> Self {
        Self { replica, caller, made: 0 }
    }

    /// Makes a change that was planned under this head, and gives its revision; `None` if it has to be planned anew.
    pub(super) async fn commit(&mut self, head: &Head, plan: Plan) -> Result<Option<StoreRevision>, Status> {
        let Plan { mut compares, mut changes, moves_snapshot, entry } = plan;
        compares.push(head.unchanged());
        changes.push(journal::note(&changes));
        if moves_snapshot {
            changes.push(put(keys::RESOURCES_REVISION.to_owned(), Vec::new()));
        }
        changes.push(entry.change(self.caller, &self.replica.name));
        if let Committed::Yes(revision) = self.replica.store.txn(Txn { compares, changes }).await.map_err(status::change)? {
            return Ok(Some(revision));
        }
        self.made += 1;
        if self.made == ATTEMPTS {
            return Err(Status::aborted("others keep changing the same permissions: try again"));
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=5 << self.made.min(5)))).await;
        Ok(None)
    }
}

pub(super) fn put(key: String, value: Vec<u8>) -> Change {
    Change::Put { key, value, lease: 0 }
}

/// The put of a record, unless it is too large to be stored.
pub(super) fn put_record(key: &str, record: &impl Message, target: &str, nodes: usize) -> Result<Change, Status> {
    let value = record.encode_to_vec();
    if value.len() > MAX_RECORD {
        return Err(Status::invalid_argument(format!(
            "{target} would have {nodes} nodes in {} bytes; at most {MAX_RECORD} bytes are kept of one: spread them over groups",
            value.len()
        )));
    }
    Ok(put(key.to_owned(), value))
}

/// A record as it was when the head was read, and its entry.
pub(super) async fn record<T: Message + Default>(replica: &Replica, head: &Head, key: &str) -> Result<(Option<T>, Option<Entry>), Status> {
    let (entry, _) = entry_at(&*replica.store, key, Some(head.revision)).await.map_err(status::store)?;
    let record = entry.as_ref().map(decode).transpose().map_err(unreadable::refused)?;
    Ok((record, entry))
}

/// Refuses a change that was decided on another revision of its target than there is now.
pub(super) fn expect(target: &str, expected: Option<u64>, entry: Option<&Entry>) -> Result<(), Status> {
    let now = entry.map_or(0, |entry| entry.modified);
    match expected {
        Some(expected) if expected != now => {
            Err(Status::aborted(format!("{target} is at revision {now} now, not {expected}: look at it, then decide anew")))
        }
        _ => Ok(()),
    }
}
