//! Which records of permissions changed, in order: [`keys::PERMISSIONS_REVISION`] is written by every change, and says what it changed.
//! An import that is under way follows it, to carry over what comes in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::watch;

use super::commit::put;
use crate::keys;
use crate::store::{Change, Event, Store, StoreRevision};

const RECORDS: [&str; 3] = [keys::PERMISSION_USERS, keys::PERMISSION_GROUPS, keys::PERMISSION_TRACKS];
/// Records that are kept in mind; when more change, reading everything anew is no more work.
const MOST: usize = 20_000;
/// A store that does not tell of a change for so long after it was made is away.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a transaction says that it changes.
pub(super) fn note(changes: &[Change]) -> Change {
    let changed = changes.iter().map(|change| match change {
        Change::Put { key, .. } | Change::Delete(key) => key.as_str(),
    });
    let changed: Vec<&str> = changed.filter(|key| RECORDS.iter().any(|prefix| key.starts_with(prefix))).collect();
    // No name has a line break in it.
    put(keys::PERMISSIONS_REVISION.to_owned(), changed.join("\n").into_bytes())
}

/// The changes from a revision on, for as long as this lives.
pub(super) struct Journal {
    read: Arc<watch::Sender<Read>>,
    follower: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Read {
    /// Up to here.
    revision: StoreRevision,
    /// The keys of the records that changed and were not taken yet.
    changed: BTreeSet<String>,
    /// Some may be missing.
    is_lost: bool,
}

impl Journal {
    pub(super) fn follow(store: Arc<dyn Store>, from: StoreRevision) -> Self {
        let read = Arc::new(watch::Sender::new(Read::default()));
        let follower = tokio::spawn(follow(store, from, read.clone()));
        Self { read, follower }
    }

    /// The keys of the records that have changed since this was asked last, those of this revision among them. `None` if they are not to
    /// be had.
    pub(super) async fn changed_up_to(&self, revision: StoreRevision) -> Option<BTreeSet<String>> {
        let mut read = self.read.subscribe();
        let reached = read.wait_for(|read| read.is_lost || read.revision >= revision);
        tokio::time::timeout(PATIENCE, reached).await.ok()?.ok()?;
        let mut changed = None;
        self.read.send_modify(|read| changed = (!read.is_lost).then(|| std::mem::take(&mut read.changed)));
        changed
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

async fn follow(store: Arc<dyn Store>, from: StoreRevision, read: Arc<watch::Sender<Read>>) {
    if let Ok(mut batches) = store.watch(keys::PERMISSIONS_REVISION, from).await {
        while let Some(Ok(batch)) = batches.next().await {
            read.send_modify(|read| {
                read.revision = batch.revision;
                for event in batch.events {
                    match event {
                        Event::Put(entry) => match String::from_utf8(entry.value) {
                            Ok(changed) => read.changed.extend(changed.lines().map(str::to_owned)),
                            Err(_) => read.is_lost = true,
                        },
                        Event::Delete { .. } => read.is_lost = true,
                    }
                }
                read.is_lost |= read.changed.len() > MOST;
            });
            if read.borrow().is_lost {
                return;
            }
        }
    }
    read.send_modify(|read| read.is_lost = true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::Embedded;
    use crate::store::{Committed, Txn};

    async fn change(store: &dyn Store, keys: &[&str]) -> StoreRevision {
        let mut changes: Vec<_> = keys.iter().map(|key| put((*key).to_owned(), Vec::new())).collect();
        changes.push(note(&changes));
        match store.txn(Txn { compares: Vec::new(), changes }).await {
            Ok(Committed::Yes(revision)) => revision,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn it_says_which_records_changed_since_it_was_asked_last() {
        let folder = tempfile::tempdir().expect("a folder");
        let store: Arc<dyn Store> = Arc::new(Embedded::open(folder.path()).expect("a store"));
        let (group, user, track) = ("resources/permissions/groups/0/g", "permissions/users/0/u", "resources/permissions/tracks/0/t");
        let before = change(&*store, &["permissions/users/0/before"]).await;
        let journal = Journal::follow(store.clone(), before + 1);
        let set = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>());
        change(&*store, &[group, "resources/permissions/settings"]).await;
        let at = change(&*store, &[user, "permissions/names/0/u"]).await;
        assert_eq!(journal.changed_up_to(at).await, set(&[group, user]));
        assert_eq!(journal.changed_up_to(at).await, set(&[]));
        let at = change(&*store, &[track]).await;
        assert_eq!(journal.changed_up_to(at).await, set(&[track]));
        // What it may have missed it does not hide.
        let changes = vec![Change::Delete(keys::PERMISSIONS_REVISION.to_owned())];
        store.txn(Txn { compares: Vec::new(), changes }).await.expect("removed");
        let at = change(&*store, &[user]).await;
        assert_eq!(journal.changed_up_to(at).await, None);
    }
}
