//! A call's edits: from the wire to those of the pure crate, and made on a user's or group's nodes. All of them or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use moonbridge_permissions::edit::{Clear, Edit, edit};
use moonbridge_permissions::settings::Settings;
use moonbridge_permissions::{Budget, Contexts, DEFAULT_GROUP, Node, User, holder};
use moonbridge_proto::snapshot::{read_contexts, temporary_add};
use moonbridge_proto::v1::{self, permission_edit};
use tonic::Status;

use crate::resources::invalid;

/// Edits of one call.
const MAX_EDITS: usize = 1_000;

/// An edit of a user or of a group.
pub(super) enum Of {
    /// Of both.
    Nodes(Edit),
    /// Of a user: the stored primary group.
    PrimaryGroup(Arc<str>),
}

/// Reads a call's edits.
///
/// # Errors
/// `INVALID_ARGUMENT`, with the path of what is wrong.
pub(super) fn read(edits: &[v1::PermissionEdit], is_group: bool, settings: &Settings) -> Result<Vec<Of>, Status> {
    match edits.len() {
        0 => return Err(Status::invalid_argument("edits: expected at least one")),
        1..=MAX_EDITS => {}
        count => return Err(Status::invalid_argument(format!("edits: expected at most {MAX_EDITS}, got {count}"))),
    }
    let read = edits.iter().enumerate();
    read.map(|(index, raw)| one(raw, &format!("edits[{index}]"), is_group, settings)).collect()
}

fn one(raw: &v1::PermissionEdit, at: &str, is_group: bool, settings: &Settings) -> Result<Of, Status> {
    use permission_edit::Edit as Raw;
    let contexts = |raw: &[v1::PermissionContext]| read_contexts(raw).map_err(|mistakes| invalid(at, mistakes));
    let only = |holder: &str, what: &str| Err(Status::invalid_argument(format!("{at}.{what}: only a {holder} has one")));
    let expiry = |field: &str, seconds: i64| match seconds {
        0 => Ok(None),
        1.. => Ok(Some(seconds)),
        // Not taken for "never": that would make something for good of what is long over.
        _ => Err(Status::invalid_argument(format!("{at}.{field}.expiry: expected seconds since 1970, or 0 for never, got {seconds}"))),
    };
    Ok(Of::Nodes(match &raw.edit {
        None => return Err(Status::invalid_argument(format!("{at}: missing"))),
        Some(Raw::Set(set)) => {
            let node = set.node.as_ref().ok_or_else(|| Status::invalid_argument(format!("{at}.set.node: missing")))?;
            let node = Node::try_from(node).map_err(|mistakes| invalid(&format!("{at}.set.node"), mistakes))?;
            Edit::Set(node, temporary_add(set.temporary()).unwrap_or(settings.temporary_add))
        }
        Some(Raw::Unset(unset)) => {
            let v1::UnsetNode { key, only_temporary, .. } = unset.clone();
            Edit::Unset { key, contexts: contexts(&unset.contexts)?, only_temporary }
        }
        Some(Raw::Clear(clear)) => {
            let kind = match clear.kind() {
                v1::ClearKind::Unspecified => return Err(Status::invalid_argument(format!("{at}.clear.kind: missing"))),
                v1::ClearKind::All => Clear::All,
                v1::ClearKind::Permissions => Clear::Permissions,
                v1::ClearKind::Parents => Clear::Parents,
                v1::ClearKind::Meta => Clear::Meta,
            };
            Edit::Clear(kind, clear.in_contexts.then(|| contexts(&clear.contexts)).transpose()?)
        }
        Some(Raw::SetMeta(meta)) => Edit::SetMeta {
            key: meta.key.clone(),
            value: meta.value.clone(),
            contexts: contexts(&meta.contexts)?,
            expiry: expiry("set_meta", meta.expiry)?,
        },
        Some(Raw::UnsetMeta(meta)) => {
            let v1::UnsetMeta { key, only_temporary, .. } = meta.clone();
            Edit::UnsetMeta { key, contexts: contexts(&meta.contexts)?, only_temporary }
        }
        Some(Raw::SetParent(parent)) => Edit::SetParent {
            group: parent.group.clone(),
            contexts: contexts(&parent.contexts)?,
            expiry: expiry("set_parent", parent.expiry)?,
        },
        Some(Raw::PrimaryGroup(_)) if is_group => return only("user", "primary_group"),
        Some(Raw::PrimaryGroup(group)) => {
            let group = holder::name(group).map_err(|error| Status::invalid_argument(format!("{at}.primary_group: {error}")))?;
            return Ok(Of::PrimaryGroup(group));
        }
        Some(Raw::Weight(_)) if !is_group => return only("group", "weight"),
        Some(Raw::Weight(weight)) => Edit::Weight(*weight),
        Some(Raw::DisplayName(_)) if !is_group => return only("group", "display_name"),
        Some(Raw::DisplayName(name)) => Edit::DisplayName(name.clone()),
    }))
}

/// Whether the edits begin with taking everything away: then what there was does not matter, and need not be readable.
pub(super) fn begin_anew(edits: &[Of]) -> bool {
    matches!(edits.first(), Some(Of::Nodes(Edit::Clear(Clear::All, None))))
}

/// Makes the edits on a group's nodes.
pub(super) fn on_group(nodes: &mut Vec<Node>, edits: &[Of], now: i64) -> Result<(), Status> {
    for of in edits {
        if let Of::Nodes(made) = of {
            edit(nodes, made, now).map_err(refused)?;
        }
    }
    affordable(nodes)
}

/// Makes the edits on a user.
pub(super) fn on_user(user: &mut User, edits: &[Of], now: i64) -> Result<(), Status> {
    for of in edits {
        match of {
            Of::Nodes(made) => {
                if let Edit::Set(node, _) = made {
                    user.keep_default_beside(node, now);
                }
                edit(&mut user.nodes, made, now).map_err(refused)?;
                // As LuckPerms does: who has one parent only has that as its primary group.
                if let Edit::SetParent { group, contexts, .. } = made
                    && contexts.is_empty()
                {
                    user.primary_group = stored(&holder::name(group).map_err(|error| Status::invalid_argument(error.to_string()))?);
                }
            }
            Of::PrimaryGroup(group) => {
                if &**group != DEFAULT_GROUP && !user.nodes.iter().any(|node| node.parent() == Some(group) && !node.has_expired(now)) {
                    return Err(Status::failed_precondition(format!(
                        "the user is not in the group {group}, so that it cannot be its primary group: add it as a parent first"
                    )));
                }
                user.primary_group = stored(group);
            }
        }
    }
    affordable(&user.nodes)
}

/// Refuses nodes that come to so much that they could not be read again.
fn affordable(nodes: &[Node]) -> Result<(), Status> {
    Budget::of_holder().take_all(nodes).map_err(|exhausted| Status::invalid_argument(exhausted.to_string()))
}

/// A primary group as it is stored: the default one is not.
fn stored(group: &Arc<str>) -> Option<Arc<str>> {
    (&**group != DEFAULT_GROUP).then(|| group.clone())
}

fn refused(error: moonbridge_permissions::edit::EditError) -> Status {
    use moonbridge_permissions::edit::EditError;
    match error {
        EditError::Absent { .. } => Status::not_found(error.to_string()),
        EditError::Temporary { .. } => Status::failed_precondition(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}

/// The groups that `after` inherits and `before` does not; not the default group, which is always there.
pub(super) fn new_parents(before: &[Node], after: &[Node]) -> BTreeSet<Arc<str>> {
    let parents = |nodes: &[Node]| -> BTreeSet<Arc<str>> { nodes.iter().filter_map(Node::group).cloned().collect() };
    let known = parents(before);
    parents(after).into_iter().filter(|group| !known.contains(group) && &**group != DEFAULT_GROUP).collect()
}

/// Contexts as a call gives them.
pub(super) fn contexts(raw: &[v1::PermissionContext]) -> Result<Contexts, Status> {
    read_contexts(raw).map_err(|mistakes| Status::invalid_argument(crate::snapshots::shown(&mistakes)))
}
