//! Nodes and players: who is there, and commands that are waited for.

use std::time::Duration;

use moonbridge_proto::v1::{self, command::Action};
use moonbridge_proto::{MAX_RECORDING_SECONDS, MAX_TEXT};
use prost::Message;
use tonic::Status;

use super::page::page;
use crate::auth::Caller;
use crate::commands::{self, sweeper};
use crate::follow::list_all;
use crate::presence::{find_players, is_player, is_shown};
use crate::replica::Replica;
use crate::{keys, status};

/// The time that a kick, a message or a drain has.
const DEADLINE: Duration = Duration::from_secs(10);

pub(super) async fn list_nodes(replica: &Replica, request: v1::ListNodesRequest) -> Result<v1::ListNodesResponse, Status> {
    let at = (request.page_size, request.page_token.as_str());
    let (nodes, next_page_token) = page(&*replica.store, keys::NODES, at, |_| true).await?;
    Ok(v1::ListNodesResponse { nodes, next_page_token })
}

pub(super) async fn drain_node(replica: &Replica, caller: &Caller, request: v1::DrainNodeRequest) -> Result<v1::Command, Status> {
    status::bounded("node", &request.node, 256)?;
    let (entries, _) = list_all(&*replica.store, keys::NODES).await.map_err(status::store)?;
    let nodes = entries.iter().filter_map(|entry| v1::Node::decode(&*entry.value).ok());
    let found: Vec<_> = nodes.filter(|node| node.id == request.node || node.name == request.node).collect();
    let node = match &*found {
        [node] => node,
        [] => return Err(Status::not_found(format!("there is no node {:?}: see `moonbridge node list`", request.node))),
        several => {
            let ids: Vec<_> = several.iter().map(|node| node.id.as_str()).collect();
            return Err(Status::failed_precondition(format!(
                "several nodes are called {:?}: give the id of one instead: {}",
                request.node,
                ids.join(", ")
            )));
        }
    };
    let action = Action::Drain(v1::DrainAction { drained: request.drained });
    tracing::info!(by = %caller.name, node = node.name, drained = request.drained, "node to be drained or undrained");
    carry_out(replica, &node.id, action, "").await
}

pub(super) async fn list_players(replica: &Replica, request: v1::ListPlayersRequest) -> Result<v1::ListPlayersResponse, Status> {
    let matches = |filter: &str, value: &str| filter.is_empty() || filter == value;
    let keep = |session: &v1::Session| {
        is_shown(session)
            && matches(&request.backend, &session.backend)
            && (matches(&request.node, &session.node_id) || request.node == session.node_name)
            && (request.player.is_empty() || is_player(session, &request.player))
    };
    let at = (request.page_size, request.page_token.as_str());
    let (players, next_page_token) = page(&*replica.store, keys::SESSIONS, at, keep).await?;
    Ok(v1::ListPlayersResponse { players, next_page_token })
}

pub(super) async fn kick_player(replica: &Replica, caller: &Caller, request: v1::KickPlayerRequest) -> Result<v1::Command, Status> {
    if request.reason.len() > MAX_TEXT {
        return Err(Status::invalid_argument(format!("reason: expected at most {MAX_TEXT} bytes, got {}", request.reason.len())));
    }
    let session = online(replica, &request.player).await?;
    tracing::info!(by = %caller.name, player = session.player, "player to be kicked");
    let action = v1::KickAction { session_id: session.id, player: session.player, reason: request.reason, reason_json: String::new() };
    carry_out(replica, &session.node_id, Action::Kick(action), &request.traceparent).await
}

pub(super) async fn message_player(replica: &Replica, caller: &Caller, request: v1::MessagePlayerRequest) -> Result<v1::Command, Status> {
    status::bounded("text", &request.text, MAX_TEXT)?;
    let session = online(replica, &request.player).await?;
    tracing::info!(by = %caller.name, player = session.player, "player to be sent a message");
    let action = v1::MessageAction { session_id: session.id, player: session.player, text: request.text };
    carry_out(replica, &session.node_id, Action::Message(action), &request.traceparent).await
}

/// Returns when the command is made: it lasts for minutes.
pub(super) async fn record_session(replica: &Replica, caller: &Caller, request: v1::RecordSessionRequest) -> Result<v1::Command, Status> {
    if !(1..=MAX_RECORDING_SECONDS).contains(&request.seconds) {
        return Err(Status::invalid_argument(format!("seconds: expected 1 to {MAX_RECORDING_SECONDS}, got {}", request.seconds)));
    }
    let session = match session(replica, &request.session).await? {
        Some(session) => session,
        None => online(replica, &request.session).await?,
    };
    tracing::info!(by = %caller.name, player = session.player, session = session.id, seconds = request.seconds, "session to be recorded");
    let action = v1::RecordAction { session_id: session.id, player: session.player, seconds: request.seconds };
    let deadline = Duration::from_secs(request.seconds.into()) + DEADLINE;
    create(replica, &session.node_id, Action::Record(action), "", deadline).await
}

/// The session with this id, if it is one's.
async fn session(replica: &Replica, id: &str) -> Result<Option<v1::Session>, Status> {
    if uuid::Uuid::try_parse(id).is_err() {
        return Ok(None);
    }
    let (entries, _) = list_all(&*replica.store, keys::SESSIONS).await.map_err(status::store)?;
    let mut sessions = entries.iter().filter_map(|entry| v1::Session::decode(&*entry.value).ok());
    Ok(sessions.find(|session| session.id == id && is_shown(session)))
}

pub(crate) async fn online(replica: &Replica, player: &str) -> Result<v1::Session, Status> {
    status::bounded("player", player, 64)?;
    let wanted = [player.to_owned()];
    let found = find_players(&replica.presence, &*replica.store, &wanted).await.map_err(status::store)?;
    match found.into_iter().next().flatten() {
        Some(session) => Ok((*session).clone()),
        None => Err(Status::not_found(format!("the player {player:?} is not online: see `moonbridge player list`"))),
    }
}

/// Makes a command and waits for its end, wherever its node is attached.
pub(crate) async fn carry_out(replica: &Replica, node: &str, action: Action, traceparent: &str) -> Result<v1::Command, Status> {
    let command = create(replica, node, action, traceparent, DEADLINE).await?;
    let id = command.id.clone();
    tokio::select! {
        outcome = sweeper::outcome(&*replica.store, &replica.commands, command) => outcome.map_err(status::change),
        () = replica.shutdown.cancelled() => {
            Err(Status::unavailable(format!("this replica is shutting down; the command {id} goes on: ask another for its outcome")))
        }
    }
}

async fn create(replica: &Replica, node: &str, action: Action, traceparent: &str, deadline: Duration) -> Result<v1::Command, Status> {
    let traceparent = checked_traceparent(traceparent)?;
    let command = commands::new(node, action, "cli", traceparent, deadline, commands::now_ms());
    let lost = commands::create(&*replica.store, &replica.commands, std::slice::from_ref(&command)).await.map_err(status::change)?;
    if lost.is_empty() {
        Ok(command)
    } else {
        Err(Status::failed_precondition(format!("the node {node} has just gone: see `moonbridge node list`")))
    }
}

/// A traceparent to be kept with a command: one that is too long to be one is refused.
pub(super) fn checked_traceparent(traceparent: &str) -> Result<&str, Status> {
    match traceparent.len() {
        0..=256 => Ok(traceparent),
        length => Err(Status::invalid_argument(format!("traceparent: expected at most 256 bytes, got {length}"))),
    }
}
