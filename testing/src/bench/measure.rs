//! What Linux counts: CPU time and context switches of processes, TCP segments sent.

pub mod tree;

use std::fs;

use anyhow::Context as _;

use self::tree::{Spent, Tree};
use super::probe::allocations::Allocations;
use super::probe::perf::Perf;
use crate::collector::Collector;

/// Which processes are looked at; the default looks at none but this one.
#[derive(Clone, Copy, Default)]
pub struct Gauges<'a> {
    /// The proxy between player and backend, if there is one.
    pub proxy: Option<u32>,
    /// The backend, if it is a process of its own.
    pub backend: Option<u32>,
    /// Where the proxy's metrics go, if they are of interest.
    pub metrics: Option<&'a Collector>,
    /// What samples the proxy, if anything is to.
    pub perf: Option<&'a Perf>,
    /// What counts the proxy's allocations, if anything does.
    pub allocations: Option<&'a Allocations>,
}

/// What has been used so far.
pub struct Reading {
    proxy: Option<Tree>,
    backend: Option<Tree>,
    client: Tree,
    segments: u64,
    allocations: Option<u64>,
}

/// What was used between two readings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// By the proxy.
    pub proxy: Option<Spent>,
    /// By the backend.
    pub backend: Option<Spent>,
    /// By this process.
    pub client: Spent,
    /// TCP segments sent by this machine (its network namespace), whoever sent them.
    pub segments: u64,
    /// Times that the proxy allocated memory.
    pub allocations: Option<u64>,
}

impl Gauges<'_> {
    /// What has been used so far.
    pub fn read(&self) -> anyhow::Result<Reading> {
        Ok(Reading {
            proxy: self.proxy.map(Tree::read).transpose()?,
            backend: self.backend.map(Tree::read).transpose()?,
            client: Tree::of_one(std::process::id())?,
            segments: segments()?,
            allocations: self.allocations.map(Allocations::read).transpose()?,
        })
    }
}

impl Reading {
    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Reading) -> Usage {
        let between = |now: &Option<Tree>, then: &Option<Tree>| Some(now.as_ref()?.since(then.as_ref()?));
        Usage {
            proxy: between(&self.proxy, &earlier.proxy),
            backend: between(&self.backend, &earlier.backend),
            client: self.client.since(&earlier.client),
            segments: self.segments.saturating_sub(earlier.segments),
            allocations: self.allocations.zip(earlier.allocations).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// `OutSegs` of /proc/net/snmp.
fn segments() -> anyhow::Result<u64> {
    let snmp = fs::read_to_string("/proc/net/snmp").context("reading /proc/net/snmp")?;
    let mut tcp = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = tcp.next().zip(tcp.next()).context("no Tcp lines in /proc/net/snmp")?;
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = columns.find(|(name, _)| *name == "OutSegs").context("no OutSegs in /proc/net/snmp")?;
    Ok(value.parse()?)
}

/// The machine, in a line.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).map_or("?", |rest| rest.trim_start_matches(['\t', ' ', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (kernel, congestion) = (read("/proc/sys/kernel/osrelease"), read("/proc/sys/net/ipv4/tcp_congestion_control"));
    format!("{cores} x {model}, Linux {}, tcp {}", kernel.trim(), congestion.trim())
}
