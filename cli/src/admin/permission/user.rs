//! `moonbridge permission user`.

use moonbridge_permissions::DEFAULT_GROUP;
use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_edit::Edit;
use serde_json::{Value, json};

use super::super::{Session, text_or_null};
use super::{Holder, at, change, contexts, words};
use crate::args::permission::{StepArgs, UserVerb};
use crate::control::refused;
use crate::failure::Outcome;
use crate::output::Listing;

const COLUMNS: &[&str] = &["uuid", "name", "primary_group", "revision"];
const STEP: &[&str] = &["uuid", "name", "primary_group", "revision", "from", "to"];

/// Runs a verb.
pub(super) async fn run(session: Session, player: String, verb: UserVerb) -> Outcome {
    match verb {
        UserVerb::Info => info(session, player).await,
        UserVerb::Change(verb) => {
            let wanted = change::wanted(verb)?;
            edit(session, player, wanted.edit, wanted.expected_revision).await
        }
        UserVerb::Promote(args) => step(session, player, args, false).await,
        UserVerb::Demote(args) => step(session, player, args, true).await,
        UserVerb::Primary { group, at } => edit(session, player, Edit::PrimaryGroup(group), at.revision).await,
    }
}

async fn info(mut session: Session, player: String) -> Outcome {
    let user = session.permissions.get_user(v1::GetUserRequest { player }).await.map_err(refused)?.into_inner();
    shown(user).1.print(session.output, "no nodes of its own: it has what everybody has")
}

async fn edit(mut session: Session, player: String, edit: Edit, expected_revision: Option<u64>) -> Outcome {
    let edits = vec![v1::PermissionEdit { edit: Some(edit.clone()) }];
    let request = v1::ChangeUserRequest { player, edits, expected_revision };
    let state = session.permissions.change_user(request).await.map_err(refused)?.into_inner();
    let revision = state.revision;
    let (name, user) = shown(state);
    user.done(session.output, &format!("{name}: {}, {}", words::edited(&edit, &user.nodes), at(revision)))
}

async fn step(mut session: Session, player: String, args: StepArgs, demote: bool) -> Outcome {
    let contexts = contexts(&args.contexts)?;
    let request = v1::PromoteRequest { player, track: args.track.clone(), contexts: contexts.clone(), demote };
    let moved = session.permissions.promote(request).await.map_err(refused)?.into_inner();
    let way = match (moved.from.as_str(), moved.to.as_str()) {
        ("", to) => format!("on {to} now, the lowest of the track {}", args.track),
        (from, "") => format!("not on {from} any more, and so not on the track {}", args.track),
        (from, to) => format!("on {to} now, before on {from}"),
    };
    let state = moved.user.unwrap_or_default();
    let user = state.user.unwrap_or_default();
    let text = format!("{}: {way}{}, {}", name(&user), words::places(&contexts), at(state.revision));
    let [uuid, name, primary_group, revision] = facts(&user, state.revision);
    let mut head = Listing::new(STEP);
    head.push([uuid, name, primary_group, revision, text_or_null(moved.from), text_or_null(moved.to)]);
    Holder { head, nodes: user.nodes }.done(session.output, &text)
}

/// What a user is called, and all that is stored of it.
fn shown(state: v1::PermissionUserState) -> (String, Holder) {
    let user = state.user.unwrap_or_default();
    let mut head = Listing::new(COLUMNS);
    head.push(facts(&user, state.revision));
    (name(&user), Holder { head, nodes: user.nodes })
}

/// A user's name, or else its UUID.
fn name(user: &v1::PermissionUser) -> String {
    if user.username.is_empty() { user.uuid.clone() } else { user.username.clone() }
}

/// UUID, name, primary group and revision.
fn facts(user: &v1::PermissionUser, revision: u64) -> [Value; 4] {
    let primary_group = if user.primary_group.is_empty() { DEFAULT_GROUP } else { user.primary_group.as_str() };
    [json!(user.uuid), text_or_null(user.username.as_str()), json!(primary_group), json!(revision)]
}
