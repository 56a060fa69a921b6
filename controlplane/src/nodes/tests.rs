//! What a stream does while its store is away, on a store that the test takes away.

mod permissions;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use moonbridge_proto::v1;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use uuid::Uuid;

use super::Attached;
use super::inbox::{Holding, Inbox, Item};
use super::permissions::Players;
use super::stream::{End, Held, Out, keep_lease};
use crate::keys;
use crate::presence::Attachment;
use crate::replica::Replica;
use crate::store::{Change, Committed, Entry, LeaseId, List, Page, Store, StoreError, StoreRevision, Txn, Watch};

/// What is awaited comes well before this.
const SOON: Duration = Duration::from_secs(20);

/// A store that takes everything and keeps no more than the newest record of a node; while away, it refuses all, or (hanging) says
/// nothing.
#[derive(Default)]
struct Fake {
    away: AtomicBool,
    hangs: AtomicBool,
    revision: AtomicU64,
    /// How often a lease was kept alive.
    kept: AtomicU64,
    /// Transactions that were refused.
    refused: AtomicU64,
    node: Mutex<Option<v1::Node>>,
}

impl Fake {
    async fn answer<T>(&self, value: T) -> Result<T, StoreError> {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) { Err(StoreError::Unavailable("taken away".to_owned())) } else { Ok(value) }
    }

    fn node(&self) -> v1::Node {
        self.node.lock().expect("whole").clone().unwrap_or_default()
    }
}

#[tonic::async_trait]
impl Store for Fake {
    fn id(&self) -> &str {
        "fake"
    }

    async fn get(&self, _: &str) -> Result<Option<Entry>, StoreError> {
        self.answer(None).await
    }

    async fn list(&self, _: List) -> Result<Page, StoreError> {
        self.answer(Page { entries: Vec::new(), revision: 0, more: false }).await
    }

    async fn txn(&self, txn: Txn) -> Result<Committed, StoreError> {
        let answer = self.answer(()).await;
        if answer.is_err() {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
        answer?;
        for change in txn.changes {
            match change {
                Change::Put { key, value, .. } if key.starts_with(keys::NODES) => {
                    *self.node.lock().expect("whole") = Some(v1::Node::decode(&*value).expect("a node"));
                }
                Change::Put { .. } | Change::Delete(_) => {}
            }
        }
        Ok(Committed::Yes(self.revision.fetch_add(1, Ordering::SeqCst) + 1))
    }

    async fn watch(&self, _: &str, _: StoreRevision) -> Result<Watch, StoreError> {
        Ok(Box::pin(futures::stream::pending()))
    }

    async fn lease_grant(&self, _: Duration) -> Result<LeaseId, StoreError> {
        self.answer(7).await
    }

    async fn lease_keep_alive(&self, _: LeaseId) -> Result<(), StoreError> {
        self.answer(()).await?;
        self.kept.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn lease_revoke(&self, _: LeaseId) -> Result<(), StoreError> {
        self.answer(()).await
    }
}

fn replica(store: &Arc<Fake>, lease: Duration) -> Arc<Replica> {
    Replica::new("replica".to_owned(), lease, store.clone(), CancellationToken::new())
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it happens in time")
}

/// Waits until `check` holds; what it looks at has no event to wait for.
async fn until(check: impl Fn() -> bool) {
    soon(async {
        while !check() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The stream of a node that speaks is ended as the store goes: when it refuses, and when it hangs.
#[tokio::test]
async fn a_replica_without_its_store_gives_its_nodes_up_after_half_the_lease() {
    const LEASE: Duration = Duration::from_millis(500);
    for hangs in [false, true] {
        let store = Arc::new(Fake::default());
        let replica = replica(&store, LEASE);
        let heard = AtomicU64::new(0);
        let held = Held { lease: 7, node: "n", fence: 1 };
        // It speaks all the while.
        let keep = keep_lease(&replica, held, &heard, || true);
        let away = async {
            until(|| store.kept.load(Ordering::SeqCst) >= 8).await;
            // That was more than a lease, and the stream stays.
            if hangs { &store.hangs } else { &store.away }.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        let end = soon(async {
            tokio::select! {
                end = keep => end,
                () = away => unreachable!("it never ends"),
            }
        })
        .await;
        let Err(End::Failed(status)) = end else { panic!("expected a failure") };
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(status.message().contains("attach to another"), "{status:?}");
        assert!(began.elapsed() >= LEASE * 8 / 5 + LEASE / 2 - LEASE / 5, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_silent_nodes_lease_is_not_kept_and_not_blamed_on_the_store() {
    const LEASE: Duration = Duration::from_millis(50);
    let store = Arc::new(Fake::default());
    store.away.store(true, Ordering::SeqCst);
    let replica = replica(&store, LEASE);
    let heard = AtomicU64::new(0);
    let keep = keep_lease(&replica, Held { lease: 7, node: "n", fence: 1 }, &heard, || false);
    assert!(timeout(LEASE * 4, keep).await.is_err(), "the reader ends a silent node's stream, not this");
}

#[tokio::test]
async fn an_ack_that_came_while_the_store_was_away_is_in_the_next_write() {
    let store = Arc::new(Fake::default());
    let replica = replica(&store, Duration::from_secs(10));
    let node = v1::Node { id: Uuid::now_v7().to_string(), name: "edge".to_owned(), ..v1::Node::default() };
    let attachment = Attachment::begin(&*store, node.clone(), Vec::new(), Vec::new(), replica.lease).await.expect("attached");
    let (sender, _messages) = mpsc::channel(8);
    let out = Out { sender, patience: SOON };
    let (items, inbox) = mpsc::channel(8);
    let (players, holding) = (Players::default(), Holding::default());
    let inbox = Inbox { replica: &replica, attachment, out, items: inbox, holding, players: &players, claims: mpsc::channel(1).0 };
    let revision = |number| v1::Revision { store_id: "fake".to_owned(), number };
    let test = async {
        let put = async |item| assert!(items.send(item).await.is_ok(), "the inbox is open");
        store.away.store(true, Ordering::SeqCst);
        put(Item::InForce(revision(3))).await;
        until(|| store.refused.load(Ordering::SeqCst) == 1).await;
        let errors = vec![v1::FieldError { path: "routes[0]".to_owned(), problem: "bad".to_owned() }];
        put(Item::Nack(v1::Nack { revision: Some(revision(4)), errors })).await;
        until(|| store.refused.load(Ordering::SeqCst) == 2).await;
        store.away.store(false, Ordering::SeqCst);
        // An ordinary report, and the store has both.
        put(Item::Node(Box::new(node))).await;
        until(|| store.node().revision == Some(revision(3))).await;
        assert_eq!((store.node().refused, store.node().refused_for.len()), (Some(revision(4)), 1));
        put(Item::InForce(revision(5))).await;
        until(|| store.node().revision == Some(revision(5))).await;
        assert_eq!((store.node().refused, store.node().refused_for.len()), (None, 0));
    };
    tokio::select! {
        _ = inbox.run(Vec::new()) => panic!("the inbox has ended"),
        () = test => {}
    }
}

#[test]
fn a_stream_that_leaves_never_takes_out_a_newer_one() {
    for _ in 0..200 {
        let attached = Attached::default();
        let older = attached.enter("n");
        let start = Barrier::new(3);
        let newer = std::thread::scope(|scope| {
            // Both wait for the lock, so that they meet in either order.
            let held = attached.newest.lock().expect("whole");
            let newer = scope.spawn(|| {
                start.wait();
                attached.enter("n")
            });
            scope.spawn(|| {
                start.wait();
                attached.leave("n", &older);
            });
            start.wait();
            (0..20).for_each(|_| std::thread::yield_now());
            drop(held);
            newer.join().expect("no panic")
        });
        // It is in the list, so that the next one ends it.
        attached.enter("n");
        assert!(newer.is_cancelled());
    }
}
