//! How fast somebody may go on: so many at once, and then so many a second.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    rate: u32,
    burst: u32,
    /// When it is full again; one more is allowed while that lies no further ahead than all but one of the burst take.
    full: Option<Instant>,
}

impl Pace {
    /// `burst` at once, and then `rate` a second; neither is 0.
    pub(crate) fn new(rate: u32, burst: u32) -> Pace {
        Pace { rate, burst, full: None }
    }

    /// Whether one more is allowed now; if so, it is counted.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let each = Duration::from_secs(1) / self.rate.max(1);
        let full = self.full.map_or(now, |full| full.max(now));
        let allowed = full.duration_since(now) <= each * self.burst.saturating_sub(1);
        if allowed {
            self.full = Some(full + each);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_so_many_a_second() {
        let mut pace = Pace::new(10, 3);
        let start = Instant::now();
        let mut allowed = |millis: u64, times: usize| {
            let now = start + Duration::from_millis(millis);
            (0..times).filter(|_| pace.allows(now)).count()
        };
        assert_eq!(allowed(0, 1_000), 3);
        assert_eq!(allowed(99, 10), 0);
        assert_eq!(allowed(100, 10), 1);
        assert_eq!(allowed(350, 10), 2);
        assert_eq!(allowed(60_000, 10), 3, "rest does not add up to more than the burst");
    }

    #[test]
    fn a_thousand_a_second_are_cut_to_the_rate() {
        let mut pace = Pace::new(10, 20);
        let start = Instant::now();
        let allowed = (0..10_000).filter(|&milli| pace.allows(start + Duration::from_millis(milli))).count();
        assert_eq!(allowed, 20 + 99, "in ten seconds");
    }
}
