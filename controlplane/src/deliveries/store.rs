//! The way through the store: written by the replica that sends, taken out by the one that has the node's stream.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::v1;
use prost::Message;
use tokio_util::sync::CancellationToken;

use super::{Deliveries, State, Stored, Unwritten};
use crate::follow::View;
use crate::keys;
use crate::store::{Batch, Change, Entry, Event, MAX_OPERATIONS, Store, StoreError, StoreRevision, Txn};

/// Deliveries that are written at once: as many as fit a transaction, however long they are.
const AT_ONCE: usize = 32;
/// Between attempts to take out while the store is away.
const RETRY: Duration = Duration::from_millis(500);

/// Writes to the store and takes out of it, until shutdown.
pub(crate) async fn run(deliveries: &Deliveries, store: &dyn Store, shutdown: CancellationToken) {
    let run = async { tokio::join!(write(deliveries, store), take_out(deliveries, store)) };
    let _ = shutdown.run_until_cancelled(run).await;
}

async fn write(deliveries: &Deliveries, store: &dyn Store) {
    loop {
        deliveries.unwritten.notified().await;
        loop {
            let batch = deliveries.next_unwritten();
            if batch.is_empty() {
                break;
            }
            let left_out = match put(store, &batch).await {
                Ok(()) => 0,
                // One of the nodes has just gone: that is the end of its own only.
                Err(StoreError::NoLease(_)) => {
                    let mut failed = 0;
                    for one in &batch {
                        failed += u64::from(put(store, std::slice::from_ref(one)).await.is_err());
                    }
                    failed
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot write deliveries to the store");
                    batch.len() as u64
                }
            };
            if left_out > 0 {
                deliveries.lock().left_out.count(left_out);
            }
        }
    }
}

async fn put(store: &dyn Store, batch: &[Unwritten]) -> Result<(), StoreError> {
    let put = |unwritten: &Unwritten| {
        let Unwritten { node, lease, delivery } = unwritten;
        Change::Put { key: keys::delivery(node, &delivery.id), value: delivery.encode_to_vec(), lease: *lease }
    };
    // Nothing is compared: it is carried out or fails.
    store.txn(Txn { compares: Vec::new(), changes: batch.iter().map(put).collect() }).await.map(|_| ())
}

async fn take_out(deliveries: &Deliveries, store: &dyn Store) {
    loop {
        deliveries.sent.notified().await;
        loop {
            let batch = deliveries.next_sent();
            if batch.is_empty() {
                break;
            }
            let changes = batch.iter().map(|(node, id)| Change::Delete(keys::delivery(node, id))).collect();
            match store.txn(Txn { compares: Vec::new(), changes }).await {
                Ok(_) => deliveries.lock().forget(&batch),
                Err(error) => {
                    tracing::debug!(%error, "cannot take deliveries out of the store, trying again");
                    tokio::time::sleep(RETRY).await;
                    deliveries.lock().sent.extend(batch);
                }
            }
        }
    }
}

impl Deliveries {
    fn next_unwritten(&self) -> Vec<Unwritten> {
        let mut state = self.lock();
        let count = state.unwritten.len().min(AT_ONCE);
        state.unwritten.drain(..count).collect()
    }

    /// None twice, for no key is changed twice in a transaction.
    fn next_sent(&self) -> Vec<(String, String)> {
        let mut state = self.lock();
        let count = state.sent.len().min(MAX_OPERATIONS);
        let mut batch: Vec<_> = state.sent.drain(..count).collect();
        batch.sort_unstable();
        batch.dedup();
        batch
    }

    /// It has been sent: it goes out of the store.
    pub(super) fn take_out(&self, node: &str, id: &str) {
        let mut state = self.lock();
        if let Some(stored) = state.stored.get_mut(node).and_then(|stored| stored.get_mut(id)) {
            stored.delivery = None;
        }
        state.sent.push_back((node.to_owned(), id.to_owned()));
        self.sent.notify_one();
    }
}

impl State {
    /// Enters what the store has, unless it is known.
    fn enter(&mut self, node: &str, id: &str, value: &[u8]) {
        self.stored.entry(node.to_owned()).or_default().entry(id.to_owned()).or_insert_with(|| {
            let delivery = v1::Delivery::decode(value);
            if let Err(error) = &delivery {
                tracing::error!(node, id, %error, "this delivery cannot be read");
            }
            Stored { delivery: delivery.ok().map(Arc::new), queued: false }
        });
    }

    fn forget(&mut self, gone: &[(String, String)]) {
        for (node, id) in gone {
            self.remove(node, id);
        }
    }

    fn remove(&mut self, node: &str, id: &str) {
        if let Some(of_node) = self.stored.get_mut(node) {
            of_node.remove(id);
            if of_node.is_empty() {
                self.stored.remove(node);
            }
        }
    }
}

/// Keeps what the store has known, and on its way to the nodes whose streams are here.
pub(crate) struct Follower(pub(crate) Arc<Deliveries>);

impl View for Follower {
    fn reset(&mut self, entries: Vec<Entry>, _: StoreRevision) {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        let mut known = std::mem::take(&mut state.stored);
        for entry in &entries {
            let Some((node, id)) = keys::delivery_of(&entry.key) else { continue };
            match known.get_mut(node).and_then(|known| known.remove(id)) {
                Some(before) => {
                    state.stored.entry(node.to_owned()).or_default().insert(id.to_owned(), before);
                }
                None => state.enter(node, id, &entry.value),
            }
        }
        let here: Vec<String> = state.lanes.keys().cloned().collect();
        for node in here {
            self.0.queue_all(state, &node);
        }
    }

    fn apply(&mut self, batch: Batch) {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        for event in batch.events {
            match event {
                Event::Put(entry) => {
                    if let Some((node, id)) = keys::delivery_of(&entry.key) {
                        state.enter(node, id, &entry.value);
                        self.0.queue(state, node, id);
                    }
                }
                Event::Delete { key, .. } => {
                    if let Some((node, id)) = keys::delivery_of(&key) {
                        state.remove(node, id);
                    }
                }
            }
        }
    }
}
