//! What a session costs a node in memory, and what a flood can make of it.
//!
//! A real replica and node, the tests' own client model, all on this machine. `testing/benchmarks/README.md` says how to read what it
//! prints.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use moonbridge_testing::bench::measure::machine;
use moonbridge_testing::bench::memory::{self, Flooded, Kind, Row, backend};
use moonbridge_testing::bench::processes::{self, Place};
use moonbridge_testing::bench::role;
use tokio::task::LocalSet;

/// Measures what a node's memory grows by with sessions.
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
    /// The backend that greets and echoes; ends with its standard input.
    #[command(hide = true)]
    QuietBackend {
        /// Whom it greets.
        #[arg(value_enum)]
        kind: Kind,
    },
    /// The backend that writes as much as it can; ends with its standard input.
    #[command(hide = true)]
    FloodingBackend,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Who plays: each kind on a node of its own.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["vanilla", "forge"])]
    kinds: Vec<Kind>,
    /// Sessions at which it is measured, fewest first, on the same node; more than the limit of open files allows are as many as it allows.
    #[arg(long, value_delimiter = ',', default_values = ["100", "1000", "5000", "10000"])]
    sessions: Vec<usize>,
    /// Seconds for which they do nothing at each of these.
    #[arg(long, default_value_t = 10.0)]
    idle: f64,
    /// Worker threads of the node [default: 0, one a core].
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Measures this in place of sessions: players who read nothing while their backends flood them.
    #[arg(long)]
    floods: bool,
    /// Of floods: how many.
    #[arg(long, default_value_t = 1000)]
    players: usize,
    /// Of floods: the node's limits.node_buffers, in MiB, each in turn.
    #[arg(long, value_delimiter = ',', default_values = ["16", "64", "512"])]
    marks: Vec<u64>,
    /// How often all of it is done, on new nodes.
    #[arg(long, default_value_t = 1)]
    repeats: usize,
    /// Prints JSON: one object a row.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memory-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let most = memory::most_sessions()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    match cli.role {
        Some(Role::QuietBackend { kind }) => local.block_on(&runtime, role::serve(|listener| backend::quiet(listener, kind))),
        Some(Role::FloodingBackend) => local.block_on(&runtime, role::serve(backend::flooding)),
        None if cli.options.floods => local.block_on(&runtime, floods(&cli.options)),
        None => local.block_on(&runtime, sessions(&cli.options, most)),
    }
}

fn head(json: bool, columns: &str) {
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: what it prints says little (run it with --release).");
    }
    if !json {
        println!("{}\n{columns}", machine());
    }
}

async fn sessions(options: &Options, most: usize) -> anyhow::Result<()> {
    let mut steps: Vec<usize> = options.sessions.iter().map(|&sessions| sessions.clamp(1, most)).collect();
    steps.sort_unstable();
    steps.dedup();
    if options.sessions.iter().any(|&sessions| sessions > most) {
        eprintln!("The limit of open files (ulimit -Hn) allows a node {most} sessions: there are no more.");
    }
    head(options.json, "repeat kind    sessions moment    resident KiB  KiB/session  of it anonymous  idle CPU µs/session/s");
    let dir = tempfile::tempdir()?;
    for repeat in 1..=options.repeats {
        for &kind in &options.kinds {
            let name = if kind == Kind::Vanilla { "vanilla" } else { "forge" };
            let (_backend, address) = processes::role("quiet-backend", &[name.to_owned()], Place::anywhere(dir.path()))?;
            let idle = Duration::from_secs_f64(options.idle);
            memory::grow(kind, address, options.workers, &steps, idle, |row| print(options.json, repeat, name, &row)).await?;
        }
    }
    Ok(())
}

fn print(json: bool, repeat: usize, name: &str, row: &Row) {
    if json {
        println!("{}", serde_json::json!({ "repeat": repeat, "row": row }));
        return;
    }
    let cpu = row.idle_cpu_us.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.1}"));
    println!(
        "{repeat:>6} {name:<7} {:>8} {:<9} {:>12} {:>12.2} {:>16.2}  {cpu:>21}",
        row.sessions,
        row.moment,
        row.rss / 1024,
        row.bytes_per_session / 1024.0,
        row.anon_per_session / 1024.0,
    );
}

async fn floods(options: &Options) -> anyhow::Result<()> {
    head(options.json, "repeat players node_buffers MiB  before MiB  peak MiB  growth MiB  bound MiB");
    let dir = tempfile::tempdir()?;
    for repeat in 1..=options.repeats {
        for &mark in &options.marks {
            let (_backend, address) = processes::role("flooding-backend", &[], Place::anywhere(dir.path()))?;
            let flooded = memory::flood(address, options.workers, options.players, mark << 20).await?;
            if options.json {
                println!("{}", serde_json::json!({ "repeat": repeat, "flood": flooded }));
                continue;
            }
            let Flooded { players, node_buffers, before, peak, growth, bound } = flooded;
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let figures = [before, peak, growth, bound].map(mib);
            println!(
                "{repeat:>6} {players:>7} {:>16} {:>11.1} {:>9.1} {:>11.1} {:>10.1}",
                node_buffers >> 20,
                figures[0],
                figures[1],
                figures[2],
                figures[3]
            );
        }
    }
    Ok(())
}
