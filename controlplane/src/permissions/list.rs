//! Looking at what is stored.

use std::sync::Arc;

use moonbridge_permissions::{DEFAULT_GROUP, Settings, User, holder};
use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;

use super::changes::now;
use super::commit::record;
use super::head::{Head, decode, list_at};
use super::pages::{Records, Users};
use super::players;
use super::stream::{Answers, stream};
use super::unreadable;
use crate::replica::Replica;
use crate::store::{Entry, List, StoreError, StoreRevision};
use crate::{keys, status};

const DEFAULT_PAGE: usize = 500;
const MOST: usize = 1_000;
/// A page ends early when it is so large; answers stay below what clients take by default.
const PAGE_BYTES: usize = 2 << 20;

pub(super) async fn user(replica: &Replica, request: v1::GetUserRequest) -> Result<v1::PermissionUserState, Status> {
    let player = players::find(replica, &request.player).await?;
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let (user, entry) = record(replica, &head, &keys::permission_user(&head.generation, player.uuid)).await?;
    let nothing = || v1::PermissionUser::from(&User { username: player.name.clone(), ..User::unknown(player.uuid) });
    Ok(v1::PermissionUserState { user: Some(user.unwrap_or_else(nothing)), revision: entry.map_or(0, |entry| entry.modified) })
}

pub(super) async fn group(replica: &Replica, request: v1::GetGroupRequest) -> Result<v1::PermissionGroupState, Status> {
    let name = holder::name(&request.name).map_err(|error| Status::invalid_argument(format!("name: {error}")))?;
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let (group, entry) = record::<v1::PermissionGroup>(replica, &head, &keys::permission_group(&head.generation, &name)).await?;
    match (group, entry) {
        (Some(group), Some(entry)) => Ok(v1::PermissionGroupState { group: Some(group), revision: entry.modified }),
        _ if *name == *DEFAULT_GROUP => Ok(default_group()),
        _ => Err(Status::not_found(format!("there is no group {name:?}: see `moonbridge permission group list`"))),
    }
}

pub(super) async fn groups(replica: &Replica, request: v1::ListGroupsRequest) -> Result<v1::ListGroupsResponse, Status> {
    let list = listing(replica, keys::PERMISSION_GROUPS, &request.page_token).await?;
    let mut page = Page::new(&list, request.page_size);
    let default_key = format!("{}{DEFAULT_GROUP}", list.prefix);
    // Stored or not, the default group is among them, at its place.
    let mut is_due = list.after < default_key;
    let mut stored = Records::<v1::PermissionGroup>::after(&*replica.store, list);
    loop {
        let next = stored.next_readable().await.map_err(status::page)?;
        if is_due && next.as_ref().is_none_or(|(_, entry)| entry.key >= default_key) {
            is_due = false;
            let is_stored = next.as_ref().is_some_and(|(_, entry)| entry.key == default_key);
            if !is_stored && !page.takes(&default_key, default_group()) {
                break;
            }
        }
        let Some((group, entry)) = next else { return Ok(v1::ListGroupsResponse { groups: page.items, next_page_token: String::new() }) };
        if !page.takes(&entry.key, v1::PermissionGroupState { group: Some(group), revision: entry.modified }) {
            break;
        }
    }
    Ok(v1::ListGroupsResponse { next_page_token: page.token(), groups: page.items })
}

pub(super) async fn tracks(replica: &Replica) -> Result<v1::ListTracksResponse, Status> {
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let stored = all::<v1::PermissionTrack>(replica, &head, keys::PERMISSION_TRACKS).await?;
    let mut tracks = Vec::new();
    for (track, entry) in stored {
        match track {
            Some(track) => tracks.push(v1::PermissionTrackState { track: Some(track), revision: entry.modified }),
            None => unreadable::skipped(&entry.key),
        }
    }
    Ok(v1::ListTracksResponse { tracks })
}

pub(super) async fn settings(replica: &Replica) -> Result<v1::PermissionSettings, Status> {
    let entry = replica.store.get(keys::PERMISSION_SETTINGS).await.map_err(status::store)?;
    // Validated, so that what cannot be used is not taken for the settings, and what older versions left out is filled in.
    let settings = entry.as_ref().map(unreadable::read::<v1::PermissionSettings, Settings>).transpose()?;
    Ok((&settings.unwrap_or_default()).into())
}

pub(super) async fn users(replica: &Replica, request: v1::ListUsersRequest) -> Result<v1::ListUsersResponse, Status> {
    let list = listing(replica, keys::PERMISSION_USERS, &request.page_token).await?;
    let mut page = Page::new(&list, request.page_size);
    let mut stored = Users::after(&*replica.store, list);
    let key = (!request.group.is_empty()).then(|| moonbridge_permissions::node::key::inheritance(&request.group));
    while let Some((user, entry)) = stored.next_readable().await.map_err(status::page)? {
        if key.as_ref().is_some_and(|key| !has(&user, key)) {
            continue;
        }
        if !page.takes(&entry.key, v1::PermissionUserState { user: Some(user), revision: entry.modified }) {
            return Ok(v1::ListUsersResponse { next_page_token: page.token(), users: page.items });
        }
    }
    Ok(v1::ListUsersResponse { users: page.items, next_page_token: String::new() })
}

/// Groups, tracks, then users, all as of one revision. What cannot be read is left out by name.
pub(super) async fn export(replica: Arc<Replica>) -> Result<Answers<v1::PermissionRecord>, Status> {
    use v1::permission_record::Record;
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let groups = all(&replica, &head, keys::PERMISSION_GROUPS).await?.into_iter();
    let groups = groups.map(|(group, entry)| group.map_or(Record::Unreadable(entry.key), Record::Group));
    let tracks = all(&replica, &head, keys::PERMISSION_TRACKS).await?.into_iter();
    let tracks = tracks.map(|(track, entry)| track.map_or(Record::Unreadable(entry.key), Record::Track));
    let first: Vec<_> = groups.chain(tracks).collect();
    let store = replica.store.clone();
    Ok(stream(&replica, |answers| async move {
        let record = |record| v1::PermissionRecord { record: Some(record) };
        for first in first {
            answers.send(record(first)).await?;
        }
        let mut users = Users::of(&*store, &head);
        loop {
            let next = match users.next().await {
                Ok(Some((user, _))) => Record::User(user),
                Ok(None) => break,
                Err(StoreError::Damaged(_)) => Record::Unreadable(users.last().to_owned()),
                Err(error) => return Err(status::store(error)),
            };
            answers.send(record(next)).await?;
        }
        Ok(())
    }))
}

/// Every record of a kind that is few, with its entry; `None` if it cannot be read.
async fn all<T: Message + Default>(replica: &Replica, head: &Head, prefix: &str) -> Result<Vec<(Option<T>, Entry)>, Status> {
    let prefix = keys::generation(prefix, &head.generation);
    let entries = list_at(&*replica.store, &prefix, head.revision).await.map_err(status::store)?;
    Ok(entries.into_iter().map(|entry| (decode(&entry).ok(), entry)).collect())
}

fn default_group() -> v1::PermissionGroupState {
    let group = v1::PermissionGroup { name: DEFAULT_GROUP.to_owned(), nodes: Vec::new() };
    v1::PermissionGroupState { group: Some(group), revision: 0 }
}

/// Whether a user has a group as a parent of its own.
fn has(user: &v1::PermissionUser, key: &str) -> bool {
    let now = now();
    user.nodes.iter().any(|node| node.value && (node.expiry <= 0 || node.expiry > now) && node.key.to_lowercase() == key)
}

/// A page of an answer, which fills.
struct Page<T> {
    at: StoreRevision,
    most: usize,
    bytes: usize,
    last: String,
    items: Vec<T>,
}

impl<T: Message> Page<T> {
    fn new(list: &List, size: u32) -> Self {
        let most = match usize::try_from(size).unwrap_or(MOST) {
            0 => DEFAULT_PAGE,
            size => size.min(MOST),
        };
        Self { at: list.at.unwrap_or_default(), most, bytes: 0, last: String::new(), items: Vec::new() }
    }

    /// False if it is full: the item is for the next one.
    fn takes(&mut self, key: &str, item: T) -> bool {
        self.bytes += item.encoded_len();
        // The first of a page fits always.
        if self.items.len() == self.most || (self.bytes > PAGE_BYTES && !self.items.is_empty()) {
            return false;
        }
        key.clone_into(&mut self.last);
        self.items.push(item);
        true
    }

    /// Where the next page goes on.
    fn token(&self) -> String {
        format!("{}/{}", self.at, self.last)
    }
}

/// What to list below a prefix: all of it as of now, or the rest of the listing that a token is of.
async fn listing(replica: &Replica, prefix: &str, token: &str) -> Result<List, Status> {
    if !token.is_empty() {
        return read_token(prefix, token);
    }
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    Ok(List { prefix: keys::generation(prefix, &head.generation), at: Some(head.revision), ..List::default() })
}

/// Reads a token: `REVISION/KEY`, where the key names the generation.
fn read_token(prefix: &str, token: &str) -> Result<List, Status> {
    let read = token.split_once('/').and_then(|(revision, after)| {
        let (generation, _) = keys::in_generation(prefix, after)?;
        let prefix = keys::generation(prefix, generation);
        Some(List { prefix, after: after.to_owned(), at: Some(revision.parse().ok()?), limit: 0 })
    });
    read.ok_or_else(status::wrong_page_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_on_in_the_same_generation_or_is_refused() {
        let read_token = |token| read_token(keys::PERMISSION_USERS, token);
        let list = read_token("7/permissions/users/3/abc").expect("a token");
        assert_eq!((list.prefix.as_str(), list.after.as_str(), list.at), ("permissions/users/3/", "permissions/users/3/abc", Some(7)));
        for wrong in
            ["7", "x/permissions/users/3/abc", "7/resources/settings", "7/permissions/users/3", "7/resources/permissions/groups/3/mod", "/"]
        {
            assert!(read_token(wrong).is_err(), "{wrong}");
        }
    }
}
