//! What the session benchmark is asked to do.

use std::path::{Path as File, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::load::{Load, Pace};
use super::path::Path;
use super::peers;
use super::trace::{Direction, Trace};

/// The most bytes of frames that may be under way at a time.
const UNDER_WAY: usize = 1 << 30;

/// The options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// What is sent: the options from --connections to --ticks, each of which may still be given.
    #[arg(long, value_enum, default_value_t = Workload::Burst32)]
    pub workload: Workload,
    /// How the players come in.
    #[arg(long, value_enum, default_value_t = Mode::Initial)]
    pub mode: Mode,
    /// Players.
    #[arg(long, value_parser = range(1, 16_384))]
    connections: Option<usize>,
    /// Bytes of a frame's payload, 8 of them its sequence number, and in ticks 8 its time.
    #[arg(long, value_parser = range(8, 2_000_000))]
    payload: Option<usize>,
    /// Bursts that each player has under way.
    #[arg(long, value_parser = range(1, 4096))]
    window: Option<usize>,
    /// Frames in a burst, or in a tick: what is sent with one write.
    #[arg(long, value_parser = range(1, 4096))]
    burst: Option<usize>,
    /// Ticks in a second that the backend sends to every player, in place of echoes.
    #[arg(long, value_parser = range(1, 1000), conflicts_with = "window")]
    ticks: Option<usize>,
    /// Sends what a node has recorded (`moonbridge session record`) again, frames of the same sizes at the same times, for each player.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "payload", "window", "burst", "ticks"])]
    pub trace: Option<PathBuf>,
    /// How long players are away, there and back: a relay delays all that goes between them and the proxy (or, directly, the backend),
    /// such as 40ms.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub rtt: Option<Duration>,
    /// Seconds that a phase counts.
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds before it counts.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    warmup: f64,
    /// How often the phases are run.
    #[arg(long, default_value_t = 7, value_parser = range(1, 100))]
    pub repeats: usize,
    /// Which ways the frames go in turn: direct (to the backend), proxied (through the node), unbatched (through a node with
    /// batch_scheduling = false), alone (through a node that encrypts each session alone; online), raw (through a relay that only copies
    /// bytes), framed and bridged (through the node's relay without a session, that looks into no frame, or rewrites keep-alives), nginx,
    /// haproxy, or the name of a --peer [default: direct,proxied and every --peer; online: proxied,alone; idle: without direct].
    #[arg(long, value_delimiter = ',')]
    paths: Vec<String>,
    /// Another proxy, and what starts it: run by sh in the foreground, with LISTEN and BACKEND (host:port) in its environment
    /// [default for a NAME in --paths: the environment's MOONBRIDGE_PEER_NAME].
    #[arg(long = "peer", value_name = "NAME=COMMAND", value_parser = peer)]
    peers: Vec<(String, String)>,
    /// Which CPUs the processes may use.
    #[arg(long, value_enum, default_value_t = Layout::Free)]
    pub layout: Layout,
    /// Worker threads of the node [default: its own default, one a core; fanout, idle, --trace: 1].
    #[arg(long, value_parser = range(0, 256))]
    workers: Option<usize>,
    /// The moonbridge binary [default: the one beside this, built if need be].
    #[arg(long, value_name = "FILE")]
    pub moonbridge: Option<PathBuf>,
    /// Tells which part of the proxies' CPU time is in user mode, from phases of their own that perf disturbs (package linux-perf).
    #[arg(long)]
    pub user_part: bool,
    /// Tells how often the proxies allocate memory, from phases of their own, in processes that load a library which counts
    /// (built with cc; glibc).
    #[arg(long)]
    pub allocations: bool,
    /// Prints one JSON object a phase to standard output, the rest to standard error.
    #[arg(long)]
    pub json: bool,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Echoes: 4 players, window 4, bursts of 32 frames of 32 bytes.
    Burst32,
    /// Echoes: 4 players, window 1, single frames of 1 KiB.
    W1,
    /// Echoes: 4 players, window 16, single frames of 1 KiB.
    W16,
    /// A server's ticks: 500 players on one worker, each given 32 frames of 32 bytes 20 times a second.
    Fanout,
    /// Nothing: 1,000 players who only stay; what a session costs each proxy. Backends ask every 2 s whether they are there.
    Idle,
}

/// How the players come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Offline, from their first login.
    Initial,
    /// Offline, and moved to another backend by the node before anything is sent.
    PostTransfer,
    /// Online: a session server of this benchmark's own says who they are, and what goes between player and node is encrypted.
    Online,
}

/// Which CPUs the processes may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Any.
    Free,
    /// CPU 1 for the proxy, CPU 0 for players and backend.
    Split,
    /// CPU 1 for all three: the most repeatable.
    Same,
}

/// What every JSON line says of the run that it is of.
#[derive(Debug, Serialize)]
pub struct Setting<'a> {
    workload: Option<Workload>,
    trace: Option<&'a File>,
    mode: Mode,
    layout: Layout,
    workers: usize,
    rtt_ms: Option<u128>,
}

impl Options {
    /// What is the same for the whole run.
    pub fn setting(&self) -> Setting<'_> {
        let Options { workload, trace, mode, layout, rtt, .. } = self;
        let (mode, layout, workers) = (*mode, *layout, self.workers());
        let workload = trace.is_none().then_some(*workload);
        Setting { workload, trace: trace.as_deref(), mode, layout, workers, rtt_ms: rtt.map(|rtt| rtt.as_millis()) }
    }

    /// What is sent.
    ///
    /// # Errors
    /// If it is more than this machine should be asked to hold.
    pub fn load(&self) -> anyhow::Result<Load> {
        let (connections, payload, burst, pace) = match self.workload {
            Workload::Burst32 => (4, 32, 32, Pace::Window(4)),
            Workload::W1 => (4, 1024, 1, Pace::Window(1)),
            Workload::W16 => (4, 1024, 1, Pace::Window(16)),
            Workload::Fanout => (500, 32, 32, Pace::Ticks(20)),
            Workload::Idle => (1000, 1024, 1, Pace::Window(1)),
        };
        let pace = match (self.window, self.ticks) {
            (Some(window), _) => Pace::Window(window),
            (None, Some(ticks)) => Pace::Ticks(ticks as u32),
            (None, None) => pace,
        };
        let (connections, payload, burst, pace) = match &self.trace {
            Some(file) => {
                let trace = Trace::read(file)?;
                (100, trace.mean(Direction::Clientbound), 1, Pace::Trace(Arc::new(trace)))
            }
            None => (connections, payload, burst, pace),
        };
        let load = Load {
            connections: self.connections.unwrap_or(connections),
            payload: self.payload.unwrap_or(payload),
            burst: self.burst.unwrap_or(burst),
            pace,
            warmup: Duration::from_secs_f64(self.warmup),
            duration: Duration::from_secs_f64(self.seconds),
        };
        let window = if let Pace::Window(window) = load.pace { window } else { 1 };
        let under_way = load.connections * window * load.burst * load.payload;
        ensure!(under_way <= UNDER_WAY, "{under_way} bytes would be under way at a time, at most 1 GiB may be: make the load smaller");
        Ok(load)
    }

    /// Worker threads of the node; 0 leaves it to the node.
    pub fn workers(&self) -> usize {
        self.workers.unwrap_or(usize::from(self.trace.is_some() || matches!(self.workload, Workload::Fanout | Workload::Idle)))
    }

    /// The ways to compare.
    ///
    /// # Errors
    /// If one is named twice, or does not go with the mode.
    pub fn paths(&self) -> anyhow::Result<Vec<Path>> {
        let paths: Vec<Path> = match self.mode {
            _ if !self.paths.is_empty() => self.paths.iter().map(|name| Path::named(name)).collect(),
            Mode::Initial | Mode::PostTransfer => {
                let own = if self.workload == Workload::Idle { &[Path::Proxied][..] } else { &[Path::Direct, Path::Proxied] };
                own.iter().cloned().chain(self.peers.iter().map(|(name, _)| Path::Peer(name.clone()))).collect()
            }
            Mode::Online => vec![Path::Proxied, Path::Alone],
        };
        for (index, path) in paths.iter().enumerate() {
            ensure!(!paths[..index].contains(path), "{path} is among the paths twice");
        }
        ensure!(self.mode == Mode::Online || !paths.contains(&Path::Alone), "the path alone is for --mode online");
        ensure!(
            self.workload != Workload::Idle || !paths.contains(&Path::Direct),
            "idle players cost nothing where there is no proxy: leave direct out of --paths"
        );
        Ok(paths)
    }

    /// What starts the peer of this name.
    pub fn peer(&self, name: &str) -> Option<String> {
        let given = self.peers.iter().find(|(peer, _)| peer == name).map(|(_, command)| command.clone());
        given.or_else(|| std::env::var(peers::variable(name)).ok())
    }
}

impl Layout {
    /// The CPU of the proxy, if it is to have one.
    pub fn proxy(self) -> Option<usize> {
        (self != Layout::Free).then_some(1)
    }

    /// The CPU of players and backend.
    pub fn others(self) -> Option<usize> {
        match self {
            Layout::Free => None,
            Layout::Split => Some(0),
            Layout::Same => Some(1),
        }
    }
}

fn range(min: usize, max: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| match text.parse() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("a whole number from {min} to {max} is expected")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.05..=600.0).contains(&value) => Ok(value),
        _ => Err("a number from 0.05 to 600 is expected".to_owned()),
    }
}

fn millis(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms").map(str::parse) {
        Some(Ok(millis @ 1..=10_000)) => Ok(Duration::from_millis(millis)),
        _ => Err("a time from 1ms to 10000ms is expected".to_owned()),
    }
}

fn peer(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, command)) if !command.is_empty() && matches!(Path::named(name), Path::Peer(_)) && is_name(name) => {
            Ok((name.to_owned(), command.to_owned()))
        }
        _ => Err("NAME=COMMAND is expected, with a name of letters, digits and dashes that no path of the benchmark has".to_owned()),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
