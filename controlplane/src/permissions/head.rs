//! Which generation is visible, and reading what belongs to it: everything as of one revision, so that a generation that was
//! replaced and swept away meanwhile never reads as if nothing had been stored.

use moonbridge_proto::v1;
use prost::Message;

use crate::keys;
use crate::store::{Compare, Entry, List, Store, StoreError, StoreRevision};

/// The generation before the first import.
pub(crate) const FIRST: &str = "0";

/// The head as of a revision.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) generation: String,
    /// The revision that this was read at.
    pub(super) revision: StoreRevision,
    entry: Option<Entry>,
}

impl Head {
    pub(super) async fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let (entry, revision) = entry_at(store, keys::PERMISSION_HEAD, None).await?;
        let generation = entry.as_ref().map_or_else(|| Ok(FIRST.to_owned()), generation)?;
        Ok(Self { generation, revision, entry })
    }

    /// That it is still the head.
    pub(super) fn unchanged(&self) -> Compare {
        Compare::unchanged(keys::PERMISSION_HEAD, self.entry.as_ref())
    }
}

/// The generation that a head names.
pub(super) fn generation(entry: &Entry) -> Result<String, StoreError> {
    decode::<v1::PermissionHead>(entry).map(|head| head.generation)
}

/// An entry as of a revision (`None`: of the newest), and the revision that it is as of.
pub(super) async fn entry_at(
    store: &dyn Store,
    key: &str,
    at: Option<StoreRevision>,
) -> Result<(Option<Entry>, StoreRevision), StoreError> {
    // Of all keys that begin with this one, it is the first.
    let list = List { prefix: key.to_owned(), after: String::new(), limit: 1, at };
    let page = store.list(list).await?;
    Ok((page.entries.into_iter().next().filter(|entry| entry.key == key), page.revision))
}

/// Every entry with this prefix, as of a revision. For what is bounded: groups and tracks.
pub(super) async fn list_at(store: &dyn Store, prefix: &str, at: StoreRevision) -> Result<Vec<Entry>, StoreError> {
    let mut list = List { prefix: prefix.to_owned(), at: Some(at), ..List::default() };
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let page = store.list(list.clone()).await?;
        entries.extend(page.entries);
        match entries.last() {
            Some(last) if page.more => list.after.clone_from(&last.key),
            _ => return Ok(entries),
        }
    }
}

/// A stored record.
pub(super) fn decode<T: Message + Default>(entry: &Entry) -> Result<T, StoreError> {
    T::decode(&*entry.value).map_err(|error| StoreError::Damaged(format!("{} cannot be read ({error})", entry.key)))
}
