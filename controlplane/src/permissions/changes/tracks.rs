//! Changing tracks.

use moonbridge_permissions::Track;
use moonbridge_proto::v1;
use tonic::Status;

use super::{groups_exist, name, no_track};
use crate::auth::Caller;
use crate::permissions::commit::{Attempts, Plan, expect, put_record, record};
use crate::permissions::head::{Head, unchanged};
use crate::replica::Replica;
use crate::resources::invalid;
use crate::store::Change;
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
    let mut attempts = Attempts::new(replica, caller);
    loop {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let key = keys::permission_track(&head.generation, track.name());
        let (stored, entry) = record::<v1::PermissionTrack>(replica, &head, &key).await?;
        if request.create && entry.is_some() {
            return Err(Status::failed_precondition(format!("there is a {target} already: change it instead")));
        }
        expect(&target, request.expected_revision, entry.as_ref())?;
        if let (Some(entry), true) = (&entry, stored.as_ref() == Some(&raw)) {
            return Ok(v1::PermissionTrackState { track: Some(raw), revision: entry.modified });
        }
        let because = format!("the {target} would have");
        let mut compares = groups_exist(&*replica.store, &head, track.groups().iter().map(|group| &**group), &because).await?;
        compares.push(unchanged(&key, entry.as_ref()));
        let changes = vec![put_record(&key, &raw, &target, 0)?];
        let before = stored.iter().map(line).collect();
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
    let mut attempts = Attempts::new(replica, caller);
    loop {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let key = keys::permission_track(&head.generation, &name);
        let (stored, entry) = record::<v1::PermissionTrack>(replica, &head, &key).await?;
        let stored = stored.ok_or_else(|| no_track(&name))?;
        expect(&target, request.expected_revision, entry.as_ref())?;
        let (compares, changes) = (vec![unchanged(&key, entry.as_ref())], vec![Change::Delete(key)]);
        let entry =
            audit::Entry { what: "permission.track.delete", target: target.clone(), before: vec![line(&stored)], after: Vec::new() };
        if attempts.commit(&head, Plan { compares, changes, moves_snapshot: true, entry }).await?.is_some() {
            return Ok(v1::DeleteTrackResponse {});
        }
    }
}

/// "track staff = helper, mod"
pub(in crate::permissions) fn line(track: &v1::PermissionTrack) -> String {
    format!("track {} = {}", track.name, track.groups.join(", "))
}
