//! Deliveries between replicas that share a store.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use v1::player_text::Text;

use super::*;
use crate::follow::{View, follow, list_all};
use crate::keys;
use crate::store::embedded::Embedded;
use crate::store::{Committed, Entry, List, Page, Store, StoreError, StoreRevision, Txn, Watch};

const SOON: Duration = Duration::from_secs(20);

/// A store that can be taken away, for transactions.
struct Shelf {
    inner: Embedded,
    away: AtomicBool,
}

#[tonic::async_trait]
impl Store for Shelf {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.inner.get(key).await
    }

    async fn list(&self, list: List) -> Result<Page, StoreError> {
        self.inner.list(list).await
    }

    async fn txn(&self, txn: Txn) -> Result<Committed, StoreError> {
        match self.away.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("taken away".to_owned())),
            false => self.inner.txn(txn).await,
        }
    }

    async fn watch(&self, prefix: &str, from: StoreRevision) -> Result<Watch, StoreError> {
        self.inner.watch(prefix, from).await
    }

    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        self.inner.lease_grant(ttl).await
    }

    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.lease_keep_alive(lease).await
    }

    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.lease_revoke(lease).await
    }
}

struct Stage {
    store: Arc<Shelf>,
    lease: LeaseId,
    shutdown: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = Embedded::open(folder.path()).expect("a store");
        let store = Arc::new(Shelf { inner, away: AtomicBool::new(false) });
        let lease = store.lease_grant(SOON * 10).await.expect("a lease");
        Self { store, lease, shutdown: CancellationToken::new(), _folder: folder }
    }

    /// Another replica on the store.
    fn replica(&self) -> Arc<Deliveries> {
        let deliveries = Deliveries::new();
        tokio::spawn(follow(self.store.clone(), keys::DELIVERIES, Follower(deliveries.clone()), self.shutdown.clone()));
        let (of_it, store, shutdown) = (deliveries.clone(), self.store.clone(), self.shutdown.clone());
        tokio::spawn(async move { run(&of_it, &*store, shutdown).await });
        deliveries
    }

    async fn stored(&self) -> usize {
        list_all(&*self.store, keys::DELIVERIES).await.expect("listed").0.len()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it happens in time")
}

/// Waits for what has no event to wait for.
async fn until(mut check: impl AsyncFnMut() -> bool) {
    soon(async {
        while !check().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn text(text: impl ToString) -> v1::Delivery {
    let text = v1::PlayerText { text: Some(Text::Legacy(text.to_string())) };
    delivery(delivery::To::Everybody(true), delivery::What::Text(text))
}

fn words(delivery: &v1::Delivery) -> String {
    match &delivery.what {
        Some(delivery::What::Text(v1::PlayerText { text: Some(Text::Legacy(text)) })) => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// The next so many, sent.
async fn take(lane: &mut Lane, count: usize) -> Vec<String> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let next = soon(lane.next()).await.expect("a delivery");
        taken.push(words(&next.delivery));
        lane.sent(&next);
    }
    taken
}

fn numbers(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn to_a_node_that_is_here_they_go_straight_and_no_more_than_fit() {
    let here = Deliveries::new();
    let mut lane = here.attach("n");
    let sent = (0..MAX_WAITING + 5).filter(|number| here.send("n", Some(1), text(number))).count();
    assert_eq!((sent, here.lock().left_out.total), (MAX_WAITING, 5));
    assert_eq!(take(&mut lane, MAX_WAITING).await, numbers(0..MAX_WAITING));
    assert!(here.send("n", None, text("again")));
    drop(lane);
    assert!(!here.send("n", None, text("nowhere")), "it is not here, and nobody knows its lease");
}

#[tokio::test]
async fn a_newer_stream_takes_over_and_the_end_of_the_older_changes_nothing() {
    let here = Deliveries::new();
    let mut old = here.attach("n");
    here.send("n", None, text("old"));
    let mut new = here.attach("n");
    here.send("n", None, text("new"));
    assert_eq!(take(&mut old, 1).await, ["old"]);
    assert!(soon(old.next()).await.is_none());
    drop(old);
    here.send("n", None, text("newer"));
    assert_eq!(take(&mut new, 2).await, ["new", "newer"]);
    drop(new);
    assert!(!here.has("n"));
}

#[tokio::test]
async fn to_a_node_elsewhere_they_go_through_the_store_in_order_and_leave_nothing_there() {
    let stage = Stage::new().await;
    let (here, there) = (stage.replica(), stage.replica());
    // Some from before the node's stream has begun, for another replica as well.
    let sent = (0..100).filter(|number| here.send("n", Some(stage.lease), text(number))).count();
    assert_eq!(sent, 100);
    until(async || there.lock().stored.get("n").is_some_and(|stored| stored.len() == 100)).await;
    let mut lane = there.attach("n");
    for number in 100..200 {
        assert!(here.send("n", Some(stage.lease), text(number)));
    }
    assert_eq!(take(&mut lane, 200).await, numbers(0..200));
    until(async || stage.stored().await == 0).await;
    until(async || here.lock().stored.is_empty() && there.lock().stored.is_empty()).await;
    assert_eq!(here.lock().left_out.total + there.lock().left_out.total, 0);
}

#[tokio::test]
async fn what_was_on_a_lane_and_not_sent_goes_to_the_node_s_next_one() {
    let stage = Stage::new().await;
    let (here, there) = (stage.replica(), stage.replica());
    let mut lane = there.attach("n");
    for number in 0..3 {
        here.send("n", Some(stage.lease), text(number));
    }
    assert_eq!(take(&mut lane, 1).await, numbers(0..1));
    // Taken, but the stream breaks before it is sent.
    soon(lane.next()).await.expect("the second");
    drop(lane);
    until(async || here.lock().stored.get("n").is_some_and(|stored| stored.len() == 2)).await;
    let mut lane = here.attach("n");
    assert_eq!(take(&mut lane, 2).await, numbers(1..3));
    until(async || stage.stored().await == 0).await;
}

#[tokio::test]
async fn a_node_that_has_gone_costs_the_others_nothing_and_takes_its_own_with_it() {
    let stage = Stage::new().await;
    let (here, there) = (stage.replica(), stage.replica());
    let gone = stage.store.lease_grant(SOON).await.expect("a lease");
    stage.store.lease_revoke(gone).await.expect("revoked");
    let mut lane = there.attach("n");
    for number in 0..3 {
        assert!(here.send("gone", Some(gone), text("nobody")));
        assert!(here.send("n", Some(stage.lease), text(number)));
    }
    assert_eq!(take(&mut lane, 3).await, numbers(0..3));
    until(async || here.lock().left_out.total == 3).await;

    here.send("m", Some(stage.lease), text("late"));
    until(async || there.lock().stored.contains_key("m")).await;
    stage.store.lease_revoke(stage.lease).await.expect("revoked");
    until(async || there.lock().stored.is_empty() && here.lock().stored.is_empty()).await;
}

#[tokio::test]
async fn a_store_that_is_away_loses_what_is_to_be_written_and_keeps_what_is_to_be_taken_out_until_it_is_back() {
    let stage = Stage::new().await;
    let (here, there) = (stage.replica(), stage.replica());
    let mut lane = there.attach("n");
    here.send("n", Some(stage.lease), text("before"));
    let next = soon(lane.next()).await.expect("a delivery");
    stage.store.away.store(true, Ordering::SeqCst);
    lane.sent(&next);
    here.send("n", Some(stage.lease), text("lost"));
    until(async || here.lock().left_out.total == 1).await;
    assert_eq!(stage.stored().await, 1);
    stage.store.away.store(false, Ordering::SeqCst);
    until(async || stage.stored().await == 0).await;
    here.send("n", Some(stage.lease), text("after"));
    assert_eq!(take(&mut lane, 1).await, ["after"]);
}

#[tokio::test]
async fn the_store_holds_only_so_many_for_a_node_that_is_nowhere() {
    let stage = Stage::new().await;
    let here = stage.replica();
    let mut sent = 0;
    while here.send("n", Some(stage.lease), text(sent)) {
        sent += 1;
        // As fast as they are written, so that only the node's own bound holds.
        until(async || here.lock().stored.get("n").is_some_and(|stored| stored.len() == sent)).await;
    }
    assert_eq!(sent, MAX_WAITING);
    let mut lane = here.attach("n");
    assert_eq!(take(&mut lane, sent).await, numbers(0..sent));
    until(async || here.lock().stored.is_empty()).await;
    assert!(here.send("n", Some(stage.lease), text("again")));
}

#[tokio::test]
async fn what_cannot_be_read_is_taken_out() {
    let stage = Stage::new().await;
    let there = stage.replica();
    let changes = vec![crate::store::Change::Put { key: keys::delivery("n", "x"), value: vec![0xff; 9], lease: stage.lease }];
    stage.store.txn(Txn { compares: Vec::new(), changes }).await.expect("put");
    until(async || there.lock().stored.contains_key("n")).await;
    let _lane = there.attach("n");
    until(async || stage.stored().await == 0).await;
}

#[tokio::test]
async fn a_listing_brings_what_is_new_once_and_forgets_what_has_gone() {
    let there = Deliveries::new();
    let mut view = Follower(there.clone());
    let entry = |delivery: &v1::Delivery, node: &str| {
        let key = keys::delivery(node, &delivery.id);
        Entry { key, value: prost::Message::encode_to_vec(delivery), modified: 1, lease: 1 }
    };
    let (old, fresh, other) = (text("old"), text("new"), text("other"));
    let mut lane = there.attach("n");
    view.reset(vec![entry(&old, "n"), entry(&other, "m")], 1);
    view.reset(vec![entry(&old, "n"), entry(&fresh, "n")], 2);
    assert_eq!(take(&mut lane, 2).await, ["old", "new"]);
    // Both are sent and still to be taken out.
    view.reset(vec![entry(&old, "n"), entry(&fresh, "n"), entry(&text("last"), "n")], 3);
    assert_eq!(take(&mut lane, 1).await, ["last"]);
    assert_eq!(there.lock().stored.keys().collect::<Vec<_>>(), ["n"]);
}
