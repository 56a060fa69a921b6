//! Asking: what a player may, how an answer comes about, who has a say on a permission. Answered from users as they are stored now and
//! the groups and settings that go with them: an answer never lacks a change that was made before the question.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_permissions::{Answer, Contexts, Explained, MatchedBy, Node, Resolved, Settings, User, explain, matching, resolve};
use moonbridge_proto::snapshot::{Snapshot, write_contexts};
use moonbridge_proto::v1::{self, command::Action};
use tonic::Status;
use uuid::Uuid;

use super::changes::now;
use super::edits;
use super::head::{self, Head};
use super::pages::Users;
use super::players::{self, Player};
use super::stream::{Answers, stream};
use super::unreadable;
use crate::admin::carry_out;
use crate::replica::Replica;
use crate::{keys, status};

/// Permissions of one check.
const MAX_PERMISSIONS: usize = 1_000;
/// The longest permission that is asked for, in bytes: far longer than any that can be stored.
const MAX_PERMISSION: usize = 1_024;
/// So long the snapshot of this replica may take to come to what the store has.
const CATCH_UP: Duration = Duration::from_secs(5);

pub(super) async fn check(replica: &Replica, request: v1::CheckRequest) -> Result<v1::CheckResponse, Status> {
    match request.permissions.len() {
        0 => return Err(Status::invalid_argument("permissions: expected at least one")),
        1..=MAX_PERMISSIONS => {}
        count => return Err(Status::invalid_argument(format!("permissions: expected at most {MAX_PERMISSIONS}, got {count}"))),
    }
    for (index, permission) in request.permissions.iter().enumerate() {
        status::bounded(&format!("permissions[{index}]"), permission, MAX_PERMISSION)?;
    }
    let player = players::find(replica, &request.player).await?;
    let (user, snapshot) = known(replica, player.uuid).await?;
    let contexts = contexts(&snapshot.permission_settings, &player, &request.contexts, request.exact_contexts)?;
    let resolved = resolved(&user, &snapshot, &contexts);
    let answer = |permission: &String| told(resolved.check(permission)).into();
    Ok(v1::CheckResponse {
        player_uuid: player.uuid.to_string(),
        answers: request.permissions.iter().map(answer).collect(),
        contexts: write_contexts(&contexts),
        valid_until: resolved.valid_until().unwrap_or_default(),
        primary_group: resolved.primary_group().to_owned(),
        prefix: resolved.prefix().unwrap_or_default().to_owned(),
        suffix: resolved.suffix().unwrap_or_default().to_owned(),
        meta: resolved.all_meta().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    })
}

pub(super) async fn explain_answer(replica: &Replica, request: v1::ExplainRequest) -> Result<v1::ExplainResponse, Status> {
    status::bounded("permission", &request.permission, MAX_PERMISSION)?;
    let player = players::find(replica, &request.player).await?;
    let (user, snapshot) = known(replica, player.uuid).await?;
    let settings = &snapshot.permission_settings;
    let contexts = contexts(settings, &player, &request.contexts, request.exact_contexts)?;
    let explained = explain(&user, &snapshot.groups, &snapshot.tracks, settings, &contexts, now(), &request.permission);
    let name = user.username.as_deref().or(player.name.as_deref()).map_or_else(|| player.uuid.to_string(), str::to_owned);
    let path = |explained: &Explained| -> Vec<String> {
        let groups = explained.path.iter().skip(1).map(|group| format!("group {group}"));
        std::iter::once(format!("user {name}")).chain(groups).collect()
    };
    let decided = explained.decided_by.as_ref();
    let other = |other: &Explained| v1::ExplainedNode { node: Some((&other.node).into()), path: path(other), why: other.why.to_owned() };
    Ok(v1::ExplainResponse {
        player_uuid: player.uuid.to_string(),
        answer: told(explained.answer).into(),
        contexts: write_contexts(&contexts),
        matched_by: decided.map_or("none", |decided| matched_by(decided.matched_by)).to_owned(),
        node: decided.map(|decided| (&decided.node).into()),
        path: decided.map(path).unwrap_or_default(),
        others: explained.others.iter().map(other).collect(),
        holders: std::iter::once(format!("user {name}")).chain(explained.holders.iter().map(|group| format!("group {group}"))).collect(),
    })
}

/// What the player's session itself answers.
pub(super) async fn check_session(replica: &Replica, request: v1::CheckSessionRequest) -> Result<v1::Command, Status> {
    status::bounded("permission", &request.permission, MAX_PERMISSION)?;
    let session = crate::admin::online(replica, &request.player).await?;
    let action = v1::CheckAction { session_id: session.id, player: session.player, permission: request.permission };
    carry_out(replica, &session.node_id, Action::Check(action), "").await
}

/// Everybody who has a node that speaks of a permission: groups, then users.
pub(super) async fn search(replica: Arc<Replica>, request: v1::SearchRequest) -> Result<Answers<v1::SearchResult>, Status> {
    status::bounded("permission", &request.permission, MAX_PERMISSION)?;
    let (head, snapshot) = whole(&replica).await?;
    let store = replica.store.clone();
    Ok(stream(&replica, |answers| async move {
        let settings = &snapshot.permission_settings;
        for group in snapshot.groups.values() {
            for result in speaks(group.nodes(), settings, &request.permission, &format!("group {}", group.name())) {
                answers.send(result).await?;
            }
        }
        let mut users = Users::of(&*store, &head);
        while let Some((raw, entry)) = users.next_readable().await.map_err(status::store)? {
            let Ok(user) = User::try_from(&raw) else {
                unreadable::skipped(&entry.key);
                continue;
            };
            let holder = match &user.username {
                Some(name) => format!("user {} ({name})", user.uuid),
                None => format!("user {}", user.uuid),
            };
            for result in speaks(&user.nodes, settings, &request.permission, &holder) {
                answers.send(result).await?;
            }
        }
        Ok(())
    }))
}

/// What a player has when it logs in: on no backend yet.
pub(crate) async fn at_login(replica: &Replica, player: &str) -> Result<Resolved, Status> {
    let player = players::find(replica, player).await?;
    let (user, snapshot) = known(replica, player.uuid).await?;
    Ok(resolved(&user, &snapshot, &snapshot.permission_settings.contexts(None)))
}

fn resolved(user: &User, snapshot: &Snapshot, contexts: &Contexts) -> Resolved {
    resolve(user, &snapshot.groups, &snapshot.tracks, &snapshot.permission_settings, contexts, now())
}

/// A user, and the snapshot that goes with it.
async fn known(replica: &Replica, uuid: Uuid) -> Result<(User, Arc<Snapshot>), Status> {
    let (head, snapshot) = whole(replica).await?;
    let key = keys::permission_user(&head.generation, uuid);
    let (entry, _) = head::entry_at(&*replica.store, &key, Some(head.revision)).await.map_err(status::store)?;
    let Some(entry) = entry else { return Ok((User::unknown(uuid), snapshot)) };
    Ok((unreadable::read::<v1::PermissionUser, User>(&entry)?, snapshot))
}

/// The head, and a snapshot of its generation that is at least as new: an import that has become visible in between is waited for.
async fn whole(replica: &Replica) -> Result<(Head, Arc<Snapshot>), Status> {
    let store = &*replica.store;
    let both = async {
        loop {
            let head = Head::read(store).await.map_err(status::store)?;
            let (entry, _) = head::entry_at(store, keys::RESOURCES_REVISION, Some(head.revision)).await.map_err(status::store)?;
            let snapshot = replica.snapshots.reached(entry.map_or(0, |entry| entry.modified)).await;
            if *snapshot.permission_generation == *head.generation {
                return Ok((head, snapshot));
            }
        }
    };
    let late = |_| Status::unavailable("this replica is behind the store: try again later, or ask another");
    tokio::time::timeout(CATCH_UP, both).await.map_err(late)?
}

/// What a question is asked in: the contexts given, with the static ones, or else the player's own.
fn contexts(settings: &Settings, player: &Player, given: &[v1::PermissionContext], exact: bool) -> Result<Contexts, Status> {
    let given = edits::contexts(given)?;
    if exact {
        return Ok(given);
    }
    if given.is_empty() {
        let backend = player.session.as_ref().map(|session| session.backend.as_str());
        return Ok(settings.contexts(backend.filter(|backend| !backend.is_empty())));
    }
    let mut contexts = settings.contexts(None);
    for (key, _) in given.iter() {
        contexts.remove(key);
    }
    for (key, value) in given.iter() {
        contexts.add(key, value).map_err(|error| Status::invalid_argument(format!("contexts: {error}")))?;
    }
    Ok(contexts)
}

/// The nodes of one holder that speak of a permission, wherever they apply.
fn speaks(nodes: &[Node], settings: &Settings, permission: &str, holder: &str) -> impl Iterator<Item = v1::SearchResult> {
    matching(nodes, settings, permission).map(|(node, matched)| v1::SearchResult {
        holder: holder.to_owned(),
        node: Some(node.into()),
        matched_by: matched_by(matched).to_owned(),
    })
}

fn matched_by(matched: MatchedBy) -> &'static str {
    match matched {
        MatchedBy::Exact => "exact",
        MatchedBy::Regex => "regex",
        MatchedBy::Wildcard => "wildcard",
        MatchedBy::Implicit => "implicit",
    }
}

fn told(answer: Answer) -> v1::PermissionAnswer {
    match answer {
        Answer::True => v1::PermissionAnswer::True,
        Answer::False => v1::PermissionAnswer::False,
        Answer::Undefined => v1::PermissionAnswer::Undefined,
    }
}
