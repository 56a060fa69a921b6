//! Session events on their way to the replica: gathered for a moment, numbered, kept count of until acknowledged.
//!
//! The events themselves are not kept: what a broken stream took with it is covered by the sessions in the next Hello.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use moonbridge_proto::v1;

/// Events in one message, so that it stays well below gRPC's usual 4 MiB.
const BATCH: usize = 1_000;

/// Batches that may wait for their acknowledgement. While so many do, changes go on being coalesced in the registry.
const WINDOW: usize = 16;

/// The presence side of one stream.
#[derive(Debug)]
pub(super) struct Presence {
    gather: Duration,
    due: Option<Instant>,
    sequence: u64,
    unacknowledged: VecDeque<(u64, Instant)>,
}

impl Presence {
    /// For a new stream. `gather` is how long changes are gathered before they go out.
    pub(super) fn new(gather: Duration) -> Self {
        Self { gather, due: None, sequence: 0, unacknowledged: VecDeque::new() }
    }

    /// Whether to listen for changes: none are known of yet.
    pub(super) fn is_open(&self) -> bool {
        self.due.is_none()
    }

    /// There may be changes in the registry.
    pub(super) fn changed(&mut self, now: Instant) {
        self.due.get_or_insert(now + self.gather);
    }

    /// When to take the registry's changes; `None` while there are none, or no batch may be sent.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.may_send())
    }

    /// Whether another batch may be sent.
    pub(super) fn may_send(&self) -> bool {
        self.unacknowledged.len() < WINDOW
    }

    /// Numbers the changes that were taken.
    pub(super) fn batches(&mut self, events: Vec<v1::SessionEvent>, now: Instant) -> Vec<v1::SessionEvents> {
        self.due = None;
        let mut events = events.into_iter().peekable();
        let mut batches = Vec::new();
        while events.peek().is_some() {
            self.sequence += 1;
            self.unacknowledged.push_back((self.sequence, now));
            batches.push(v1::SessionEvents { sequence: self.sequence, events: events.by_ref().take(BATCH).collect() });
        }
        batches
    }

    /// This batch, and with it every earlier one, is in the store.
    pub(super) fn acknowledged(&mut self, sequence: u64) {
        while self.unacknowledged.front().is_some_and(|(first, _)| *first <= sequence) {
            self.unacknowledged.pop_front();
        }
    }

    /// When the oldest batch that waits for its acknowledgement was sent.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.unacknowledged.front().map(|(_, sent)| *sent)
    }

    /// Whether all that was seen has been sent and acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.due.is_none() && self.unacknowledged.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATHER: Duration = Duration::from_millis(50);

    fn ended(count: usize) -> Vec<v1::SessionEvent> {
        let event = v1::session_event::Event::Ended(v1::SessionEnded { id: "x".into(), reason: "left".into() });
        vec![v1::SessionEvent { event: Some(event) }; count]
    }

    #[test]
    fn gathers_from_the_first_change_on() {
        let start = Instant::now();
        let mut presence = Presence::new(GATHER);
        assert_eq!(presence.due(), None);
        presence.changed(start);
        presence.changed(start + GATHER / 2);
        assert_eq!(presence.due(), Some(start + GATHER), "a later change does not put it off");
        assert!(!presence.is_idle());
        let batches = presence.batches(ended(3), start + GATHER);
        assert_eq!((batches.len(), batches[0].sequence, batches[0].events.len()), (1, 1, 3));
        assert_eq!(presence.due(), None);
        assert_eq!(presence.waiting_since(), Some(start + GATHER));
        presence.acknowledged(1);
        assert!(presence.is_idle());
    }

    #[test]
    fn splits_large_batches_and_an_acknowledgement_covers_the_earlier_ones() {
        let now = Instant::now();
        let mut presence = Presence::new(GATHER);
        let batches = presence.batches(ended(2 * BATCH + 1), now);
        assert_eq!(batches.iter().map(|batch| (batch.sequence, batch.events.len())).collect::<Vec<_>>(), [(1, BATCH), (2, BATCH), (3, 1)]);
        presence.acknowledged(2);
        assert!(!presence.is_idle());
        presence.acknowledged(3);
        assert!(presence.is_idle());
    }

    #[test]
    fn nothing_is_sent_past_the_window() {
        let now = Instant::now();
        let mut presence = Presence::new(GATHER);
        for _ in 0..WINDOW {
            presence.changed(now);
            assert!(presence.due().is_some());
            presence.batches(ended(1), now);
        }
        presence.changed(now);
        assert_eq!(presence.due(), None);
        presence.acknowledged(1);
        assert_eq!(presence.due(), Some(now + GATHER));
    }

    #[test]
    fn no_changes_make_no_batch() {
        let mut presence = Presence::new(GATHER);
        presence.changed(Instant::now());
        assert!(presence.batches(Vec::new(), Instant::now()).is_empty());
        assert!(presence.is_idle());
    }
}
