//! `moonbridge permission track`.

use moonbridge_proto::v1;
use serde_json::json;

use super::super::Session;
use super::at;
use crate::args::permission::TrackVerb;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::Listing;

const COLUMNS: &[&str] = &["name", "groups", "revision"];

/// Runs a verb.
pub(super) async fn run(session: Session, verb: TrackVerb) -> Outcome {
    match verb {
        TrackVerb::List => list(session).await,
        TrackVerb::Create { name, groups } => set(session, v1::PermissionTrack { name, groups }, true, None).await,
        TrackVerb::Delete { name, at } => delete(session, name, at.revision).await,
        TrackVerb::Info { name } => info(session, name).await,
        TrackVerb::Append { name, group, at } => change(session, name, at.revision, |groups| append(groups, group)).await,
        TrackVerb::Insert { name, group, position, at } => {
            change(session, name, at.revision, |groups| insert(groups, group, position)).await
        }
        TrackVerb::Remove { name, group, at } => change(session, name, at.revision, |groups| remove(groups, &group)).await,
    }
}

async fn list(mut session: Session) -> Outcome {
    let mut listing = Listing::new(COLUMNS);
    for state in all(&mut session).await? {
        push(&mut listing, &state);
    }
    listing.print(session.output, "no tracks; add one with `moonbridge permission track create NAME GROUP...`")
}

async fn info(mut session: Session, name: String) -> Outcome {
    let state = find(&mut session, &name).await?;
    let mut thing = Listing::new(COLUMNS);
    push(&mut thing, &state);
    thing.print_one(session.output)
}

async fn delete(mut session: Session, name: String, expected_revision: Option<u64>) -> Outcome {
    let request = v1::DeleteTrackRequest { name: name.clone(), expected_revision };
    session.permissions.delete_track(request).await.map_err(refused)?;
    let mut thing = Listing::new(&["name", "removed"]);
    thing.push([json!(name), json!(true)]);
    session.done(&format!("track {name} is removed"), &thing)
}

/// Changes the groups of a track, on what they are now: if somebody else is faster, nothing changes.
async fn change(
    mut session: Session,
    name: String,
    expected_revision: Option<u64>,
    edit: impl FnOnce(&mut Vec<String>) -> Result<(), String>,
) -> Outcome {
    let state = find(&mut session, &name).await?;
    let mut track = state.track.unwrap_or_default();
    edit(&mut track.groups).map_err(|problem| Failure::failed(format!("track {name}: {problem}")))?;
    set(session, track, false, Some(expected_revision.unwrap_or(state.revision))).await
}

async fn set(mut session: Session, track: v1::PermissionTrack, create: bool, expected_revision: Option<u64>) -> Outcome {
    let request = v1::SetTrackRequest { track: Some(track), create, expected_revision };
    let state = session.permissions.set_track(request).await.map_err(refused)?.into_inner();
    let mut thing = Listing::new(COLUMNS);
    push(&mut thing, &state);
    let track = state.track.unwrap_or_default();
    let groups = if track.groups.is_empty() { "no groups".to_owned() } else { track.groups.join(" > ") };
    session.done(&format!("{}: {groups}, {}", track.name, at(state.revision)), &thing)
}

fn append(groups: &mut Vec<String>, group: String) -> Result<(), String> {
    let end = u32::try_from(groups.len() + 1).unwrap_or(u32::MAX);
    insert(groups, group, end)
}

fn insert(groups: &mut Vec<String>, group: String, position: u32) -> Result<(), String> {
    if groups.contains(&group) {
        return Err(format!("{group} is on it already"));
    }
    let index = usize::try_from(position).unwrap_or(usize::MAX).saturating_sub(1);
    if index > groups.len() {
        return Err(format!("it has {} groups: the highest position is {}", groups.len(), groups.len() + 1));
    }
    groups.insert(index, group);
    Ok(())
}

fn remove(groups: &mut Vec<String>, group: &str) -> Result<(), String> {
    let index = groups.iter().position(|existing| existing == group).ok_or_else(|| format!("{group} is not on it"))?;
    groups.remove(index);
    Ok(())
}

async fn find(session: &mut Session, name: &str) -> Outcome<v1::PermissionTrackState> {
    let is_it = |state: &v1::PermissionTrackState| state.track.as_ref().is_some_and(|track| track.name == name);
    let found = all(session).await?.into_iter().find(is_it);
    found.ok_or_else(|| Failure::failed(format!("no track {name}; `moonbridge permission track list` shows those there are")))
}

async fn all(session: &mut Session) -> Outcome<Vec<v1::PermissionTrackState>> {
    Ok(session.permissions.list_tracks(v1::ListTracksRequest {}).await.map_err(refused)?.into_inner().tracks)
}

fn push(listing: &mut Listing, state: &v1::PermissionTrackState) {
    let track = state.track.clone().unwrap_or_default();
    listing.push([json!(track.name), json!(track.groups), json!(state.revision)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_track() {
        let mut groups = vec!["a".to_owned()];
        append(&mut groups, "c".to_owned()).unwrap();
        insert(&mut groups, "b".to_owned(), 2).unwrap();
        insert(&mut groups, "lowest".to_owned(), 1).unwrap();
        assert_eq!(groups, ["lowest", "a", "b", "c"]);
        assert!(append(&mut groups, "b".to_owned()).unwrap_err().contains("already"));
        assert!(insert(&mut groups, "d".to_owned(), 6).unwrap_err().contains("highest position is 5"));
        remove(&mut groups, "lowest").unwrap();
        assert!(remove(&mut groups, "lowest").unwrap_err().contains("not on it"));
        assert_eq!(groups, ["a", "b", "c"]);
    }
}
