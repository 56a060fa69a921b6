//! `moonbridge transfer`.

mod progress;
mod start;

use moonbridge_proto::v1::{self, CommandState};
use serde_json::{Value, json};

use super::commands::{self, Ended};
use super::{Session, text_or_null};
use crate::args::{Format, StateArg, TransferVerb};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};
use crate::time::rfc3339;

const COLUMNS: &[&str] = &["id", "player", "from", "to", "state", "reason", "detail", "created", "ms"];
const SHOW: &[&str] = &[
    "id", "player", "from", "to", "state", "reason", "detail", "created", "deadline", "updated", "ms", "node_id", "session", "origin",
    "trace_id", "phases",
];

/// What tells the outcome of a transfer that was not waited for.
const LATER: &str = "`moonbridge transfer show ID` tells it later";

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: TransferVerb) -> Outcome {
    match verb {
        TransferVerb::Start { players, from, to, as_player, no_wait, deadline } => {
            start::run(session, start::Wanted { players, from, to, as_player, no_wait, deadline }).await
        }
        TransferVerb::List { state, player } => list(session, state, player).await,
        TransferVerb::Show { id } => show(session, id).await,
        TransferVerb::Watch { ids } => watch(session, ids).await,
    }
}

async fn list(session: Session, state: Option<StateArg>, player: Option<String>) -> Outcome {
    let mut listing = Listing::new(COLUMNS);
    for command in commands::list(&session, "transfer", &[]).await? {
        let of_state = state.is_none_or(|state| command.state() == state.into());
        let of_player = player.as_ref().is_none_or(|player| action(&command).player.eq_ignore_ascii_case(player));
        if of_state && of_player {
            listing.push(row(&command));
        }
    }
    listing.print(session.output, "no transfers in the last hour")
}

async fn show(session: Session, id: String) -> Outcome {
    let found = commands::list(&session, "transfer", std::slice::from_ref(&id)).await?;
    let Some(command) = found.into_iter().find(|command| command.id == id) else { return Err(unknown(&id)) };
    let action = action(&command);
    let result = command.result.clone().unwrap_or_default();
    let phases = result.phases.iter().map(|phase| (phase.phase.as_str(), millis(phase.micros)));
    let phases = match session.output {
        Format::Table => text_or_null(phases.map(|(phase, ms)| format!("{phase} {ms} ms")).collect::<Vec<_>>().join(", ")),
        Format::Json | Format::Yaml => phases.map(|(phase, ms)| json!({ "phase": phase, "ms": ms })).collect(),
    };
    let trace_id = command.traceparent.split('-').nth(1).unwrap_or_default().to_owned();
    let mut thing = Listing::new(SHOW);
    thing.push([
        json!(command.id),
        json!(action.player),
        text_or_null(action.from),
        json!(action.to),
        json!(commands::state_name(command.state())),
        text_or_null(result.reason),
        text_or_null(result.detail),
        json!(rfc3339(command.created_unix_ms)),
        json!(rfc3339(command.deadline_unix_ms)),
        json!(rfc3339(command.updated_unix_ms)),
        took(&command),
        json!(command.node_id),
        json!(action.session_id),
        text_or_null(command.origin),
        text_or_null(trace_id),
        phases,
    ]);
    thing.print_one(session.output)
}

async fn watch(mut session: Session, ids: Vec<String>) -> Outcome {
    let found = commands::list(&session, "transfer", &ids).await?;
    if let Some(id) = ids.iter().find(|id| !found.iter().any(|command| command.id == **id)) {
        return Err(unknown(id));
    }
    let ids = match ids.is_empty() {
        true => found.into_iter().filter(|command| Ended::of(command).is_none()).map(|command| command.id).collect(),
        false => ids,
    };
    if ids.is_empty() {
        return output::line("no transfers are under way");
    }
    let format = session.output;
    let mut failed = false;
    commands::follow(&mut session, ids, None, LATER, |command| {
        failed |= matches!(Ended::of(command), Some(Ended::Failed | Ended::Expired));
        if format == Format::Table {
            return output::line(&told(command));
        }
        let mut thing = Listing::new(COLUMNS);
        thing.push(row(command));
        thing.records().first().map_or(Ok(()), |record| output::event(format, record))
    })
    .await?;
    if failed { Err(Failure::said()) } else { Ok(()) }
}

fn unknown(id: &str) -> Failure {
    Failure::failed(format!("no transfer has the id {id}; `moonbridge transfer list` shows those of the last hour"))
}

/// What a transfer is to do; empty for a command that is none.
fn action(command: &v1::Command) -> v1::TransferAction {
    match &command.action {
        Some(v1::command::Action::Transfer(action)) => action.clone(),
        _ => v1::TransferAction::default(),
    }
}

fn row(command: &v1::Command) -> [Value; 9] {
    let action = action(command);
    let result = command.result.clone().unwrap_or_default();
    [
        json!(command.id),
        json!(action.player),
        text_or_null(action.from),
        json!(action.to),
        json!(commands::state_name(command.state())),
        text_or_null(result.reason),
        text_or_null(result.detail),
        json!(rfc3339(command.created_unix_ms)),
        took(command),
    ]
}

/// From the command to its outcome, in milliseconds.
fn took(command: &v1::Command) -> Value {
    Ended::of(command).map_or(Value::Null, |_| json!(command.updated_unix_ms.saturating_sub(command.created_unix_ms).max(0)))
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

/// A transfer's state as a line: "Alice: demo-1 -> demo-2 succeeded in 120 ms".
fn told(command: &v1::Command) -> String {
    let action = action(command);
    let way = if action.from.is_empty() { format!("-> {}", action.to) } else { format!("{} -> {}", action.from, action.to) };
    let outcome = match Ended::of(command) {
        Some(Ended::Succeeded) => format!("succeeded in {} ms", took(command)),
        _ => commands::why(command),
    };
    output::printable(&format!("{}: {way} {outcome}", action.player))
}

impl From<StateArg> for CommandState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Pending => CommandState::Pending,
            StateArg::Dispatched => CommandState::Dispatched,
            StateArg::Running => CommandState::Running,
            StateArg::Succeeded => CommandState::Succeeded,
            StateArg::Failed => CommandState::Failed,
            StateArg::Expired => CommandState::Expired,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_it_ended_and_why() {
        let action = v1::TransferAction { player: "Alice".into(), from: "a".into(), to: "b".into(), ..Default::default() };
        let mut command = v1::Command {
            action: Some(v1::command::Action::Transfer(action)),
            state: CommandState::Succeeded.into(),
            created_unix_ms: 1_000,
            updated_unix_ms: 1_120,
            ..Default::default()
        };
        assert_eq!(told(&command), "Alice: a -> b succeeded in 120 ms");
        command.state = CommandState::Expired.into();
        command.result = Some(v1::CommandResult { reason: "expired".into(), detail: "no outcome in 30 s".into(), ..Default::default() });
        assert_eq!(told(&command), "Alice: a -> b expired: expired: no outcome in 30 s");
    }
}
