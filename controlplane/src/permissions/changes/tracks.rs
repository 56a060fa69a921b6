//! Changing tracks.

use moonbridge_permissions::Track;
use moonbridge_proto::v1;
use tonic::Status;

use super::{groups_exist, name, no_track};
use crate::auth::Caller;
use crate::permissions::bounds;
use crate::permissions::commit::{Plan, attempts, expect, put_record};
use crate::permissions::head::{Head, decode, entry_at};
use crate::permissions::unreadable;
use crate::replica::Replica;
use crate::resources::invalid;
use crate::store::{Change, Compare, Entry};
use crate::{audit, keys, status};

/// Adds or replaces a track. Its groups must exist.
pub(in crate::permissions) async fn set_track(
    replica: &Replica,
    caller: &Caller,
    request: v1::SetTrackRequest,
) -> Result<v1::PermissionTrackState, Status> {
    let raw = request.track.ok_or_else(|| Status::invalid_argument("track: missing"))?;
    let track = Track::try_from(&raw).map_err(|mistakes| invalid("track", mistakes))?;
    let (target, raw) = (format!("track {}", track.name()), v1::PermissionTrack::from(&track));
    let mut attempts = attempts(replica, caller);
    loop {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let key = keys::permission_track(&head.generation, track.name());
        let (stored, entry) = stored(replica, &head, &key).await?;
        if request.create && entry.is_some() {
            return Err(Status::failed_precondition(format!("there is a {target} already: change it instead")));
        }
        expect(&target, request.expected_revision, entry.as_ref())?;
        if let (Some(entry), true) = (&entry, stored.as_ref() == Some(&raw)) {
            return Ok(v1::PermissionTrackState { track: Some(raw), revision: entry.modified });
        }
        let because = format!("the {target} would have");
        let mut compares = groups_exist(&*replica.store, &head, track.groups().iter().map(|group| &**group), &because).await?;
        compares.push(Compare::unchanged(&key, entry.as_ref()));
        bounds::check(replica, &target, entry.as_ref(), &raw)?;
        let changes = vec![put_record(&key, &raw, &target, 0)?];
        let before = entry.as_ref().map(|_| before(stored.as_ref())).into_iter().collect();
        let entry = audit::Entry { what: "permission.track.set", target: target.clone(), before, after: vec![line(&raw)] };
        if let Some(revision) = attempts.commit(&head, Plan { compares, changes, moves_snapshot: true, entry }).await? {
            return Ok(v1::PermissionTrackState { track: Some(raw), revision });
        }
    }
}

/// Removes a track.
pub(in crate::permissions) async fn delete_track(
    replica: &Replica,
    caller: &Caller,
    request: v1::DeleteTrackRequest,
) -> Result<v1::DeleteTrackResponse, Status> {
    let name = name("name", &request.name)?;
    let target = format!("track {name}");
    let mut attempts = attempts(replica, caller);
    loop {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let key = keys::permission_track(&head.generation, &name);
        let (stored, entry) = stored(replica, &head, &key).await?;
        if entry.is_none() {
            return Err(no_track(&name));
        }
        expect(&target, request.expected_revision, entry.as_ref())?;
        let (compares, changes) = (vec![Compare::unchanged(&key, entry.as_ref())], vec![Change::Delete(key)]);
        let entry = audit::Entry {
            what: "permission.track.delete",
            target: target.clone(),
            before: vec![before(stored.as_ref())],
            after: Vec::new(),
        };
        if attempts.commit(&head, Plan { compares, changes, moves_snapshot: true, entry }).await?.is_some() {
            return Ok(v1::DeleteTrackResponse {});
        }
    }
}

/// A track as it was when the head was read, and its entry; an entry alone cannot be read.
async fn stored(replica: &Replica, head: &Head, key: &str) -> Result<(Option<v1::PermissionTrack>, Option<Entry>), Status> {
    let (entry, _) = entry_at(&*replica.store, key, Some(head.revision)).await.map_err(status::store)?;
    Ok((entry.as_ref().and_then(|entry| decode(entry).ok()), entry))
}

fn before(stored: Option<&v1::PermissionTrack>) -> String {
    stored.map_or_else(|| unreadable::BEFORE.to_owned(), line)
}

/// "track staff = helper, mod"
pub(in crate::permissions) fn line(track: &v1::PermissionTrack) -> String {
    format!("track {} = {}", track.name, track.groups.join(", "))
}
