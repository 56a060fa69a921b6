//! How many players a second a node logs in.
//!
//! A real node; by default its replica is one on paper that answers every claim at once, so that nothing else is measured.
//! `testing/benchmarks/README.md` says how to read what it prints.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use moonbridge_testing::bench::logins::{self, Load, Replica, Row};
use moonbridge_testing::bench::measure::machine;
use moonbridge_testing::bench::processes::{self, Place};
use moonbridge_testing::bench::{memory, role};
use tokio::task::LocalSet;

/// Measures offline logins, from connect to Join Game.
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
    LoginBackend,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Who lets the players in, each in turn: a replica on paper that answers at once, or a real one with an embedded store.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["paper", "real"])]
    replicas: Vec<Replica>,
    /// Players that log in at a time, each number in turn.
    #[arg(long, value_delimiter = ',', default_values = ["16", "64"])]
    at_once: Vec<usize>,
    /// Worker threads of the node.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Gives the node this CPU and no other; the rest goes where it likes.
    #[arg(long)]
    node_cpu: Option<usize>,
    /// Seconds before it counts.
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
    /// Seconds that count.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How often all of it is done, on new nodes.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Prints JSON: one object a row.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("login-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    memory::most_sessions()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    match cli.role {
        Some(Role::LoginBackend) => local.block_on(&runtime, role::serve(logins::backend)),
        None => local.block_on(&runtime, measure(&cli.options)),
    }
}

async fn measure(options: &Options) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: what it prints says nothing (run it with --release).");
    }
    if !options.json {
        println!("{}", machine());
        println!("repeat replica  at once  workers   logins  logins/s   p50 ms   p99 ms  node CPU µs/login  node CPUs");
    }
    let dir = tempfile::tempdir()?;
    for repeat in 1..=options.repeats {
        for &replica in &options.replicas {
            for &at_once in &options.at_once {
                let (_backend, address) = processes::role("login-backend", &[], Place { cpu: None, dir: dir.path(), preload: None })?;
                let load = Load {
                    replica,
                    at_once,
                    workers: options.workers,
                    node_cpu: options.node_cpu,
                    warmup: Duration::from_secs_f64(options.warmup),
                    duration: Duration::from_secs_f64(options.seconds),
                };
                let row = logins::measure(load, address).await?;
                if options.json {
                    println!("{}", serde_json::json!({ "repeat": repeat, "row": row }));
                    continue;
                }
                let Row { at_once, workers, logins, per_second, p50_ms, p99_ms, node_cpu_us, node_cpus, .. } = row;
                let replica = if replica == Replica::Paper { "paper" } else { "real" };
                println!(
                    "{repeat:>6} {replica:<7} {at_once:>8} {workers:>8} {logins:>8} {per_second:>9.0} {p50_ms:>8.2} {p99_ms:>8.2} {node_cpu_us:>18.0} {node_cpus:>10.2}"
                );
            }
        }
    }
    Ok(())
}
