//! What the embedded store holds in memory: every entry as of now, and what the newest revisions changed, with which older
//! pages are put together and watches served. Plain data: no clock, no file.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::store::{Batch, Entry, Event, List, Page, StoreError, StoreRevision};

/// At most so many revisions are kept for watches and older pages ...
pub(super) const HISTORY_REVISIONS: usize = 10_000;

/// ... and of so many bytes.
const HISTORY_BYTES: usize = 64 * 1024 * 1024;

/// A batch of a watch ends after so many revisions ...
const BATCH_REVISIONS: usize = 1_000;

/// ... or when it is over so many bytes (it always holds whole revisions, and at least one).
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// All entries and the recent history.
#[derive(Debug)]
pub(super) struct Memory {
    entries: BTreeMap<String, Arc<Entry>>,
    revision: StoreRevision,
    /// The first revision whose changes are kept.
    kept_from: StoreRevision,
    history: VecDeque<Revision>,
    history_bytes: usize,
}

/// What one revision changed.
#[derive(Debug)]
pub(super) struct Revision {
    pub(super) number: StoreRevision,
    pub(super) changes: Vec<Changed>,
}

/// One key's change.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) key: String,
    pub(super) before: Option<Arc<Entry>>,
    pub(super) after: Option<Arc<Entry>>,
}

impl Memory {
    /// These entries, with no history before `revision`, which itself is kept only if nothing ever happened in it.
    pub(super) fn new(entries: BTreeMap<String, Arc<Entry>>, revision: StoreRevision) -> Memory {
        let kept_from = if revision == 1 { 1 } else { revision + 1 };
        Memory { entries, revision, kept_from, history: VecDeque::new(), history_bytes: 0 }
    }

    /// The newest revision.
    pub(super) fn revision(&self) -> StoreRevision {
        self.revision
    }

    /// The entry as of now.
    pub(super) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    /// Takes over the next revision.
    pub(super) fn apply(&mut self, revision: Revision) {
        for changed in &revision.changes {
            match &changed.after {
                Some(entry) => self.entries.insert(changed.key.clone(), Arc::clone(entry)),
                None => self.entries.remove(&changed.key),
            };
        }
        self.revision = revision.number;
        self.history_bytes += revision.bytes();
        self.history.push_back(revision);
        while self.history.len() > HISTORY_REVISIONS || self.history_bytes > HISTORY_BYTES {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= oldest.bytes();
            self.kept_from = oldest.number + 1;
        }
    }

    /// A page as of `list.at`: the entries of now, with what changed since put back.
    pub(super) fn page(&self, list: &List) -> Result<Page, StoreError> {
        let at = list.at.unwrap_or(self.revision);
        if at > self.revision {
            return Err(StoreError::Invalid(format!("revision {at} is still to come; the newest is {}", self.revision)));
        }
        if at == 0 || at + 1 < self.kept_from {
            return Err(StoreError::Compacted(at));
        }
        let mut as_it_was: BTreeMap<&str, Option<&Arc<Entry>>> = BTreeMap::new();
        for revision in self.history.iter().rev().take_while(|revision| revision.number > at) {
            let changes = revision.changes.iter().filter(|changed| changed.key.starts_with(&list.prefix));
            as_it_was.extend(changes.map(|changed| (changed.key.as_str(), changed.before.as_ref())));
        }
        let start = if list.after >= list.prefix { Bound::Excluded(list.after.as_str()) } else { Bound::Included(list.prefix.as_str()) };
        let range = (start, Bound::Unbounded);
        let room = list.page() + 1;
        let unchanged = self.entries.range::<str, _>(range);
        let unchanged = unchanged.take_while(|(key, _)| key.starts_with(&list.prefix));
        let unchanged = unchanged.filter(|(key, _)| !as_it_was.contains_key(key.as_str())).map(|(_, entry)| entry).take(room);
        let changed = as_it_was.range::<str, _>(range).filter_map(|(_, entry)| *entry).take(room);
        let mut found: Vec<&Arc<Entry>> = unchanged.chain(changed).collect();
        found.sort_by(|one, other| one.key.cmp(&other.key));
        let more = found.len() >= room;
        found.truncate(room - 1);
        Ok(Page { entries: found.into_iter().map(|entry| Entry::clone(entry)).collect(), revision: at, more })
    }

    /// What happened to keys with this prefix from revision `next` on, as far as one batch goes. Its revision is `next - 1` if
    /// nothing happened at all yet.
    pub(super) fn since(&self, prefix: &str, next: StoreRevision) -> Result<Batch, StoreError> {
        if next < self.kept_from {
            return Err(StoreError::Compacted(next));
        }
        let mut batch = Batch { revision: next - 1, events: Vec::new() };
        let mut bytes = 0;
        let first = self.history.partition_point(|revision| revision.number < next);
        for revision in self.history.range(first..).take(BATCH_REVISIONS) {
            for changed in revision.changes.iter().filter(|changed| changed.key.starts_with(prefix)) {
                bytes += changed.bytes();
                batch.events.push(match &changed.after {
                    Some(entry) => Event::Put(Entry::clone(entry)),
                    None => Event::Delete { key: changed.key.clone(), modified: revision.number },
                });
            }
            batch.revision = revision.number;
            if bytes > BATCH_BYTES {
                break;
            }
        }
        Ok(batch)
    }
}

impl Revision {
    fn bytes(&self) -> usize {
        self.changes.iter().map(Changed::bytes).sum()
    }
}

impl Changed {
    fn bytes(&self) -> usize {
        let value = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.value.len() + entry.key.len());
        self.key.len() + value(&self.before) + value(&self.after)
    }
}
