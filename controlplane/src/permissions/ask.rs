//! Asking: what a player may, how an answer comes about, who has a say on a permission. Answered from users as they are stored now and
//! the groups and settings that go with them: an answer never lacks a change that was made before the question.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_permissions::{Answer, Contexts, Explained, Group, MatchedBy, Node, Resolved, Settings, User, explain, matching, resolve};
use moonbridge_proto::snapshot::{Snapshot, write_contexts};
use moonbridge_proto::v1::{self, command::Action};
use tonic::Status;
use uuid::Uuid;

use super::apart::apart;
use super::changes::now;
use super::edits;
use super::head::{self, Head};
use super::pages::Users;
use super::players::{self, Player};
use super::stream::{Answers, stream};
use super::unreadable;
use crate::admin::carry_out;
use crate::replica::Replica;
use crate::store::{Entry, StoreError};
use crate::{keys, status};

/// Permissions of one check.
const MAX_PERMISSIONS: usize = 1_000;
/// The longest permission that is asked for, in bytes: an expression is tried on all of them, and keys have 200 characters.
const MAX_PERMISSION: usize = 256;
/// Permissions, groups or users that one piece of work is of, and nodes of these users, more or less.
const PIECE: usize = 100;
const PIECE_NODES: usize = 5_000;
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
    let known = Known::read(replica, player.uuid).await?;
    let contexts = contexts(&known.snapshot.permission_settings, &player, &request.contexts, request.exact_contexts)?;
    let resolved = known.resolved(contexts.clone()).await?;
    let mut answers = Vec::new();
    for piece in request.permissions.chunks(PIECE) {
        let (resolved, piece) = (resolved.clone(), piece.to_vec());
        let answer = move |permission: String| told(resolved.check(&permission)).into();
        answers.extend(apart(move || piece.into_iter().map(answer).collect::<Vec<i32>>()).await?);
    }
    Ok(v1::CheckResponse {
        player_uuid: player.uuid.to_string(),
        answers,
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
    let known = Known::read(replica, player.uuid).await?;
    let contexts = contexts(&known.snapshot.permission_settings, &player, &request.contexts, request.exact_contexts)?;
    let asked = contexts.clone();
    let explaining = apart(move || {
        let (user, Snapshot { groups, tracks, permission_settings: settings, .. }) = (known.user()?, &*known.snapshot);
        let explained = explain(&user, groups, tracks, settings, &asked, now(), &request.permission);
        Ok::<_, Status>((user.username, explained))
    });
    let (username, explained) = explaining.await??;
    let name = username.or(player.name).unwrap_or_else(|| player.uuid.to_string());
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
    let permission: Arc<str> = request.permission.into();
    Ok(stream(&replica, |answers| async move {
        let groups: Vec<_> = snapshot.groups.values().cloned().collect();
        for piece in groups.chunks(PIECE) {
            let (piece, permission, snapshot) = (piece.to_vec(), permission.clone(), snapshot.clone());
            let speaks = move |group: &Arc<Group>| {
                speaks(group.nodes(), &snapshot.permission_settings, &permission, &format!("group {}", group.name()))
            };
            for result in apart(move || piece.iter().flat_map(speaks).collect::<Vec<_>>()).await? {
                answers.send(result).await?;
            }
        }
        let mut users = Users::of(&*store, &head);
        loop {
            let piece = piece_of(&mut users).await.map_err(status::store)?;
            if piece.is_empty() {
                return Ok(());
            }
            let (permission, snapshot) = (permission.clone(), snapshot.clone());
            let speaks =
                move |(raw, entry): &(v1::PermissionUser, Entry)| user_speaks(raw, entry, &snapshot.permission_settings, &permission);
            for result in apart(move || piece.iter().flat_map(speaks).collect::<Vec<_>>()).await? {
                answers.send(result).await?;
            }
        }
    }))
}

/// What a player has when it logs in: on no backend yet.
pub(crate) async fn at_login(replica: &Replica, player: &str) -> Result<Arc<Resolved>, Status> {
    let player = players::find(replica, player).await?;
    let known = Known::read(replica, player.uuid).await?;
    let contexts = known.snapshot.permission_settings.contexts(None);
    known.resolved(contexts).await
}

/// A user as it is stored, and the snapshot that goes with it.
#[derive(Clone)]
struct Known {
    uuid: Uuid,
    entry: Option<Arc<Entry>>,
    snapshot: Arc<Snapshot>,
}

impl Known {
    async fn read(replica: &Replica, uuid: Uuid) -> Result<Self, Status> {
        let (head, snapshot) = whole(replica).await?;
        let key = keys::permission_user(&head.generation, uuid);
        let (entry, _) = head::entry_at(&*replica.store, &key, Some(head.revision)).await.map_err(status::store)?;
        Ok(Self { uuid, entry: entry.map(Arc::new), snapshot })
    }

    /// Compiles its regular expressions, too.
    fn user(&self) -> Result<User, Status> {
        self.entry.as_deref().map_or_else(|| Ok(User::unknown(self.uuid)), unreadable::read::<v1::PermissionUser, User>)
    }

    async fn resolved(&self, contexts: Contexts) -> Result<Arc<Resolved>, Status> {
        let known = self.clone();
        let resolving = apart(move || {
            let (user, Snapshot { groups, tracks, permission_settings: settings, .. }) = (known.user()?, &*known.snapshot);
            Ok::<_, Status>(Arc::new(resolve(&user, groups, tracks, settings, &contexts, now())))
        });
        resolving.await?
    }
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

/// The next users that can be read, as many as one piece of work is of.
async fn piece_of(users: &mut Users<'_>) -> Result<Vec<(v1::PermissionUser, Entry)>, StoreError> {
    let (mut piece, mut nodes) = (Vec::new(), 0);
    while piece.len() < PIECE && nodes < PIECE_NODES {
        let Some(next) = users.next_readable().await? else { break };
        nodes += next.0.nodes.len();
        piece.push(next);
    }
    Ok(piece)
}

fn user_speaks(raw: &v1::PermissionUser, entry: &Entry, settings: &Settings, permission: &str) -> Vec<v1::SearchResult> {
    let Ok(user) = User::try_from(raw) else {
        unreadable::skipped(&entry.key);
        return Vec::new();
    };
    let holder = match &user.username {
        Some(name) => format!("user {} ({name})", user.uuid),
        None => format!("user {}", user.uuid),
    };
    speaks(&user.nodes, settings, permission, &holder)
}

/// The nodes of one holder that speak of a permission, wherever they apply.
fn speaks(nodes: &[Node], settings: &Settings, permission: &str, holder: &str) -> Vec<v1::SearchResult> {
    let result = |(node, matched): (&Node, MatchedBy)| v1::SearchResult {
        holder: holder.to_owned(),
        node: Some(node.into()),
        matched_by: matched_by(matched).to_owned(),
    };
    matching(nodes, settings, permission).map(result).collect()
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
