//! The node's own commands, done: the turn's part of [`super::taken`].

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use moonbridge_proto::v1;
use moonbridge_protocol::text::Text;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Play;
use super::taken::Taken;
use super::transfer::Wish;
use crate::commands::{Action, Kind, Phrase, Scene, Texts, Then, moved};
use crate::registry::Outcome;

/// Commands of one player that wait for an answer; more are refused.
const MAX_ASKS: usize = 8;

/// Bytes waiting for the player beyond which its commands wait, too.
const HIGH_WATER: usize = 64 << 10;

/// How often a player is told that it types commands too fast.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What a command has waited for.
pub(super) enum Answered {
    /// The network's answer.
    Network(Then, Box<v1::AskAnswer>),
    /// The player wanted to go there.
    Moved(String, Option<Outcome>),
}

impl Play {
    /// Deals with what was taken off and with what was answered, as soon as frames may be put into the player's stream and it
    /// has read most of what it was told before.
    pub(super) fn poll_taken(&mut self, cx: &mut Context<'_>) {
        while self.may_inject() {
            if self.player.out.len() > HIGH_WATER && self.player.out.poll_flush(cx).is_pending() {
                return;
            }
            if let Some(taken) = self.state.taken.pop() {
                self.deal_with(taken);
            } else if let Poll::Ready(answered) = self.command_asks.poll_next(cx) {
                self.tell_answer(answered);
            } else {
                return self.tell_too_fast();
            }
        }
    }

    fn deal_with(&mut self, taken: Taken) {
        match taken {
            Taken::Command(kind, line) => self.run_command(kind, &line),
            Taken::Told(text) => self.say_unless_empty(&text),
            Taken::Pong(time) => {
                let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
                self.say_unless_empty(&self.texts().say(Phrase::Ping, &[("ping", millis.into())]));
            }
        }
    }

    fn run_command(&mut self, kind: Kind, line: &str) {
        for action in self.scene(|mut scene| scene.run(kind, line)) {
            match action {
                Action::Say(text) => self.say_unless_empty(&text),
                Action::Ping => self.player.out.write(|out| self.state.put_ping(out)),
                Action::Go(_) | Action::Ask(..) if self.command_asks.len() >= MAX_ASKS => {
                    self.say_unless_empty(&self.texts().say(Phrase::TooMany, &[]));
                }
                Action::Go(to) => self.go(to, true),
                Action::Ask(question, then) => {
                    let answer = self.node.network.ask(format!("player {}", self.facts.name), question);
                    self.command_asks.push(async move { Answered::Network(then, Box::new(answer.await)) });
                }
            }
        }
    }

    /// Moves the player, which is told if nothing comes of it. `as_player`: because it wants to itself.
    pub(super) fn go(&mut self, to: String, as_player: bool) {
        let (reply, outcome) = oneshot::channel();
        self.start_transfer(Wish { to: to.clone(), as_player }, "", None, reply);
        if self.command_asks.len() < MAX_ASKS {
            self.command_asks.push(async move { Answered::Moved(to, outcome.await.ok()) });
        }
    }

    fn tell_answer(&mut self, answered: Answered) {
        match answered {
            Answered::Network(then, answer) => {
                let lines = self.scene(|scene| scene.answered(&then, &answer));
                lines.iter().for_each(|line| self.say_unless_empty(line));
            }
            Answered::Moved(to, outcome) => {
                if let Some(text) = outcome.and_then(|outcome| moved(&self.texts(), &to, &outcome)) {
                    self.say_unless_empty(&text);
                }
            }
        }
    }

    fn tell_too_fast(&mut self) {
        if !std::mem::take(&mut self.state.commands.dropped) {
            return;
        }
        let now = Instant::now();
        if self.slowed.is_none_or(|told| now.duration_since(told) >= TELL_EVERY) {
            self.slowed = Some(now);
            self.say_unless_empty(&self.texts().say(Phrase::TooFast, &[]));
        }
    }

    /// Who the player is and where, for a command.
    pub(super) fn scene<T>(&mut self, play: impl FnOnce(Scene<'_>) -> T) -> T {
        let texts = self.texts();
        play(Scene {
            node: &self.node,
            permissions: &mut self.registration.permissions,
            texts: &texts,
            player: &self.facts,
            backend: self.current.as_ref().map(|current| current.name.as_str()),
            session: &self.context.id.to_string(),
        })
    }

    /// The texts in the language of the player's client.
    fn texts(&self) -> Arc<Texts> {
        self.node.config.commands.languages.of(self.state.locale()).clone()
    }

    /// Texts can be configured away.
    fn say_unless_empty(&mut self, text: &Text) {
        if !text.is_empty() {
            self.say(text);
        }
    }
}
