//! How long `/glist` takes with thousands of players present.
//!
//! Real replicas, nodes and etcd, all on this machine. `testing/benchmarks/README.md` says how to read what it prints.

use std::process::ExitCode;

use clap::Parser;
use moonbridge_testing::bench::glist::{Load, measure};
use moonbridge_testing::bench::measure::machine;

/// Measures a player's questions to the whole network.
#[derive(Debug, Parser)]
struct Options {
    /// Players in the presence.
    #[arg(long, default_value_t = 10_000)]
    players: usize,
    /// Backends that they are spread over, at most 100.
    #[arg(long, default_value_t = 20)]
    backends: usize,
    /// How often each command is typed.
    #[arg(long, default_value_t = 500)]
    times: usize,
    /// How often all of it is done, on a new network.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Prints JSON: one object a row.
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("glist-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: what it prints says nothing (run it with --release).");
    }
    let Options { players, backends, times, .. } = *options;
    if !options.json {
        println!("{}", machine());
        println!("{players} players on {backends} backends");
        println!("{:>6} {:<12} {:>8} {:>10} {:>10} {:>10}", "repeat", "command", "count", "p50 ms", "p99 ms", "max ms");
    }
    for repeat in 1..=options.repeats {
        for row in measure(Load { players, backends, times }).await? {
            let Some([p50, p99, max]) = row.quantiles() else { continue };
            let (what, count) = (row.what, row.micros.len());
            if options.json {
                let row = serde_json::json!({ "repeat": repeat, "command": what, "players": players, "count": count, "p50_ms": p50, "p99_ms": p99, "max_ms": max });
                println!("{row}");
            } else {
                println!("{repeat:>6} {what:<12} {count:>8} {p50:>10.2} {p99:>10.2} {max:>10.2}");
            }
        }
    }
    Ok(())
}
