//! Changing users, groups, tracks and settings, each in one transaction.

mod groups;
mod settings;
mod tracks;
mod users;

pub(super) use groups::{change_group, create_group, delete_group};
pub(super) use settings::set_settings;
pub(super) use tracks::{delete_track, line as track_line, set_track};
pub(super) use users::{change_user, promote};

use moonbridge_permissions::{DEFAULT_GROUP, holder};
use tonic::Status;

use super::head::Head;
use super::{commit, head};
use crate::replica::Replica;
use crate::store::{Compare, Store};
use crate::{keys, status};

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    crate::commands::now_ms() / 1_000
}

/// A group's or track's name in a request.
fn name(field: &str, name: &str) -> Result<String, Status> {
    holder::name(name).map(|name| name.to_string()).map_err(|error| Status::invalid_argument(format!("{field}: {error}")))
}

/// Checks that these groups exist, and gives what keeps them existing: the default group always does.
async fn groups_exist<'a>(
    store: &dyn Store,
    head: &Head,
    groups: impl Iterator<Item = &'a str>,
    because: &str,
) -> Result<Vec<Compare>, Status> {
    let mut compares = Vec::new();
    for group in groups.filter(|group| *group != DEFAULT_GROUP) {
        let key = keys::permission_group(&head.generation, group);
        let (entry, _) = head::entry_at(store, &key, Some(head.revision)).await.map_err(status::store)?;
        if entry.is_none() {
            return Err(Status::failed_precondition(format!(
                "{because} the group {group}, which does not exist: make it with `moonbridge permission group create {group}`"
            )));
        }
        compares.push(Compare::Present(key));
        if compares.len() > commit::MAX_GROUPS {
            let problem = format!("{because} more than {} groups at once: name fewer", commit::MAX_GROUPS);
            return Err(Status::invalid_argument(problem));
        }
    }
    Ok(compares)
}

fn no_group(name: &str) -> Status {
    Status::not_found(format!("there is no group {name:?}: see `moonbridge permission group list`"))
}

fn no_track(name: &str) -> Status {
    Status::not_found(format!("there is no track {name:?}: see `moonbridge permission track list`"))
}

/// The settings that changes of nodes go by, as this replica's nodes have them.
fn current_settings(replica: &Replica) -> moonbridge_permissions::Settings {
    replica.snapshots.newest().map(|newest| newest.permission_settings.clone()).unwrap_or_default()
}
