//! What encrypting costs: from the node's own counters, and from the kernel alone.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use moonbridge_crypto::cfb8::{Encryptor, Secret};
use moonbridge_proto::telemetry::names;
use tokio::time::{sleep, timeout};

use super::processes::METRICS;
use crate::collector::{Collector, Point};

/// Numbers of streams side by side, as a node tells them apart.
pub const STREAMS: [&str; 6] = ["1", "2", "3-4", "5-8", "9-16", "17+"];

/// How long the kernel alone is measured.
const ALONE: Duration = Duration::from_millis(100);

/// A node's counters, or what they went up by.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cipher {
    /// Bytes encrypted for players.
    pub bytes: f64,
    /// Nanoseconds that it took.
    pub nanos: f64,
    /// Streams that were encrypted, all batches together.
    pub streams: f64,
    /// Batches by [`STREAMS`].
    pub batches: [f64; 6],
}

impl Cipher {
    /// What the node's counters say at a moment that is still to come.
    pub async fn read(collector: &Collector) -> anyhow::Result<Cipher> {
        let now = SystemTime::now();
        let fresh = async {
            loop {
                // A node reads all of them at about the same time, and they come together.
                let points: Vec<Point> = collector.points().into_iter().filter(|point| point.at >= now).collect();
                if points.iter().any(|point| point.name == names::CIPHER_BATCHES) {
                    return points;
                }
                sleep(METRICS / 20).await;
            }
        };
        let Ok(points) = timeout(METRICS * 20, fresh).await else { bail!("the node's metrics do not come") };
        let one =
            |name: &str| points.iter().find(|point| point.name == name).map(|point| point.value).with_context(|| format!("no {name}"));
        let mut batches = [0.0; STREAMS.len()];
        for (count, label) in batches.iter_mut().zip(STREAMS) {
            let of_label = |point: &&Point| point.attributes.get(names::STREAMS).is_some_and(|streams| streams == label);
            *count = points.iter().filter(|point| point.name == names::CIPHER_BATCHES).find(of_label).map_or(0.0, |point| point.value);
        }
        Ok(Cipher { bytes: one(names::CIPHER_BYTES)?, nanos: one(names::CIPHER_TIME)?, streams: one(names::CIPHER_STREAMS)?, batches })
    }

    /// What they went up by since `earlier`.
    pub fn since(&self, earlier: &Cipher) -> Cipher {
        let mut batches = self.batches;
        for (count, before) in batches.iter_mut().zip(earlier.batches) {
            *count -= before;
        }
        Cipher { bytes: self.bytes - earlier.bytes, nanos: self.nanos - earlier.nanos, streams: self.streams - earlier.streams, batches }
    }

    /// Nanoseconds a byte.
    pub fn cost(&self) -> f64 {
        self.nanos / self.bytes
    }

    /// Streams side by side, on average.
    pub fn lanes(&self) -> f64 {
        self.streams / self.batches.iter().sum::<f64>()
    }
}

/// Nanoseconds a byte of this machine's best kernel for one stream, given pieces of `piece` bytes; the median of many tries.
pub fn alone(piece: usize) -> f64 {
    let mut encryptor = Encryptor::new(&Secret::new([7; 16]));
    let mut bytes = vec![0; piece];
    let pieces = (32 * 1024 / piece).max(1);
    let mut tries = Vec::new();
    let began = Instant::now();
    while tries.is_empty() || began.elapsed() < ALONE {
        let began = Instant::now();
        for _ in 0..pieces {
            encryptor.encrypt(black_box(&mut bytes));
        }
        tries.push(began.elapsed().as_nanos() as f64 / (pieces * piece) as f64);
    }
    tries.sort_by(f64::total_cmp);
    tries[tries.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_figures() {
        let before = Cipher { bytes: 1000.0, nanos: 5000.0, streams: 10.0, batches: [10.0, 0.0, 0.0, 0.0, 0.0, 0.0] };
        let after = Cipher { bytes: 3000.0, nanos: 9000.0, streams: 50.0, batches: [12.0, 0.0, 0.0, 0.0, 0.0, 2.0] };
        let spent = after.since(&before);
        assert_eq!((spent.cost(), spent.lanes()), (2.0, 10.0));
        assert_eq!(spent.batches, [2.0, 0.0, 0.0, 0.0, 0.0, 2.0]);
    }

    #[test]
    fn the_kernel_alone_takes_time() {
        let cost = alone(1088);
        assert!(cost > 0.1 && cost < 10_000.0, "{cost} ns a byte");
    }
}
