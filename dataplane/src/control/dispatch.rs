//! What becomes of a command that is to be run: handed to its session, done at once, or failed.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{Future, FutureExt};
use moonbridge_proto::v1::{self, command::Action};
use moonbridge_proto::{MAX_RECORDING_SECONDS, MAX_TEXT};
use moonbridge_protocol::text::Text;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::node::Node;
use crate::recording;
use crate::registry::{Outcome, SessionCommand, Undeliverable};

/// A command that runs: gives its id and outcome.
pub(super) type Running = Pin<Box<dyn Future<Output = (String, Outcome)> + Send>>;

/// What became of it.
pub(super) enum Dispatched {
    /// A session has it.
    Running(Running),
    /// It has ended already.
    Ended(Outcome),
}

/// What a session keeps of a command's time to tell how it ended, before the record is marked expired.
const TO_TELL: Duration = Duration::from_millis(300);

/// A deadline by this machine's clock, in time to tell of it; 0 is none.
fn deadline(unix_ms: i64) -> Option<Instant> {
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(unix_ms).ok().filter(|&ms| ms > 0)?);
    Some(Instant::now() + at.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO).saturating_sub(TO_TELL))
}

/// Carries out a command that was not seen before and is not late.
pub(super) fn dispatch(node: &Node, command: &v1::Command) -> Dispatched {
    if !command.node_id.is_empty() && command.node_id != node.id.to_string() {
        let detail = format!("The command is for the node {}, this is {}.", command.node_id, node.id);
        return Dispatched::Ended(Outcome::failed("wrong_node", detail));
    }
    let (reply, outcome) = oneshot::channel();
    let (session, command_for_it) = match command.action.clone() {
        Some(Action::Transfer(transfer)) => {
            let deadline = deadline(command.deadline_unix_ms);
            let v1::TransferAction { session_id, to, as_player, .. } = transfer;
            (session_id, SessionCommand::Transfer { to, as_player, traceparent: command.traceparent.clone(), deadline, reply })
        }
        Some(Action::Kick(kick)) if kick.reason.len().max(kick.reason_json.len()) <= MAX_TEXT => {
            let Some(reason) = reason(&kick) else {
                return Dispatched::Ended(Outcome::failed("bad_command", "The reason is not a JSON text component."));
            };
            (kick.session_id, SessionCommand::Kick { reason, reply })
        }
        Some(Action::Message(message)) if message.text.len() <= MAX_TEXT => {
            (message.session_id, SessionCommand::Message { text: message.text, reply })
        }
        Some(Action::Check(check)) if check.permission.len() <= MAX_TEXT => {
            (check.session_id, SessionCommand::Check { permission: check.permission, reply })
        }
        Some(Action::Record(record)) => return dispatch_recording(node, command.id.clone(), &record),
        Some(Action::Kick(_) | Action::Message(_) | Action::Check(_)) => {
            return Dispatched::Ended(Outcome::failed("bad_command", format!("The text is longer than {MAX_TEXT} bytes.")));
        }
        Some(Action::Drain(drain)) => return Dispatched::Ended(set_drained(node, drain.drained)),
        None => {
            let detail = "This node does not know that kind of command: is it older than the control plane?".to_owned();
            return Dispatched::Ended(Outcome::failed("bad_command", detail));
        }
    };
    let Ok(id) = Uuid::parse_str(&session) else { return Dispatched::Ended(no_session_id(&session)) };
    match node.registry.command(&id, command_for_it) {
        Ok(()) => {
            let command = command.id.clone();
            Dispatched::Running(Box::pin(outcome.map(move |outcome| (command, outcome.unwrap_or_else(|_| Undeliverable::Gone.into())))))
        }
        Err((why, _)) => Dispatched::Ended(why.into()),
    }
}

fn dispatch_recording(node: &Node, command: String, record: &v1::RecordAction) -> Dispatched {
    let Ok(id) = Uuid::parse_str(&record.session_id) else { return Dispatched::Ended(no_session_id(&record.session_id)) };
    if !(1..=MAX_RECORDING_SECONDS).contains(&record.seconds) {
        let detail = format!("A recording lasts 1 to {MAX_RECORDING_SECONDS} s, not {} s.", record.seconds);
        return Dispatched::Ended(Outcome::failed("bad_command", detail));
    }
    match recording::record(node, id, Duration::from_secs(record.seconds.into())) {
        Ok(outcome) => Dispatched::Running(Box::pin(outcome.map(move |outcome| (command, outcome)))),
        Err(refused) => Dispatched::Ended(refused),
    }
}

fn no_session_id(text: &str) -> Outcome {
    Outcome::failed("bad_command", format!("{text:?} is not a session id."))
}

/// What a player that is kicked is shown.
fn reason(kick: &v1::KickAction) -> Option<Text> {
    if kick.reason_json.is_empty() { Some(Text::legacy(&kick.reason)) } else { Text::from_json(&kick.reason_json).ok() }
}

fn set_drained(node: &Node, drained: bool) -> Outcome {
    if node.drained.swap(drained, Ordering::Relaxed) != drained {
        match drained {
            true => tracing::info!(sessions = node.registry.len(), "drained: no new sessions"),
            false => tracing::info!("undrained: takes sessions again"),
        }
    }
    Outcome::ok()
}

impl From<Undeliverable> for Outcome {
    fn from(why: Undeliverable) -> Self {
        match why {
            Undeliverable::Gone => Outcome::failed("session_gone", "The player left before this was done."),
            Undeliverable::Busy => {
                let detail = "Too many commands wait for this player's session. Try again when they have ended.";
                Outcome::failed("session_busy", detail)
            }
        }
    }
}
