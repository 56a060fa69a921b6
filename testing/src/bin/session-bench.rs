//! The session benchmark: what a node costs the players whose frames it relays.
//!
//! Real logins, then a closed loop against an echo backend, directly and through a node in turn; every echo is checked.
//! `testing/benchmarks/README.md` says how to read what it prints.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use moonbridge_testing::bench::load::{self, Load, Pace};
use moonbridge_testing::bench::measure::{Gauges, machine};
use moonbridge_testing::bench::processes::{self, Network, Setup};
use moonbridge_testing::bench::report::{self, Path, Phase};
use moonbridge_testing::bench::{echo, relay};
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
    /// The backend; ends with its standard input.
    #[command(hide = true)]
    EchoBackend,
    /// The relay that does nothing but relay; ends with its standard input.
    #[command(hide = true)]
    BareRelay {
        /// Where to.
        to: SocketAddr,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// Players.
    #[arg(long, default_value_t = 4, value_parser = range(1, 2048))]
    connections: usize,
    /// Seconds that a phase counts.
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds before it counts.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    warmup: f64,
    /// Bytes of a frame's payload, 8 of them its sequence number.
    #[arg(long, default_value_t = 32, value_parser = range(8, 2_000_000))]
    payload: usize,
    /// Bursts that each player has under way.
    #[arg(long, default_value_t = 4, value_parser = range(1, 4096))]
    window: usize,
    /// Frames that a player sends with one write.
    #[arg(long, default_value_t = 32, value_parser = range(1, 4096))]
    burst: usize,
    /// How often the phases are run.
    #[arg(long, default_value_t = 3, value_parser = range(1, 100))]
    repeats: usize,
    /// Which ways the frames go in turn: straight to the backend, through the node, or (the floor to compare a node
    /// with) through a relay that does nothing but relay.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Path::Direct, Path::Proxied])]
    paths: Vec<Path>,
    /// Which CPUs the processes may use.
    #[arg(long, value_enum, default_value_t = Layout::Free)]
    layout: Layout,
    /// Worker threads of the node [default: its own default, one a core].
    #[arg(long, default_value_t = 0, hide_default_value = true, value_parser = range(0, 256))]
    workers: usize,
    /// The moonbridge binary [default: the one beside this, built if need be].
    #[arg(long, value_name = "FILE")]
    moonbridge: Option<PathBuf>,
    /// Prints one JSON object a phase to standard output, the rest to standard error.
    #[arg(long)]
    json: bool,
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
    match &cli.role {
        None => local.block_on(&runtime, bench(&cli.options)),
        Some(Role::EchoBackend) => local.block_on(&runtime, serve(echo::serve)),
        Some(Role::BareRelay { to }) => local.block_on(&runtime, serve(|listener| relay::serve(listener, *to))),
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
    let load = Load {
        connections: options.connections,
        payload: options.payload,
        burst: options.burst,
        pace: Pace::Window(options.window),
        warmup: Duration::from_secs_f64(options.warmup),
        duration: Duration::from_secs_f64(options.seconds),
    };
    let under_way = load.connections * options.window * load.burst * load.payload;
    ensure!(under_way <= 1 << 30, "{under_way} bytes would be under way at a time, at most 1 GiB may be: make the load smaller");
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: what it prints says nothing (run it with --release).");
    }
    let (proxy_cpu, other_cpu) = match options.layout {
        Layout::Free => (None, None),
        Layout::Split => (Some(1), Some(0)),
        Layout::Same => (Some(1), Some(1)),
    };
    let machine = machine();
    if let Some(cpu) = other_cpu {
        pin_this_process(cpu)?;
    }

    let dir = tempfile::tempdir()?;
    let (backend, direct) = processes::role("echo-backend", &[], other_cpu, dir.path())?;
    // Started as they are listed, and ended when this function does.
    let (mut paths, mut networks, mut relays) = (Vec::new(), Vec::new(), Vec::new());
    for &path in &options.paths {
        ensure!(!paths.iter().any(|&(other, _, _)| other == path), "--paths names {path:?} twice");
        paths.push(match path {
            Path::Direct => (path, direct, None),
            Path::Proxied => {
                let binary = options.moonbridge.clone().map_or_else(processes::moonbridge, Ok)?;
                let setup = Setup { binary: &binary, backend: direct, workers: options.workers, node_cpu: proxy_cpu };
                let network = Network::start(setup, &dir).await?;
                let proxied = (path, network.address, Some(network.node.id()));
                networks.push(network);
                proxied
            }
            Path::Floor => {
                let (process, address) = processes::role("bare-relay", &[direct.to_string()], proxy_cpu, dir.path())?;
                let floor = (path, address, Some(process.id()));
                relays.push(process);
                floor
            }
        });
    }

    let print = |text: &str| if options.json { eprintln!("{text}") } else { println!("{text}") };
    print(&format!("{machine}\n{load:?}, layout {:?}\n\n{}", options.layout, report::HEADER));
    let mut phases = Vec::new();
    for repeat in 1..=options.repeats {
        for &(path, address, proxy) in &paths {
            let gauges = Gauges { proxy, backend: Some(backend.id()) };
            let names = format!("b{repeat}{path:?}").to_lowercase();
            let measured = load::run(address, &names, &load, &gauges, None).await.with_context(|| format!("repeat {repeat}, {path:?}"))?;
            let phase = Phase::new(repeat, path, &load, &measured);
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

fn pin_this_process(cpu: usize) -> anyhow::Result<()> {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", &cpu.to_string(), &std::process::id().to_string()])
        .stdout(std::process::Stdio::null())
        .status()
        .context("starting taskset (package util-linux)")?;
    ensure!(status.success(), "there is no CPU {cpu} for this layout");
    Ok(())
}
