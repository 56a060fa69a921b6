//! Leases and the keys under them.

use std::time::{Duration, Instant};

use moonbridge_controlplane::store::{Change, Committed, Compare, Event, Store, StoreError};

use crate::support::*;

/// The shortest that both stores can do.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(600);

fn is_no_lease<T>(answer: &Result<T, StoreError>, lease: i64) -> bool {
    matches!(answer, Err(StoreError::NoLease(gone)) if *gone == lease)
}

async fn grant(store: &dyn Store, ttl: Duration) -> i64 {
    let lease = soon(store.lease_grant(ttl)).await.unwrap();
    assert!(lease > 0);
    lease
}

pub(crate) async fn a_lease_ends(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let granted = Instant::now();
    let lease = grant(store, SHORT).await;
    let put_at = change(store, vec![put_change("l/one", "1", lease), put_change("l/two", "2", lease)]).await;
    put(store, "l/stays", "").await;
    assert_eq!(get(store, "l/one").await.map(|entry| (entry.lease, entry.modified)), Some((lease, put_at)));
    let mut watch = watch(store, "l/", put_at).await;
    assert_eq!(events(&mut watch, 3).await.len(), 3);
    let ended = batch(&mut watch).await;
    assert!(granted.elapsed() >= SHORT, "it ended after {:?}", granted.elapsed());
    let mut removed: Vec<_> =
        ended.events.iter().map(|event| if let Event::Delete { key, .. } = event { key.as_str() } else { "put" }).collect();
    removed.sort_unstable();
    assert_eq!(removed, ["l/one", "l/two"], "in one revision");
    assert_eq!(keys(store, "l/").await, ["l/stays"]);
    assert!(is_no_lease(&store.lease_keep_alive(lease).await, lease));
    assert!(is_no_lease(&store.lease_revoke(lease).await, lease));
    assert!(is_no_lease(&commit(store, Vec::new(), vec![put_change("l/one", "", lease)]).await, lease));
}

pub(crate) async fn a_revoked_lease_takes_its_keys(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let (lease, other) = (grant(store, LONG).await, grant(store, LONG).await);
    assert_ne!(lease, other);
    let from = newest(store).await + 1;
    for number in 0..150 {
        change(store, vec![put_change(&format!("r/{number:03}"), "", lease)]).await;
    }
    change(store, vec![put_change("r/other", "", other)]).await;
    let mut watch = watch(store, "r/", from).await;
    assert_eq!(events(&mut watch, 151).await.len(), 151);
    soon(store.lease_revoke(lease)).await.unwrap();
    // At once, not some time later.
    assert_eq!(keys(store, "r/").await, ["r/other"]);
    let removed = events(&mut watch, 150).await;
    assert!(removed.iter().all(|event| matches!(event, Event::Delete { .. })));
    assert!(is_no_lease(&store.lease_revoke(lease).await, lease));
    assert!(is_no_lease(&store.lease_keep_alive(lease).await, lease));
    soon(store.lease_keep_alive(other)).await.unwrap();
}

pub(crate) async fn a_kept_lease_lives(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let (kept, left) = (grant(store, SHORT).await, grant(store, SHORT).await);
    let from = change(store, vec![put_change("k/kept", "", kept), put_change("k/left", "", left)]).await + 1;
    let mut watch = watch(store, "k/", from).await;
    let end = Instant::now() + 3 * SHORT;
    let mut ticks = tokio::time::interval(SHORT / 10);
    while Instant::now() < end {
        ticks.tick().await;
        soon(store.lease_keep_alive(kept)).await.unwrap();
    }
    assert_eq!(keys(store, "k/").await, ["k/kept"]);
    // And ends when nobody keeps it any more.
    let ended: Vec<_> = events(&mut watch, 2)
        .await
        .into_iter()
        .map(|event| if let Event::Delete { key, .. } = event { key } else { "put".into() })
        .collect();
    assert_eq!(ended, ["k/left", "k/kept"]);
}

pub(crate) async fn a_key_leaves_its_lease(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let (first, second) = (grant(store, LONG).await, grant(store, LONG).await);
    let under_first = ["m/kept", "m/moved", "m/back", "m/deleted", "m/ends"];
    change(store, under_first.iter().map(|key| put_change(key, "", first)).collect()).await;
    change(store, vec![put_change("m/kept", "", 0), put_change("m/moved", "", second), put_change("m/back", "", second)]).await;
    change(store, vec![put_change("m/back", "", first), Change::Delete("m/deleted".into())]).await;
    put(store, "m/deleted", "").await;
    change(store, vec![put_change("m/new", "", 0)]).await;
    change(store, vec![put_change("m/new", "", second)]).await;
    let leases: Vec<_> = all(store, "m/", 0).await.into_iter().map(|entry| entry.lease).collect();
    assert_eq!(leases, [first, 0, first, 0, second, second], "back, deleted, ends, kept, moved, new");
    soon(store.lease_revoke(first)).await.unwrap();
    assert_eq!(keys(store, "m/").await, ["m/deleted", "m/kept", "m/moved", "m/new"]);
    soon(store.lease_revoke(second)).await.unwrap();
    assert_eq!(keys(store, "m/").await, ["m/deleted", "m/kept"]);
}

pub(crate) async fn an_unknown_lease_is_refused(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let unknown = 4_711;
    let before = put(store, "here", "").await;
    let answer = commit(store, Vec::new(), vec![put_change("other", "", 0), put_change("here", "changed", unknown)]).await;
    assert!(is_no_lease(&answer, unknown), "{answer:?}");
    assert_eq!(all(store, "", 0).await, [entry("here", "", before)], "nothing of it is done");
    // What does not come to it does not matter.
    let conflict = commit(store, vec![Compare::Absent("here".into())], vec![put_change("here", "", unknown)]).await;
    assert_eq!(conflict.unwrap(), Committed::Conflict);
    assert!(is_no_lease(&store.lease_keep_alive(unknown).await, unknown));
    assert!(is_no_lease(&store.lease_revoke(unknown).await, unknown));
}

pub(crate) async fn odd_leases_are_refused(fixture: &impl Fixture) {
    let store = &*fixture.store();
    for ttl in [Duration::ZERO, Duration::MAX, Duration::from_secs(366 * 24 * 3_600)] {
        assert!(matches!(store.lease_grant(ttl).await, Err(StoreError::Invalid(_))), "{ttl:?}");
    }
    // Rounded up, not down to nothing.
    grant(store, Duration::from_millis(1)).await;
}
