//! Looking at what is stored.

use std::sync::Arc;

use moonbridge_permissions::{DEFAULT_GROUP, Settings, User, holder};
use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;

use super::changes::now;
use super::commit::record;
use super::head::{Head, decode, list_at};
use super::pages::Users;
use super::players;
use super::stream::{Answers, stream};
use crate::replica::Replica;
use crate::store::{List, StoreRevision};
use crate::{keys, status};

const DEFAULT_PAGE: usize = 500;
const MOST: usize = 1_000;
/// A page of users ends early when it is so large; answers stay below what clients take by default.
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

pub(super) async fn groups(replica: &Replica) -> Result<v1::ListGroupsResponse, Status> {
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let mut groups = Vec::new();
    for (group, revision) in all::<v1::PermissionGroup>(replica, &head, keys::PERMISSION_GROUPS).await? {
        groups.push(v1::PermissionGroupState { group: Some(group), revision });
    }
    let is_default = |state: &v1::PermissionGroupState| state.group.as_ref().is_some_and(|group| group.name == DEFAULT_GROUP);
    if !groups.iter().any(is_default) {
        groups.push(default_group());
    }
    groups.sort_by(|one, other| one.group.as_ref().map(|group| &group.name).cmp(&other.group.as_ref().map(|group| &group.name)));
    Ok(v1::ListGroupsResponse { groups })
}

pub(super) async fn tracks(replica: &Replica) -> Result<v1::ListTracksResponse, Status> {
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let tracks = all::<v1::PermissionTrack>(replica, &head, keys::PERMISSION_TRACKS).await?;
    let state = |(track, revision)| v1::PermissionTrackState { track: Some(track), revision };
    Ok(v1::ListTracksResponse { tracks: tracks.into_iter().map(state).collect() })
}

pub(super) async fn settings(replica: &Replica) -> Result<v1::PermissionSettings, Status> {
    let entry = replica.store.get(keys::PERMISSION_SETTINGS).await.map_err(status::store)?;
    let settings = entry.as_ref().map(decode).transpose().map_err(status::store)?;
    Ok(settings.unwrap_or_else(|| v1::PermissionSettings::from(&Settings::default())))
}

pub(super) async fn users(replica: &Replica, request: v1::ListUsersRequest) -> Result<v1::ListUsersResponse, Status> {
    let size = match usize::try_from(request.page_size).unwrap_or(MOST) {
        0 => DEFAULT_PAGE,
        size => size.min(MOST),
    };
    let list = match read_token(&request.page_token)? {
        Some(list) => list,
        None => {
            let head = Head::read(&*replica.store).await.map_err(status::store)?;
            let prefix = keys::generation(keys::PERMISSION_USERS, &head.generation);
            List { prefix, at: Some(head.revision), ..List::default() }
        }
    };
    let at = list.at.unwrap_or_default();
    let mut stored = Users::after(&*replica.store, list);
    let (mut users, mut bytes) = (Vec::new(), 0);
    let mut last = String::new();
    let key = (!request.group.is_empty()).then(|| moonbridge_permissions::node::key::inheritance(&request.group));
    while let Some((user, entry)) = stored.next().await.map_err(status::store)? {
        if key.as_ref().is_some_and(|key| !has(&user, key)) {
            continue;
        }
        bytes += user.encoded_len();
        // The first of a page fits always.
        if users.len() == size || (bytes > PAGE_BYTES && !users.is_empty()) {
            return Ok(v1::ListUsersResponse { users, next_page_token: format!("{at}/{last}") });
        }
        last = entry.key;
        users.push(v1::PermissionUserState { user: Some(user), revision: entry.modified });
    }
    Ok(v1::ListUsersResponse { users, next_page_token: String::new() })
}

/// Groups, tracks, then users, all as of one revision.
pub(super) async fn export(replica: Arc<Replica>) -> Result<Answers<v1::PermissionRecord>, Status> {
    use v1::permission_record::Record;
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let groups = all(&replica, &head, keys::PERMISSION_GROUPS).await?.into_iter().map(|(group, _)| Record::Group(group));
    let tracks = all(&replica, &head, keys::PERMISSION_TRACKS).await?.into_iter().map(|(track, _)| Record::Track(track));
    let first: Vec<_> = groups.chain(tracks).collect();
    let store = replica.store.clone();
    Ok(stream(&replica, |answers| async move {
        let record = |record| v1::PermissionRecord { record: Some(record) };
        for first in first {
            answers.send(record(first)).await?;
        }
        let mut users = Users::of(&*store, &head);
        while let Some((user, _)) = users.next().await.map_err(status::store)? {
            answers.send(record(Record::User(user))).await?;
        }
        Ok(())
    }))
}

/// Every record of a kind that is few, with its revision.
async fn all<T: Message + Default>(replica: &Replica, head: &Head, prefix: &str) -> Result<Vec<(T, StoreRevision)>, Status> {
    let prefix = keys::generation(prefix, &head.generation);
    let entries = list_at(&*replica.store, &prefix, head.revision).await.map_err(status::store)?;
    entries.iter().map(|entry| Ok((decode(entry).map_err(status::store)?, entry.modified))).collect()
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

/// The rest of the listing that a token is of: `REVISION/KEY`, where the key names the generation.
fn read_token(token: &str) -> Result<Option<List>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let read = token.split_once('/').and_then(|(revision, after)| {
        let (generation, _) = keys::in_generation(keys::PERMISSION_USERS, after)?;
        let prefix = keys::generation(keys::PERMISSION_USERS, generation);
        Some(List { prefix, after: after.to_owned(), at: Some(revision.parse().ok()?), limit: 0 })
    });
    let wrong = || Status::invalid_argument("page_token: expected what an answer to the same call gave as next_page_token");
    read.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_on_in_the_same_generation_or_is_refused() {
        assert!(read_token("").expect("none").is_none());
        let list = read_token("7/permissions/users/3/abc").expect("a token").expect("a listing");
        assert_eq!((list.prefix.as_str(), list.after.as_str(), list.at), ("permissions/users/3/", "permissions/users/3/abc", Some(7)));
        for wrong in ["7", "x/permissions/users/3/abc", "7/resources/settings", "7/permissions/users/3", "/"] {
            assert!(read_token(wrong).is_err(), "{wrong}");
        }
    }
}
