//! Commands: work for one node, with one outcome.
//!
//! A command is a record in the store. It goes pending → dispatched → running → succeeded | failed | expired; every step is a
//! compare-and-put, steps may be left out, none is taken back, and a terminal state is never left ([`step`]). Any replica may take
//! any step: the one with the node's stream dispatches, whoever gets the node's report writes it, and every replica's
//! [`sweeper`] ends what is overdue or lost.

pub(crate) mod sweeper;
mod view;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use moonbridge_proto::v1::{self, CommandState};
use prost::Message;
use uuid::Uuid;

pub(crate) use view::{Commands, Follower, Tracked};

use crate::keys;
use crate::store::{Change, Committed, Compare, Entry, Store, StoreError, Txn};

/// Commands that change state in one transaction; each needs a compare (or two) and a change.
pub(crate) const BATCH: usize = 60;

/// A step of a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// It is being sent to its node; with this traceparent, if not empty.
    Dispatched {
        traceparent: String,
    },
    Running,
    Ended {
        state: CommandState,
        result: v1::CommandResult,
    },
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Whether a command has ended.
pub(crate) fn is_terminal(command: &v1::Command) -> bool {
    rank(command.state()) >= TERMINAL
}

const TERMINAL: u8 = 4;

fn rank(state: CommandState) -> u8 {
    match state {
        CommandState::Unspecified => 0,
        CommandState::Pending => 1,
        CommandState::Dispatched => 2,
        CommandState::Running => 3,
        CommandState::Succeeded | CommandState::Failed | CommandState::Expired => TERMINAL,
    }
}

/// The command after this step; `None` if it is as far already, or has ended.
pub(crate) fn step(command: &v1::Command, step: &Step, now: i64) -> Option<v1::Command> {
    let (state, result) = match step {
        Step::Dispatched { .. } => (CommandState::Dispatched, None),
        Step::Running => (CommandState::Running, None),
        Step::Ended { state, result } => (*state, Some(result.clone())),
    };
    if is_terminal(command) || rank(state) <= rank(command.state()) {
        return None;
    }
    let mut next = v1::Command { state: state.into(), result, updated_unix_ms: now, ..command.clone() };
    if let Step::Dispatched { traceparent } = step
        && !traceparent.is_empty()
    {
        next.traceparent.clone_from(traceparent);
    }
    Some(next)
}

/// The longest detail that is kept of a result, in bytes, and how many phases: a batch of results must fit a transaction.
const MAX_DETAIL: usize = 4_096;
const MAX_PHASES: usize = 32;

/// The step that a node's report asks for.
pub(crate) fn reported(update: &v1::CommandUpdate) -> Option<Step> {
    let result = || {
        let mut result = update.result.clone().unwrap_or_default();
        result.reason.truncate(result.reason.floor_char_boundary(64));
        result.detail.truncate(result.detail.floor_char_boundary(MAX_DETAIL));
        result.phases.truncate(MAX_PHASES);
        if let Some(recording) = &mut result.recording {
            recording.file.truncate(recording.file.floor_char_boundary(MAX_DETAIL));
            recording.node.truncate(recording.node.floor_char_boundary(64));
            recording.ended.truncate(recording.ended.floor_char_boundary(64));
        }
        result
    };
    match update.state() {
        CommandState::Running => Some(Step::Running),
        state @ (CommandState::Succeeded | CommandState::Failed) => Some(Step::Ended { state, result: result() }),
        _ => None,
    }
}

/// A new command.
pub(crate) fn new(
    node_id: &str,
    action: v1::command::Action,
    origin: &str,
    traceparent: &str,
    deadline: Duration,
    now: i64,
) -> v1::Command {
    v1::Command {
        id: Uuid::now_v7().to_string(),
        node_id: node_id.to_owned(),
        created_unix_ms: now,
        deadline_unix_ms: now.saturating_add(i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX)),
        traceparent: traceparent.to_owned(),
        origin: origin.to_owned(),
        action: Some(action),
        state: CommandState::Pending.into(),
        result: None,
        updated_unix_ms: now,
    }
}

/// Writes new commands, unless their node has gone. Gives those that were not written for that reason.
///
/// # Errors
/// When the store fails; some of the commands may be written then, and run or expire.
pub(crate) async fn create(store: &dyn Store, view: &Commands, commands: &[v1::Command]) -> Result<Vec<v1::Command>, StoreError> {
    let mut lost = Vec::new();
    for batch in commands.chunks(BATCH) {
        if !create_batch(store, view, batch).await? {
            for command in batch {
                if !create_batch(store, view, std::slice::from_ref(command)).await? {
                    lost.push(command.clone());
                }
            }
        }
    }
    Ok(lost)
}

async fn create_batch(store: &dyn Store, view: &Commands, commands: &[v1::Command]) -> Result<bool, StoreError> {
    let nodes: BTreeMap<&str, ()> = commands.iter().map(|command| (command.node_id.as_str(), ())).collect();
    let compares = nodes.keys().map(|node| Compare::Present(keys::node(node))).collect();
    let changes = commands.iter().map(put).collect();
    match store.txn(Txn { compares, changes }).await? {
        Committed::Yes(revision) => {
            view.note(commands.iter().map(|command| Tracked::new(command.clone(), revision)));
            Ok(true)
        }
        Committed::Conflict => Ok(false),
    }
}

/// Takes steps of commands; those for which a step does not apply (any more), or that do not exist (any more), are left alone.
/// `absent`: only those whose node has no presence.
pub(crate) async fn take(store: &dyn Store, view: &Commands, steps: &[(String, Step)], absent: bool) -> Result<(), StoreError> {
    for batch in steps.chunks(BATCH) {
        let now = now_ms();
        let known: Vec<_> = batch.iter().filter_map(|(id, step)| Some((view.get(id)?, step))).collect();
        let next: Vec<_> = known.iter().filter_map(|(at, taken)| Some((step(&at.command, taken, now)?, at.modified))).collect();
        let all_known = known.len() == batch.len();
        if all_known && (next.is_empty() || commit(store, view, next, absent).await?) {
            continue;
        }
        for (id, step) in batch {
            take_one(store, view, id, step, absent).await?;
        }
    }
    Ok(())
}

/// Takes one step, reading the record from the store, until nobody else changes it in between.
async fn take_one(store: &dyn Store, view: &Commands, id: &str, taken: &Step, absent: bool) -> Result<(), StoreError> {
    loop {
        let Some(at) = get(store, id).await? else { return Ok(()) };
        let Some(next) = step(&at.command, taken, now_ms()) else {
            view.note([at]);
            return Ok(());
        };
        if absent && store.get(&keys::node(&next.node_id)).await?.is_some() {
            return Ok(());
        }
        // Every conflict means that the command, or its node's presence, went on: this ends after a few rounds.
        if commit(store, view, vec![(next, at.modified)], absent).await? {
            return Ok(());
        }
    }
}

async fn commit(store: &dyn Store, view: &Commands, next: Vec<(v1::Command, u64)>, absent: bool) -> Result<bool, StoreError> {
    let mut compares: Vec<_> = next.iter().map(|(command, modified)| Compare::Modified(keys::command(&command.id), *modified)).collect();
    if absent {
        let nodes: BTreeMap<&str, ()> = next.iter().map(|(command, _)| (command.node_id.as_str(), ())).collect();
        compares.extend(nodes.keys().map(|node| Compare::Absent(keys::node(node))));
    }
    let changes = next.iter().map(|(command, _)| put(command)).collect();
    match store.txn(Txn { compares, changes }).await? {
        Committed::Yes(revision) => {
            view.note(next.into_iter().map(|(command, _)| Tracked::new(command, revision)));
            Ok(true)
        }
        Committed::Conflict => Ok(false),
    }
}

/// A command as the store has it.
pub(crate) async fn get(store: &dyn Store, id: &str) -> Result<Option<Tracked>, StoreError> {
    Ok(store.get(&keys::command(id)).await?.and_then(|entry| decode(&entry)))
}

fn decode(entry: &Entry) -> Option<Tracked> {
    match v1::Command::decode(&*entry.value) {
        Ok(command) => Some(Tracked::new(command, entry.modified)),
        Err(error) => {
            tracing::error!(key = entry.key, %error, "this command's record cannot be read");
            None
        }
    }
}

fn put(command: &v1::Command) -> Change {
    Change::Put { key: keys::command(&command.id), value: command.encode_to_vec(), lease: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [CommandState; 6] = [
        CommandState::Pending,
        CommandState::Dispatched,
        CommandState::Running,
        CommandState::Succeeded,
        CommandState::Failed,
        CommandState::Expired,
    ];

    fn in_state(state: CommandState) -> v1::Command {
        v1::Command { state: state.into(), traceparent: "asked".to_owned(), ..v1::Command::default() }
    }

    fn step_to(state: CommandState) -> Option<Step> {
        match state {
            CommandState::Dispatched => Some(Step::Dispatched { traceparent: "dispatch".to_owned() }),
            CommandState::Running => Some(Step::Running),
            state if rank(state) == TERMINAL => Some(Step::Ended { state, result: v1::CommandResult::default() }),
            _ => None,
        }
    }

    #[test]
    fn steps_only_go_forward_and_no_terminal_state_is_left() {
        for (from, before) in STATES.into_iter().enumerate() {
            for (to, after) in STATES.into_iter().enumerate() {
                let Some(taken) = step_to(after) else { continue };
                let next = step(&in_state(before), &taken, 7);
                let allowed = from < 3 && to > from;
                assert_eq!(next.is_some(), allowed, "{before:?} -> {after:?}");
                if let Some(next) = next {
                    assert_eq!((next.state(), next.updated_unix_ms), (after, 7));
                    assert_eq!(next.result.is_some(), to >= 3);
                    let traceparent = if after == CommandState::Dispatched { "dispatch" } else { "asked" };
                    assert_eq!(next.traceparent, traceparent);
                }
            }
        }
    }

    #[test]
    fn a_node_can_report_running_and_an_end_but_neither_expire_nor_reset() {
        for state in STATES {
            let update = v1::CommandUpdate { id: String::new(), state: state.into(), result: None };
            let expected = matches!(state, CommandState::Running | CommandState::Succeeded | CommandState::Failed);
            assert_eq!(reported(&update).is_some(), expected, "{state:?}");
        }
    }

    #[test]
    fn a_deadline_is_counted_from_the_creation() {
        let action = v1::command::Action::Drain(v1::DrainAction { drained: true });
        let command = new("n", action, "cli", "", Duration::from_secs(30), 1_000);
        assert_eq!((command.created_unix_ms, command.deadline_unix_ms), (1_000, 31_000));
        assert_eq!(command.state(), CommandState::Pending);
    }
}
