//! The audit's end: it goes back so far, and has so many records. Any replica removes what is beyond; several at once do no harm.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::v1;
use prost::Message;
use tokio_util::sync::CancellationToken;

use crate::commands::now_ms;
use crate::keys;
use crate::store::{Change, List, MAX_OPERATIONS, Store, StoreError, Txn};

/// Records that are kept.
const MOST: usize = 100_000;
/// A record is kept so long.
const KEPT: Duration = Duration::from_secs(400 * 24 * 3_600);
/// The records are looked through so often, and for the first time so long after the start.
const EVERY: Duration = Duration::from_secs(3_600);
const FIRST: Duration = Duration::from_secs(60);
/// Records read at once: they may be long.
const READ: usize = 100;

/// Keeps the audit within its bounds until `shutdown`.
pub(crate) async fn keep(store: Arc<dyn Store>, shutdown: CancellationToken) {
    let kept = async {
        let mut pause = FIRST;
        loop {
            tokio::time::sleep(pause.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
            pause = EVERY;
            let oldest = now_ms().saturating_sub(i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX));
            match prune(&*store, MOST, oldest).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "old records of the audit removed"),
                Err(error) => tracing::warn!(%error, "cannot remove old records of the audit, trying again"),
            }
        }
    };
    let _ = shutdown.run_until_cancelled(kept).await;
}

/// Removes all but the newest `most` records, and those from before `oldest`; says how many.
async fn prune(store: &dyn Store, most: usize, oldest: i64) -> Result<usize, StoreError> {
    let mut list = List { prefix: keys::AUDIT.to_owned(), limit: READ, ..List::default() };
    let (mut seen, mut removed) = (0, 0);
    loop {
        // Each page as of now: what is new comes before all that was seen.
        let page = store.list(list.clone()).await?;
        let Some(last) = page.entries.last().map(|entry| entry.key.clone()) else { return Ok(removed) };
        let is_old = |value: &[u8]| v1::AuditRecord::decode(value).is_ok_and(|record| record.unix_ms < oldest);
        // Newest first.
        let beyond: Vec<_> = page
            .entries
            .into_iter()
            .filter(|entry| {
                seen += 1;
                seen > most || is_old(&entry.value)
            })
            .map(|entry| Change::Delete(entry.key))
            .collect();
        removed += beyond.len();
        for changes in beyond.chunks(MAX_OPERATIONS) {
            store.txn(Txn { compares: Vec::new(), changes: changes.to_vec() }).await?;
        }
        if !page.more {
            return Ok(removed);
        }
        list.after = last;
    }
}

#[cfg(test)]
mod tests {
    use uuid::{NoContext, Timestamp, Uuid};

    use super::*;
    use crate::follow::list_all;
    use crate::store::embedded::Embedded;

    /// A store with `count` records, a second apart, the newest from `newest` (in seconds since 1970).
    async fn store(folder: &tempfile::TempDir, count: u64, newest: u64) -> Embedded {
        let store = Embedded::open(folder.path()).expect("a store");
        let seconds: Vec<_> = (newest - count + 1..=newest).collect();
        for some in seconds.chunks(MAX_OPERATIONS) {
            let put = |seconds: &u64| {
                let id = Uuid::new_v7(Timestamp::from_unix(NoContext, *seconds, 0));
                let record = v1::AuditRecord { unix_ms: *seconds as i64 * 1_000, ..v1::AuditRecord::default() };
                Change::Put { key: keys::audit(id), value: record.encode_to_vec(), lease: 0 }
            };
            store.txn(Txn { compares: Vec::new(), changes: some.iter().map(put).collect() }).await.expect("stored");
        }
        store
    }

    /// The seconds of those that are left, newest first.
    async fn left(store: &Embedded) -> Vec<i64> {
        let (entries, _) = list_all(store, keys::AUDIT).await.expect("a listing");
        entries.iter().map(|entry| v1::AuditRecord::decode(&*entry.value).expect("a record").unix_ms / 1_000).collect()
    }

    #[tokio::test]
    async fn the_newest_records_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder, 450, 1_450).await;
        assert_eq!(prune(&store, 450, 0).await.expect("pruned"), 0);
        assert_eq!(prune(&store, 250, 0).await.expect("pruned"), 200);
        assert_eq!(left(&store).await, (1_201..=1_450).rev().collect::<Vec<_>>());
        assert_eq!(prune(&store, 250, 1_300_000).await.expect("pruned"), 99);
        assert_eq!(left(&store).await, (1_300..=1_450).rev().collect::<Vec<_>>());
        assert_eq!(prune(&store, 0, 0).await.expect("pruned"), 151);
        assert_eq!(prune(&store, 0, 0).await.expect("pruned"), 0);
    }
}
