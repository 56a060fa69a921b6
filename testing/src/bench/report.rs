//! What is printed: a line (or a JSON object) a phase, then the summary.

mod summary;

use serde::Serialize;

use super::load::{Load, Measured, Pace};
use super::measure::tree::Spent;
use super::path::Path;
use super::probe::Probe;

pub use self::summary::summary;
pub(super) use self::summary::{row, spread, told};

/// A phase, as `--json` gives it.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// Which repeat, from 1.
    pub repeat: usize,
    /// Which way.
    pub path: Path,
    /// What the phase was disturbed for, if it was: its other figures are not in the summary.
    pub probe: Option<Probe>,
    /// Of the load.
    pub connections: usize,
    /// Bytes.
    pub payload: usize,
    /// Bursts under way, a connection; null if the backend sends.
    pub window: Option<usize>,
    /// Bursts a second that the backend sends to every player; null if they do.
    pub ticks_per_second: Option<u32>,
    /// Frames.
    pub burst: usize,
    /// How long it was counted.
    pub seconds: f64,
    /// Frames that came in that time; an echo counts once.
    pub frames: u64,
    /// Frames compared with what was sent, warm-up and end included: all of them.
    pub checked: u64,
    /// A second.
    pub frames_per_second: f64,
    /// Microseconds from a frame's write to the read that brought it, or its echo.
    pub p50_us: f64,
    /// As `p50_us`.
    pub p95_us: f64,
    /// As `p50_us`.
    pub p99_us: f64,
    /// Nanoseconds of the proxy (its process alone; user and system) a frame; null where there is none.
    pub proxy_cpu_ns_per_frame: Option<f64>,
    /// Those of them in user mode; null unless the phase was to find that out.
    pub proxy_user_ns_per_frame: Option<f64>,
    /// Times that the proxy allocated memory, a frame; null unless the phase was to find that out.
    pub proxy_allocations_per_frame: Option<f64>,
    /// Context switches of the proxy's threads, a frame, because they had to wait.
    pub proxy_waits_per_frame: Option<f64>,
    /// Context switches of the proxy's threads, a frame, because others were to run.
    pub proxy_preemptions_per_frame: Option<f64>,
    /// Resident memory of the proxy at the end, in KiB.
    pub proxy_resident_kib: Option<u64>,
    /// TCP segments sent by the whole machine, acknowledgements included, a frame.
    pub tcp_segments_per_frame: f64,
    /// CPUs kept busy by the proxy.
    pub proxy_cpus: Option<f64>,
    /// CPUs kept busy by the backend.
    pub backend_cpus: Option<f64>,
    /// CPUs kept busy by the players.
    pub client_cpus: f64,
    /// What the node's encryption came to; null where it does not encrypt.
    pub cipher: Option<Encryption>,
}

/// What a node's encryption came to, by its own counters.
#[derive(Debug, Clone, Serialize)]
pub struct Encryption {
    /// Nanoseconds a byte encrypted for players.
    pub ns_per_byte: f64,
    /// The same of this machine's kernel for one stream, alone, measured just before; pieces as long as a burst.
    pub kernel_ns_per_byte: f64,
    /// Streams encrypted side by side, on average.
    pub streams: f64,
    /// How often so many were: 1, 2, 3–4, 5–8, 9–16, more.
    pub batches: [u64; 6],
    /// Bytes encrypted.
    pub bytes: u64,
}

impl Phase {
    /// Puts what was measured into the units that are printed. `kernel` is [`cipher::alone`](super::cipher::alone).
    pub fn new(repeat: usize, path: Path, probe: Option<Probe>, load: &Load, measured: &Measured, kernel: f64) -> Self {
        let (seconds, frames) = (measured.elapsed.as_secs_f64(), measured.frames as f64);
        let quantile = |q| measured.latency.value_at_quantile(q) as f64 / 1000.0;
        let usage = &measured.usage;
        let cpu = usage.proxy.map(|proxy| proxy.cpu.as_secs_f64() * 1e9 / frames);
        let busy = |spent: Spent| spent.cpu.as_secs_f64() / seconds;
        let (window, ticks_per_second) = match load.pace {
            Pace::Window(window) => (Some(window), None),
            Pace::Ticks(a_second) => (None, Some(a_second)),
            Pace::Trace(_) => (None, None),
        };
        Phase {
            repeat,
            path,
            probe,
            connections: load.connections,
            payload: load.payload,
            window,
            ticks_per_second,
            burst: load.burst,
            seconds,
            frames: measured.frames,
            checked: measured.checked,
            frames_per_second: frames / seconds,
            p50_us: quantile(0.5),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            proxy_cpu_ns_per_frame: cpu,
            proxy_user_ns_per_frame: cpu.zip(measured.user_share).map(|(cpu, share)| cpu * share),
            proxy_allocations_per_frame: usage.allocations.map(|allocations| allocations as f64 / frames),
            proxy_waits_per_frame: usage.proxy.map(|proxy| proxy.waits as f64 / frames),
            proxy_preemptions_per_frame: usage.proxy.map(|proxy| proxy.preemptions as f64 / frames),
            proxy_resident_kib: usage.proxy.map(|proxy| proxy.resident),
            tcp_segments_per_frame: usage.segments as f64 / frames,
            proxy_cpus: usage.proxy.map(busy),
            backend_cpus: usage.backend.map(busy),
            client_cpus: busy(usage.client),
            cipher: measured.cipher.map(|cipher| Encryption {
                ns_per_byte: cipher.cost(),
                kernel_ns_per_byte: kernel,
                streams: cipher.lanes(),
                batches: cipher.batches.map(|count| count as u64),
                bytes: cipher.bytes as u64,
            }),
        }
    }

    /// The phase in a line, under [`HEADER`].
    pub fn line(&self) -> String {
        let or_dash = |figure: Option<f64>, decimals: usize| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"));
        let switches = self.proxy_waits_per_frame.zip(self.proxy_preemptions_per_frame).map(|(waits, preemptions)| waits + preemptions);
        let found = match self.probe {
            None => String::new(),
            Some(Probe::UserPart) => format!("   {} ns/frame in user mode", or_dash(self.proxy_user_ns_per_frame, 1)),
            Some(Probe::Allocations) => format!("   {} allocations/frame", or_dash(self.proxy_allocations_per_frame, 4)),
        };
        let cipher = self.cipher.as_ref().map_or_else(String::new, |cipher| {
            let batches = cipher.batches.map(|count| count.to_string()).join("/");
            format!("   {:.2} ns/B ({:.2}), {:.1} streams, {batches}", cipher.ns_per_byte, cipher.kernel_ns_per_byte, cipher.streams)
        });
        format!(
            "{:>6}  {:<8} {:>11.0} {:>9.1} {:>9.1} {:>9.1} {:>12} {:>10.4} {:>14}   {:>5} {:>5} {:>5}{found}{cipher}",
            self.repeat,
            self.path,
            self.frames_per_second,
            self.p50_us,
            self.p95_us,
            self.p99_us,
            or_dash(self.proxy_cpu_ns_per_frame, 1),
            self.tcp_segments_per_frame,
            or_dash(switches, 4),
            or_dash(self.proxy_cpus, 2),
            or_dash(self.backend_cpus, 2),
            or_dash(Some(self.client_cpus), 2),
        )
    }
}

/// The heads of [`Phase::line`]'s columns.
pub const HEADER: &str = "repeat  path        frames/s    p50 µs    p95 µs    p99 µs CPU ns/frame segs/frame switches/frame   \
                          busy CPUs: proxy, backend, players";

/// What [`Phase::line`] says behind them of a node that encrypts.
pub const ENCRYPTION: &str = "; cipher (one stream's kernel), streams side by side, batches of 1/2/3-4/5-8/9-16/more";

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;

    use super::*;
    use crate::bench::cipher::Cipher;
    use crate::bench::measure::Usage;

    /// A phase of two seconds in which the proxy took half a second.
    pub(crate) fn phase(repeat: usize, path: Path, probe: Option<Probe>, frames: u64) -> Phase {
        let mut latency = Histogram::new(3).unwrap();
        latency.record_n(50_000, frames).unwrap();
        let spent = Spent { cpu: Duration::from_millis(500), waits: frames / 100, preemptions: frames / 200, resident: 9000 };
        let proxy = (path != Path::Direct).then_some(spent);
        let allocations = (probe == Some(Probe::Allocations)).then_some(frames / 1000);
        let client = Spent { cpu: Duration::from_secs(1), ..Spent::default() };
        let usage = Usage { proxy, backend: None, client, segments: frames / 10, allocations };
        let cipher = match path {
            Path::Proxied => Some(Cipher { bytes: 1000.0, nanos: 2000.0, streams: 64.0, batches: [0.0, 0.0, 0.0, 0.0, 0.0, 4.0] }),
            Path::Alone => Some(Cipher { bytes: 1000.0, nanos: 10_000.0, streams: 64.0, batches: [64.0, 0.0, 0.0, 0.0, 0.0, 0.0] }),
            _ => None,
        };
        let user_share = (probe == Some(Probe::UserPart)).then_some(0.1);
        let measured = Measured { elapsed: Duration::from_secs(2), frames, latency, usage, user_share, cipher, checked: frames };
        let (warmup, duration) = (Duration::ZERO, Duration::from_secs(2));
        let load = Load { connections: 4, payload: 32, burst: 32, pace: Pace::Window(4), warmup, duration };
        Phase::new(repeat, path, probe, &load, &measured, 8.0)
    }

    #[test]
    fn a_phase_is_put_into_its_units() {
        let one = phase(1, Path::Proxied, None, 1_000_000);
        assert_eq!(one.frames_per_second, 500_000.0);
        assert_eq!(one.proxy_cpu_ns_per_frame, Some(500.0));
        assert_eq!(one.tcp_segments_per_frame, 0.1);
        assert_eq!((one.proxy_waits_per_frame, one.proxy_preemptions_per_frame), (Some(0.01), Some(0.005)));
        assert!((one.p50_us - 50.0).abs() < 0.1, "{}", one.p50_us);
        let json = serde_json::to_value(&one).unwrap();
        assert_eq!((&json["path"], &json["probe"]), (&"proxied".into(), &serde_json::Value::Null));

        let user = phase(1, Path::Proxied, Some(Probe::UserPart), 1_000_000);
        assert_eq!((user.proxy_user_ns_per_frame, user.proxy_allocations_per_frame), (Some(50.0), None));
        let allocations = phase(1, Path::Proxied, Some(Probe::Allocations), 1_000_000);
        assert_eq!((allocations.proxy_user_ns_per_frame, allocations.proxy_allocations_per_frame), (None, Some(0.001)));
        assert_eq!(serde_json::to_value(&allocations).unwrap()["probe"], "allocations");
    }
}
