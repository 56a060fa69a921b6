//! Making a change: one transaction that compares what it was decided on, with the record of the audit in it, tried again when somebody
//! else got in between.

use prost::Message;
use tonic::Status;

use super::head::{Head, decode, entry_at};
use super::{journal, unreadable};
use crate::attempts::Attempts;
use crate::audit;
use crate::auth::Caller;
use crate::keys;
use crate::replica::Replica;
use crate::status;
use crate::store::{Change, Compare, Entry, MAX_BYTES, StoreRevision};

/// The largest record that is stored; the rest of a transaction is for keys and the audit.
pub(super) const MAX_RECORD: usize = MAX_BYTES - (384 << 10);
/// Groups that one call may name as new parents: each is a compare.
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

/// The attempts of a change of permissions.
pub(super) fn attempts<'a>(replica: &'a Replica, caller: &'a Caller) -> Attempts<'a> {
    Attempts::new(replica, caller, "permissions")
}

impl Attempts<'_> {
    /// Makes a change that was planned under this head, and gives its revision; `None` if it has to be planned anew.
    pub(super) async fn commit(&mut self, head: &Head, plan: Plan) -> Result<Option<StoreRevision>, Status> {
        let Plan { mut compares, mut changes, moves_snapshot, entry } = plan;
        compares.push(head.unchanged());
        changes.push(journal::note(&changes));
        if moves_snapshot {
            changes.push(put(keys::RESOURCES_REVISION.to_owned(), Vec::new()));
        }
        self.attempt(compares, changes, entry).await
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
