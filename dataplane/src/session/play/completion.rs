//! Completions: what a player gets when it presses the tab key.
//!
//! Whose answer is whose is [`moonbridge_protocol::tab_complete`]'s affair, to which the walk tells every request and every answer
//! of the current backend's. What the node has to say itself is worked out in the turn, for it may have to ask the network for it;
//! answers that come meanwhile wait behind it, for the player's client can tell them apart by nothing but their order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use moonbridge_proto::v1::ask::Question;
use moonbridge_protocol::command::Command;
use moonbridge_protocol::frame;
use moonbridge_protocol::play::{self as packets, TabComplete};
use moonbridge_protocol::tab_complete::{Answered, Asked, Completions, Due, Part};
use moonbridge_protocol::version::Clientbound;
use moonbridge_protocol::walk::Verdict;
use tokio::time::Instant;

use super::Play;
use crate::commands::pace::Pace;
use crate::commands::{Table, root};
use crate::timer::timeout;

/// Most answers that wait to be given.
const MAX_ANSWERS: usize = 64;

/// Most bytes in them.
const MAX_BYTES: usize = 256 << 10;

/// Bytes waiting for the player beyond which its answers wait, too.
const HIGH_WATER: usize = 64 << 10;

/// The longest text that the node suggests anything for, in bytes.
const MAX_TYPED: usize = 256;

/// How long the network has to name players.
const PATIENCE: Duration = Duration::from_secs(1);

/// Completions of one player in a second for which the network is asked, on the average and at once; others are without players.
const ASKS: u32 = 20;

/// What the player has typed, up to the cursor: the node's part of the answer is made from it.
type Typed = Box<str>;

/// The completions of one player.
#[derive(Debug)]
pub(super) struct Completion {
    completions: Completions<Typed>,
    answers: VecDeque<Answer>,
    bytes: usize,
    pace: Pace,
}

/// An answer that is to go to the player.
#[derive(Debug)]
enum Answer {
    /// The node's own.
    Own(Typed),
    /// A backend's, with what the node has for this.
    Merged(Box<[u8]>, Typed),
    /// A backend's as it is.
    Backend(Box<[u8]>),
}

impl Completion {
    pub(super) fn new() -> Completion {
        Completion { completions: Completions::default(), answers: VecDeque::new(), bytes: 0, pace: Pace::new(ASKS, ASKS) }
    }

    /// Looks at a request of the player's.
    pub(super) fn see_request(&mut self, payload: &[u8], table: &Table) -> Verdict {
        let Ok(typed) = packets::read_tab_complete_serverbound(payload) else { return Verdict::Pass };
        match self.completions.request(now(), typed, part(typed, table)) {
            Asked::Pass => return Verdict::Pass,
            Asked::Held => {}
            // A player who wants more than can be kept gets less.
            Asked::Answer(typed) => {
                self.answer(Answer::Own(typed));
            }
        }
        Verdict::Drop
    }

    /// Looks at an answer of the current backend's.
    pub(super) fn see_answer(&mut self, payload: &[u8]) -> Verdict {
        let Ok(answer) = TabComplete::read(payload) else { return Verdict::Pass };
        let answer = match self.completions.answer(now(), answer.words()) {
            Answered::Merge(typed) => Answer::Merged(payload.into(), typed),
            // It must not come before those that wait.
            Answered::Pass if !self.answers.is_empty() => Answer::Backend(payload.into()),
            Answered::Pass => return Verdict::Pass,
        };
        match self.answer(answer) {
            true => Verdict::Drop,
            false => Verdict::Pass,
        }
    }

    /// The player has another backend, or none.
    pub(super) fn new_backend(&mut self) {
        self.completions.new_backend();
    }

    /// Whether there was room for it.
    fn answer(&mut self, answer: Answer) -> bool {
        let bytes = self.bytes + answer.bytes();
        let fits = self.answers.len() < MAX_ANSWERS && bytes <= MAX_BYTES;
        if fits {
            self.bytes = bytes;
            self.answers.push_back(answer);
        }
        fits
    }

    fn answered(&mut self) {
        if let Some(answer) = self.answers.pop_front() {
            self.bytes -= answer.bytes();
        }
    }
}

impl Answer {
    fn bytes(&self) -> usize {
        match self {
            Answer::Own(typed) => typed.len(),
            Answer::Merged(payload, typed) => payload.len() + typed.len(),
            Answer::Backend(payload) => payload.len(),
        }
    }
}

/// Whose words complete a text.
fn part(typed: &str, table: &Table) -> Part<Typed> {
    // For what no command can be nothing is suggested, and nothing is kept of it.
    let own = || Typed::from(if typed.len() <= MAX_TYPED { typed } else { "" });
    match root(typed) {
        Some(root) if typed.len() <= MAX_TYPED && table.has_beginning(root) => Part::Both(own()),
        Some(_) => Part::Backend,
        None if Command::of(typed).is_some_and(|command| table.get(&command).is_some()) => Part::Node(own()),
        None => Part::Backend,
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// What the node has to say to the first of the answers, once it is known.
pub(super) type Naming = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

impl Play {
    /// Goes on with the player's completions.
    pub(super) fn poll_completion(&mut self, cx: &mut Context<'_>) {
        if self.state.completion.is_none() {
            return;
        }
        let all_sent = self.send_requests();
        self.give_answers(cx);
        let deadline = self.state.completion.as_ref().and_then(|completion| completion.completions.deadline()).map(Instant::from_std);
        if let Some(deadline) = deadline.filter(|_| all_sent) {
            self.alarm.bring_forward(deadline);
        }
    }

    /// Sends what may go to the backend now; false if that has to wait.
    fn send_requests(&mut self) -> bool {
        while self.current.is_none() || self.may_tell_backend() {
            let Some(completion) = &mut self.state.completion else { return true };
            match completion.completions.poll(now()) {
                Some(Due::Answer(typed)) => {
                    completion.answer(Answer::Own(typed));
                }
                Some(Due::Send(typed)) => {
                    let version = self.state.version;
                    if let Some(current) = &mut self.current {
                        current.link.out.write(|out| packets::put_tab_complete_serverbound(out, version, &typed));
                    }
                }
                None => return true,
            }
        }
        false
    }

    /// Gives the player what it can be given now.
    fn give_answers(&mut self, cx: &mut Context<'_>) {
        while self.may_inject() {
            if self.player.out.len() > HIGH_WATER && self.player.out.poll_flush(cx).is_pending() {
                return;
            }
            let Poll::Ready(own) = self.poll_own_words(cx) else { return };
            let Some(completion) = &mut self.state.completion else { return };
            let Some(answer) = completion.answers.front() else { return };
            let own = own.iter().map(String::as_str);
            let version = self.state.version;
            self.player.out.write(|out| match answer {
                Answer::Own(_) => packets::put_tab_complete(out, version, &own.collect::<Vec<_>>()),
                Answer::Merged(payload, _) => match TabComplete::read(payload) {
                    Ok(backends) => packets::put_merged_tab_complete(out, version, &backends, own),
                    Err(_) => put_answer(out, version.clientbound_id(Clientbound::TabComplete), payload),
                },
                Answer::Backend(payload) => put_answer(out, version.clientbound_id(Clientbound::TabComplete), payload),
            });
            completion.answered();
        }
    }

    /// What the node has to say to the first of the answers.
    fn poll_own_words(&mut self, cx: &mut Context<'_>) -> Poll<Vec<String>> {
        if self.naming.is_none() {
            let Some(completion) = &mut self.state.completion else { return Poll::Ready(Vec::new()) };
            let typed = match completion.answers.front() {
                Some(Answer::Own(typed) | Answer::Merged(_, typed)) => typed.clone(),
                Some(Answer::Backend(_)) | None => return Poll::Ready(Vec::new()),
            };
            let suggestions = self.scene(|mut scene| scene.suggest(&typed));
            let Some(question) = suggestions.question().filter(|_| self.may_ask()) else {
                return Poll::Ready(suggestions.with(Vec::new()));
            };
            let names = self.node.network.ask(format!("player {}", self.facts.name), Question::Players(question));
            self.naming = Some(Box::pin(async move {
                let names = timeout(PATIENCE, names).await.map(|answer| answer.names).unwrap_or_default();
                suggestions.with(names)
            }));
        }
        let Some(naming) = &mut self.naming else { return Poll::Ready(Vec::new()) };
        let words = naming.as_mut().poll(cx);
        if words.is_ready() {
            self.naming = None;
        }
        words
    }

    fn may_ask(&mut self) -> bool {
        self.state.completion.as_mut().is_some_and(|completion| completion.pace.allows(Instant::now()))
    }
}

fn put_answer(out: &mut Vec<u8>, id: u8, payload: &[u8]) {
    frame::put(out, id.into(), |out| out.extend_from_slice(payload));
}
