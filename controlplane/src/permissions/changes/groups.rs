//! Changing groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use moonbridge_permissions::edit::difference;
use moonbridge_permissions::{DEFAULT_GROUP, Group, Groups, Node, makes_cycle};
use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;

use super::{current_settings, groups_exist, name, no_group, now};
use crate::auth::Caller;
use crate::permissions::bounds;
use crate::permissions::commit::{Plan, attempts, expect, put, put_record};
use crate::permissions::edits;
use crate::permissions::head::{self, Head};
use crate::permissions::unreadable;
use crate::replica::Replica;
use crate::store::{Change, Compare, Entry, MAX_OPERATIONS, StoreRevision};
use crate::{audit, keys, status};

/// Makes all of a call's edits.
pub(in crate::permissions) async fn change_group(
    replica: &Replica,
    caller: &Caller,
    request: v1::ChangeGroupRequest,
) -> Result<v1::PermissionGroupState, Status> {
    let edits = edits::read(&request.edits, true, &current_settings(replica))?;
    let name = name("name", &request.name)?;
    let mut attempts = attempts(replica, caller);
    loop {
        let at = Stored::read(replica, &name).await?;
        if at.entry.is_none() && name != DEFAULT_GROUP {
            return Err(no_group(&name));
        }
        at.readable_unless(edits::begin_anew(&edits))?;
        expect(&at.shown(), request.expected_revision, at.entry.as_ref())?;
        let mut nodes = at.nodes.clone();
        edits::on_group(&mut nodes, &edits, now())?;
        if nodes == at.nodes && at.unreadable.is_none() {
            return Ok(state(&at.group(nodes)?, at.entry.map_or(0, |entry| entry.modified)));
        }
        let mut compares = at.checked_parents(&nodes).await?;
        compares.push(Compare::unchanged(&at.key, at.entry.as_ref()));
        let (before, after) = at.difference(&nodes);
        let group = at.group(nodes)?;
        let record = v1::PermissionGroup::from(&group);
        bounds::check(replica, &at.shown(), at.entry.as_ref(), &record)?;
        let changes = vec![put_record(&at.key, &record, &at.shown(), group.nodes().len())?];
        let entry = audit::Entry { what: "permission.group.change", target: at.shown(), before, after };
        if let Some(revision) = attempts.commit(&at.head, Plan { compares, changes, moves_snapshot: true, entry }).await? {
            return Ok(state(&group, revision));
        }
    }
}

/// Makes a group that has nothing yet.
pub(in crate::permissions) async fn create_group(
    replica: &Replica,
    caller: &Caller,
    request: v1::CreateGroupRequest,
) -> Result<v1::PermissionGroupState, Status> {
    let name = name("name", &request.name)?;
    let mut attempts = attempts(replica, caller);
    loop {
        let at = Stored::read(replica, &name).await?;
        if at.entry.is_some() {
            return Err(Status::failed_precondition(format!("there is a group {name} already")));
        }
        let group = at.group(Vec::new())?;
        let record = v1::PermissionGroup::from(&group);
        bounds::check(replica, &at.shown(), None, &record)?;
        let changes = vec![put(at.key.clone(), record.encode_to_vec())];
        let entry = audit::Entry { what: "permission.group.create", target: at.shown(), before: Vec::new(), after: Vec::new() };
        let compares = vec![Compare::Absent(at.key.clone())];
        if let Some(revision) = attempts.commit(&at.head, Plan { compares, changes, moves_snapshot: true, entry }).await? {
            return Ok(state(&group, revision));
        }
    }
}

/// Removes a group, out of the tracks too.
pub(in crate::permissions) async fn delete_group(
    replica: &Replica,
    caller: &Caller,
    request: v1::DeleteGroupRequest,
) -> Result<v1::DeleteGroupResponse, Status> {
    let name = name("name", &request.name)?;
    if name == DEFAULT_GROUP {
        return Err(Status::failed_precondition(
            "everybody has the group default, so that it cannot be deleted: take its nodes away instead (`moonbridge permission group \
             clear default`)",
        ));
    }
    let mut attempts = attempts(replica, caller);
    loop {
        let at = Stored::read(replica, &name).await?;
        let entry = at.entry.as_ref().ok_or_else(|| no_group(&name))?;
        expect(&at.shown(), request.expected_revision, Some(entry))?;
        let mut changes = vec![Change::Delete(at.key.clone())];
        let (mut before, mut after) = at.difference(&[]);
        let tracks = keys::generation(keys::PERMISSION_TRACKS, &at.head.generation);
        for entry in head::list_at(&*replica.store, &tracks, at.head.revision).await.map_err(status::store)? {
            let Ok(mut track) = head::decode::<v1::PermissionTrack>(&entry) else {
                unreadable::skipped(&entry.key);
                continue;
            };
            if track.groups.contains(&name) {
                before.push(super::tracks::line(&track));
                track.groups.retain(|group| *group != name);
                after.push(super::tracks::line(&track));
                changes.push(put(entry.key, track.encode_to_vec()));
            }
        }
        // The revisions and the audit are changes, too.
        if changes.len() + 3 > MAX_OPERATIONS {
            let tracks = changes.len() - 1;
            return Err(Status::failed_precondition(format!(
                "{tracks} tracks have the group {name}, too many for one step: take it out of some first (`moonbridge permission track \
                 remove`)"
            )));
        }
        // No track has come to have it since.
        let compares = vec![Compare::unchanged(&at.key, at.entry.as_ref()), at.resources_unchanged().await?];
        let entry = audit::Entry { what: "permission.group.delete", target: at.shown(), before, after };
        if attempts.commit(&at.head, Plan { compares, changes, moves_snapshot: true, entry }).await?.is_some() {
            return Ok(v1::DeleteGroupResponse {});
        }
    }
}

/// A group as it was at a revision; its nodes are none if it is not stored, or cannot be read.
struct Stored<'a> {
    replica: &'a Replica,
    name: &'a str,
    head: Head,
    key: String,
    entry: Option<Entry>,
    nodes: Vec<Node>,
    unreadable: Option<Status>,
}

impl<'a> Stored<'a> {
    async fn read(replica: &'a Replica, name: &'a str) -> Result<Self, Status> {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let key = keys::permission_group(&head.generation, name);
        let (entry, _) = head::entry_at(&*replica.store, &key, Some(head.revision)).await.map_err(status::store)?;
        let (nodes, unreadable) = match entry.as_ref().map(unreadable::read::<v1::PermissionGroup, Group>) {
            Some(Ok(group)) => (group.nodes().to_vec(), None),
            Some(Err(unreadable)) => (Vec::new(), Some(unreadable)),
            None => (Vec::new(), None),
        };
        Ok(Self { replica, name, head, key, entry, nodes, unreadable })
    }

    fn readable_unless(&self, is_replaced: bool) -> Result<(), Status> {
        self.unreadable.clone().filter(|_| !is_replaced).map_or(Ok(()), Err)
    }

    /// What the audit says of a change to these nodes.
    fn difference(&self, nodes: &[Node]) -> (Vec<String>, Vec<String>) {
        let (mut before, after) = difference(&self.nodes, nodes);
        before.extend(self.unreadable.as_ref().map(|_| unreadable::BEFORE.to_owned()));
        (before, after)
    }

    fn shown(&self) -> String {
        format!("group {}", self.name)
    }

    fn group(&self, nodes: Vec<Node>) -> Result<Group, Status> {
        Group::new(self.name, nodes).map_err(|error| Status::invalid_argument(error.to_string()))
    }

    /// That these parents exist and lead to no cycle, and what keeps it so.
    async fn checked_parents(&self, nodes: &[Node]) -> Result<Vec<Compare>, Status> {
        let added = edits::new_parents(&self.nodes, nodes);
        let store = &*self.replica.store;
        let because = format!("{} would inherit", self.shown());
        let mut compares = groups_exist(store, &self.head, added.iter().map(|group| &**group), &because).await?;
        let known = inherited(&self.nodes);
        let inherits: Vec<_> = inherited(nodes).into_iter().filter(|group| !known.contains(group)).collect();
        if inherits.is_empty() {
            return Ok(compares);
        }
        let groups = self.all_groups().await?;
        for parent in inherits {
            if let Some(cycle) = makes_cycle(&groups, self.name, &parent) {
                return Err(Status::failed_precondition(format!(
                    "{} would inherit itself: {}. Take one of these parents away first",
                    self.shown(),
                    cycle.join(" -> ")
                )));
            }
        }
        // Somebody else may be about to close the cycle from its other side.
        compares.push(self.resources_unchanged().await?);
        Ok(compares)
    }

    async fn all_groups(&self) -> Result<Groups, Status> {
        let prefix = keys::generation(keys::PERMISSION_GROUPS, &self.head.generation);
        let mut groups = Groups::new();
        for entry in head::list_at(&*self.replica.store, &prefix, self.head.revision).await.map_err(status::store)? {
            // As long as one cannot be read it inherits nothing.
            let Ok(group) = unreadable::read::<v1::PermissionGroup, Group>(&entry) else { continue };
            groups.insert(group.name().to_string(), Arc::new(group));
        }
        Ok(groups)
    }

    async fn resources_unchanged(&self) -> Result<Compare, Status> {
        let (entry, _) =
            head::entry_at(&*self.replica.store, keys::RESOURCES_REVISION, Some(self.head.revision)).await.map_err(status::store)?;
        Ok(Compare::unchanged(keys::RESOURCES_REVISION, entry.as_ref()))
    }
}

fn inherited(nodes: &[Node]) -> BTreeSet<Arc<str>> {
    nodes.iter().filter_map(Node::parent).cloned().collect()
}

fn state(group: &Group, revision: StoreRevision) -> v1::PermissionGroupState {
    v1::PermissionGroupState { group: Some(group.into()), revision }
}
