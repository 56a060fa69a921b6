//! The session benchmark: what a node costs the players whose frames it relays, beside other ways that they could go.
//!
//! Real logins, then a closed loop against an echo backend, or a backend's ticks, directly and through proxies in turn; every frame
//! is checked.
//! `testing/benchmarks/README.md` says how to read what it prints.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Parser, Subcommand};
use moonbridge_dataplane::measure;
use moonbridge_testing::bench::memory::Kind;
use moonbridge_testing::bench::memory::backend::quiet;
use moonbridge_testing::bench::options::Options;
use moonbridge_testing::bench::relay::{self, Relay};
use moonbridge_testing::bench::ticks::{self, Beat};
use moonbridge_testing::bench::trace::Trace;
use moonbridge_testing::bench::{delay, echo, replay, role, stage};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

/// Compares players connected directly with players connected through a node, and through other proxies.
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
    /// The backend that asks its players whether they are there; ends with its standard input.
    #[command(hide = true)]
    QuietBackend,
    /// The backend that sends recorded traffic; ends with its standard input.
    #[command(hide = true)]
    TraceBackend {
        /// The recording.
        file: PathBuf,
    },
    /// The relay that delays; ends with its standard input.
    #[command(hide = true)]
    DelayRelay {
        /// Where to.
        to: SocketAddr,
        /// Microseconds that each way takes.
        micros: u64,
    },
    /// A relay that is no session; ends with its standard input.
    #[command(hide = true)]
    Relay {
        /// Which.
        relay: Relay,
        /// Where to.
        to: SocketAddr,
        /// Where players connect.
        #[arg(default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
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
        Some(Role::EchoBackend) => local.block_on(&runtime, role::serve(echo::serve)),
        Some(Role::TickBackend { payload, frames, a_second }) => {
            let beat = Beat { payload: *payload, frames: *frames, a_second: *a_second };
            local.block_on(&runtime, role::serve(|listener| ticks::serve(listener, beat)))
        }
        Some(Role::QuietBackend) => local.block_on(&runtime, role::serve(|listener| quiet(listener, Kind::Vanilla))),
        Some(Role::TraceBackend { file }) => {
            let trace = Trace::read(file)?;
            local.block_on(&runtime, role::serve(|listener| replay::serve(listener, trace)))
        }
        Some(Role::DelayRelay { to, micros }) => {
            let delay = Duration::from_micros(*micros);
            local.block_on(&runtime, role::serve(|listener| delay::serve(listener, *to, delay)))
        }
        Some(Role::Relay { relay, to, listen }) => {
            // What is compared with a whole node runs as its workers do.
            local.block_on(&measure::runtime()?, role::serve_at(listen, |listener| relay::serve(listener, *to, *relay)))
        }
    }
}

/// Runs it, unless somebody ends it: the processes around it are ended by its own end.
async fn bench(options: &Options) -> anyhow::Result<()> {
    let mut asked_to_end = signal(SignalKind::terminate())?;
    tokio::select! {
        ran = stage::run(options) => ran,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted")
        }
        _ = asked_to_end.recv() => bail!("ended by a signal"),
    }
}
