//! A watch on etcd as a stream of batches of whole revisions.
//!
//! etcd sends the events of a revision in one response as long as nobody asks it for fragments; we do not.

use std::sync::Arc;

use etcd_client::{Error, WatchResponse, WatchStream};
use futures::stream;
use tonic::Code;

use super::history::History;
use super::{entry, key_below};
use crate::store::{Batch, Event, StoreError, StoreRevision, Watch};

/// The largest response taken. etcd puts up to 1,000 revisions into one when a watcher is behind; one that is larger ends the watch
/// as [`StoreError::Compacted`], since listing again, page by page, gets past it.
pub(super) const RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// The batches of an open watch that begins at `next`.
pub(super) fn batches(stream: WatchStream, prefix: String, next: StoreRevision, history: Arc<History>) -> Watch {
    let watcher = Watcher { stream, prefix, next, history };
    Box::pin(stream::unfold(Some(watcher), |watcher| async {
        let mut watcher = watcher?;
        let batch = watcher.batch().await;
        let rest = batch.is_ok().then_some(watcher);
        Some((batch, rest))
    }))
}

struct Watcher {
    stream: WatchStream,
    /// The prefix of the whole store's keys.
    prefix: String,
    /// The first revision not seen yet.
    next: StoreRevision,
    history: Arc<History>,
}

impl Watcher {
    async fn batch(&mut self) -> Result<Batch, StoreError> {
        loop {
            let response = match self.stream.message().await {
                Ok(Some(response)) => response,
                Ok(None) => return Err(StoreError::Unavailable("etcd ended the watch".into())),
                Err(Error::GRpcStatus(status)) if status.code() == Code::OutOfRange => return Err(StoreError::Compacted(self.next)),
                Err(error) => return Err(super::refused(&error)),
            };
            if let Some(error) = cancelled(&response, self.next) {
                return Err(error);
            }
            let mut events = Vec::with_capacity(response.events().len());
            let mut revision = 0;
            for kv in response.events().iter().filter_map(etcd_client::Event::kv) {
                revision = super::revision(kv.mod_revision());
                // A deleted key has no version; the event's own type would panic on one that is not known.
                events.push(match kv.version() {
                    0 => Event::Delete { key: key_below(&self.prefix, kv.key())?, modified: revision },
                    _ => Event::Put(entry(&self.prefix, kv)?),
                });
            }
            if events.is_empty() {
                // The answer to the watch's creation tells nothing; etcd's notes of progress do.
                let progress = response.header().filter(|_| !response.created());
                revision = progress.map_or(0, |header| super::revision(header.revision()));
            }
            if revision >= self.next {
                self.next = revision + 1;
                self.history.seen(revision);
                return Ok(Batch { revision, events });
            }
        }
    }
}

/// What ended the watch, if this response did.
pub(super) fn cancelled(response: &WatchResponse, from: StoreRevision) -> Option<StoreError> {
    if response.compact_revision() > 0 {
        return Some(StoreError::Compacted(from));
    }
    response.canceled().then(|| StoreError::Unavailable(format!("etcd ended the watch: {}", response.cancel_reason())))
}
