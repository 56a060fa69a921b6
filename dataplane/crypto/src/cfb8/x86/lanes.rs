//! Who is in which lane, for the kernels that encrypt several streams side by side.

use std::mem;

use super::Stream;

/// A stream and its next bytes, of which there is at least one.
pub(in super::super) struct Job<'a> {
    pub(in super::super) stream: &'a mut Stream,
    pub(in super::super) data: &'a mut [u8],
}

impl<'a> Job<'a> {
    /// Takes the next bytes.
    #[inline]
    pub(super) fn next(&mut self, len: usize) -> &'a mut [u8] {
        let (next, rest) = mem::take(&mut self.data).split_at_mut(len);
        self.data = rest;
        next
    }
}

/// Where jobs come from.
pub(super) type Jobs<'j, 'a> = &'j mut dyn Iterator<Item = Job<'a>>;

/// Lanes of the widest kernel.
const MOST: usize = 16;

/// As many lanes as the widest kernel has. Those in use come first.
pub(super) struct Lanes<'a> {
    pub(super) jobs: [Option<Job<'a>>; MOST],
    /// How many are in use.
    pub(super) used: usize,
}

impl<'a> Lanes<'a> {
    /// A lane for each of the first jobs.
    pub(super) fn fill(jobs: Jobs<'_, 'a>) -> Self {
        let mut lanes = Self { jobs: [const { None }; MOST], used: 0 };
        for (lane, job) in lanes.jobs.iter_mut().zip(jobs) {
            *lane = Some(job);
            lanes.used += 1;
        }
        lanes
    }

    /// How many bytes every lane in use has.
    #[inline]
    pub(super) fn common(&self) -> usize {
        self.jobs.iter().flatten().map(|job| job.data.len()).min().unwrap_or(0)
    }

    /// Closes the gaps.
    pub(super) fn close_up(&mut self) {
        let mut to = 0;
        for from in 0..MOST {
            if self.jobs[from].is_some() {
                self.jobs.swap(from, to);
                to += 1;
            }
        }
    }
}
