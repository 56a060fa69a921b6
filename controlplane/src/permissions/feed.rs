//! What happens to permissions from a revision on, in the generation that is visible: a watch on the resources (head, settings, groups
//! and tracks) and one on the users, which changes generations with the head. What an import writes is not seen before it is
//! visible, and then as one change.

use futures::StreamExt;
use uuid::Uuid;

use super::head::{self, FIRST, Head};
use super::users::{Record, UserAt};
use crate::keys;
use crate::store::{Event, Store, StoreError, StoreRevision, Watch};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// A user was changed, or removed.
    User(UserAt),
    /// A group, a track or the settings were changed: the event on their key.
    Resource(Event),
    /// Another generation is visible.
    Imported(StoreRevision),
}

/// The place of whoever follows the changes; it outlives the watches.
#[derive(Debug, Clone)]
pub(super) struct Place {
    generation: String,
    /// The newest revisions seen of both watches.
    resources: StoreRevision,
    users: StoreRevision,
}

impl Place {
    /// Everything that happens after this head was read.
    pub(super) fn after(head: &Head) -> Self {
        Self { generation: head.generation.clone(), resources: head.revision, users: head.revision }
    }

    /// The revision that it is after.
    pub(super) fn revision(&self) -> StoreRevision {
        self.resources.max(self.users)
    }
}

/// Both watches.
pub(super) struct Feed {
    resources: Watch,
    users: Watch,
}

impl Feed {
    /// Goes on from a place.
    pub(super) async fn open(store: &dyn Store, place: &Place) -> Result<Self, StoreError> {
        let resources = store.watch(keys::PERMISSION_RESOURCES, place.resources + 1).await?;
        Ok(Self { resources, users: users(store, place).await? })
    }

    /// What happens next, in the order of revisions as far as users go, and as far as the rest goes. After an error, open it anew.
    pub(super) async fn next(&mut self, store: &dyn Store, place: &mut Place) -> Result<Vec<Change>, StoreError> {
        loop {
            let changes = tokio::select! {
                batch = self.resources.next() => {
                    let batch = batch.unwrap_or_else(|| Err(ended()))?;
                    let changes = batch.events.into_iter().filter_map(|event| resource(event, place)).collect::<Vec<_>>();
                    if changes.iter().any(|change| matches!(change, Change::Imported(_))) {
                        self.users = users(store, place).await?;
                    }
                    place.resources = place.resources.max(batch.revision);
                    changes
                }
                batch = self.users.next() => {
                    let batch = batch.unwrap_or_else(|| Err(ended()))?;
                    let mut changes = batch.events.into_iter().filter_map(user).collect::<Vec<_>>();
                    if changes.iter().any(is_removal) && Head::read(store).await?.generation != place.generation {
                        // The other watch is about to tell of another generation, and this one is being swept away.
                        changes.retain(|change| !is_removal(change));
                    }
                    place.users = place.users.max(batch.revision);
                    changes
                }
            };
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }
}

async fn users(store: &dyn Store, place: &Place) -> Result<Watch, StoreError> {
    store.watch(&keys::generation(keys::PERMISSION_USERS, &place.generation), place.users + 1).await
}

fn ended() -> StoreError {
    StoreError::Unavailable("the watch has ended".to_owned())
}

/// What an event below [`keys::PERMISSION_RESOURCES`] means. A head that cannot be read changes nothing.
fn resource(event: Event, place: &mut Place) -> Option<Change> {
    let (key, revision, value) = match &event {
        Event::Put(entry) => (&entry.key, entry.modified, Some(entry)),
        Event::Delete { key, modified } => (key, *modified, None),
    };
    if key == keys::PERMISSION_HEAD {
        let generation = match value.map(head::generation) {
            Some(Ok(generation)) => generation,
            None => FIRST.to_owned(),
            Some(Err(error)) => {
                tracing::error!(%error, "the head of the permissions cannot be read and is ignored: import anew");
                return None;
            }
        };
        // Its users are followed from here on; the watch on those before may have come further already.
        (place.generation, place.users) = (generation, revision);
        return Some(Change::Imported(revision));
    }
    let of_generation = |prefix| keys::in_generation(prefix, key).is_none_or(|(generation, _)| generation == place.generation);
    (of_generation(keys::PERMISSION_GROUPS) && of_generation(keys::PERMISSION_TRACKS)).then_some(Change::Resource(event))
}

/// What an event on a user's key means.
fn user(event: Event) -> Option<Change> {
    let (key, revision, record) = match &event {
        Event::Put(entry) => (&entry.key, entry.modified, Record::of(Some(entry))),
        Event::Delete { key, modified } => (key, *modified, Record::Nothing),
    };
    let (generation, uuid) = keys::in_generation(keys::PERMISSION_USERS, key)?;
    Some(Change::User(UserAt { uuid: Uuid::try_parse(uuid).ok()?, record, generation: generation.to_owned(), revision }))
}

fn is_removal(change: &Change) -> bool {
    matches!(change, Change::User(UserAt { record: Record::Nothing, .. }))
}
