//! One log line for each connection that went wrong, but not more than a log can bear.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in one second; the rest is counted and told with the next line.
const LINES_A_SECOND: u32 = 20;

/// Where connections' troubles are told.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    told: u32,
    untold: u64,
}

impl Reports {
    /// Logs one line, unless too many were logged in this second.
    pub(crate) fn tell(&self, line: &dyn Display) {
        let untold = self.0.lock().unwrap_or_else(PoisonError::into_inner).note(Instant::now());
        match untold {
            None => {}
            Some(0) => tracing::warn!("{line}"),
            Some(untold) => tracing::warn!(untold, "{line}"),
        }
    }
}

impl Window {
    /// Whether a line may be told now, and then how many were not told before it.
    fn note(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1)) {
            self.began = Some(now);
            self.told = 0;
        }
        if self.told == LINES_A_SECOND {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_told_with_the_next_line() {
        let mut window = Window::default();
        let now = Instant::now();
        for _ in 0..LINES_A_SECOND {
            assert_eq!(window.note(now), Some(0));
        }
        assert_eq!(window.note(now), None);
        assert_eq!(window.note(now), None);
        assert_eq!(window.note(now + Duration::from_secs(1)), Some(2));
        assert_eq!(window.note(now + Duration::from_secs(1)), Some(0));
    }
}
