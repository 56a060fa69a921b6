//! The ledger of keep-alives: the player is asked with ids of the node's own, and each answer goes back to the backend
//! that asked, with the id it asked with.

use std::collections::VecDeque;

/// Who asked: a connection to a backend, numbered by the session, or the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The backend connection with this number.
    Backend(u32),
    /// The node, to keep the player alive during a pause.
    Node,
    /// The node, to see how long the answer takes; the id says when it asked, as its session counts.
    Ping,
}

/// Where a player's answer belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// To this asker, with the id it asked with.
    To(Asker, i64),
    /// To nobody: it was asked so long ago that the question is forgotten, or is answered a second time.
    Late,
    /// None of ours: a sign of life (a 1.7.10 client sends id 0 each second while it shows "Downloading terrain").
    Unasked,
}

/// Most questions that wait for an answer; beyond it the oldest is forgotten.
pub const MAX_OUTSTANDING: usize = 64;

/// Questions for which there is room from the first one on.
const FEW: usize = 2;

/// Where the ids begin that the player is asked with: far from those that a client may make up itself.
const FIRST: i64 = 1 << 30;

#[derive(Debug, Clone, Copy)]
struct Question {
    asked_as: i64,
    asker: Asker,
    id: i64,
}

/// Keep-alives that the player has been asked and not yet answered. Allocates when more are outstanding than ever before.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    last: i64,
    outstanding: VecDeque<Question>,
}

impl Ledger {
    /// Notes that `asker` asks with `id`; returns the id to ask the player with: positive, never 0, unlike all that are
    /// outstanding, and of 31 bits, so that it fits every version's field.
    pub fn ask(&mut self, asker: Asker, id: i64) -> i64 {
        self.last = if self.last == 0 || self.last >= i64::from(i32::MAX) { FIRST } else { self.last + 1 };
        // Seldom more than one: there are thousands of ledgers.
        if self.outstanding.capacity() == 0 {
            self.outstanding.reserve_exact(FEW);
        }
        if self.outstanding.len() == MAX_OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(Question { asked_as: self.last, asker, id });
        self.last
    }

    /// Takes the question that the player's answer `id` belongs to. Answers may come in any order.
    pub fn answer(&mut self, id: i64) -> Answer {
        let index = self.outstanding.iter().position(|question| question.asked_as == id);
        match index.and_then(|index| self.outstanding.remove(index)) {
            Some(question) => Answer::To(question.asker, question.id),
            None if (FIRST..=self.last).contains(&id) => Answer::Late,
            None => Answer::Unasked,
        }
    }

    /// The ids with which `asker` still waits, oldest first; they are answered by the node and the player's own later
    /// answers to them must be swallowed, so they stay in the ledger as the node's.
    pub fn take_over(&mut self, asker: Asker) -> impl Iterator<Item = i64> + '_ {
        self.outstanding.iter_mut().filter(move |question| question.asker == asker).map(|question| {
            question.asker = Asker::Node;
            question.id
        })
    }

    /// How many questions are outstanding.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_wrap_before_the_sign_and_stay_distinct() {
        let mut ledger = Ledger { last: i64::from(i32::MAX) - 2, ..Ledger::default() };
        let asked: Vec<i64> = (0..5).map(|id| ledger.ask(Asker::Node, id)).collect();
        let top = i64::from(i32::MAX);
        assert_eq!(asked, [top - 1, top, FIRST, FIRST + 1, FIRST + 2]);
        assert_eq!(ledger.answer(top), Answer::To(Asker::Node, 1));
        assert_eq!(ledger.answer(FIRST), Answer::To(Asker::Node, 2));
    }

    #[test]
    fn a_ledger_has_room_for_few_and_at_most_for_all_that_may_be_outstanding() {
        let mut ledger = Ledger::default();
        for id in 0..100 {
            let asked = ledger.ask(Asker::Node, id);
            ledger.answer(asked);
        }
        assert_eq!(ledger.outstanding.capacity(), FEW);
        for id in 0..10 * MAX_OUTSTANDING as i64 {
            ledger.ask(Asker::Node, id);
        }
        assert_eq!(ledger.outstanding.capacity(), MAX_OUTSTANDING);
    }
}
