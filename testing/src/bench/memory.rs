//! What sessions cost a node in memory: players who log in, have one frame echoed, and stay ([`grow`]); players who read nothing while
//! their backends flood them ([`flood`]).
//!
//! What counts is the growth of the node's process, by what the kernel says is resident of it: sockets' buffers are not in it.

pub mod backend;
mod crowd;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;
use tokio::time::sleep;

use self::crowd::Crowd;
use super::measure::Gauges;
use super::solo::Solo;
use crate::session_server::SessionServer;

/// Players that come and go before anything is counted: by then every worker has its buffers, and every page of code has been used.
const WARM: usize = 64;

/// How long what is resident has to stand still until it counts as the most.
const STILL: Duration = Duration::from_secs(3);

/// A flood that has not come to an end by then never will; players who take nothing are closed soon after.
const FLOOD: Duration = Duration::from_secs(20);

/// Descriptors of the node that are no player's.
const OWN_DESCRIPTORS: usize = 200;

/// Who plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Clients without mods, in offline mode.
    Vanilla,
    /// Clients with Forge and its handshake, in online mode: encrypted, with a signed skin.
    Forge,
}

/// What is resident of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// All of it.
    pub rss: u64,
    /// What is no file's: heap and stacks.
    pub anon: u64,
    /// The most that `rss` has ever been.
    pub peak: u64,
}

/// What so many sessions cost at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Who plays.
    pub kind: Kind,
    /// How many.
    pub sessions: usize,
    /// Worker threads of the node; 0: one a core.
    pub workers: usize,
    /// `login`: all are there; `echo`: each has had a frame of 1 KiB echoed; `idle`: and then done nothing for a while.
    pub moment: &'static str,
    /// Bytes resident, all of the process.
    pub rss: u64,
    /// Bytes resident that are no file's.
    pub anon: u64,
    /// What `rss` has grown by since there were none, a session.
    pub bytes_per_session: f64,
    /// The same of `anon`.
    pub anon_per_session: f64,
    /// CPU time of the node a session and second, in microseconds; of `idle` only. Its players answer a keep-alive every 2 s.
    pub idle_cpu_us: Option<f64>,
}

/// What a flood came to.
#[derive(Debug, Clone, Serialize)]
pub struct Flooded {
    /// Players who read nothing.
    pub players: usize,
    /// The node's `limits.node_buffers`, in bytes.
    pub node_buffers: u64,
    /// Bytes resident with the same players before the flood.
    pub before: u64,
    /// The most that was resident.
    pub peak: u64,
    /// What that is more than before.
    pub growth: u64,
    /// The mark, and one short read for each player: the most that may wait.
    pub bound: u64,
}

/// Grows to each of these numbers of sessions in turn, on one node, and tells what they cost then.
///
/// # Errors
/// If any player does not get in, or loses its session.
pub async fn grow(
    kind: Kind,
    backend: SocketAddr,
    workers: usize,
    steps: &[usize],
    idle: Duration,
    mut tell: impl FnMut(Row),
) -> anyhow::Result<()> {
    let server = match kind {
        Kind::Vanilla => None,
        Kind::Forge => Some(SessionServer::start().await),
    };
    let authentication =
        server.as_ref().map(|server| format!("authentication = \"online\"\nsession_server = {{ url = {:?} }}\n", server.url()));
    let net = Solo::start(backend, &format!("workers = {workers}\n{}", authentication.unwrap_or_default())).await;
    let mut crowd = Crowd::new(net.node.listen, kind, server);
    crowd.grow_to(WARM).await?;
    crowd.echo().await?;
    crowd.leave().await;
    net.emptied().await;
    let pid = net.node.process.pid();
    let base = resident(pid)?;
    for &sessions in steps {
        crowd.grow_to(sessions).await?;
        let row = |moment, idle_cpu_us| {
            let now = resident(pid)?;
            let of_one = |now: u64, base: u64| (now as f64 - base as f64) / sessions as f64;
            anyhow::Ok(Row {
                kind,
                sessions,
                workers,
                moment,
                rss: now.rss,
                anon: now.anon,
                bytes_per_session: of_one(now.rss, base.rss),
                anon_per_session: of_one(now.anon, base.anon),
                idle_cpu_us,
            })
        };
        tell(row("login", None)?);
        crowd.echo().await?;
        tell(row("echo", None)?);
        let gauges = Gauges { proxy: Some(pid), ..Gauges::default() };
        let before = gauges.read()?;
        sleep(idle).await;
        let used = gauges.read()?.since(&before).proxy.unwrap_or_default().cpu;
        tell(row("idle", Some(used.as_secs_f64() * 1e6 / sessions as f64 / idle.as_secs_f64()))?);
        crowd.check()?;
    }
    Ok(())
}

/// Lets players come who soon read nothing any more, while their backends write as much as they can.
///
/// # Errors
/// If any player does not get in.
pub async fn flood(backend: SocketAddr, workers: usize, players: usize, node_buffers: u64) -> anyhow::Result<Flooded> {
    let net = Solo::start(backend, &format!("workers = {workers}\n[limits]\nnode_buffers = \"{} MiB\"\n", node_buffers >> 20)).await;
    let pid = net.node.process.pid();
    let mut deaf = crowd::deaf(net.node.listen, players).await?;
    let before = resident(pid)?.rss;
    deaf.begin().await?;
    let began = Instant::now();
    let mut last = (before, began);
    while last.1.elapsed() < STILL {
        ensure!(began.elapsed() < FLOOD, "the node still grows after {FLOOD:?}: {} MiB", last.0 >> 20);
        let now = resident(pid)?.rss;
        // Pages come and go; a flood that goes on moves more than one of them.
        if now.abs_diff(last.0) > 1 << 20 {
            last = (now, Instant::now());
        }
        sleep(Duration::from_millis(20)).await;
    }
    let peak = resident(pid)?.peak;
    let bound = node_buffers + players as u64 * backend::SHORT_READ;
    Ok(Flooded { players, node_buffers, before, peak, growth: peak.saturating_sub(before), bound })
}

/// The most sessions that a node can have here, each with two descriptors. Raises this process's own limit, which the node inherits;
/// the node raises its own as far as it may, too.
///
/// # Errors
/// If the limit can be read, but not raised.
pub fn most_sessions() -> anyhow::Result<usize> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("raising the limit of open files")?;
    let most = limit.maximum.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    Ok(most.saturating_sub(OWN_DESCRIPTORS) / 2)
}

/// What is resident of a process now.
///
/// # Errors
/// If it has ended.
pub fn resident(pid: u32) -> anyhow::Result<Resident> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name} in {path}"))?;
        anyhow::Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    };
    Ok(Resident { rss: bytes("VmRSS:")?, anon: bytes("RssAnon:")?, peak: bytes("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_of_this_process_can_be_read() {
        let before = resident(std::process::id()).unwrap();
        assert!(before.rss >= before.anon && before.anon > 0, "{before:?}");
        let filled = std::hint::black_box(vec![1u8; 32 << 20]);
        let after = resident(std::process::id()).unwrap();
        assert!(after.anon >= before.anon + (16 << 20), "{before:?}, {after:?} with {} bytes more", filled.len());
    }
}
