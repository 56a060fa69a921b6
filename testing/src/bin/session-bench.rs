//! The session benchmark: what a node costs the players whose frames it relays.
//!
//! Real logins, then a closed loop against an echo backend, or a backend's ticks, directly and through a node in turn; every frame
//! is checked.
//! `testing/benchmarks/README.md` says how to read what it prints.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use moonbridge_testing::bench::frames::Frames;
use moonbridge_testing::bench::load::{self, Load, Pace};
use moonbridge_testing::bench::measure::{Gauges, machine};
use moonbridge_testing::bench::processes::{self, Network, Online, Process, Setup};
use moonbridge_testing::bench::report::{self, Path, Phase};
use moonbridge_testing::bench::ticks::{self, Beat};
use moonbridge_testing::bench::{cipher, echo, relay};
use moonbridge_testing::collector::Collector;
use moonbridge_testing::session_server::SessionServer;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

/// Compares players connected directly with players connected through a node.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    options: Options,
}

/// What this binary does for itself, as a process of its own.
#[derive(Debug, Subcommand)]
enum Role {
    /// The backend that echoes; ends with its standard input.
    #[command(hide = true)]
    EchoBackend,
    /// The backend that ticks; ends with its standard input.
    #[command(hide = true)]
    TickBackend {
        /// Bytes of a frame's payload.
        payload: usize,
        /// Frames that each player is given.
        frames: usize,
        /// Ticks in a second.
        a_second: u32,
    },
    /// The relay that does nothing but relay; ends with its standard input.
    #[command(hide = true)]
    BareRelay {
        /// Where to.
        to: SocketAddr,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// What is sent: the options from --connections to --ticks, each of which may still be given.
    #[arg(long, value_enum, default_value_t = Workload::Burst32)]
    workload: Workload,
    /// How the players come in.
    #[arg(long, value_enum, default_value_t = Mode::Initial)]
    mode: Mode,
    /// Players.
    #[arg(long, value_parser = range(1, 2048))]
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
    /// Seconds that a phase counts.
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds before it counts.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    warmup: f64,
    /// How often the phases are run.
    #[arg(long, default_value_t = 3, value_parser = range(1, 100))]
    repeats: usize,
    /// Which ways the frames go in turn: straight to the backend, through the node, through a node that encrypts each session
    /// alone (online), or (the floor to compare a node with) through a relay that does nothing but relay
    /// [default: direct,proxied; online: proxied,alone].
    #[arg(long, value_enum, value_delimiter = ',')]
    paths: Vec<Path>,
    /// Which CPUs the processes may use.
    #[arg(long, value_enum, default_value_t = Layout::Free)]
    layout: Layout,
    /// Worker threads of the node [default: its own default, one a core; fanout: 1].
    #[arg(long, value_parser = range(0, 256))]
    workers: Option<usize>,
    /// The moonbridge binary [default: the one beside this, built if need be].
    #[arg(long, value_name = "FILE")]
    moonbridge: Option<PathBuf>,
    /// Prints one JSON object a phase to standard output, the rest to standard error.
    #[arg(long)]
    json: bool,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Echoes: 4 players, window 4, bursts of 32 frames of 32 bytes.
    Burst32,
    /// Echoes: 4 players, window 1, single frames of 1 KiB.
    W1,
    /// Echoes: 4 players, window 16, single frames of 1 KiB.
    W16,
    /// A server's ticks: 64 players on one worker, each given 32 frames of 32 bytes 20 times a second.
    Fanout,
}

/// How the players come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Offline, from their first login.
    Initial,
    /// Online: a session server of this benchmark's own says who they are, and what goes between player and node is encrypted.
    Online,
}

impl Options {
    fn load(&self) -> Load {
        let (connections, payload, burst, pace) = match self.workload {
            Workload::Burst32 => (4, 32, 32, Pace::Window(4)),
            Workload::W1 => (4, 1024, 1, Pace::Window(1)),
            Workload::W16 => (4, 1024, 1, Pace::Window(16)),
            Workload::Fanout => (64, 32, 32, Pace::Ticks(20)),
        };
        let pace = match (self.window, self.ticks) {
            (Some(window), _) => Pace::Window(window),
            (None, Some(ticks)) => Pace::Ticks(ticks as u32),
            (None, None) => pace,
        };
        Load {
            connections: self.connections.unwrap_or(connections),
            payload: self.payload.unwrap_or(payload),
            burst: self.burst.unwrap_or(burst),
            pace,
            warmup: Duration::from_secs_f64(self.warmup),
            duration: Duration::from_secs_f64(self.seconds),
        }
    }

    fn workers(&self) -> usize {
        self.workers.unwrap_or(if self.workload == Workload::Fanout { 1 } else { 0 })
    }

    fn paths(&self) -> anyhow::Result<Vec<Path>> {
        let paths = match self.mode {
            _ if !self.paths.is_empty() => self.paths.clone(),
            Mode::Initial => vec![Path::Direct, Path::Proxied],
            Mode::Online => vec![Path::Proxied, Path::Alone],
        };
        for (index, path) in paths.iter().enumerate() {
            ensure!(!paths[..index].contains(path), "--paths names {path:?} twice");
        }
        ensure!(self.mode == Mode::Online || !paths.contains(&Path::Alone), "the path alone is for --mode online");
        Ok(paths)
    }
}

/// Which CPUs the processes may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// Any.
    Free,
    /// CPU 1 for the proxy, CPU 0 for players and backend.
    Split,
    /// CPU 1 for all three: the most repeatable.
    Same,
}

impl Layout {
    fn proxy(self) -> Option<usize> {
        (self != Layout::Free).then_some(1)
    }

    fn others(self) -> Option<usize> {
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

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("session-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    match cli.role {
        None => local.block_on(&runtime, bench(&cli.options)),
        Some(Role::EchoBackend) => local.block_on(&runtime, serve(echo::serve)),
        Some(Role::TickBackend { payload, frames, a_second }) => {
            let beat = Beat { payload, frames, a_second };
            local.block_on(&runtime, serve(|listener| ticks::serve(listener, beat)))
        }
        Some(Role::BareRelay { to }) => local.block_on(&runtime, serve(|listener| relay::serve(listener, to))),
    }
}

/// Listens, says where, and serves until standard input ends (with the process that started this one).
async fn serve<F: Future<Output = anyhow::Result<()>>>(serve: impl FnOnce(TcpListener) -> F) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (ended, parent_ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        drop(ended);
    });
    tokio::select! {
        ended = serve(listener) => ended,
        _ = parent_ended => Ok(()),
    }
}

async fn bench(options: &Options) -> anyhow::Result<()> {
    let (load, workers, mut paths) = (options.load(), options.workers(), options.paths()?);
    let window = if let Pace::Window(window) = load.pace { window } else { 1 };
    let under_way = load.connections * window * load.burst * load.payload;
    ensure!(under_way <= 1 << 30, "{under_way} bytes would be under way at a time, at most 1 GiB may be: make the load smaller");
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: what it prints says nothing (run it with --release).");
    }
    let machine = machine();
    if let Some(cpu) = options.layout.others() {
        pin_this_process(cpu)?;
    }

    let dir = tempfile::tempdir()?;
    let mut stage = Stage::new(options, workers, dir.path()).await?;
    for &path in &paths {
        stage.open(path).await?;
    }

    let print = |text: &str| if options.json { eprintln!("{text}") } else { println!("{text}") };
    let Options { mode, layout, .. } = options;
    let encryption = if *mode == Mode::Online { report::ENCRYPTION } else { "" };
    print(&format!("{machine}\n{load:?}, mode {mode:?}, layout {layout:?}, workers {workers}\n\n{}{encryption}", report::HEADER));
    let mut phases = Vec::new();
    for repeat in 1..=options.repeats {
        for &path in &paths {
            let phase = stage.phase(repeat, path, &load).await.with_context(|| format!("repeat {repeat}, {path:?}"))?;
            print(&phase.line());
            if options.json {
                println!("{}", serde_json::to_string(&phase)?);
            }
            phases.push(phase);
        }
        // What grows warm, or slow, over time must not always hit the same path.
        paths.reverse();
    }
    print(&format!("\n{}", report::summary(&phases)));
    Ok(())
}

/// The processes of a run, ended when this is dropped.
struct Stage<'a> {
    options: &'a Options,
    workers: usize,
    dir: &'a std::path::Path,
    backend: (Process, SocketAddr),
    session_server: Option<SessionServer>,
    ways: Vec<Way>,
}

/// One way of the frames.
struct Way {
    path: Path,
    address: SocketAddr,
    proxy: Option<u32>,
    /// Set where the node is in online mode.
    collector: Option<Collector>,
    _processes: (Option<Network>, Option<Process>),
}

impl<'a> Stage<'a> {
    async fn new(options: &'a Options, workers: usize, dir: &'a std::path::Path) -> anyhow::Result<Self> {
        let load = options.load();
        let backend = match load.pace {
            Pace::Window(_) => processes::role("echo-backend", &[], options.layout.others(), dir)?,
            Pace::Ticks(a_second) => {
                let arguments = [load.payload.to_string(), load.burst.to_string(), a_second.to_string()];
                processes::role("tick-backend", &arguments, options.layout.others(), dir)?
            }
        };
        let session_server = match options.mode {
            Mode::Initial => None,
            Mode::Online => Some(SessionServer::start().await),
        };
        Ok(Stage { options, workers, dir, backend, session_server, ways: Vec::new() })
    }

    /// Starts what the frames of this path go through.
    async fn open(&mut self, path: Path) -> anyhow::Result<()> {
        let (direct, cpu) = (self.backend.1, self.options.layout.proxy());
        let way = match path {
            Path::Direct => Way { path, address: direct, proxy: None, collector: None, _processes: (None, None) },
            Path::Floor => {
                let (relay, address) = processes::role("bare-relay", &[direct.to_string()], cpu, self.dir)?;
                Way { path, address, proxy: Some(relay.id()), collector: None, _processes: (None, Some(relay)) }
            }
            Path::Proxied | Path::Alone => {
                let binary = self.options.moonbridge.clone().map_or_else(processes::moonbridge, Ok)?;
                let collector = Collector::start().await;
                let online = self.session_server.as_ref().map(|session_server| Online {
                    session_server,
                    collector: &collector,
                    together: path == Path::Proxied,
                });
                let setup = Setup { binary: &binary, backend: direct, workers: self.workers, node_cpu: cpu, online };
                let dir = self.dir.join(format!("{path:?}"));
                std::fs::create_dir(&dir)?;
                let network = Network::start(setup, &dir).await?;
                let collector = online.is_some().then_some(collector);
                Way { path, address: network.address, proxy: Some(network.node.id()), collector, _processes: (Some(network), None) }
            }
        };
        self.ways.push(way);
        Ok(())
    }

    /// One phase on this path, which is open.
    async fn phase(&self, repeat: usize, path: Path, load: &Load) -> anyhow::Result<Phase> {
        let way = self.ways.iter().find(|way| way.path == path).context("a path that is not open")?;
        let gauges = Gauges { proxy: way.proxy, backend: Some(self.backend.0.id()), metrics: way.collector.as_ref() };
        let kernel = cipher::alone(load.burst * Frames::new(load.payload, 0)?.whole());
        let session_server = self.session_server.as_ref().filter(|_| way.collector.is_some());
        let names = format!("b{repeat}{path:?}").to_lowercase();
        let measured = load::run(way.address, &names, load, &gauges, session_server).await?;
        Ok(Phase::new(repeat, path, load, &measured, kernel))
    }
}

fn pin_this_process(cpu: usize) -> anyhow::Result<()> {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", &cpu.to_string(), &std::process::id().to_string()])
        .stdout(std::process::Stdio::null())
        .status()
        .context("starting taskset (package util-linux)")?;
    ensure!(status.success(), "there is no CPU {cpu} for this layout");
    Ok(())
}
