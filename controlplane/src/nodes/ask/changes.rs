//! Questions that move or kick players: they become commands, as an admin's do.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::MAX_TEXT;
use moonbridge_proto::v1::{self, ask_transfer::Who, command::Action, player_text::Text};
use tonic::{Code, Status};

use super::{BACKEND_DRAINED, BAD_REQUEST, MAX_NAME, PLAYER_OFFLINE, Problem, UNAVAILABLE, UNKNOWN_BACKEND, online, reached};
use crate::admin::MAX_ORIGIN;
use crate::admin::transfers::{DEFAULT_DEADLINE, Order, make};
use crate::commands;
use crate::replica::Replica;

/// The time that a kick has.
const KICK: Duration = Duration::from_secs(10);

pub(super) async fn transfer(replica: &Replica, origin: &str, transfer: v1::AskTransfer) -> Result<v1::AskAnswer, Problem> {
    let (to, by) = (&*transfer.to, from_the_game(origin));
    if to.is_empty() || to.len() > MAX_NAME {
        return Err(UNKNOWN_BACKEND.to_owned());
    }
    let sessions = who(replica, transfer.who)?;
    if sessions.is_empty() {
        return nobody(replica, to);
    }
    let order = Order { to, as_player: transfer.as_player, origin: &by, traceparent: "", deadline: DEFAULT_DEADLINE };
    let made = make(replica, &by, order, sessions, Vec::new()).await.map_err(|status| problem(&status))?;
    match (made.commands.len(), made.refused.into_iter().next()) {
        (0, Some(refusal)) => Err(refusal.reason),
        (count, _) => Ok(reached(u32::try_from(count).unwrap_or(u32::MAX))),
    }
}

fn who(replica: &Replica, who: Option<Who>) -> Result<Vec<Arc<v1::Session>>, Problem> {
    match who {
        Some(Who::Player(player)) => Ok(vec![online(replica, &player)?]),
        Some(Who::Backend(backend)) => {
            let sessions = replica.presence.sessions_on(&backend);
            let is_known = || replica.snapshots.newest().is_some_and(|snapshot| snapshot.backends.contains_key(&backend));
            if sessions.is_empty() && !is_known() { Err(UNKNOWN_BACKEND.to_owned()) } else { Ok(sessions) }
        }
        Some(Who::Everybody(true)) => Ok(replica.presence.all()),
        Some(Who::Everybody(false)) | None => Err(BAD_REQUEST.to_owned()),
    }
}

/// The answer if there is nobody to move.
fn nobody(replica: &Replica, to: &str) -> Result<v1::AskAnswer, Problem> {
    match replica.snapshots.newest().and_then(|snapshot| snapshot.backends.get(to).map(|backend| backend.drained)) {
        Some(false) => Ok(reached(0)),
        Some(true) => Err(BACKEND_DRAINED.to_owned()),
        None => Err(UNKNOWN_BACKEND.to_owned()),
    }
}

pub(super) async fn kick(replica: &Replica, origin: &str, kick: v1::AskKick) -> Result<v1::AskAnswer, Problem> {
    let (reason, reason_json) = match kick.text.and_then(|text| text.text) {
        Some(Text::Legacy(reason)) if reason.len() <= MAX_TEXT => (reason, String::new()),
        Some(Text::Json(reason)) if reason.len() <= MAX_TEXT => (String::new(), reason),
        Some(_) => return Err(BAD_REQUEST.to_owned()),
        None => (String::new(), String::new()),
    };
    let (session, by) = (online(replica, &kick.player)?, from_the_game(origin));
    tracing::info!(by, player = session.player, "player to be kicked");
    let action = v1::KickAction { session_id: session.id.clone(), player: session.player.clone(), reason, reason_json };
    let command = commands::new(&session.node_id, Action::Kick(action), &by, "", KICK, commands::now_ms());
    match commands::create(&*replica.store, &replica.commands, &[command]).await {
        Ok(lost) if lost.is_empty() => Ok(reached(1)),
        Ok(_) => Err(PLAYER_OFFLINE.to_owned()),
        Err(error) => {
            tracing::debug!(%error, "cannot write a kick that was asked for in the game");
            Err(UNAVAILABLE.to_owned())
        }
    }
}

/// Who asked, for the records of commands.
fn from_the_game(origin: &str) -> String {
    let mut by = format!("game:{origin}");
    by.truncate(by.floor_char_boundary(MAX_ORIGIN));
    by
}

fn problem(status: &Status) -> Problem {
    match status.code() {
        Code::InvalidArgument => BAD_REQUEST.to_owned(),
        _ => {
            tracing::debug!(%status, "cannot make transfers that were asked for in the game");
            UNAVAILABLE.to_owned()
        }
    }
}
