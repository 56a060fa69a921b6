//! How far an import is: a bar on a terminal, lines elsewhere.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Records between two lines.
const STEP: usize = 10_000;

/// Shows how many records have been sent. The control plane takes them no faster than it writes them.
#[derive(Clone)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    sent: Arc<AtomicUsize>,
}

impl Progress {
    /// For so many records; a bar if `wanted` and stderr is a terminal.
    pub(super) fn new(total: usize, wanted: bool) -> Self {
        let bar = (wanted && stderr().is_terminal()).then(|| ProgressBar::new(total as u64));
        if let Some(bar) = &bar {
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
        }
        Progress { bar, total, sent: Arc::default() }
    }

    /// So many more are on their way.
    pub(super) fn sent(&self, records: usize) {
        let before = self.sent.fetch_add(records, Ordering::Relaxed);
        let now = before + records;
        match &self.bar {
            Some(bar) => {
                bar.set_position(now as u64);
                if now == self.total {
                    bar.set_message("sent; waiting until all of it is written");
                }
            }
            None if before / STEP < now / STEP => output::note(&format!("{now} of {} records sent", self.total)),
            None => {}
        }
    }

    /// The import has ended, well or not.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
