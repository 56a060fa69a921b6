//! The one alarm of a session.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep};

use crate::timer::sleep_until;
use crate::worker::clock;

/// From here on, waiting for the next beat makes no difference.
const ROUGHLY: Duration = Duration::from_secs(1);

/// Rings once, at a time that can be changed. It is polled by one task only.
pub(super) struct Alarm {
    due: Instant,
    by: By,
    /// The beat at which the clock wakes the task: one call at a time is enough.
    called_at: Option<u64>,
}

/// What tells that it is due.
enum By {
    /// The worker's clock, from this beat on.
    Beats { from: u64 },
    /// A timer.
    Timer {
        sleep: Pin<Box<Sleep>>,
        /// The task is woken when it is over.
        awaited: bool,
    },
}

impl Alarm {
    /// Rings in this time, or up to a beat ([`clock::BEAT`]) before or after.
    pub(super) fn roughly_in(time: Duration) -> Alarm {
        let due = Instant::now() + time;
        let by = match clock::beats() {
            Some(now) if time >= ROUGHLY => By::Beats { from: now + clock::beats_in(time) },
            _ => By::Timer { sleep: Box::pin(sleep_until(due)), awaited: false },
        };
        Alarm { due, by, called_at: None }
    }

    /// Rings at `due` from now on, whenever it was to.
    pub(super) fn set(&mut self, due: Instant) {
        self.due = due;
        match &mut self.by {
            By::Timer { sleep, awaited } => {
                sleep.as_mut().reset(due);
                *awaited = false;
            }
            By::Beats { .. } => self.by = By::Timer { sleep: Box::pin(sleep_until(due)), awaited: false },
        }
    }

    /// Rings in `time` from `now`, or up to a beat before or after, whenever it was to.
    pub(super) fn set_roughly(&mut self, now: Instant, time: Duration) {
        let due = now + time;
        match clock::beats() {
            Some(beats) if time >= ROUGHLY => {
                self.due = due;
                self.by = By::Beats { from: beats + clock::beats_in(time) };
            }
            _ => self.set(due),
        }
    }

    /// Rings at `due` if it was to ring later.
    pub(super) fn bring_forward(&mut self, due: Instant) {
        if due < self.due {
            self.set(due);
        }
    }

    /// Ready once it rings, and from then on until it is set. While the task is going to be woken anyway, a turn pays for a look.
    #[inline]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.by {
            By::Beats { from } => {
                let now = clock::beats().unwrap_or(*from);
                if now >= *from {
                    return Poll::Ready(());
                }
                if self.called_at.is_none_or(|at| at <= now || at > *from) {
                    self.called_at = Some(clock::wake_at(*from, cx.waker()));
                }
                Poll::Pending
            }
            By::Timer { sleep, awaited } => {
                if *awaited && !sleep.is_elapsed() {
                    return Poll::Pending;
                }
                let polled = sleep.as_mut().poll(cx);
                // Out of its task's budget, tokio wakes the task once and registers nothing.
                *awaited = polled.is_pending() && has_budget_remaining();
                polled
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::task::coop::poll_proceed;

    use super::*;
    use crate::timer::timeout;

    #[tokio::test]
    async fn it_rings_though_there_was_no_budget_when_it_was_first_looked_at() {
        let mut alarm = Alarm::roughly_in(Duration::from_millis(5));
        let mut looks = 0;
        let ring = poll_fn(|cx| {
            looks += 1;
            if looks == 1 {
                while let Poll::Ready(spent) = poll_proceed(cx) {
                    spent.made_progress();
                }
                assert!(!has_budget_remaining());
            }
            alarm.poll(cx)
        });
        timeout(Duration::from_secs(10), ring).await.expect("it rings");
        assert!(looks >= 2);
    }
}
