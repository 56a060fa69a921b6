//! Watching: every change of users, groups, tracks and settings, as it happens.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_permissions::Settings;
use moonbridge_proto::v1::{self, watch_response};
use tonic::Status;
use uuid::Uuid;

use super::feed::{Change, Feed, Place};
use super::head::{Head, decode};
use super::players;
use super::stream::{Answers, Sender, stream};
use super::users::{Record, UserAt};
use crate::replica::Replica;
use crate::store::{Event, Store, StoreError, StoreRevision};
use crate::{keys, status};

/// Players that one watch may name.
const MAX_PLAYERS: usize = 10_000;
/// A store that is away is asked again so often, with this pause.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn watch(replica: Arc<Replica>, request: v1::WatchRequest) -> Result<Answers<v1::WatchResponse>, Status> {
    if request.players.len() > MAX_PLAYERS {
        return Err(Status::invalid_argument(format!("players: expected at most {MAX_PLAYERS}, got {}", request.players.len())));
    }
    let mut watched = HashSet::new();
    for player in &request.players {
        watched.insert(players::find(&replica, player).await?.uuid);
    }
    let store = replica.store.clone();
    Ok(stream(&replica, |answers| async move {
        let mut place = Place::after(&Head::read(&*store).await.map_err(status::store)?);
        let mut watcher = Watcher { watched, answers, stands: false };
        let mut tries = 0;
        loop {
            let error = watcher.follow(&*store, &mut place, &mut tries).await?;
            tries += 1;
            if matches!(error, StoreError::Compacted(_)) || tries > TRIES {
                return Err(Status::aborted(format!("the watch has lost its place ({error}): read anew, then watch again")));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }))
}

struct Watcher {
    /// None: everybody is.
    watched: HashSet<Uuid>,
    answers: Sender<v1::WatchResponse>,
    /// Whether the caller was told that its watch stands.
    stands: bool,
}

impl Watcher {
    /// Tells what happens, until the store fails (the inner error) or the caller is gone.
    async fn follow(&mut self, store: &dyn Store, place: &mut Place, tries: &mut u32) -> Result<StoreError, Status> {
        let mut feed = match Feed::open(store, place).await {
            Ok(feed) => feed,
            Err(error) => return Ok(error),
        };
        *tries = 0;
        if !std::mem::replace(&mut self.stands, true) {
            self.tell(place.revision(), watch_response::Change::Stands(v1::WatchStands {})).await?;
        }
        loop {
            let changes = match feed.next(store, place).await {
                Ok(changes) => changes,
                Err(error) => return Ok(error),
            };
            for change in changes {
                if let Some((revision, change)) = self.told(change) {
                    self.tell(revision, change).await?;
                }
            }
        }
    }

    /// What a change is told as; `None` if it does not concern the caller.
    fn told(&self, change: Change) -> Option<(StoreRevision, watch_response::Change)> {
        match change {
            Change::User(UserAt { uuid, .. }) if !self.watched.is_empty() && !self.watched.contains(&uuid) => None,
            Change::User(UserAt { uuid, record, revision, .. }) => {
                let change = match record {
                    Record::Nothing => watch_response::Change::RemovedUser(uuid.to_string()),
                    Record::User(user) => watch_response::Change::User(user),
                    Record::Unreadable => watch_response::Change::UnreadableUser(uuid.to_string()),
                };
                Some((revision, change))
            }
            Change::Imported(revision) => Some((revision, watch_response::Change::Imported(v1::ImportVisible {}))),
            Change::Resource(event) => resource(&event),
        }
    }

    async fn tell(&self, revision: StoreRevision, change: watch_response::Change) -> Result<(), Status> {
        self.answers.send(v1::WatchResponse { revision, change: Some(change) }).await
    }
}

/// A record that cannot be read is not told: the nodes keep what they had, too.
fn resource(event: &Event) -> Option<(StoreRevision, watch_response::Change)> {
    use watch_response::Change;
    match event {
        Event::Put(entry) => {
            let change = match kind(&entry.key)? {
                Kind::Settings => decode(entry).map(Change::Settings),
                Kind::Group(_) => decode(entry).map(Change::Group),
                Kind::Track(_) => decode(entry).map(Change::Track),
            };
            Some((entry.modified, change.ok()?))
        }
        Event::Delete { key, modified } => {
            let change = match kind(key)? {
                Kind::Settings => Change::Settings((&Settings::default()).into()),
                Kind::Group(name) => Change::RemovedGroup(name.to_owned()),
                Kind::Track(name) => Change::RemovedTrack(name.to_owned()),
            };
            Some((*modified, change))
        }
    }
}

enum Kind<'a> {
    Settings,
    Group(&'a str),
    Track(&'a str),
}

fn kind(key: &str) -> Option<Kind<'_>> {
    let name = |prefix| keys::in_generation(prefix, key).map(|(_, name)| name);
    match key {
        keys::PERMISSION_SETTINGS => Some(Kind::Settings),
        _ => name(keys::PERMISSION_GROUPS).map(Kind::Group).or_else(|| name(keys::PERMISSION_TRACKS).map(Kind::Track)),
    }
}
