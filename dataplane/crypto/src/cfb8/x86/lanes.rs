//! Encryption of several streams side by side: who is in which lane, and for how long.

use std::mem;

use super::Stream;

/// A stream and its next bytes, of which there is at least one.
pub(super) struct Job<'a> {
    pub(super) stream: &'a mut Stream,
    pub(super) data: &'a mut [u8],
}

impl<'a> Job<'a> {
    /// Takes the next bytes.
    fn next(&mut self, len: usize) -> &'a mut [u8] {
        let (next, rest) = mem::take(&mut self.data).split_at_mut(len);
        self.data = rest;
        next
    }
}

/// Where jobs come from.
pub(super) type Jobs<'j, 'a> = &'j mut dyn Iterator<Item = Job<'a>>;

/// A kernel that steps `N` streams at once, byte by byte. Lanes that are in no use have no bytes.
pub(super) trait Lockstep<const N: usize> {
    /// Puts a stream into a lane.
    fn load(&mut self, lane: usize, stream: &Stream);

    /// The last 16 ciphertext bytes of the stream in a lane.
    fn last(&self, lane: usize) -> [u8; 16];

    /// Encrypts blocks of 16 bytes: `blocks` in every lane in use.
    fn whole_blocks(&mut self, data: [&mut [[u8; 16]]; N], blocks: usize);

    /// Encrypts up to 15 bytes: `steps` in every lane in use.
    fn part_of_a_block(&mut self, data: [&mut [u8]; N], steps: usize);
}

/// As many lanes as the widest kernel has. Those in use come first.
pub(super) struct Lanes<'a> {
    jobs: [Option<Job<'a>>; MOST],
    used: usize,
}

/// Lanes of the widest kernel.
const MOST: usize = 16;

impl<'a> Lanes<'a> {
    /// A lane for each of the first jobs, `most` at most.
    pub(super) fn fill(most: usize, jobs: Jobs<'_, 'a>) -> Self {
        let mut lanes = Self { jobs: [const { None }; MOST], used: 0 };
        for (lane, job) in lanes.jobs[..most].iter_mut().zip(jobs) {
            *lane = Some(job);
            lanes.used += 1;
        }
        lanes
    }

    /// How many are in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The jobs that are left.
    pub(super) fn into_jobs(self) -> impl Iterator<Item = Job<'a>> {
        self.jobs.into_iter().flatten()
    }

    /// Encrypts in the kernel's lanes until no job waits and no more than `leave` lanes are in use.
    pub(super) fn encrypt<const N: usize>(&mut self, kernel: &mut impl Lockstep<N>, jobs: Jobs<'_, 'a>, leave: usize) {
        for (i, job) in self.jobs.iter().enumerate() {
            if let Some(job) = job {
                kernel.load(i, job.stream);
            }
        }
        while self.used > leave {
            // What every lane has is done without a look at who is where.
            let common = self.jobs.iter().flatten().map(|job| job.data.len()).min().unwrap_or(0);
            if common >= 16 {
                let blocks = common / 16;
                kernel.whole_blocks(self.next(16 * blocks).map(|data| data.as_chunks_mut().0), blocks);
            } else {
                kernel.part_of_a_block(self.next(common), common);
            }
            for (i, lane) in self.jobs.iter_mut().enumerate() {
                let Some(job) = lane.take_if(|job| job.data.is_empty()) else { continue };
                job.stream.last = kernel.last(i);
                *lane = jobs.next();
                match lane {
                    Some(job) => kernel.load(i, job.stream),
                    None => self.used -= 1,
                }
            }
        }
        self.close_up(kernel);
    }

    /// The next bytes of the first `N` lanes.
    fn next<const N: usize>(&mut self, len: usize) -> [&'a mut [u8]; N] {
        let mut lanes = self.jobs.iter_mut();
        std::array::from_fn(|_| match lanes.next() {
            Some(Some(job)) => job.next(len),
            _ => Default::default(),
        })
    }

    /// Takes the streams out of the kernel, and closes the gaps between those that are not at their end.
    fn close_up<const N: usize>(&mut self, kernel: &impl Lockstep<N>) {
        let mut to = 0;
        for from in 0..MOST {
            if let Some(job) = &mut self.jobs[from] {
                job.stream.last = kernel.last(from);
                self.jobs.swap(from, to);
                to += 1;
            }
        }
    }
}
