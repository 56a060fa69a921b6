//! The node's own commands, dealt with: the turn's part of [`super::taken`].

use std::task::{Context, Poll};

use moonbridge_protocol::text::Text;

use super::Play;
use super::taken::Taken;

/// What a command waited for.
pub(super) type Answered = Vec<Text>;

impl Play {
    /// Deals with what was taken off and with what was answered, as soon as frames may be put into the player's stream.
    pub(super) fn poll_taken(&mut self, cx: &mut Context<'_>) {
        while self.may_inject() {
            if let Some(taken) = self.state.taken.pop() {
                self.deal_with(taken);
            } else if let Poll::Ready(lines) = self.command_asks.poll_next(cx) {
                lines.iter().for_each(|line| self.say(line));
            } else {
                return;
            }
        }
    }

    fn deal_with(&mut self, taken: Taken) {
        match taken {
            Taken::Command(kind, _line) => self.say(&Text::legacy(kind.name())),
            Taken::Pong(time) => self.say(&Text::legacy(&format!("{time:?}"))),
        }
    }
}
