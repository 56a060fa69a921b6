//! Changing users.

use std::sync::Arc;

use moonbridge_permissions::edit::difference;
use moonbridge_permissions::track::{Direction, TrackError, step};
use moonbridge_permissions::{DEFAULT_GROUP, Group, Groups, Node, Track, User};
use moonbridge_proto::v1;
use tonic::Status;

use super::{current_settings, groups_exist, no_track, now};
use crate::attempts::Attempts;
use crate::auth::Caller;
use crate::permissions::commit::{Plan, attempts, expect, put_record};
use crate::permissions::edits;
use crate::permissions::head::{self, Head};
use crate::permissions::players::{self, Player};
use crate::permissions::unreadable;
use crate::replica::Replica;
use crate::store::{Change, Compare, Entry, StoreRevision};
use crate::{audit, keys, status};

/// Makes all of a call's edits.
pub(in crate::permissions) async fn change_user(
    replica: &Replica,
    caller: &Caller,
    request: v1::ChangeUserRequest,
) -> Result<v1::PermissionUserState, Status> {
    let edits = edits::read(&request.edits, false, &current_settings(replica))?;
    let player = players::find(replica, &request.player).await?;
    let mut attempts = attempts(replica, caller);
    loop {
        let at = Stored::read(replica, &player).await?;
        at.readable_unless(edits::begin_anew(&edits))?;
        expect(&at.shown(), request.expected_revision, at.entry.as_ref())?;
        let mut after = at.user.clone();
        edits::on_user(&mut after, &edits, now())?;
        let parents = edits::new_parents(&at.user.nodes, &after.nodes);
        let because = format!("{} would inherit", at.shown());
        let compares = groups_exist(&*replica.store, &at.head, parents.iter().map(|group| &**group), &because).await?;
        if let Some(state) = at.commit(&mut attempts, after, "permission.user.change", compares).await? {
            return Ok(state);
        }
    }
}

/// Moves a user one step along a track.
pub(in crate::permissions) async fn promote(
    replica: &Replica,
    caller: &Caller,
    request: v1::PromoteRequest,
) -> Result<v1::PromoteResponse, Status> {
    let contexts = edits::contexts(&request.contexts)?;
    let name = super::name("track", &request.track)?;
    let player = players::find(replica, &request.player).await?;
    let (direction, what) = match request.demote {
        false => (Direction::Promote, "permission.user.promote"),
        true => (Direction::Demote, "permission.user.demote"),
    };
    let mut attempts = attempts(replica, caller);
    loop {
        let at = Stored::read(replica, &player).await?;
        at.readable_unless(false)?;
        let key = keys::permission_track(&at.head.generation, &name);
        let (track_entry, _) = head::entry_at(&*replica.store, &key, Some(at.head.revision)).await.map_err(status::store)?;
        let track: Track = unreadable::read::<v1::PermissionTrack, _>(track_entry.as_ref().ok_or_else(|| no_track(&name))?)?;
        let groups = groups_of(replica, &at.head, &track).await?;
        let mut after = at.user.clone();
        let moved = step(&mut after, &track, &groups, &contexts, direction, now()).map_err(|error| refused(&error, &at.shown()))?;
        let mut compares = vec![Compare::unchanged(&key, track_entry.as_ref())];
        if let Some(to) = moved.to.as_deref().filter(|to| *to != DEFAULT_GROUP) {
            compares.push(Compare::Present(keys::permission_group(&at.head.generation, to)));
        }
        if let Some(user) = at.commit(&mut attempts, after, what, compares).await? {
            let group = |group: Option<Arc<str>>| group.map(|group| group.to_string()).unwrap_or_default();
            return Ok(v1::PromoteResponse { user: Some(user), from: group(moved.from), to: group(moved.to) });
        }
    }
}

/// The groups of a track that exist, without what they have: a step along it wants no more.
async fn groups_of(replica: &Replica, head: &Head, track: &Track) -> Result<Groups, Status> {
    let mut groups = Groups::new();
    for name in track.groups() {
        let key = keys::permission_group(&head.generation, name);
        let (entry, _) = head::entry_at(&*replica.store, &key, Some(head.revision)).await.map_err(status::store)?;
        if entry.is_some() || **name == *DEFAULT_GROUP {
            let group = Group::new(name, Vec::new()).map_err(|error| Status::internal(error.to_string()))?;
            groups.insert(name.to_string(), Arc::new(group));
        }
    }
    Ok(groups)
}

fn refused(error: &TrackError, user: &str) -> Status {
    Status::failed_precondition(format!("{user}: {error}"))
}

/// A user as it was at a revision, and what a change of it is decided on.
struct Stored<'a> {
    replica: &'a Replica,
    player: &'a Player,
    head: Head,
    key: String,
    entry: Option<Entry>,
    /// One without anything if the entry cannot be read.
    user: User,
    unreadable: Option<Status>,
}

impl<'a> Stored<'a> {
    async fn read(replica: &'a Replica, player: &'a Player) -> Result<Self, Status> {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let key = keys::permission_user(&head.generation, player.uuid);
        let (entry, _) = head::entry_at(&*replica.store, &key, Some(head.revision)).await.map_err(status::store)?;
        let (user, unreadable) = match entry.as_ref().map(unreadable::read::<v1::PermissionUser, _>) {
            Some(Ok(user)) => (user, None),
            Some(Err(unreadable)) => (User::unknown(player.uuid), Some(unreadable)),
            None => (User::unknown(player.uuid), None),
        };
        Ok(Self { replica, player, head, key, entry, user, unreadable })
    }

    fn readable_unless(&self, is_replaced: bool) -> Result<(), Status> {
        self.unreadable.clone().filter(|_| !is_replaced).map_or(Ok(()), Err)
    }

    fn shown(&self) -> String {
        format!("user {}", self.player.shown(self.user.username.as_deref()))
    }

    /// Stores the user as it is to be; `None` if others got in between.
    async fn commit(
        &self,
        attempts: &mut Attempts<'_>,
        mut after: User,
        what: &'static str,
        mut compares: Vec<Compare>,
    ) -> Result<Option<v1::PermissionUserState>, Status> {
        // Who has nothing but what everybody has is not stored, and can be in no other primary group.
        let is_kept = !after.nodes.iter().all(is_default_parent);
        if !is_kept {
            (after.nodes, after.primary_group) = (Vec::new(), None);
        }
        after.primary_group = after.primary_group.filter(|group| **group != *DEFAULT_GROUP);
        let changes_nothing = after.nodes == self.user.nodes && after.primary_group == self.user.primary_group;
        if changes_nothing && is_kept == self.entry.is_some() {
            return Ok(Some(state(&self.user, self.entry.as_ref().map_or(0, |entry| entry.modified))));
        }
        after.username = self.player.name.clone().filter(|name| differs(name, after.username.as_deref())).or(after.username);
        let change = match is_kept {
            true => put_record(&self.key, &v1::PermissionUser::from(&after), &self.shown(), after.nodes.len())?,
            false => Change::Delete(self.key.clone()),
        };
        let name = after.username.as_deref().filter(|_| is_kept);
        let before = self.user.username.as_deref();
        let (index, changes) =
            players::index(&*self.replica.store, &self.head, self.player.uuid, before, name).await.map_err(status::store)?;
        compares.push(Compare::unchanged(&self.key, self.entry.as_ref()));
        compares.extend(index);
        let changes = changes.into_iter().chain([change]).collect();
        let mut entry = recorded(what, format!("user {}", self.player.shown(after.username.as_deref())), &self.user, &after);
        entry.before.extend(self.unreadable.as_ref().map(|_| unreadable::BEFORE.to_owned()));
        let revision = attempts.commit(&self.head, Plan { compares, changes, moves_snapshot: false, entry }).await?;
        Ok(revision.map(|revision| state(&after, if is_kept { revision } else { 0 })))
    }
}

/// Whether this is the parent that everybody has without it, too.
fn is_default_parent(node: &Node) -> bool {
    let is_default = node.parent().is_some_and(|group| **group == *DEFAULT_GROUP);
    is_default && node.contexts().is_empty() && node.expiry().is_none()
}

/// Whether a name is another than the one stored: how a call spells it is no news.
fn differs(name: &str, stored: Option<&str>) -> bool {
    stored.is_none_or(|stored| stored.to_lowercase() != name.to_lowercase())
}

fn recorded(what: &'static str, target: String, before: &User, after: &User) -> audit::Entry {
    let (mut was, mut is) = difference(&before.nodes, &after.nodes);
    if before.primary_group != after.primary_group {
        let line = |user: &User| format!("primary group = {}", user.primary_group.as_deref().unwrap_or(DEFAULT_GROUP));
        was.push(line(before));
        is.push(line(after));
    }
    audit::Entry { what, target, before: was, after: is }
}

fn state(user: &User, revision: StoreRevision) -> v1::PermissionUserState {
    v1::PermissionUserState { user: Some(user.into()), revision }
}
