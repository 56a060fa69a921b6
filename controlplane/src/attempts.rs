//! A change that is planned and tried anew when somebody else gets in between. Its record for the audit is in the same transaction.

use std::time::Duration;

use tonic::Status;

use crate::audit;
use crate::auth::Caller;
use crate::replica::Replica;
use crate::status;
use crate::store::{Change, Committed, Compare, StoreRevision, Txn};

/// So often a change is tried that others get in the way of.
const ATTEMPTS: u32 = 20;

/// The attempts of one change, and who makes it.
pub(crate) struct Attempts<'a> {
    replica: &'a Replica,
    caller: &'a Caller,
    /// What others change that get in the way.
    what: &'static str,
    made: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(replica: &'a Replica, caller: &'a Caller, what: &'static str) -> Self {
        Self { replica, caller, what, made: 0 }
    }

    /// Makes a change and gives its revision; `None`, after a moment, if a compare does not hold: it has to be planned anew.
    ///
    /// # Errors
    /// If it was tried too often, or the store fails.
    pub(crate) async fn attempt(
        &mut self,
        compares: Vec<Compare>,
        mut changes: Vec<Change>,
        entry: audit::Entry,
    ) -> Result<Option<StoreRevision>, Status> {
        changes.push(entry.change(self.caller, &self.replica.name));
        if let Committed::Yes(revision) = self.replica.store.txn(Txn { compares, changes }).await.map_err(status::change)? {
            return Ok(Some(revision));
        }
        self.made += 1;
        if self.made == ATTEMPTS {
            return Err(Status::aborted(format!("others keep changing the same {}: try again", self.what)));
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=5 << self.made.min(5)))).await;
        Ok(None)
    }
}
