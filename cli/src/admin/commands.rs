//! Commands: how they look, and following them to their one outcome.

use std::collections::HashMap;
use std::time::Duration;

use moonbridge_proto::v1::{self, CommandState};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status};

use super::{Session, text_or_null};
use crate::control::{PAGE, pages, refused};
use crate::failure::{Failure, Outcome};

/// Columns of a command of any kind.
pub(super) const COLUMNS: &[&str] = &["id", "kind", "state", "reason", "detail"];

/// How long a control plane may be away while it is watched.
const AWAY: Duration = Duration::from_secs(30);

/// Between two tries to watch again.
const RETRY: Duration = Duration::from_millis(500);

/// How long beyond its deadline a command may take to be told as expired.
const GRACE: Duration = Duration::from_secs(15);

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It did what was asked.
    Succeeded,
    /// It did not; the result says why.
    Failed,
    /// Its time ran out.
    Expired,
}

impl Ended {
    /// `None` while it has not.
    pub(super) fn of(command: &v1::Command) -> Option<Ended> {
        match command.state() {
            CommandState::Succeeded => Some(Ended::Succeeded),
            CommandState::Failed => Some(Ended::Failed),
            CommandState::Expired => Some(Ended::Expired),
            _ => None,
        }
    }
}

/// A command of any kind as a row.
pub(super) fn row(command: &v1::Command) -> [Value; 5] {
    use v1::command::Action;
    let kind = match &command.action {
        Some(Action::Transfer(_)) => "transfer",
        Some(Action::Kick(_)) => "kick",
        Some(Action::Message(_)) => "message",
        Some(Action::Drain(_)) => "drain",
        Some(Action::Check(_)) => "check",
        Some(Action::Record(_)) => "record",
        None => "unknown",
    };
    let result = command.result.clone().unwrap_or_default();
    [json!(command.id), json!(kind), json!(state_name(command.state())), text_or_null(result.reason), text_or_null(result.detail)]
}

/// A state's name.
pub(super) fn state_name(state: CommandState) -> &'static str {
    match state {
        CommandState::Unspecified => "unknown",
        CommandState::Pending => "pending",
        CommandState::Dispatched => "dispatched",
        CommandState::Running => "running",
        CommandState::Succeeded => "succeeded",
        CommandState::Failed => "failed",
        CommandState::Expired => "expired",
    }
}

/// State, reason and detail in words: "failed: dial_failed: …".
pub(super) fn why(command: &v1::Command) -> String {
    let result = command.result.clone().unwrap_or_default();
    let parts = [state_name(command.state()), &result.reason, &result.detail];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

/// Waits for the outcome of one command.
pub(super) async fn outcome(session: &mut Session, command: v1::Command) -> Outcome<v1::Command> {
    if Ended::of(&command).is_some() {
        return Ok(command);
    }
    let mut last = command;
    let give_up = Instant::now() + time_left(&last) + GRACE;
    let ids = vec![last.id.clone()];
    follow(session, ids, Some(give_up), "the node's log tells it", |command| {
        last = command.clone();
        Ok(())
    })
    .await?;
    Ok(last)
}

/// The time that the command was given, as its own clock says.
fn time_left(command: &v1::Command) -> Duration {
    let given = command.deadline_unix_ms.saturating_sub(command.created_unix_ms);
    Duration::from_millis(given.clamp(0, 3_600_000).unsigned_abs())
}

/// Every command there is, of a kind ("" for all) and of these ids (none for all).
pub(super) async fn list(session: &Session, kind: &str, ids: &[String]) -> Outcome<Vec<v1::Command>> {
    let admin = session.admin.clone();
    pages(async |page_token| {
        let request = v1::ListCommandsRequest { page_size: PAGE, page_token, kind: kind.to_owned(), ids: ids.to_vec() };
        let page = admin.clone().list_commands(request).await?.into_inner();
        Ok((page.commands, page.next_page_token))
    })
    .await
}

/// Follows commands until all have ended; `changed` gets each in its present state and after every change of it. Survives the
/// loss of the replica, if it or another answers again within 30 s. `later` says what tells the outcomes after `give_up`.
pub(super) async fn follow(
    session: &mut Session,
    ids: Vec<String>,
    give_up: Option<Instant>,
    later: &str,
    mut changed: impl FnMut(&v1::Command) -> Outcome,
) -> Outcome {
    let mut open: HashMap<String, i32> = ids.into_iter().map(|id| (id, CommandState::Unspecified.into())).collect();
    let mut heard = Instant::now();
    while !open.is_empty() {
        let limit = give_up.unwrap_or(Instant::now() + Duration::from_secs(365 * 86_400));
        let lost = match timeout_at(limit, watch(session, &mut open, &mut heard, &mut changed)).await {
            Ok(Ok(())) => Status::unavailable("the replica ended the watch"),
            Ok(Err(Interrupted::Output(failure))) => return Err(failure),
            Ok(Err(Interrupted::Lost(status))) => status,
            Err(_) => {
                let ids: Vec<&str> = open.keys().map(String::as_str).collect();
                return Err(Failure::failed(format!("no outcome in time of {}; {later}", ids.join(" "))));
            }
        };
        if open.is_empty() {
            break;
        }
        if !matches!(
            lost.code(),
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded | Code::Aborted
        ) || heard.elapsed() > AWAY
        {
            return Err(refused(lost));
        }
        tokio::time::sleep(RETRY).await;
        // Perhaps another replica answers; if none does, the old one is asked again.
        if let Ok(clients) = session.control.connect().await {
            session.admin = clients.admin;
        }
    }
    Ok(())
}

/// Why a watch ended before all commands had.
enum Interrupted {
    /// Our own output failed.
    Output(Failure),
    /// The replica refused, or has gone.
    Lost(Status),
}

impl From<Status> for Interrupted {
    fn from(status: Status) -> Self {
        Interrupted::Lost(status)
    }
}

async fn watch(
    session: &mut Session,
    open: &mut HashMap<String, i32>,
    heard: &mut Instant,
    changed: &mut impl FnMut(&v1::Command) -> Outcome,
) -> Result<(), Interrupted> {
    let request = v1::WatchCommandsRequest { ids: open.keys().cloned().collect() };
    let mut stream = session.admin.watch_commands(request).await?.into_inner();
    while let Some(command) = stream.message().await? {
        *heard = Instant::now();
        let Some(state) = open.get_mut(&command.id) else { continue };
        if *state == command.state {
            continue;
        }
        *state = command.state;
        changed(&command).map_err(Interrupted::Output)?;
        if Ended::of(&command).is_some() {
            open.remove(&command.id);
            if open.is_empty() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_in_words() {
        let mut command = v1::Command { state: CommandState::Running.into(), ..Default::default() };
        assert_eq!((Ended::of(&command), why(&command).as_str()), (None, "running"));
        command.state = CommandState::Failed.into();
        command.result = Some(v1::CommandResult { reason: "dial_failed".into(), detail: "refused".into(), ..Default::default() });
        assert_eq!((Ended::of(&command), why(&command).as_str()), (Some(Ended::Failed), "failed: dial_failed: refused"));
    }
}
