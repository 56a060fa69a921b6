//! Whose answer a backend's Tab Complete is. On 1.7 answers have no number and no text of their request, so that only their
//! order tells them apart, and a backend (or a plugin of its) may leave one out, or send one that nobody asked for.
//!
//! Therefore one request is outstanding at the backend, later ones are held ([`MAX_HELD`]), and an answer is taken to be that
//! request's. It may lack for so long that this is given up ([`PATIENCE`]): then the node answers its own part, and *an answer is
//! owed*. While one is, requests and answers pass as they come and nothing is merged. An answer that does not come for
//! [`FORGIVEN_AFTER`] is no longer waited for; nor is any when the player has a new backend.
//!
//! An answer that comes later still must not be merged with another request's own words either. So what has gone unanswered is
//! remembered after it is forgiven (for [`FORGOTTEN_AFTER`]), and an answer is merged only if it cannot be an earlier request's:
//! words for `/s` all begin with `/s`. Where that leaves a doubt, the answer passes as it is; without words, it becomes the node's
//! part alone. So a merge may be missed, and none is wrong, as long as the backend answers in order (a 1.7 server does) and what
//! nobody asked it for does not look like what was asked.
//!
//! The state of one player. Facts go in with the time, what is to be done comes out: at once, and from [`Completions::poll`],
//! which is to be called until it says `None` after every fact and at [`Completions::deadline`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most requests that are held while another one's answer is awaited; one more, and nothing is awaited any longer.
pub const MAX_HELD: usize = 8;

/// Most bytes of text in the requests that are held, and likewise.
pub const MAX_HELD_BYTES: usize = 4_096;

/// How long a backend has for an answer until the node answers its own part.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// How long after a request or the last answer no further one is waited for.
pub const FORGIVEN_AFTER: Duration = Duration::from_secs(10);

/// How long an unanswered request is remembered: a backend that is silent for so long has been given up.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Most unanswered requests that are remembered. While there are more nothing is merged.
const MAX_UNANSWERED: usize = 32;

/// The longest text for which anything is merged, and of which anything is remembered, in bytes; no command is so long.
const MAX_REMEMBERED: usize = 256;

/// Whose words complete a text. `T` is the node's part, whatever it is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<T> {
    /// The backend's only.
    Backend,
    /// The backend's and the node's: a command's root, a slash and the beginning of a name.
    Both(T),
    /// The node's only: an argument of one of its commands.
    Node(T),
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<T> {
    /// It goes on to the backend as it is, now.
    Pass,
    /// It is taken off; it comes out of [`Completions::poll`] when it may.
    Held,
    /// It is taken off, and answered by the node.
    Answer(T),
}

/// What becomes of a backend's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered<T> {
    /// It goes on to the player as it is.
    Pass,
    /// It goes on with the node's part added.
    Merge(T),
}

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due<T> {
    /// A request with this text goes to the backend.
    Send(Box<str>),
    /// The player is answered with the node's part alone.
    Answer(T),
}

/// The completions of one player.
#[derive(Debug, Clone)]
pub struct Completions<T> {
    state: State<T>,
    /// The node's part of a request whose time is over.
    overdue: Option<T>,
    held: VecDeque<(Box<str>, Part<T>)>,
    held_bytes: usize,
    /// What was sent to this backend and may still be answered, oldest first; the one that is awaited is the last.
    unanswered: VecDeque<Unanswered>,
    /// Until when more are unanswered than can be remembered.
    lost_track: Option<Instant>,
}

#[derive(Debug, Clone)]
enum State<T> {
    /// Nothing is waited for.
    Clear,
    /// The last of the unanswered is awaited.
    Awaiting { since: Instant, own: Option<T>, answered_perhaps: bool },
    /// Answers are owed.
    Owed { since: Instant },
}

/// A request that may be answered.
#[derive(Debug, Clone)]
struct Unanswered {
    since: Instant,
    kind: Kind,
}

/// What tells whether an answer may be a request's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    /// What its words begin with, if that is known.
    beginning: Option<Box<str>>,
    /// Whether it was for a command's root.
    root: bool,
}

impl<T> Default for Completions<T> {
    fn default() -> Self {
        Completions {
            state: State::Clear,
            overdue: None,
            held: VecDeque::new(),
            held_bytes: 0,
            unanswered: VecDeque::new(),
            lost_track: None,
        }
    }
}

impl<T> Completions<T> {
    /// The player asks how a text may go on.
    pub fn request(&mut self, now: Instant, text: &str, part: Part<T>) -> Asked<T> {
        self.advance(now);
        if !matches!(self.state, State::Awaiting { .. }) && self.overdue.is_none() && self.held.is_empty() {
            return match part {
                Part::Node(own) => Asked::Answer(own),
                part => {
                    self.sent(now, text, part);
                    Asked::Pass
                }
            };
        }
        if self.held.len() == MAX_HELD || self.held_bytes + text.len() > MAX_HELD_BYTES {
            let since = match self.state {
                State::Clear => now,
                State::Awaiting { since, .. } | State::Owed { since } => since,
            };
            self.state = State::Owed { since };
        }
        // One more than may be held, until the next poll; beyond that somebody does not poll.
        if self.held.len() <= MAX_HELD {
            self.held_bytes += text.len();
            self.held.push_back((text.into(), part));
        }
        Asked::Held
    }

    /// The backend answers with these words.
    pub fn answer<'a>(&mut self, now: Instant, words: impl Iterator<Item = &'a str>) -> Answered<T> {
        self.advance(now);
        let common = common_beginning(words);
        let fits = |request: &Unanswered| match (&request.kind.beginning, common) {
            (Some(beginning), Some(common)) => begins_with(common, beginning.as_bytes()),
            _ => true,
        };
        let State::Awaiting { own, answered_perhaps, .. } = &mut self.state else {
            if let State::Owed { since } = &mut self.state {
                *since = now;
            }
            self.settle(self.unanswered.iter().position(fits));
            return Answered::Pass;
        };
        let Some(awaited) = self.unanswered.back() else { return Answered::Pass };
        let earlier = self.unanswered.iter().position(|request| request.kind != awaited.kind && fits(request));
        if !fits(awaited) {
            // An earlier request's, or nobody's. Or else this one's, if the backend has its own mind about what fits: where
            // there is nothing to be merged, others need not wait to find out.
            if earlier.is_none() && own.is_none() {
                self.state = State::Clear;
            }
            self.settle(earlier);
            return Answered::Pass;
        }
        let first = self.unanswered.iter().position(fits);
        if earlier.is_some() && common.is_some() {
            *answered_perhaps = true;
            self.settle(first);
            return Answered::Pass;
        }
        // It is this request's, or that of an earlier one for the same text; or without words, and of any.
        let own = own.take().filter(|_| self.lost_track.is_none());
        match first.filter(|_| awaited.kind.root) {
            // What was asked before it will not be answered.
            Some(first) => drop(self.unanswered.drain(..=first)),
            None => self.settle(first),
        }
        self.state = State::Clear;
        own.map_or(Answered::Pass, Answered::Merge)
    }

    /// The player has a new backend: nothing that was asked of the old one is waited for or sent. What the node answers by
    /// itself is still to be polled.
    pub fn new_backend(&mut self) {
        self.held.retain(|(_, part)| matches!(part, Part::Node(_)));
        self.held_bytes = self.held.iter().map(|(text, _)| text.len()).sum();
        *self = Completions { held: std::mem::take(&mut self.held), held_bytes: self.held_bytes, ..Completions::default() };
    }

    /// What is due at this time, one after the other.
    pub fn poll(&mut self, now: Instant) -> Option<Due<T>> {
        self.advance(now);
        if let Some(own) = self.overdue.take() {
            return Some(Due::Answer(own));
        }
        if matches!(self.state, State::Awaiting { .. }) {
            return None;
        }
        let (text, part) = self.held.pop_front()?;
        self.held_bytes -= text.len();
        Some(match part {
            Part::Node(own) => Due::Answer(own),
            part => {
                self.sent(now, &text, part);
                Due::Send(text)
            }
        })
    }

    /// When to poll, if nothing happens before.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Clear => None,
            State::Awaiting { since, .. } => Some(since + PATIENCE),
            State::Owed { since } => Some(since + FORGIVEN_AFTER),
        }
    }

    /// Gives up what has taken too long.
    fn advance(&mut self, now: Instant) {
        while self.unanswered.pop_front_if(|request| now >= request.since + FORGOTTEN_AFTER).is_some() {}
        self.lost_track = self.lost_track.filter(|&until| now < until);
        if let State::Awaiting { since, own, answered_perhaps } = &mut self.state
            && now >= *since + PATIENCE
        {
            // If the player has been given an answer meanwhile, it was either this one or nothing is known of it any more.
            self.overdue = own.take().filter(|_| !*answered_perhaps);
            self.state = State::Owed { since: *since };
        }
        if let State::Owed { since } = self.state
            && now >= since + FORGIVEN_AFTER
        {
            self.state = State::Clear;
        }
    }

    /// Notes that a request goes to the backend.
    fn sent(&mut self, now: Instant, text: &str, part: Part<T>) {
        let (words, own) = match part {
            Part::Both(own) if text.len() <= MAX_REMEMBERED => (text, Some(own)),
            _ => (text.rsplit(' ').next().unwrap_or_default(), None),
        };
        if self.unanswered.len() == MAX_UNANSWERED {
            self.lost_track = self.unanswered.pop_front().map(|request| request.since + FORGOTTEN_AFTER);
        }
        let beginning = Some(words.into()).filter(|_| (1..=MAX_REMEMBERED).contains(&words.len()));
        self.unanswered.push_back(Unanswered { since: now, kind: Kind { beginning, root: own.is_some() } });
        if matches!(self.state, State::Clear) {
            self.state = State::Awaiting { since: now, own, answered_perhaps: false };
        }
    }

    /// Notes that the request at this place has been answered, as far as can be known. Those before it are kept: it may have
    /// been nobody's.
    fn settle(&mut self, place: Option<usize>) {
        place.and_then(|place| self.unanswered.remove(place));
        if self.unanswered.is_empty() {
            self.state = State::Clear;
        }
    }
}

/// What all of the words begin with, but for the case of their letters; `None` if there are none.
fn common_beginning<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<&'a [u8]> {
    let first = words.next()?.as_bytes();
    Some(words.fold(first, |common, word| {
        let alike = common.iter().zip(word.as_bytes()).take_while(|(left, right)| left.eq_ignore_ascii_case(right));
        &common[..alike.count()]
    }))
}

/// Whether a word begins with this text, in any case of its ASCII letters, as servers compare them.
fn begins_with(word: &[u8], text: &[u8]) -> bool {
    word.get(..text.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(text))
}
