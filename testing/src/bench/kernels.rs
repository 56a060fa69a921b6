//! What the cipher's kernels cost a byte, beside the `cfb8` crate: every row is measured in every repeat, one after the other, so
//! that what disturbs the machine meets them all.

use std::time::Duration;

use aes::Aes128;
use aes::cipher::KeyIvInit as _;
use anyhow::{Context as _, ensure};
use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Kernel, Lane, Secret, encrypt_together};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// What is done to the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// To the player.
    Encrypt,
    /// From the player.
    Decrypt,
}

/// A measurement to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// What is done.
    pub operation: Operation,
    /// By whom; `None` is the `cfb8` crate.
    pub kernel: Option<Kernel>,
    /// Streams in one call.
    pub streams: usize,
    /// Frames of a stream in one call, without a gap.
    pub frames: usize,
    /// Bytes of a frame.
    pub bytes: usize,
    /// The ratio to the `cfb8` crate that must be reached.
    pub must: Option<f64>,
}

/// A row of the table, as `--json` gives it.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What is done.
    pub operation: Operation,
    /// `cfb8 crate`, `portable`, `AES-NI` or `VAES`.
    pub kernel: String,
    /// Streams in one call.
    pub streams: usize,
    /// Frames of a stream in one call.
    pub frames: usize,
    /// Bytes of a frame.
    pub bytes: usize,
    /// Median; null if not available.
    pub ns_per_byte: Option<f64>,
    /// Fastest and slowest repeat.
    pub range: Option<[f64; 2]>,
    /// Median of a frame.
    pub ns_per_frame: Option<f64>,
    /// Median of the repeats' ratios to the `cfb8` crate, which does the same operation to single frames of one stream.
    pub ratio_to_cfb8: Option<f64>,
    /// The ratio that must be reached.
    pub must: Option<f64>,
    /// Whether it was.
    pub met: Option<bool>,
    /// `ok`, or `not available` if this CPU lacks what the kernel needs.
    pub status: &'static str,
}

/// Sizes of the rows by frame.
pub const FRAMES: [usize; 4] = [10, 33, 200, 1500];

/// What the Java proxy whose work this continues spends on a frame of each of [`FRAMES`], in nanoseconds; on another machine.
pub const JAVA: [f64; 4] = [311.0, 541.0, 3199.0, 24112.0];

/// The rows of the table.
#[must_use]
pub fn table() -> Vec<Plan> {
    use Operation::{Decrypt, Encrypt};
    let plan = |operation, kernel, streams, bytes, must| Plan { operation, kernel, streams, frames: 1, bytes, must };
    let mut plans = Vec::new();
    for bytes in [1500, 65536] {
        plans.push(plan(Encrypt, None, 1, bytes, None));
        plans.push(plan(Encrypt, Some(Kernel::Portable), 1, bytes, None));
        plans.push(plan(Encrypt, Some(Kernel::AesNi), 1, bytes, Some(0.64)));
    }
    for streams in [2, 4, 8, 16, 64] {
        plans.push(plan(Encrypt, Some(Kernel::Portable), streams, 1500, None));
        plans.push(plan(Encrypt, Some(Kernel::AesNi), streams, 1500, (streams == 8).then_some(0.13)));
        let must = match streams {
            8 => Some(0.09),
            16 => Some(0.055),
            _ => None,
        };
        plans.push(plan(Encrypt, Some(Kernel::Vaes), streams, 1500, must));
    }
    for bytes in [33, 1500, 65536] {
        plans.push(plan(Decrypt, None, 1, bytes, None));
        for (kernel, must) in [(Kernel::Portable, 0.125), (Kernel::AesNi, 0.105), (Kernel::Vaes, 0.055)] {
            plans.push(plan(Decrypt, Some(kernel), 1, bytes, (bytes == 1500).then_some(must)));
        }
    }
    plans
}

/// The rows by frame: one call a frame, one call over 32 frames of one stream, one over a frame of each of 32 streams.
#[must_use]
pub fn by_frame() -> Vec<Plan> {
    let plan = |kernel, streams, frames, bytes| Plan { operation: Operation::Encrypt, kernel, streams, frames, bytes, must: None };
    let best = Some(Kernel::best());
    FRAMES
        .into_iter()
        .flat_map(|bytes| [plan(None, 1, 1, bytes), plan(best, 1, 1, bytes), plan(best, 1, 32, bytes), plan(best, 32, 1, bytes)])
        .collect()
}

/// Keeps this thread on one CPU: the last that it may run on, unless told.
///
/// # Errors
/// There is no such CPU.
pub fn pin(cpu: Option<usize>) -> anyhow::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let cpu = cpu.or(last).context("no CPU to run on")?;
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).with_context(|| format!("cannot run on CPU {cpu}"))?;
    Ok(cpu)
}

/// Takes the measurements: `repeats` times all of them in turn, each for about `sample`.
///
/// # Errors
/// A kernel does not give what the `cfb8` crate gives.
pub fn measure(plans: &[Plan], repeats: usize, sample: Duration) -> anyhow::Result<Vec<Row>> {
    let mut subjects = plans.iter().map(Subject::new).collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..repeats {
        for subject in subjects.iter_mut().flatten() {
            subject.sample(sample);
        }
    }
    let times: Vec<_> = subjects.into_iter().map(|subject| subject.map(|subject| subject.times)).collect();
    let crates = |plan: &Plan| {
        let same = |other: &Plan| other.kernel.is_none() && (other.operation, other.bytes) == (plan.operation, plan.bytes);
        plans.iter().position(same).and_then(|i| times[i].as_deref()).unwrap_or(&[])
    };
    Ok(plans.iter().zip(&times).map(|(plan, times)| row(plan, times.as_deref(), crates(plan))).collect())
}

fn row(plan: &Plan, times: Option<&[f64]>, crates: &[f64]) -> Row {
    let ratio = times.map(|times| median(&times.iter().zip(crates).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>()));
    let ns_per_byte = times.map(median);
    Row {
        operation: plan.operation,
        kernel: plan.kernel.map_or_else(|| "cfb8 crate".to_owned(), |kernel| kernel.to_string()),
        streams: plan.streams,
        frames: plan.frames,
        bytes: plan.bytes,
        ns_per_byte,
        range: times.map(|times| [times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max)]),
        ns_per_frame: ns_per_byte.map(|ns| ns * plan.bytes as f64),
        ratio_to_cfb8: ratio,
        must: plan.must,
        met: plan.must.zip(ratio).map(|(must, ratio)| ratio <= must),
        status: if times.is_some() { "ok" } else { "not available" },
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Something to run again and again, and how long it took a byte each time.
struct Subject {
    run: Box<dyn FnMut()>,
    bytes: usize,
    times: Vec<f64>,
}

impl Subject {
    /// `None` if this CPU cannot.
    fn new(plan: &Plan) -> anyhow::Result<Option<Self>> {
        let bytes = plan.frames * plan.bytes;
        if plan.kernel.is_some_and(|kernel| !kernel.available()) {
            return Ok(None);
        }
        let run: Box<dyn FnMut()> = match (plan.operation, plan.kernel) {
            (Operation::Encrypt, None) => {
                let (mut cipher, mut data) = (cfb8::Encryptor::<Aes128>::new(&key(0).into(), &key(0).into()), plain(0, bytes));
                Box::new(move || cipher.encrypt(&mut data))
            }
            (Operation::Decrypt, None) => {
                let (mut cipher, mut data) = (cfb8::Decryptor::<Aes128>::new(&key(0).into(), &key(0).into()), plain(0, bytes));
                Box::new(move || cipher.decrypt(&mut data))
            }
            (Operation::Encrypt, Some(kernel)) => {
                let mut streams = (0..plan.streams).map(|i| Stream::new(i, kernel, bytes)).collect::<anyhow::Result<Vec<_>>>()?;
                encrypt(&mut streams);
                for (i, stream) in streams.iter().enumerate() {
                    ensure!(stream.data == encrypted(i, bytes), "{kernel} does not encrypt as the cfb8 crate does");
                }
                Box::new(move || encrypt(&mut streams))
            }
            (Operation::Decrypt, Some(kernel)) => {
                let mut cipher = Decryptor::with_kernel(&Secret::new(key(0)), kernel).context("kernel not available")?;
                let mut data = encrypted(0, bytes);
                cipher.decrypt(&mut data);
                ensure!(data == plain(0, bytes), "{kernel} does not decrypt as the cfb8 crate does");
                Box::new(move || cipher.decrypt(&mut data))
            }
        };
        Ok(Some(Self { run, bytes: bytes * plan.streams, times: Vec::new() }))
    }

    fn sample(&mut self, sample: Duration) {
        (self.run)();
        let start = cpu_time();
        let mut runs = 0_u32;
        // Runs double between looks at the clock, which takes its time.
        let time = loop {
            for _ in 0..runs.max(1) {
                (self.run)();
            }
            runs += runs.max(1);
            let time = cpu_time() - start;
            if time >= sample {
                break time;
            }
        };
        self.times.push(time.as_nanos() as f64 / (f64::from(runs) * self.bytes as f64));
    }
}

/// What this thread has had of its CPU: what others take of it is none of the cipher's cost.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

struct Stream {
    cipher: Encryptor,
    data: Vec<u8>,
}

impl Stream {
    fn new(number: usize, kernel: Kernel, bytes: usize) -> anyhow::Result<Self> {
        let cipher = Encryptor::with_kernel(&Secret::new(key(number)), kernel).context("kernel not available")?;
        Ok(Self { cipher, data: plain(number, bytes) })
    }
}

impl Lane for Stream {
    fn parts(&mut self) -> (&mut Encryptor, &mut [u8]) {
        (&mut self.cipher, &mut self.data)
    }
}

fn encrypt(streams: &mut [Stream]) {
    match streams {
        [stream] => stream.cipher.encrypt(&mut stream.data),
        streams => encrypt_together(streams),
    }
}

fn key(stream: usize) -> [u8; 16] {
    std::array::from_fn(|i| (stream * 37 + i * 11) as u8)
}

fn plain(stream: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251 + stream) as u8).collect()
}

fn encrypted(stream: usize, bytes: usize) -> Vec<u8> {
    let mut data = plain(stream, bytes);
    cfb8::Encryptor::<Aes128>::new(&key(stream).into(), &key(stream).into()).encrypt(&mut data);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured_or_said_not_to_be_available() {
        let plans: Vec<_> = table().into_iter().chain(by_frame()).collect();
        let rows = measure(&plans, 1, Duration::from_micros(1)).unwrap();
        assert_eq!(rows.len(), plans.len());
        for (plan, row) in plans.iter().zip(rows) {
            let available = plan.kernel.is_none_or(Kernel::available);
            assert_eq!(row.ratio_to_cfb8.is_some_and(f64::is_finite), available, "{row:?}");
            assert_eq!(row.status == "ok", available, "{row:?}");
            assert_eq!(row.met.is_some(), available && plan.must.is_some(), "{row:?}");
        }
    }

    #[test]
    fn a_ratio_is_of_the_same_repeat() {
        let plan =
            Plan { operation: Operation::Encrypt, kernel: Some(Kernel::Portable), streams: 1, frames: 1, bytes: 100, must: Some(0.5) };
        // The machine is ten times slower in the second repeat: no ratio but 0.4.
        let row = row(&plan, Some(&[4.0, 40.0, 4.0]), &[10.0, 100.0, 10.0]);
        assert_eq!((row.ratio_to_cfb8, row.met, row.ns_per_frame), (Some(0.4), Some(true), Some(400.0)));
    }
}
