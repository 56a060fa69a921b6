//! How long to wait before the next attempt.

use std::time::Duration;

/// Doubles from `first` to `longest`; each wait is between half and all of that, so that the nodes of a network that
/// lost a replica together do not come back together.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next wait; `random` is in 0..1.
    pub(super) fn wait(&mut self, random: f64) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.longest);
        full.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }

    /// What was tried has worked: begin anew.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_with_jitter_and_begins_anew() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        let full: Vec<u128> = (0..8).map(|_| backoff.wait(1.0).as_millis()).collect();
        assert_eq!(full, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.wait(0.0), Duration::from_millis(2500));
        backoff.reset();
        assert_eq!(backoff.wait(0.5), Duration::from_millis(75));
    }
}
