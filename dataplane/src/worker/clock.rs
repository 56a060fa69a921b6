//! A worker's clock: what a session waits for by the second, not by the millisecond, is counted in beats.
//!
//! A timer costs its session room, and the thread that keeps it ([`crate::timer`]) a wake-up. So what need not be exact is no timer:
//! that thread gives the beat to all workers, and whoever waits for it is woken. In steady play, nothing else on a worker waits for a
//! time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::timer::timeout;

/// From one beat to the next; if the machine has no time for it, more.
pub(crate) const BEAT: Duration = Duration::from_millis(250);

/// As many beats ahead somebody is woken; whoever waits for longer waits again.
const AHEAD: usize = 32;

thread_local! {
    /// The beats that have been on this thread, if it has a clock.
    static BEATS: Cell<Option<u64>> = const { Cell::new(None) };
    /// Who is to be woken, from the next beat on.
    static SLEEPERS: RefCell<VecDeque<Vec<Waker>>> = const { RefCell::new(VecDeque::new()) };
}

/// The beats that have been, on a thread that has a clock: a worker's.
#[inline]
pub(crate) fn beats() -> Option<u64> {
    BEATS.get()
}

/// How many beats make up `time`, rounded up.
pub(crate) fn beats_in(time: Duration) -> u64 {
    u64::try_from(time.as_millis().div_ceil(BEAT.as_millis())).unwrap_or(u64::MAX)
}

/// Wakes `waker` at this beat, or before it if that is far; at which one. Whoever is woken and still has to wait asks again.
pub(crate) fn wake_at(beat: u64, waker: &Waker) -> u64 {
    let now = BEATS.get().unwrap_or_default();
    SLEEPERS.with_borrow_mut(|sleepers| {
        let ahead = usize::try_from(beat.saturating_sub(now)).unwrap_or(AHEAD).clamp(1, AHEAD);
        if sleepers.len() < ahead {
            sleepers.resize_with(ahead, Vec::new);
        }
        sleepers[ahead - 1].push(waker.clone());
        now + ahead as u64
    })
}

/// Gives the beat to these, each a worker, until `stop`.
pub(super) async fn give_beats(workers: Vec<Arc<Notify>>, stop: CancellationToken) {
    while timeout(BEAT, stop.cancelled()).await.is_err() {
        workers.iter().for_each(|worker| worker.notify_one());
    }
}

/// Keeps this thread's clock, for as long as it is polled.
pub(super) async fn run(beat: Arc<Notify>) {
    BEATS.set(Some(0));
    loop {
        beat.notified().await;
        advance();
    }
}

/// Forgets who is to be woken: the thread ends.
pub(super) fn stop() {
    SLEEPERS.take();
}

fn advance() {
    BEATS.set(BEATS.get().map(|beats| beats + 1));
    let Some(mut woken) = SLEEPERS.with_borrow_mut(VecDeque::pop_front) else { return };
    woken.drain(..).for_each(Waker::wake);
    // Its room is used again.
    SLEEPERS.with_borrow_mut(|sleepers| {
        if sleepers.len() < AHEAD {
            sleepers.push_back(woken);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_waits_is_woken_once_at_its_beat() {
        BEATS.set(Some(7));
        let counts: Vec<Arc<Count>> = (0..4).map(|_| Arc::default()).collect();
        let woken = || counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        for (count, beat) in counts.iter().zip([7, 8, 10, 1_000]) {
            // A beat that has been is the next one; one that is far is waited for in pieces.
            assert_eq!(wake_at(beat, &Waker::from(count.clone())), beat.clamp(8, 7 + AHEAD as u64));
        }
        for (beat, wanted) in [(8, [1, 1, 0, 0]), (9, [1, 1, 0, 0]), (10, [1, 1, 1, 0])] {
            advance();
            assert_eq!((beats(), woken()), (Some(beat), wanted.to_vec()));
        }
        for _ in 10..7 + AHEAD as u64 {
            advance();
        }
        assert_eq!(woken(), [1; 4]);
        for _ in 0..2 * AHEAD {
            advance();
        }
        assert_eq!(woken(), [1; 4]);
        assert!(SLEEPERS.with_borrow(|sleepers| sleepers.len() <= AHEAD));
    }

    #[test]
    fn what_is_no_whole_beat_is_one() {
        assert_eq!([0, 1, 250, 251, 5_000].map(|millis| beats_in(Duration::from_millis(millis))), [0, 1, 1, 2, 20]);
    }
}
