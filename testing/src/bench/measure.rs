//! What Linux counts: CPU time of processes, TCP segments sent.

use std::time::Duration;

use anyhow::Context as _;

use crate::collector::Collector;

/// One tick of /proc/PID/stat: the kernel's USER_HZ is 100 on every architecture that a node runs on (proc(5)).
const TICK: Duration = Duration::from_millis(10);

/// Which processes are looked at; the default looks at none but this one.
#[derive(Clone, Copy, Default)]
pub struct Gauges<'a> {
    /// The proxy between player and backend, if there is one.
    pub proxy: Option<u32>,
    /// The backend, if it is a process of its own.
    pub backend: Option<u32>,
    /// Where the proxy's metrics go, if they are of interest.
    pub metrics: Option<&'a Collector>,
}

/// What has been used so far, or between two readings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// CPU time of the proxy, user and system.
    pub proxy: Option<Duration>,
    /// CPU time of the backend.
    pub backend: Option<Duration>,
    /// CPU time of this process.
    pub client: Duration,
    /// TCP segments sent by this machine (its network namespace), whoever sent them.
    pub segments: u64,
}

impl Gauges<'_> {
    /// What has been used so far.
    pub fn read(&self) -> anyhow::Result<Usage> {
        Ok(Usage {
            proxy: self.proxy.map(cpu).transpose()?,
            backend: self.backend.map(cpu).transpose()?,
            client: cpu(std::process::id())?,
            segments: segments()?,
        })
    }
}

impl Usage {
    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            proxy: self.proxy.zip(earlier.proxy).map(|(now, then)| now.saturating_sub(then)),
            backend: self.backend.zip(earlier.backend).map(|(now, then)| now.saturating_sub(then)),
            client: self.client.saturating_sub(earlier.client),
            segments: self.segments.saturating_sub(earlier.segments),
        }
    }
}

/// User and system time of a process, all its threads, those that ended too.
fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    // The name, in brackets, may hold anything; the state after it is field 3, utime and stime are 14 and 15.
    let fields = stat.rsplit_once(')').with_context(|| format!("{path} without a name"))?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>();
    Ok(TICK * ticks.with_context(|| format!("{path} without times"))?)
}

/// `OutSegs` of /proc/net/snmp.
fn segments() -> anyhow::Result<u64> {
    let snmp = std::fs::read_to_string("/proc/net/snmp").context("reading /proc/net/snmp")?;
    let mut tcp = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = tcp.next().zip(tcp.next()).context("no Tcp lines in /proc/net/snmp")?;
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = columns.find(|(name, _)| *name == "OutSegs").context("no OutSegs in /proc/net/snmp")?;
    Ok(value.parse()?)
}

/// The machine, in a line.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).map_or("?", |rest| rest.trim_start_matches(['\t', ' ', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (kernel, congestion) = (read("/proc/sys/kernel/osrelease"), read("/proc/sys/net/ipv4/tcp_congestion_control"));
    format!("{cores} x {model}, Linux {}, tcp {}", kernel.trim(), congestion.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_read() {
        let gauges = Gauges { proxy: Some(std::process::id()), ..Gauges::default() };
        let before = gauges.read().unwrap();
        let mut work = 1u64;
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            work = std::hint::black_box(work.wrapping_mul(3));
        }
        let used = gauges.read().unwrap().since(&before);
        assert!(used.client > Duration::ZERO && used.proxy.unwrap() > Duration::ZERO, "{used:?}");
    }
}
