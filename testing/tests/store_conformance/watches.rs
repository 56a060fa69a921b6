//! Watches.

use std::collections::BTreeMap;

use moonbridge_controlplane::store::{Change, Event, List, StoreError, StoreRevision};

use crate::support::*;

pub(crate) async fn a_watch_tells_the_past_in_order(fixture: &impl Fixture) {
    let store = &*fixture.store();
    put(store, "w/before", "").await;
    let one = put(store, "w/one", "1").await;
    put(store, "elsewhere", "").await;
    let two = put(store, "w/two", "2").await;
    let again = put(store, "w/one", "1 again").await;
    let deleted =
        change(store, vec![Change::Delete("w/two".into()), put_change("w/three", "3", 0), Change::Delete("w/never".into())]).await;
    delete(store, "w/never").await;
    let back = put(store, "w/two", "back").await;
    let expected = [
        Event::Put(entry("w/one", "1", one)),
        Event::Put(entry("w/two", "2", two)),
        Event::Put(entry("w/one", "1 again", again)),
        Event::Delete { key: "w/two".into(), modified: deleted },
        Event::Put(entry("w/three", "3", deleted)),
        Event::Put(entry("w/two", "back", back)),
    ];
    // From the revision itself on, and from each of the later ones.
    for (from, skipped) in [(one, 0), (one + 1, 1), (two, 1), (again, 2), (deleted, 3), (deleted + 1, 5), (back, 5)] {
        assert_eq!(events(&mut watch(store, "w/", from).await, expected.len() - skipped).await, expected[skipped..], "from {from}");
    }
}

pub(crate) async fn a_watch_waits_for_the_future(fixture: &impl Fixture) {
    let store = &*fixture.store();
    put(store, "f/past", "").await;
    let mut watch = watch(store, "f/", newest(store).await + 1).await;
    for round in 0..3 {
        let revision = put(store, "f/key", round.to_string()).await;
        let batch = batch(&mut watch).await;
        assert_eq!(batch.events, [Event::Put(entry("f/key", round.to_string(), revision))]);
        assert!(batch.revision >= revision);
    }
}

pub(crate) async fn a_watch_ends_at_its_prefix(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let from = newest(store).await + 1;
    for key in ["p", "p.", "p/", "p0", "p/\u{10ffff}", "q", "P/", "p/a", "p\u{80}"] {
        put(store, key, "").await;
    }
    let mut watch = watch(store, "p/", from).await;
    let keys: Vec<_> = events(&mut watch, 3)
        .await
        .into_iter()
        .map(|event| if let Event::Put(entry) = event { entry.key } else { String::new() })
        .collect();
    assert_eq!(keys, ["p/", "p/\u{10ffff}", "p/a"]);
}

pub(crate) async fn a_watch_of_all_keys(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let from = newest(store).await + 1;
    let one = put(store, "one", "").await;
    let other = put(store, "é", "").await;
    let events = events(&mut watch(store, "", from).await, 2).await;
    assert_eq!(events, [Event::Put(entry("one", "", one)), Event::Put(entry("é", "", other))]);
}

/// The store's id key and what others write are no events of ours; nor is a revision torn or told twice.
pub(crate) async fn a_watch_under_writers_has_no_gap_and_no_double(fixture: &impl Fixture) {
    const WRITERS: usize = 6;
    const EACH: usize = 40;
    let store = fixture.store();
    let start = newest(&*store).await + 1;
    let write = |writer: usize| {
        let store = fixture.store();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for round in 0..EACH {
                let key = |part: &str| format!("c/{part}/{writer}");
                let mut changes: Vec<_> = ["x", "y"].iter().map(|part| put_change(&key(part), round.to_string(), 0)).collect();
                changes.push(if round % 2 == 0 { put_change(&key("z"), "", 0) } else { Change::Delete(key("z")) });
                changes.push(put_change(&format!("other/{writer}"), "", 0));
                revisions.push(change(&*store, changes).await);
            }
            revisions
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    // One from the start; others that list in the midst of it and go on from there, as callers do.
    let from_start = collect(fixture, start, WRITERS * EACH * 3);
    let resumed = async {
        let page = store.list(List { prefix: "c/".into(), ..List::default() }).await.unwrap();
        let mut state: BTreeMap<String, Vec<u8>> = page.entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let mut watch = watch(&*store, "c/", page.revision + 1).await;
        let last = (EACH - 1).to_string().into_bytes();
        let done = |state: &BTreeMap<String, Vec<u8>>| (0..WRITERS).all(|writer| state.get(&format!("c/x/{writer}")) == Some(&last));
        while !done(&state) {
            for event in batch(&mut watch).await.events {
                match event {
                    Event::Put(entry) => state.insert(entry.key, entry.value),
                    Event::Delete { key, .. } => state.remove(&key),
                };
            }
        }
        state
    };
    let (batches, resumed) = soon(async { tokio::join!(from_start, resumed) }).await;

    let mut committed = Vec::new();
    for writer in writers {
        committed.extend(soon(writer).await.unwrap());
    }
    committed.sort_unstable();
    assert!(committed.is_sorted_by(|one, other| one < other), "a revision was given twice");
    // Every revision is there once, whole, in one batch, in order.
    let mut seen: Vec<StoreRevision> = Vec::new();
    for events in &batches {
        for revision_events in events.chunk_by(|one, other| revision(one) == revision(other)) {
            assert_eq!(revision_events.len(), 3, "a torn revision: {revision_events:?}");
            seen.push(revision(&revision_events[0]));
        }
    }
    assert_eq!(seen, committed);
    let now: BTreeMap<_, _> = all(&*store, "c/", 0).await.into_iter().map(|entry| (entry.key, entry.value)).collect();
    assert_eq!(resumed, now);
}

async fn collect(fixture: &impl Fixture, from: StoreRevision, count: usize) -> Vec<Vec<Event>> {
    let mut watch = watch(&*fixture.store(), "c/", from).await;
    let mut batches: Vec<Vec<Event>> = Vec::new();
    while batches.iter().map(Vec::len).sum::<usize>() < count {
        batches.push(batch(&mut watch).await.events);
    }
    batches
}

pub(crate) async fn a_compacted_revision_is_said(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let old = put(store, "key", "old").await;
    let mut ahead = watch(store, "key", old + 1).await;
    put(store, "key", "new").await;
    // A watch that has seen all that is forgotten goes on.
    let ahead = tokio::spawn(async move {
        batch(&mut ahead).await;
        batch(&mut ahead).await.events
    });
    fixture.compact().await;
    assert_eq!(compacted(&end(&mut watch(store, "key", old).await).await), Some(old));
    let page = store.list(List { at: Some(old), ..List::default() }).await;
    assert_eq!(page.as_ref().err().and_then(compacted), Some(old), "{page:?}");
    // What callers do then.
    let page = store.list(List { prefix: "key".into(), ..List::default() }).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| entry.value.as_slice()).collect::<Vec<_>>(), [b"new"]);
    let mut resumed = watch(store, "key", page.revision + 1).await;
    let revision = put(store, "key", "newest").await;
    assert_eq!(batch(&mut resumed).await.events, [Event::Put(entry("key", "newest", revision))]);
    assert_eq!(soon(ahead).await.unwrap(), [Event::Put(entry("key", "newest", revision))]);
}

fn compacted(error: &StoreError) -> Option<StoreRevision> {
    if let StoreError::Compacted(revision) = error { Some(*revision) } else { None }
}

pub(crate) async fn a_dropped_watch_disturbs_nobody(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let from = newest(store).await + 1;
    let mut kept = watch(store, "d/", from).await;
    for round in 0..20 {
        let mut dropped = watch(store, "d/", from).await;
        put(store, "d/key", round.to_string()).await;
        batch(&mut dropped).await;
    }
    assert_eq!(events(&mut kept, 20).await.len(), 20);
}
