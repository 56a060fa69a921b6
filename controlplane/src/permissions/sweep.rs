//! Removes generations that are of no use: those that an import replaced, and what is left of imports that were not finished; and
//! the oldest entries of who logged in under a name, so that names made up by strangers do not pile up. Every replica sweeps; each
//! removal compares that nobody can come to need what it removes.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::head::Head;
use crate::keys;
use crate::store::{Change, Committed, Compare, List, MAX_OPERATIONS, Store, StoreError, StoreRevision, Txn};

const SWEEP_EVERY: Duration = Duration::from_secs(5);
const PRUNE_EVERY: Duration = Duration::from_secs(600);
/// So many names of players that have logged in are kept, those seen first beside them go. Stored users are found by their names anyway.
const MOST_PLAYERS: usize = 200_000;
/// Where generations lie.
const PREFIXES: [&str; 4] = [keys::PERMISSION_USERS, keys::PERMISSION_NAMES, keys::PERMISSION_GROUPS, keys::PERMISSION_TRACKS];

/// Sweeps until `shutdown`.
pub(crate) async fn run(store: &dyn Store, shutdown: CancellationToken) {
    let sweeping = async {
        let (mut pruned, mut unused) = (Instant::now(), BTreeSet::new());
        loop {
            tokio::time::sleep(SWEEP_EVERY.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
            if let Err(error) = sweep(store, &mut unused).await {
                tracing::warn!(%error, "cannot remove what imports have left, trying again");
            }
            if pruned.elapsed() > PRUNE_EVERY {
                pruned = Instant::now();
                if let Err(error) = prune_players(store, MOST_PLAYERS).await {
                    tracing::warn!(%error, "cannot remove old names of players, trying again later");
                }
            }
        }
    };
    let _ = shutdown.run_until_cancelled(sweeping).await;
}

/// Removes what was unused when it was looked last, too: who follows the changes, or reads in pages, has had the time to see that it is.
async fn sweep(store: &dyn Store, unused: &mut BTreeSet<String>) -> Result<(), StoreError> {
    let mut generations = BTreeSet::new();
    for prefix in PREFIXES {
        generations.append(&mut generations_of(store, prefix).await?);
    }
    let before = std::mem::take(unused);
    for generation in generations {
        let head = Head::read(store).await?;
        if generation == head.generation || store.get(&keys::permission_import(&generation)).await?.is_some() {
            continue;
        }
        if !before.contains(&generation) {
            unused.insert(generation);
            continue;
        }
        tracing::info!(generation, "removing a generation of permissions that is not in use");
        for prefix in PREFIXES {
            if !remove(store, &head, prefix, &generation).await? {
                // The head has changed: the next round looks again.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Which generations there are below a prefix: one look each.
async fn generations_of(store: &dyn Store, prefix: &str) -> Result<BTreeSet<String>, StoreError> {
    let mut generations = BTreeSet::new();
    let mut after = String::new();
    loop {
        let page = store.list(List { prefix: prefix.to_owned(), after, limit: 1, at: None }).await?;
        let Some(found) = page.entries.first().and_then(|entry| keys::in_generation(prefix, &entry.key)) else { return Ok(generations) };
        let generation = found.0.to_owned();
        // Behind every key of this generation.
        after = format!("{}{}", keys::generation(prefix, &generation), char::MAX);
        generations.insert(generation);
    }
}

/// Removes all keys of a generation below a prefix; false if it may be of use after all.
async fn remove(store: &dyn Store, head: &Head, prefix: &str, generation: &str) -> Result<bool, StoreError> {
    let list = List { prefix: keys::generation(prefix, generation), limit: MAX_OPERATIONS, ..List::default() };
    loop {
        let page = store.list(list.clone()).await?;
        if page.entries.is_empty() {
            return Ok(true);
        }
        let changes = page.entries.into_iter().map(|entry| Change::Delete(entry.key)).collect();
        // A generation becomes visible only while its import goes on, and once: this one never will.
        let compares = vec![head.unchanged(), Compare::Absent(keys::permission_import(generation))];
        if store.txn(Txn { compares, changes }).await? == Committed::Conflict {
            return Ok(false);
        }
    }
}

/// Keeps the newest entries of who logged in under a name.
async fn prune_players(store: &dyn Store, most: usize) -> Result<(), StoreError> {
    let mut list = List { prefix: keys::PERMISSION_PLAYERS.to_owned(), ..List::default() };
    let mut players: Vec<(StoreRevision, String)> = Vec::new();
    loop {
        let page = store.list(list.clone()).await?;
        players.extend(page.entries.into_iter().map(|entry| (entry.modified, entry.key)));
        match players.last() {
            Some((_, last)) if page.more => list.after.clone_from(last),
            _ => break,
        }
    }
    players.sort_unstable();
    let over = players.len().saturating_sub(most);
    for old in players[..over].chunks(MAX_OPERATIONS) {
        let compares = old.iter().map(|(modified, key)| Compare::Modified(key.clone(), *modified)).collect();
        let changes = old.iter().map(|(_, key)| Change::Delete(key.clone())).collect();
        // Of those that were written again meanwhile the next round decides anew.
        store.txn(Txn { compares, changes }).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::Embedded;

    async fn put(store: &dyn Store, key: &str, lease: i64) {
        let changes = vec![Change::Put { key: key.to_owned(), value: Vec::new(), lease }];
        assert!(matches!(store.txn(Txn { compares: Vec::new(), changes }).await, Ok(Committed::Yes(_))));
    }

    async fn has(store: &dyn Store, key: &str) -> bool {
        store.get(key).await.expect("an answer").is_some()
    }

    #[tokio::test]
    async fn what_is_not_visible_and_not_being_written_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(folder.path()).expect("a store");
        let key = |generation: &str, index: usize| format!("{}{generation}/{index:04}", keys::PERMISSION_USERS);
        for index in 0..300 {
            put(&store, &key("litter", index), 0).await;
        }
        put(&store, &key("0", 0), 0).await;
        put(&store, &keys::permission_group("other", "g"), 0).await;
        put(&store, &keys::permission_player("ada"), 0).await;
        let lease = store.lease_grant(Duration::from_secs(60)).await.expect("a lease");
        put(&store, &keys::permission_import("other"), lease).await;
        let mut unused = BTreeSet::new();
        sweep(&store, &mut unused).await.expect("swept");
        assert!(has(&store, &key("litter", 0)).await, "it may have been in use a moment ago");
        sweep(&store, &mut unused).await.expect("swept");
        assert!(!has(&store, &key("litter", 0)).await && !has(&store, &key("litter", 299)).await);
        assert!(has(&store, &key("0", 0)).await, "the visible one stays");
        assert!(has(&store, &keys::permission_group("other", "g")).await, "one that is being written stays");
        store.lease_revoke(lease).await.expect("revoked");
        sweep(&store, &mut unused).await.expect("swept");
        assert!(has(&store, &keys::permission_group("other", "g")).await);
        sweep(&store, &mut unused).await.expect("swept");
        assert!(!has(&store, &keys::permission_group("other", "g")).await);
        assert!(has(&store, &keys::permission_player("ada")).await);
        assert_eq!(unused, BTreeSet::new());
    }

    #[tokio::test]
    async fn the_names_written_longest_ago_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(folder.path()).expect("a store");
        for index in 0..300 {
            put(&store, &keys::permission_player(&format!("p{index}")), 0).await;
        }
        // Somebody else has it now.
        put(&store, &keys::permission_player("p0"), 0).await;
        prune_players(&store, 10).await.expect("pruned");
        let left = store.list(List { prefix: keys::PERMISSION_PLAYERS.to_owned(), ..List::default() }).await.expect("a page").entries;
        let mut left: Vec<_> = left.into_iter().map(|entry| entry.key).collect();
        left.sort();
        let mut expected: Vec<_> = [0].into_iter().chain(291..300).map(|index| keys::permission_player(&format!("p{index}"))).collect();
        expected.sort();
        assert_eq!(left, expected);
    }
}
