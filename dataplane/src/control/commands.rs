//! The record of commands: what makes a command run at most once, however often it is delivered.
//!
//! Bounds: at most [`OPEN`] commands that run or whose result no replica has acknowledged; one more is refused as
//! `node_busy`. A result that was not acknowledged may be dropped for room once its command's deadline has passed, for
//! then a redelivery would not be run either. Acknowledged ones are kept for [`REMEMBERED`] more.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use moonbridge_proto::v1::{self, CommandState};

use crate::registry::Outcome;

/// Commands that run, or have a result that no replica has acknowledged yet.
const OPEN: usize = 16_384;

/// Acknowledged commands that are still remembered.
const REMEMBERED: usize = 1_024;

/// A result that was not acknowledged for so long is sent again.
const RESEND: Duration = Duration::from_secs(5);

/// Results sent again at one time.
const RESEND_BATCH: usize = 256;

/// The longest command id; ours are UUIDs of 36 characters.
const MAX_ID: usize = 128;

/// What to do with a command that came in.
#[derive(Debug, PartialEq)]
pub(super) enum Receive {
    /// It is new: run it, then say [`Commands::running`] or [`Commands::finished`].
    Run,
    /// Do not run it; this is the answer.
    Answer(v1::CommandUpdate),
}

#[derive(Debug)]
enum Entry {
    Running { deadline: i64 },
    Finished { deadline: i64, update: v1::CommandUpdate, place: u64, sent: Instant },
    Acknowledged { update: v1::CommandUpdate },
}

/// The commands of this node, across streams.
#[derive(Debug, Default)]
pub(super) struct Commands {
    entries: HashMap<String, Entry>,
    /// Finished ones without acknowledgement, oldest first.
    finished: BTreeMap<u64, String>,
    next_place: u64,
    /// Oldest first.
    acknowledged: VecDeque<String>,
    running: usize,
}

impl Commands {
    /// A command came in at `now_unix_ms`.
    pub(super) fn receive(&mut self, command: &v1::Command, now_unix_ms: i64, now: Instant) -> Receive {
        match self.entries.get_mut(&command.id) {
            Some(Entry::Running { .. }) => return Receive::Answer(running(&command.id)),
            Some(Entry::Finished { update, sent, .. }) => {
                *sent = now;
                return Receive::Answer(update.clone());
            }
            Some(Entry::Acknowledged { update }) => return Receive::Answer(update.clone()),
            None => {}
        }
        if command.id.is_empty() || command.id.len() > MAX_ID {
            return Receive::Answer(failed(&command.id, "bad_command", format!("A command id has 1 to {MAX_ID} bytes.")));
        }
        if expired(command.deadline_unix_ms, now_unix_ms) {
            let late = now_unix_ms.saturating_sub(command.deadline_unix_ms);
            let detail =
                format!("The command came {late} ms after its deadline and was not run. Try again; if this persists, compare the clocks.");
            return Receive::Answer(failed(&command.id, "expired", detail));
        }
        if !self.make_room(now_unix_ms) {
            let detail = format!("This node has {OPEN} commands open and takes no more until some have ended. Try again later.");
            return Receive::Answer(failed(&command.id, "node_busy", detail));
        }
        Receive::Run
    }

    /// The command was handed over: its outcome comes later.
    pub(super) fn running(&mut self, command: &v1::Command) -> v1::CommandUpdate {
        self.entries.insert(command.id.clone(), Entry::Running { deadline: command.deadline_unix_ms });
        self.running += 1;
        running(&command.id)
    }

    /// The command has ended; `deadline` is used only if it was never [`Commands::running`].
    pub(super) fn finished(&mut self, id: &str, deadline: i64, outcome: Outcome, now: Instant) -> v1::CommandUpdate {
        let state = if outcome.succeeded { CommandState::Succeeded } else { CommandState::Failed };
        let update = v1::CommandUpdate { id: id.to_owned(), state: state.into(), result: Some(outcome.result) };
        let deadline = match self.entries.get(id) {
            Some(Entry::Running { deadline }) => {
                self.running -= 1;
                *deadline
            }
            _ => deadline,
        };
        let place = self.next_place;
        self.next_place += 1;
        self.finished.insert(place, id.to_owned());
        self.entries.insert(id.to_owned(), Entry::Finished { deadline, update: update.clone(), place, sent: now });
        update
    }

    /// The result is in the store.
    pub(super) fn acknowledged(&mut self, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let Entry::Finished { update, place, .. } = entry else { return };
        self.finished.remove(place);
        *entry = Entry::Acknowledged { update: std::mem::take(update) };
        self.acknowledged.push_back(id.to_owned());
        if self.acknowledged.len() > REMEMBERED
            && let Some(oldest) = self.acknowledged.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    /// For a Hello: the results that no replica has acknowledged, oldest first, then what runs.
    pub(super) fn open(&mut self, now: Instant) -> Vec<v1::CommandUpdate> {
        let mut updates = self.resend(usize::MAX, now, |_| true);
        updates.extend(self.entries.iter().filter(|(_, entry)| matches!(entry, Entry::Running { .. })).map(|(id, _)| running(id)));
        updates
    }

    /// Results to send again on a stream that has not acknowledged them.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<v1::CommandUpdate> {
        self.resend(RESEND_BATCH, now, |sent| now.saturating_duration_since(sent) >= RESEND)
    }

    /// Whether every result is acknowledged. Commands may still run.
    pub(super) fn all_acknowledged(&self) -> bool {
        self.finished.is_empty()
    }

    fn resend(&mut self, limit: usize, now: Instant, which: impl Fn(Instant) -> bool) -> Vec<v1::CommandUpdate> {
        let mut updates = Vec::new();
        for id in self.finished.values() {
            if updates.len() == limit {
                break;
            }
            if let Some(Entry::Finished { update, sent, .. }) = self.entries.get_mut(id)
                && which(*sent)
            {
                *sent = now;
                updates.push(update.clone());
            }
        }
        updates
    }

    fn make_room(&mut self, now_unix_ms: i64) -> bool {
        if self.running + self.finished.len() < OPEN {
            return true;
        }
        let entries = &self.entries;
        let past = self.finished.iter().find(|(_, id)| match entries.get(*id) {
            Some(Entry::Finished { deadline, .. }) => expired(*deadline, now_unix_ms),
            _ => false,
        });
        let Some((place, id)) = past.map(|(place, id)| (*place, id.clone())) else { return false };
        self.finished.remove(&place);
        self.entries.remove(&id);
        true
    }
}

/// Whether the deadline has passed; 0 or less is none.
fn expired(deadline_unix_ms: i64, now_unix_ms: i64) -> bool {
    deadline_unix_ms > 0 && now_unix_ms >= deadline_unix_ms
}

fn running(id: &str) -> v1::CommandUpdate {
    v1::CommandUpdate { id: id.to_owned(), state: CommandState::Running.into(), result: None }
}

fn failed(id: &str, reason: &str, detail: String) -> v1::CommandUpdate {
    let result = v1::CommandResult { reason: reason.to_owned(), detail, ..v1::CommandResult::default() };
    v1::CommandUpdate { id: id.to_owned(), state: CommandState::Failed.into(), result: Some(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(id: &str, deadline_unix_ms: i64) -> v1::Command {
        v1::Command { id: id.into(), deadline_unix_ms, ..Default::default() }
    }

    fn reason(received: Receive) -> String {
        match received {
            Receive::Answer(update) => update.result.unwrap_or_default().reason,
            Receive::Run => "run".into(),
        }
    }

    #[test]
    fn a_command_runs_once_and_is_then_answered_from_its_record() {
        let now = Instant::now();
        let mut commands = Commands::default();
        let command = command("a", 100);
        assert_eq!(commands.receive(&command, 0, now), Receive::Run);
        let update = commands.running(&command);
        assert_eq!(commands.receive(&command, 0, now), Receive::Answer(update.clone()), "not run twice");
        assert_eq!(commands.receive(&command, 200, now), Receive::Answer(update.clone()), "nor failed while it runs");
        assert_eq!(commands.open(now), [update]);

        let result = commands.finished("a", 0, Outcome::ok(), now);
        assert_eq!(result.state(), CommandState::Succeeded);
        assert_eq!(commands.receive(&command, 200, now), Receive::Answer(result.clone()));
        assert_eq!(commands.open(now), std::slice::from_ref(&result));
        assert!(!commands.all_acknowledged());

        commands.acknowledged("a");
        assert!(commands.all_acknowledged());
        assert!(commands.open(now).is_empty());
        assert_eq!(commands.receive(&command, 0, now), Receive::Answer(result), "still remembered");
    }

    #[test]
    fn a_late_command_is_not_run() {
        let now = Instant::now();
        let mut commands = Commands::default();
        assert_eq!(reason(commands.receive(&command("a", 100), 100, now)), "expired");
        assert_eq!(reason(commands.receive(&command("a", 100), 99, now)), "run");
        assert_eq!(reason(commands.receive(&command("b", 0), 99, now)), "run", "0 is no deadline");
        assert_eq!(reason(commands.receive(&command("", 0), 0, now)), "bad_command");
        assert_eq!(reason(commands.receive(&command(&"x".repeat(MAX_ID + 1), 0), 0, now)), "bad_command");
    }

    #[test]
    fn only_so_many_acknowledged_ones_are_remembered() {
        let now = Instant::now();
        let mut commands = Commands::default();
        for id in 0..=REMEMBERED {
            commands.finished(&id.to_string(), 0, Outcome::ok(), now);
            commands.acknowledged(&id.to_string());
        }
        assert_eq!(commands.entries.len(), REMEMBERED);
        assert_eq!(reason(commands.receive(&command("1", 0), 0, now)), "ok");
        assert_eq!(reason(commands.receive(&command("0", 0), 0, now)), "run", "the oldest is forgotten");
    }

    #[test]
    fn a_full_record_refuses_until_there_is_room() {
        let now = Instant::now();
        let mut commands = Commands::default();
        for id in 0..OPEN - 1 {
            commands.running(&command(&id.to_string(), 0));
        }
        commands.finished("late", 100, Outcome::ok(), now);
        assert_eq!(reason(commands.receive(&command("new", 0), 99, now)), "node_busy");
        assert_eq!(reason(commands.receive(&command("new", 0), 100, now)), "run", "a result past its deadline gives way");
        commands.running(&command("new", 0));
        assert_eq!(reason(commands.receive(&command("more", 0), 100, now)), "node_busy");
        commands.finished("7", 0, Outcome::ok(), now);
        assert_eq!(reason(commands.receive(&command("more", 0), 100, now)), "node_busy");
        commands.acknowledged("7");
        assert_eq!(reason(commands.receive(&command("more", 0), 100, now)), "run");
    }

    #[test]
    fn an_unacknowledged_result_is_sent_again_after_a_while() {
        let start = Instant::now();
        let mut commands = Commands::default();
        let result = commands.finished("a", 0, Outcome::ok(), start);
        assert!(commands.overdue(start + RESEND / 2).is_empty());
        assert_eq!(commands.overdue(start + RESEND), [result]);
        assert!(commands.overdue(start + RESEND).is_empty(), "not at every tick");
    }
}
