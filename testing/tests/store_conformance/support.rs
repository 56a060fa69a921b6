//! What the tests of the suite are given, and short names for what they do.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use moonbridge_controlplane::store::{
    Batch, Change, Committed, Compare, Entry, Event, LeaseId, List, Store, StoreError, StoreRevision, Txn, Watch,
};

/// Far more than anything should take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A fresh, empty store of one kind.
#[tonic::async_trait]
pub(crate) trait Fixture: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;
    /// Makes the store forget all but the newest revision.
    async fn compact(&self);
    /// The id that another handle on the same store sees; closes this one if two cannot be.
    async fn id_seen_by_another(&self) -> String;
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("this takes too long")
}

pub(crate) fn put_change(key: &str, value: impl AsRef<[u8]>, lease: LeaseId) -> Change {
    Change::Put { key: key.into(), value: value.as_ref().into(), lease }
}

pub(crate) async fn commit(store: &dyn Store, compares: Vec<Compare>, changes: Vec<Change>) -> Result<Committed, StoreError> {
    soon(store.txn(Txn { compares, changes })).await
}

/// Makes changes without conditions; their revision.
pub(crate) async fn change(store: &dyn Store, changes: Vec<Change>) -> StoreRevision {
    match commit(store, Vec::new(), changes).await {
        Ok(Committed::Yes(revision)) => revision,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn put(store: &dyn Store, key: &str, value: impl AsRef<[u8]>) -> StoreRevision {
    change(store, vec![put_change(key, value, 0)]).await
}

pub(crate) async fn delete(store: &dyn Store, key: &str) -> StoreRevision {
    change(store, vec![Change::Delete(key.into())]).await
}

pub(crate) async fn get(store: &dyn Store, key: &str) -> Option<Entry> {
    soon(store.get(key)).await.expect("the store answers")
}

/// All entries with this prefix, by pages of `limit`.
pub(crate) async fn all(store: &dyn Store, prefix: &str, limit: usize) -> Vec<Entry> {
    let mut list = List { prefix: prefix.into(), limit, ..List::default() };
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let page = soon(store.list(list.clone())).await.expect("the store answers");
        entries.extend(page.entries);
        if !page.more {
            return entries;
        }
        list.at = Some(page.revision);
        list.after = entries.last().expect("a page with more after it has entries").key.clone();
    }
}

pub(crate) async fn keys(store: &dyn Store, prefix: &str) -> Vec<String> {
    all(store, prefix, 0).await.into_iter().map(|entry| entry.key).collect()
}

/// The newest revision.
pub(crate) async fn newest(store: &dyn Store) -> StoreRevision {
    soon(store.list(List { limit: 1, ..List::default() })).await.expect("the store answers").revision
}

pub(crate) async fn watch(store: &dyn Store, prefix: &str, from: StoreRevision) -> Watch {
    soon(store.watch(prefix, from)).await.expect("the watch begins")
}

/// The next batch that has events.
pub(crate) async fn batch(watch: &mut Watch) -> Batch {
    loop {
        let batch = soon(watch.next()).await.expect("the watch goes on").expect("the watch goes on");
        if !batch.events.is_empty() {
            return batch;
        }
    }
}

/// The next `count` events; batches that are in order and whole are checked on the way.
pub(crate) async fn events(watch: &mut Watch, count: usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut told = 0;
    while events.len() < count {
        let batch = batch(watch).await;
        for event in &batch.events {
            assert!(revision(event) > told, "{event:?} in a batch after that of revision {told}");
        }
        assert!(batch.events.is_sorted_by_key(revision), "{batch:?}");
        assert!(batch.revision >= batch.events.last().map_or(0, revision), "{batch:?}");
        told = batch.revision;
        events.extend(batch.events);
    }
    assert_eq!(events.len(), count, "{events:?}");
    events
}

pub(crate) fn revision(event: &Event) -> StoreRevision {
    match event {
        Event::Put(entry) => entry.modified,
        Event::Delete { modified, .. } => *modified,
    }
}

pub(crate) fn entry(key: &str, value: impl AsRef<[u8]>, modified: StoreRevision) -> Entry {
    Entry { key: key.into(), value: value.as_ref().into(), modified, lease: 0 }
}

/// The error that ends a watch, whatever comes before.
pub(crate) async fn end(watch: &mut Watch) -> StoreError {
    let error = loop {
        match soon(watch.next()).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("the watch ended without saying why"),
        }
    };
    assert!(soon(watch.next()).await.is_none(), "a watch ends with its first error");
    error
}
