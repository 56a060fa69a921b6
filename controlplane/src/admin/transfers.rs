//! Starting transfers: one command a player.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::v1::{self, command::Action};
use tonic::Status;

use super::MAX_ORIGIN;
use super::players::checked_traceparent;
use crate::auth::Caller;
use crate::commands;
use crate::presence::find_players;
use crate::replica::Replica;
use crate::{resources, status};

pub(crate) const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
const LONGEST_DEADLINE: Duration = Duration::from_secs(600);
/// Players that one call may name; `from` has no such bound.
const MAX_PLAYERS: usize = 1_000;
/// Commands that have not ended: no more are made beyond it.
const MAX_OPEN: usize = 100_000;

pub(super) async fn start(
    replica: &Replica,
    caller: &Caller,
    request: v1::StartTransfersRequest,
) -> Result<v1::StartTransfersResponse, Status> {
    let deadline = check(&request)?;
    let traceparent = checked_traceparent(&request.traceparent)?;
    let mut refused = Vec::new();
    let sessions = sessions(replica, &request, &mut refused).await?;
    let v1::StartTransfersRequest { to, origin, as_player, .. } = &request;
    let order = Order { to, as_player: *as_player, origin, traceparent, deadline };
    make(replica, &caller.name, order, sessions, refused).await
}

/// What is to become of some players.
pub(crate) struct Order<'a> {
    pub(crate) to: &'a str,
    pub(crate) as_player: bool,
    pub(crate) origin: &'a str,
    pub(crate) traceparent: &'a str,
    pub(crate) deadline: Duration,
}

/// Makes a command for each of these sessions; `refused` are players that there is none for.
pub(crate) async fn make(
    replica: &Replica,
    by: &str,
    order: Order<'_>,
    sessions: Vec<Arc<v1::Session>>,
    mut refused: Vec<v1::TransferRefusal>,
) -> Result<v1::StartTransfersResponse, Status> {
    let Order { to, as_player, origin, traceparent, deadline } = order;
    if replica.commands.open_count() >= MAX_OPEN {
        return Err(Status::resource_exhausted(format!("{MAX_OPEN} commands have not ended yet: try again when some have")));
    }
    let refusal = target_refusal(replica, to).await?;
    if let (Some(refusal), true, true) = (&refusal, sessions.is_empty(), refused.is_empty()) {
        return Err(Status::failed_precondition(refusal.detail.clone()));
    }

    let (mut made, now) = (Vec::new(), commands::now_ms());
    for session in sessions {
        if let Some(refusal) = &refusal {
            refused.push(v1::TransferRefusal { player: session.player.clone(), ..refusal.clone() });
        } else if session.backend == to {
            let detail = format!("{} is on {to} already", session.player);
            refused.push(v1::TransferRefusal { player: session.player.clone(), reason: "already_there".to_owned(), detail });
        } else {
            let action = Action::Transfer(v1::TransferAction {
                session_id: session.id.clone(),
                player: session.player.clone(),
                from: session.backend.clone(),
                to: to.to_owned(),
                as_player,
            });
            made.push(commands::new(&session.node_id, action, origin, traceparent, deadline, now));
        }
    }
    let lost = commands::create(&*replica.store, &replica.commands, &made).await.map_err(status::change)?;
    let lost_ids: HashSet<&str> = lost.iter().map(|command| command.id.as_str()).collect();
    made.retain(|command| !lost_ids.contains(command.id.as_str()));
    refused.extend(lost.iter().filter_map(|command| match &command.action {
        Some(Action::Transfer(transfer)) => Some(offline(&transfer.player)),
        _ => None,
    }));
    tracing::info!(by, to, commands = made.len(), refused = refused.len(), "transfers started");
    Ok(v1::StartTransfersResponse { commands: made, refused })
}

fn check(request: &v1::StartTransfersRequest) -> Result<Duration, Status> {
    status::bounded("to", &request.to, 256)?;
    if request.origin.len() > MAX_ORIGIN {
        return Err(Status::invalid_argument(format!("origin: expected at most {MAX_ORIGIN} bytes, got {}", request.origin.len())));
    }
    match (request.players.len(), request.from.is_empty()) {
        (0, true) => return Err(Status::invalid_argument("players: expected at least one, or `from`")),
        (1.., false) => return Err(Status::invalid_argument("from: expected either players or `from`, got both")),
        (count, _) if count > MAX_PLAYERS => {
            return Err(Status::invalid_argument(format!("players: expected at most {MAX_PLAYERS}, got {count}: ask in several calls")));
        }
        _ => {}
    }
    match Duration::from_secs(request.deadline_seconds.into()) {
        Duration::ZERO => Ok(DEFAULT_DEADLINE),
        deadline if deadline <= LONGEST_DEADLINE => Ok(deadline),
        _ => Err(Status::invalid_argument(format!(
            "deadline_seconds: expected at most {}, got {}",
            LONGEST_DEADLINE.as_secs(),
            request.deadline_seconds
        ))),
    }
}

/// The sessions asked for, none twice; players that are not online are refused.
async fn sessions(
    replica: &Replica,
    request: &v1::StartTransfersRequest,
    refused: &mut Vec<v1::TransferRefusal>,
) -> Result<Vec<Arc<v1::Session>>, Status> {
    if !request.from.is_empty() {
        let there = replica.presence.sessions_on(&request.from);
        if there.is_empty() && resources::backend(&*replica.store, &request.from).await?.is_none() {
            return Err(Status::not_found(format!("there is no backend {:?}: see `moonbridge backend list`", request.from)));
        }
        return Ok(there);
    }
    let found = find_players(&replica.presence, &*replica.store, &request.players).await.map_err(status::store)?;
    let mut seen = HashSet::new();
    let mut sessions = Vec::new();
    for (player, session) in request.players.iter().zip(found) {
        match session {
            Some(session) if seen.insert(session.id.clone()) => sessions.push(session),
            Some(_) => {}
            None => refused.push(offline(player)),
        }
    }
    Ok(sessions)
}

/// Why nobody can be sent to this backend.
async fn target_refusal(replica: &Replica, to: &str) -> Result<Option<v1::TransferRefusal>, Status> {
    let (reason, detail) = match resources::backend(&*replica.store, to).await? {
        None => ("unknown_backend", format!("there is no backend {to:?}: see `moonbridge backend list`")),
        Some(backend) if backend.drained => {
            ("backend_drained", format!("{to} is drained and takes no new players: `moonbridge backend undrain {to}` lets it"))
        }
        Some(_) => return Ok(None),
    };
    Ok(Some(v1::TransferRefusal { player: String::new(), reason: reason.to_owned(), detail }))
}

fn offline(player: &str) -> v1::TransferRefusal {
    let detail = format!("{player} is not online: see `moonbridge player list`");
    v1::TransferRefusal { player: player.to_owned(), reason: "player_offline".to_owned(), detail }
}
