//! Entries, listings and transactions.

use moonbridge_controlplane::store::{Change, Committed, Compare, List, MAX_BYTES, MAX_OPERATIONS, PAGE, StoreError, Txn};

use crate::support::*;

pub(crate) async fn puts_are_got(fixture: &impl Fixture) {
    let store = &*fixture.store();
    assert_eq!(get(store, "backends/lobby").await, None);
    let first = put(store, "backends/lobby", "one").await;
    assert_eq!(get(store, "backends/lobby").await, Some(entry("backends/lobby", "one", first)));
    let second = put(store, "backends/lobby", [0, 255, 0]).await;
    assert!(second > first);
    assert_eq!(get(store, "backends/lobby").await, Some(entry("backends/lobby", [0, 255, 0], second)));
    // The same value is a change, too.
    let third = put(store, "backends/lobby", [0, 255, 0]).await;
    assert_eq!(get(store, "backends/lobby").await.map(|entry| entry.modified), Some(third));
    assert!(third > second);
    let empty = put(store, "backends/empty", "").await;
    assert_eq!(get(store, "backends/empty").await, Some(entry("backends/empty", "", empty)));
    delete(store, "backends/lobby").await;
    assert_eq!(get(store, "backends/lobby").await, None);
    assert_eq!(get(store, "backends").await, None);
}

pub(crate) async fn a_listing_is_in_order_and_ends_at_its_prefix(fixture: &impl Fixture) {
    let store = &*fixture.store();
    assert!(all(store, "", 0).await.is_empty());
    // Written in another order than that of their bytes.
    let inside = ["a/", "a/\0", "a/0", "a/b", "a/b/c", "a/~", "a/\u{7f}", "a/é", "a/\u{fffd}", "a/\u{10ffff}", "a/\u{10ffff}z"];
    for key in inside.iter().rev().chain(&["a", "a.", "a0", "a\u{80}", "b", "A/b", "é"]) {
        put(store, key, key).await;
    }
    assert_eq!(keys(store, "a/").await, inside);
    assert_eq!(keys(store, "").await.len(), inside.len() + 7);
    assert_eq!(keys(store, "a/\u{10ffff}").await, ["a/\u{10ffff}", "a/\u{10ffff}z"]);
    assert!(keys(store, "a//").await.is_empty());
    for limit in 1..=inside.len() + 1 {
        let entries = all(store, "a/", limit).await;
        assert_eq!(entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), inside, "pages of {limit}");
        assert!(entries.iter().all(|entry| entry.value == entry.key.as_bytes()));
    }
    let after = async |after: &str| {
        let page = soon(store.list(List { prefix: "a/".into(), after: after.into(), ..List::default() })).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>()
    };
    assert_eq!(after("").await, inside);
    assert_eq!(after("A").await, inside, "before the prefix");
    assert_eq!(after("a/").await, inside[1..], "exclusive");
    assert_eq!(after("a/aaa").await, inside[3..], "no key there");
    assert!(after("a0").await.is_empty(), "after the prefix");
    assert!(after("zzz").await.is_empty(), "after the prefix");
    let exact = soon(store.list(List { prefix: "a/".into(), limit: inside.len(), ..List::default() })).await.unwrap();
    assert!(!exact.more, "nothing follows");
}

pub(crate) async fn pages_are_of_one_revision_while_others_write(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let key = |number: usize| format!("p/{number:03}");
    for number in (0..100).step_by(2) {
        change(store, vec![put_change(&key(number), "old", 0)]).await;
    }
    let before = all(store, "p/", 0).await;
    let mut list = List { prefix: "p/".into(), limit: 7, ..List::default() };
    let mut seen = Vec::new();
    loop {
        let page = soon(store.list(list.clone())).await.unwrap();
        assert!(page.entries.len() <= 7);
        assert!(list.at.is_none_or(|at| at == page.revision));
        seen.extend(page.entries);
        list.at = Some(page.revision);
        list.after = seen.last().unwrap().key.clone();
        // Before and after the place of the next page: overwritten, deleted, new, deleted and new.
        let here = seen.len() * 2;
        for number in [here.saturating_sub(6), here + 2, here + 6].into_iter().filter(|number| *number < 100) {
            put(store, &key(number), "new").await;
        }
        for number in [here.saturating_sub(4), here + 4].into_iter().filter(|number| *number < 100) {
            delete(store, &key(number)).await;
        }
        delete(store, &key(here + 8)).await;
        put(store, &key(here + 8), "new").await;
        put(store, &key(here + 1), "new").await;
        put(store, &key(here.saturating_sub(3)), "new").await;
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, before);
    assert_ne!(all(store, "p/", 0).await, before);
}

pub(crate) async fn a_page_has_an_upper_limit(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let keys: Vec<_> = (0..PAGE + 5).map(|number| format!("{number:05}")).collect();
    for part in keys.chunks(MAX_OPERATIONS) {
        change(store, part.iter().map(|key| put_change(key, "", 0)).collect()).await;
    }
    for limit in [0, PAGE, PAGE + 1, usize::MAX] {
        let page = soon(store.list(List { limit, ..List::default() })).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (PAGE, true), "limit {limit}");
        let after = page.entries.last().unwrap().key.clone();
        let rest = soon(store.list(List { limit, after, at: Some(page.revision), ..List::default() })).await.unwrap();
        assert_eq!((rest.entries.len(), rest.more), (5, false), "limit {limit}");
    }
}

pub(crate) async fn other_revisions_are_refused(fixture: &impl Fixture) {
    let store = &*fixture.store();
    put(store, "key", "").await;
    let at = newest(store).await + 1_000_000;
    assert!(matches!(store.list(List { at: Some(at), ..List::default() }).await, Err(StoreError::Invalid(_))));
    assert!(matches!(store.list(List { at: Some(0), ..List::default() }).await, Err(StoreError::Compacted(0))));
}

pub(crate) async fn every_compare_holds_and_fails(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let first = put(store, "here", "").await;
    let modified = put(store, "here", "").await;
    let gone = put(store, "gone", "").await;
    delete(store, "gone").await;
    let absent = |key: &str| Compare::Absent(key.into());
    let present = |key: &str| Compare::Present(key.into());
    let changed = |key: &str, revision| Compare::Modified(key.into(), revision);
    let cases = [
        (vec![absent("never")], true),
        (vec![absent("gone")], true),
        (vec![absent("here")], false),
        (vec![present("here")], true),
        (vec![present("gone")], false),
        (vec![present("never")], false),
        (vec![changed("here", modified)], true),
        (vec![changed("here", first)], false),
        (vec![changed("here", modified + 1)], false),
        (vec![changed("here", 0)], false),
        (vec![changed("here", u64::MAX)], false),
        (vec![changed("gone", gone)], false),
        (vec![changed("never", 0)], false),
        (vec![changed("never", u64::MAX)], false),
        (vec![changed("here", modified), present("here"), absent("gone")], true),
        (vec![changed("here", modified), present("here"), absent("here")], false),
        (vec![present("gone"), changed("here", modified)], false),
    ];
    for (compares, holds) in cases {
        let compared = format!("{compares:?}");
        let before = get(store, "mark").await;
        let committed = commit(store, compares, vec![put_change("mark", "", 0), put_change("other", "", 0)]).await.unwrap();
        let after = get(store, "mark").await;
        match committed {
            Committed::Yes(revision) => assert_eq!((holds, after.map(|entry| entry.modified)), (true, Some(revision)), "{compared}"),
            Committed::Conflict => assert_eq!((holds, &after), (false, &before), "{compared}"),
        }
    }
    // The keys compared may be those changed.
    let deleted = commit(store, vec![changed("here", modified)], vec![Change::Delete("here".into())]).await;
    assert!(matches!(deleted, Ok(Committed::Yes(_))));
    assert_eq!(commit(store, vec![changed("here", modified)], vec![Change::Delete("here".into())]).await.unwrap(), Committed::Conflict);
}

pub(crate) async fn a_transaction_is_one_revision(fixture: &impl Fixture) {
    let store = &*fixture.store();
    put(store, "b", "old").await;
    let before = put(store, "d", "old").await;
    let changes = vec![put_change("c", "3", 0), Change::Delete("b".into()), put_change("a", "1", 0), Change::Delete("never".into())];
    let revision = change(store, changes).await;
    assert!(revision > before);
    assert_eq!(all(store, "", 0).await, [entry("a", "1", revision), entry("c", "3", revision), entry("d", "old", before)]);
    let older = soon(store.list(List { at: Some(before), ..List::default() })).await.unwrap();
    assert_eq!(older.entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["b", "d"]);
}

pub(crate) async fn a_transaction_without_effect_is_committed(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let first = put(store, "key", "").await;
    let nothing = change(store, Vec::new()).await;
    let no_such_key = delete(store, "never").await;
    assert!(first <= nothing && nothing <= no_such_key);
    assert_eq!(commit(store, vec![Compare::Absent("key".into())], Vec::new()).await.unwrap(), Committed::Conflict);
    assert!(matches!(commit(store, vec![Compare::Present("key".into())], Vec::new()).await, Ok(Committed::Yes(_))));
    assert_eq!(all(store, "", 0).await, [entry("key", "", first)]);
}

pub(crate) async fn what_is_too_much_is_refused(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let put = |key: String| put_change(&key, "", 0);
    let many = MAX_OPERATIONS + 1;
    let refused = [
        ("changes", Vec::new(), (0..many).map(|key| put(key.to_string())).collect()),
        ("compares", (0..many).map(|key| Compare::Absent(key.to_string())).collect(), vec![put("key".into())]),
        ("a large value", Vec::new(), vec![put_change("key", vec![0; MAX_BYTES], 0)]),
        ("large values", Vec::new(), (0..4).map(|key| put_change(&key.to_string(), vec![0; MAX_BYTES / 4], 0)).collect()),
        ("a large key", Vec::new(), vec![put("k".repeat(MAX_BYTES))]),
        ("a large key compared", vec![Compare::Absent("k".repeat(MAX_BYTES))], vec![put("key".into())]),
        ("put twice", Vec::new(), vec![put("key".into()), put("key".into())]),
        ("put and deleted", Vec::new(), vec![put("key".into()), Change::Delete("key".into())]),
        ("deleted twice", Vec::new(), vec![Change::Delete("key".into()), Change::Delete("key".into())]),
        ("an empty key", Vec::new(), vec![put(String::new())]),
        ("an empty key compared", vec![Compare::Absent(String::new())], vec![put("key".into())]),
        ("a negative lease", Vec::new(), vec![put_change("key", "", -1)]),
    ];
    for (what, compares, changes) in refused {
        let answer = commit(store, compares, changes).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{what}: {answer:?}");
    }
    assert!(all(store, "", 0).await.is_empty());
}

pub(crate) async fn the_most_is_accepted(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let keys: Vec<_> = (0..MAX_OPERATIONS).map(|number| format!("{number:03}")).collect();
    let txn = |size: usize| Txn {
        compares: keys.iter().map(|key| Compare::Absent(key.clone())).collect(),
        changes: keys.iter().map(|key| put_change(key, vec![b'x'; size], 0)).collect(),
    };
    let mut size = MAX_BYTES / MAX_OPERATIONS;
    while txn(size).check().is_err() {
        size -= 1;
    }
    assert!(size > 12_000, "{size}");
    assert!(matches!(soon(store.txn(txn(size))).await, Ok(Committed::Yes(_))), "many of the largest values");
    assert_eq!(all(store, "", 50).await.len(), MAX_OPERATIONS);

    let mut size = MAX_BYTES;
    let txn = |size: usize| Txn { compares: Vec::new(), changes: vec![put_change("large", vec![b'x'; size], 0)] };
    while txn(size).check().is_err() {
        size -= 1;
    }
    let from = newest(store).await + 1;
    assert!(matches!(soon(store.txn(txn(size))).await, Ok(Committed::Yes(_))), "one of the largest value");
    assert_eq!(get(store, "large").await.map(|entry| entry.value.len()), Some(size));
    // More than what a gRPC message carries unless told otherwise (4 MiB), listed and watched.
    for key in ["large/1", "large/2", "large/3"] {
        put(store, key, vec![b'x'; size - 2]).await;
    }
    assert_eq!(all(store, "large", 0).await.len(), 4);
    assert_eq!(events(&mut watch(store, "large", from).await, 4).await.len(), 4);
}

pub(crate) async fn no_increment_is_lost(fixture: &impl Fixture) {
    let store = fixture.store();
    // Two counters that are always equal; by compare-and-put from the first on.
    let (tasks, each) = (8, 25);
    let increments = (0..tasks).map(|_| {
        let store = fixture.store();
        tokio::spawn(async move {
            let mut conflicts = 0;
            for _ in 0..each {
                loop {
                    let old = get(&*store, "counter").await;
                    let (compare, number) = match &old {
                        None => (Compare::Absent("counter".into()), 0),
                        Some(entry) => (Compare::Modified("counter".into(), entry.modified), number(&entry.value)),
                    };
                    let next = (number + 1).to_string();
                    let changes = vec![put_change("counter", &next, 0), put_change("same", &next, 0)];
                    match commit(&*store, vec![compare], changes).await.unwrap() {
                        Committed::Yes(_) => break,
                        Committed::Conflict => conflicts += 1,
                    }
                }
            }
            conflicts
        })
    });
    let mut conflicts = 0;
    for task in increments.collect::<Vec<_>>() {
        conflicts += soon(task).await.unwrap();
    }
    let counter = get(&*store, "counter").await.unwrap();
    assert_eq!(number(&counter.value), tasks * each);
    assert_eq!(get(&*store, "same").await.map(|entry| (entry.value, entry.modified)), Some((counter.value, counter.modified)));
    assert!(conflicts > 0, "the tasks did not meet");
}

fn number(value: &[u8]) -> usize {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

pub(crate) async fn the_id_stays(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = store.id().to_owned();
    assert!(id.parse::<uuid::Uuid>().is_ok(), "{id}");
    put(&*store, "store-id", "mine").await;
    assert_eq!(store.id(), id);
    drop(store);
    assert_eq!(fixture.id_seen_by_another().await, id);
}
