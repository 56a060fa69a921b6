//! What is the node's own in a session's streams. A walk only recognises it and takes it off; the turn deals with it after the
//! walk, where frames may be written and questions asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_protocol::command::Command;
use moonbridge_protocol::play;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::walk::Verdict;
use tokio::time::Instant;

use crate::commands::pace::Pace;
use crate::commands::{Kind, Table};
use crate::config;

/// Most things that wait to be dealt with.
const MAX_TAKEN: usize = 64;

/// Most bytes in them.
const MAX_BYTES: usize = 256 << 10;

/// Something that was taken off, or that waits for the same moment.
#[derive(Debug)]
pub(super) enum Taken {
    /// The player has typed one of the node's commands.
    Command(Kind, Box<str>),
    /// Somebody elsewhere has something to say to the player.
    Told(Arc<Text>),
    /// The client has answered the question that a `/ping` asked, after so long.
    Pong(Duration),
}

impl Taken {
    fn bytes(&self) -> usize {
        match self {
            Taken::Command(_, line) => line.len(),
            Taken::Told(_) | Taken::Pong(_) => 0,
        }
    }
}

/// What was taken off and waits for the turn: bounded, for inside a long frame the turn has to wait as well. Owns no memory
/// while it is empty and never was used.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Taken>,
    bytes: usize,
}

impl Queue {
    /// Whether it could be taken in: not if too much waits already.
    pub(super) fn push(&mut self, taken: Taken) -> bool {
        let bytes = self.bytes + taken.bytes();
        let fits = self.waiting.len() < MAX_TAKEN && bytes <= MAX_BYTES;
        if fits {
            self.bytes = bytes;
            self.waiting.push_back(taken);
        }
        fits
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<Taken> {
        let taken = self.waiting.pop_front()?;
        self.bytes -= taken.bytes();
        Some(taken)
    }
}

/// What recognises the node's commands among a player's lines.
#[derive(Debug)]
pub(super) struct Commands {
    table: Arc<Table>,
    pace: Pace,
    /// Some were dropped because they came too fast, and the player has not been told.
    pub(super) dropped: bool,
}

impl Commands {
    pub(super) fn new(config: &config::Commands) -> Commands {
        Commands { table: config.table.clone(), pace: Pace::new(config.rate, config.burst), dropped: false }
    }

    /// Whether there are any to look for.
    pub(super) fn are_on(&self) -> bool {
        !self.table.is_empty()
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Looks at a line of the player's.
    pub(super) fn see(&mut self, payload: &[u8], queue: &mut Queue) -> Verdict {
        let Ok(line) = play::read_chat_serverbound(payload) else { return Verdict::Pass };
        let Some(kind) = Command::of(line).and_then(|command| self.table.get(&command)) else { return Verdict::Pass };
        if !self.pace.allows(Instant::now()) || !queue.push(Taken::Command(kind, line.into())) {
            self.dropped = true;
        }
        Verdict::Drop
    }
}
