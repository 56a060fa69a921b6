//! What is printed: a line (or a JSON object) a phase, then the summary.

use std::fmt::Write as _;

use serde::Serialize;

use super::load::{Load, Measured, Pace};

/// Which way the frames of a phase went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// Player to backend.
    Direct,
    /// Through the node.
    Proxied,
    /// Through a node that encrypts each session alone (online mode).
    Alone,
    /// Through the bare relay.
    Floor,
}

impl Path {
    fn name(self) -> &'static str {
        match self {
            Path::Direct => "direct",
            Path::Proxied => "proxied",
            Path::Alone => "alone",
            Path::Floor => "floor",
        }
    }
}

/// A phase, as `--json` gives it.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// Which repeat, from 1.
    pub repeat: usize,
    /// Which way.
    pub path: Path,
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
    pub fn new(repeat: usize, path: Path, load: &Load, measured: &Measured, kernel: f64) -> Self {
        let (seconds, frames) = (measured.elapsed.as_secs_f64(), measured.frames as f64);
        let quantile = |q| measured.latency.value_at_quantile(q) as f64 / 1000.0;
        let usage = &measured.usage;
        let (window, ticks_per_second) = match load.pace {
            Pace::Window(window) => (Some(window), None),
            Pace::Ticks(a_second) => (None, Some(a_second)),
        };
        Phase {
            repeat,
            path,
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
            proxy_cpu_ns_per_frame: usage.proxy.map(|cpu| cpu.as_secs_f64() * 1e9 / frames),
            tcp_segments_per_frame: usage.segments as f64 / frames,
            proxy_cpus: usage.proxy.map(|cpu| cpu.as_secs_f64() / seconds),
            backend_cpus: usage.backend.map(|cpu| cpu.as_secs_f64() / seconds),
            client_cpus: usage.client.as_secs_f64() / seconds,
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
        let cpu = self.proxy_cpu_ns_per_frame.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.0}"));
        let share = |cpus: Option<f64>| cpus.map_or_else(|| "-".to_owned(), |cpus| format!("{cpus:.2}"));
        let cipher = self.cipher.as_ref().map_or_else(String::new, |cipher| {
            let batches = cipher.batches.map(|count| count.to_string()).join("/");
            format!("   {:.2} ns/B ({:.2}), {:.1} streams, {batches}", cipher.ns_per_byte, cipher.kernel_ns_per_byte, cipher.streams)
        });
        format!(
            "{:>6}  {:<7} {:>11.0} {:>9.1} {:>9.1} {:>9.1} {:>13} {:>10.4}   {:>5} {:>5} {:>5}{cipher}",
            self.repeat,
            self.path.name(),
            self.frames_per_second,
            self.p50_us,
            self.p95_us,
            self.p99_us,
            cpu,
            self.tcp_segments_per_frame,
            share(self.proxy_cpus),
            share(self.backend_cpus),
            share(Some(self.client_cpus)),
        )
    }
}

/// The heads of [`Phase::line`]'s columns.
pub const HEADER: &str =
    "repeat  path       frames/s    p50 µs    p95 µs    p99 µs  CPU ns/frame segs/frame   busy CPUs: proxy, backend, players";

/// What [`Phase::line`] says behind them of a node that encrypts.
pub const ENCRYPTION: &str = "; cipher (one stream's kernel), streams side by side, batches of 1/2/3-4/5-8/9-16/more";

/// One figure of a phase.
type Figure = fn(&Phase) -> Option<f64>;

/// Medians over the repeats, with the least and the most, and how the paths compare.
pub fn summary(phases: &[Phase]) -> String {
    const FIGURES: [(&str, Figure, usize); 9] = [
        ("frames/s", |phase| Some(phase.frames_per_second), 0),
        ("p50 µs", |phase| Some(phase.p50_us), 1),
        ("p95 µs", |phase| Some(phase.p95_us), 1),
        ("p99 µs", |phase| Some(phase.p99_us), 1),
        ("proxy CPU ns/frame", |phase| phase.proxy_cpu_ns_per_frame, 0),
        ("TCP segments/frame", |phase| Some(phase.tcp_segments_per_frame), 4),
        ("cipher ns/byte", cost, 3),
        ("kernel alone ns/byte", kernel, 3),
        ("streams side by side", |phase| Some(phase.cipher.as_ref()?.streams), 2),
    ];
    let of = |path, figure: Figure| spread(phases.iter().filter(|phase| phase.path == path).filter_map(figure).collect());
    let paths: Vec<Path> = [Path::Direct, Path::Proxied, Path::Alone, Path::Floor]
        .into_iter()
        .filter(|&path| phases.iter().any(|phase| phase.path == path))
        .collect();

    let mut out = format!("{:<22}", "median [min–max]");
    for path in &paths {
        let _ = write!(out, "{:<36}", path.name());
    }
    for (name, figure, decimals) in FIGURES {
        if !phases.iter().any(|phase| figure(phase).is_some()) {
            continue;
        }
        let _ = write!(out, "\n{name:<22}");
        for &path in &paths {
            let text = match of(path, figure) {
                Some([min, median, max]) => format!("{median:.decimals$} [{min:.decimals$}–{max:.decimals$}]"),
                None => "-".to_owned(),
            };
            let _ = write!(out, "{text:<36}");
        }
    }
    // Compared repeat by repeat: the two phases of one repeat ran side by side.
    let ratio = |one: Path, other: Path, figure: Figure| {
        let pairs = phases.iter().filter(|phase| phase.path == one).filter_map(|phase| {
            let beside = phases.iter().find(|beside| beside.path == other && beside.repeat == phase.repeat)?;
            Some(figure(phase)? / figure(beside)?)
        });
        spread(pairs.collect())
    };
    let ratios: [(&str, Path, Path, Figure); 9] = [
        ("proxied/direct, frames/s", Path::Proxied, Path::Direct, |phase| Some(phase.frames_per_second)),
        ("proxied/direct, segs/frame", Path::Proxied, Path::Direct, |phase| Some(phase.tcp_segments_per_frame)),
        ("floor/direct, frames/s", Path::Floor, Path::Direct, |phase| Some(phase.frames_per_second)),
        ("floor/direct, segs/frame", Path::Floor, Path::Direct, |phase| Some(phase.tcp_segments_per_frame)),
        ("proxied/floor, CPU/frame", Path::Proxied, Path::Floor, |phase| phase.proxy_cpu_ns_per_frame),
        ("proxied/alone, p50", Path::Proxied, Path::Alone, |phase| Some(phase.p50_us)),
        ("proxied/alone, p95", Path::Proxied, Path::Alone, |phase| Some(phase.p95_us)),
        ("proxied/alone, CPU/frame", Path::Proxied, Path::Alone, |phase| phase.proxy_cpu_ns_per_frame),
        ("proxied/alone, cipher", Path::Proxied, Path::Alone, cost),
    ];
    for (index, (name, one, other, figure)) in ratios.into_iter().enumerate() {
        if let Some([min, median, max]) = ratio(one, other, figure) {
            let gap = if index == 0 { "\n" } else { "" };
            let _ = write!(out, "{gap}\n{name:<30}{median:.3} [{min:.3}–{max:.3}]");
        }
    }
    for path in paths {
        let share = |phase: &Phase| Some(cost(phase)? / kernel(phase)?);
        if let Some([min, median, max]) = of(path, share) {
            let name = format!("{}, cipher/kernel alone", path.name());
            let _ = write!(out, "\n{name:<30}{median:.3} [{min:.3}–{max:.3}]");
        }
    }
    out
}

fn cost(phase: &Phase) -> Option<f64> {
    Some(phase.cipher.as_ref()?.ns_per_byte)
}

fn kernel(phase: &Phase) -> Option<f64> {
    Some(phase.cipher.as_ref()?.kernel_ns_per_byte)
}

/// The least, the median and the most; `None` of nothing.
fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
    Some([min, median, max])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;

    use super::*;
    use crate::bench::cipher::Cipher;
    use crate::bench::measure::Usage;

    fn phase(repeat: usize, path: Path, frames: u64) -> Phase {
        let mut latency = Histogram::new(3).unwrap();
        latency.record_n(50_000, frames).unwrap();
        let proxy = (path != Path::Direct).then_some(Duration::from_millis(500));
        let usage = Usage { proxy, backend: None, client: Duration::from_secs(1), segments: frames / 10 };
        let cipher = match path {
            Path::Proxied => Some(Cipher { bytes: 1000.0, nanos: 2000.0, streams: 64.0, batches: [0.0, 0.0, 0.0, 0.0, 0.0, 4.0] }),
            Path::Alone => Some(Cipher { bytes: 1000.0, nanos: 10_000.0, streams: 64.0, batches: [64.0, 0.0, 0.0, 0.0, 0.0, 0.0] }),
            Path::Direct | Path::Floor => None,
        };
        let measured = Measured { elapsed: Duration::from_secs(2), frames, latency, usage, cipher, checked: frames };
        let (warmup, duration) = (Duration::ZERO, Duration::from_secs(2));
        let load = Load { connections: 4, payload: 32, burst: 32, pace: Pace::Window(4), warmup, duration };
        Phase::new(repeat, path, &load, &measured, 8.0)
    }

    #[test]
    fn a_phase_is_put_into_its_units() {
        let phase = phase(1, Path::Proxied, 1_000_000);
        assert_eq!(phase.frames_per_second, 500_000.0);
        assert_eq!(phase.proxy_cpu_ns_per_frame, Some(500.0));
        assert_eq!(phase.tcp_segments_per_frame, 0.1);
        assert!((phase.p50_us - 50.0).abs() < 0.1, "{}", phase.p50_us);
        assert_eq!(serde_json::to_value(&phase).unwrap()["path"], "proxied");
    }

    #[test]
    fn the_summary_compares_the_phases_of_a_repeat() {
        let phases = [
            phase(1, Path::Direct, 1000),
            phase(1, Path::Proxied, 500),
            phase(2, Path::Proxied, 600),
            phase(2, Path::Direct, 1000),
            phase(3, Path::Direct, 2000),
            phase(3, Path::Proxied, 1800),
        ];
        let summary = summary(&phases);
        assert!(summary.contains("proxied/direct, frames/s      0.600 [0.500–0.900]"), "{summary}");
        assert!(!summary.contains("floor"), "{summary}");
    }

    #[test]
    fn the_summary_compares_encrypting_together_with_alone() {
        let summary = summary(&[phase(1, Path::Proxied, 500), phase(1, Path::Alone, 500)]);
        assert!(summary.contains("proxied/alone, cipher         0.200 [0.200–0.200]"), "{summary}");
        assert!(summary.contains("proxied, cipher/kernel alone  0.250 [0.250–0.250]"), "{summary}");
        assert!(summary.contains("streams side by side  16.00 [16.00–16.00]"), "{summary}");
    }

    #[test]
    fn a_median_of_two_lies_between() {
        assert_eq!(spread(vec![3.0, 1.0]), Some([1.0, 2.0, 3.0]));
        assert_eq!(spread(vec![]), None);
    }
}
