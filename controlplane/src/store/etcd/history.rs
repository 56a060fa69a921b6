//! Whether etcd still goes on with the history that the store was opened in.
//!
//! An etcd that is emptied, or restored from a backup, under a running replica counts its revisions anew: what was seen of the old
//! ones says nothing about the new ones. Writes and linearizable reads of one history never answer with a revision below one
//! that was seen before they were asked; that, and the store's id, tell.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::store::{StoreError, StoreRevision};

pub(super) struct History {
    /// The newest revision seen.
    newest: AtomicU64,
    /// Why it is over, if it is.
    over: watch::Sender<Option<String>>,
}

impl History {
    pub(super) fn new(revision: StoreRevision) -> Self {
        Self { newest: AtomicU64::new(revision), over: watch::Sender::new(None) }
    }

    /// Before a call: what its answer must not be below.
    pub(super) fn floor(&self) -> Result<StoreRevision, StoreError> {
        match &*self.over.borrow() {
            None => Ok(self.newest.load(Ordering::Acquire)),
            Some(why) => Err(over(why)),
        }
    }

    /// After a write or a linearizable read: the revision that it was answered at.
    pub(super) fn answered(&self, floor: StoreRevision, revision: StoreRevision) -> Result<(), StoreError> {
        if revision < floor {
            return Err(self.end(format!("etcd's revision went back from {floor} to {revision}: it was emptied or restored from a backup")));
        }
        self.seen(revision);
        Ok(())
    }

    /// A revision that there is, even if the member that told it may lag behind.
    pub(super) fn seen(&self, revision: StoreRevision) {
        self.newest.fetch_max(revision, Ordering::AcqRel);
    }

    pub(super) fn end(&self, why: String) -> StoreError {
        let error = over(&why);
        self.over.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(why);
            first
        });
        error
    }

    /// Waits until it is over, and says why.
    pub(super) async fn ended(&self) -> String {
        let mut over = self.over.subscribe();
        let why = over.wait_for(Option::is_some).await;
        // The sender is ours: it does not go.
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }
}

fn over(why: &str) -> StoreError {
    StoreError::Unavailable(format!("{why}; it is opened anew"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_may_overtake_each_other_but_not_go_back() {
        let history = History::new(5);
        let (first, second) = (history.floor().unwrap(), history.floor().unwrap());
        history.answered(second, 7).unwrap();
        history.answered(first, 6).unwrap();
        let floor = history.floor().unwrap();
        assert_eq!(floor, 7);
        assert!(history.answered(floor, 6).is_err());
        assert!(history.floor().is_err());
        assert!(history.ended().await.contains("from 7 to 6"));
    }
}
