//! Progress of many transfers: a bar on a terminal, lines elsewhere.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Outcome;
use crate::output;

/// Shows how many of them have ended.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for `total` transfers, if `wanted` and stderr is a terminal.
    pub(super) fn new(total: usize, wanted: bool) -> Self {
        if !wanted || !stderr().is_terminal() {
            return Progress { bar: None };
        }
        let bar = ProgressBar::new(total as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Progress { bar: Some(bar) }
    }

    /// One more has ended; `line` goes to stdout.
    pub(super) fn ended(&self, line: Option<&str>) -> Outcome {
        let print = || line.map_or(Ok(()), output::line);
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.suspend(print)
            }
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
