//! Following a part of the store: list it, watch it from there, and never give up.
//!
//! A store that is away is asked again with back-off, from the last revision seen; one that no longer keeps that revision is
//! listed anew. What the follower holds stays as it was meanwhile.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::store::{Batch, Entry, List, Store, StoreError, StoreRevision};

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(2);

/// Something that is kept equal to a part of the store.
pub(crate) trait View: Send {
    /// All there is, as of this revision: replaces everything known.
    fn reset(&mut self, entries: Vec<Entry>, revision: StoreRevision);
    /// What changed since.
    fn apply(&mut self, batch: Batch);
}

/// Keeps a view equal to all keys with this prefix until `shutdown`.
pub(crate) async fn follow(store: Arc<dyn Store>, prefix: &'static str, view: impl View, shutdown: CancellationToken) {
    let _ = shutdown.run_until_cancelled(keep(store, prefix, view)).await;
}

async fn keep(store: Arc<dyn Store>, prefix: &'static str, mut view: impl View) {
    let mut seen = None;
    let mut delay = FIRST_DELAY;
    loop {
        match watch(&*store, prefix, &mut view, &mut seen, &mut delay).await {
            StoreError::Compacted(revision) => {
                tracing::info!(prefix, revision, "the store has compacted what was to be watched: listing anew");
                seen = None;
            }
            error => tracing::warn!(prefix, %error, "cannot follow the store, trying again"),
        }
        tokio::time::sleep(delay.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        delay = (delay * 2).min(LAST_DELAY);
    }
}

/// Lists if nothing was seen yet, then watches until the first error.
async fn watch(
    store: &dyn Store,
    prefix: &str,
    view: &mut impl View,
    seen: &mut Option<StoreRevision>,
    delay: &mut Duration,
) -> StoreError {
    let from = match *seen {
        Some(revision) => revision,
        None => match list_all(store, prefix).await {
            Ok((entries, revision)) => {
                view.reset(entries, revision);
                *seen = Some(revision);
                revision
            }
            Err(error) => return error,
        },
    };
    let mut batches = match store.watch(prefix, from + 1).await {
        Ok(batches) => batches,
        Err(error) => return error,
    };
    *delay = FIRST_DELAY;
    while let Some(batch) = batches.next().await {
        match batch {
            Ok(batch) => {
                *seen = Some(batch.revision.max(from));
                if !batch.events.is_empty() {
                    view.apply(batch);
                }
            }
            Err(error) => return error,
        }
    }
    StoreError::Unavailable("the watch has ended".to_owned())
}

/// Every entry with this prefix, as of one revision.
pub(crate) async fn list_all(store: &dyn Store, prefix: &str) -> Result<(Vec<Entry>, StoreRevision), StoreError> {
    let mut list = List { prefix: prefix.to_owned(), ..List::default() };
    let mut entries = Vec::new();
    loop {
        let page = store.list(list.clone()).await?;
        entries.extend(page.entries);
        list.at = Some(page.revision);
        match entries.last() {
            Some(last) if page.more => list.after.clone_from(&last.key),
            _ => return Ok((entries, page.revision)),
        }
    }
}
