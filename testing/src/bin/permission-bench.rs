//! How soon a change of permissions is in force, how long an import takes, and what both cost.
//!
//! Real replicas, nodes and etcd, all on this machine. `testing/benchmarks/README.md` says how to read what it prints.

use std::process::ExitCode;

use clap::Parser;
use moonbridge_testing::bench::measure::machine;
use moonbridge_testing::bench::permissions::import::{self, Imported};
use moonbridge_testing::bench::permissions::propagation::{self, Load, Propagated};

/// Measures permissions end to end.
#[derive(Debug, Parser)]
struct Options {
    /// Players, half of them on each of two nodes; 0 leaves this part out.
    #[arg(long, default_value_t = 200)]
    sessions: usize,
    /// Changes of single users.
    #[arg(long, default_value_t = 1000)]
    changes: usize,
    /// Changes of a group that a quarter of the players inherits.
    #[arg(long, default_value_t = 40)]
    group_changes: usize,
    /// Users to import; 0 leaves this part out.
    #[arg(long, default_value_t = 100_000)]
    users: u32,
    /// Groups to import.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    groups: u32,
    /// How often all of it is done.
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
            eprintln!("permission-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: what it prints says nothing (run it with --release).");
    }
    if !options.json {
        println!("{}", machine());
        println!("{:>6} {:<42} {:>8} {:>10} {:>10} {:>10}", "repeat", "time of", "count", "p50 ms", "p99 ms", "max ms");
    }
    for repeat in 1..=options.repeats {
        if options.sessions > 0 {
            let load = Load { sessions: options.sessions, user_changes: options.changes, group_changes: options.group_changes };
            print_times(options, repeat, &propagation::measure(load).await?);
        }
        if options.users > 0 {
            print_import(options, repeat, &import::measure(options.users, options.groups).await?);
        }
    }
    Ok(())
}

fn print_times(options: &Options, repeat: usize, propagated: &Propagated) {
    for row in &propagated.rows {
        let Some([p50, p99, max]) = row.quantiles() else { continue };
        let (what, count) = (row.what, row.micros.len());
        if options.json {
            let row = serde_json::json!({ "repeat": repeat, "what": what, "count": count, "p50_ms": p50, "p99_ms": p99, "max_ms": max });
            println!("{row}");
        } else {
            println!("{repeat:>6} {what:<42} {count:>8} {p50:>10.2} {p99:>10.2} {max:>10.2}");
        }
    }
    let Propagated { inheriting, resolved, .. } = propagated;
    let (least, most) = resolved.iter().fold((f64::INFINITY, 0.0f64), |(least, most), count| (least.min(*count), most.max(*count)));
    if options.json {
        let row = serde_json::json!({ "repeat": repeat, "what": "worked out anew", "sessions": options.sessions, "inheriting": inheriting, "least": least, "most": most });
        println!("{row}");
    } else if !resolved.is_empty() {
        let sessions = options.sessions;
        println!("{repeat:>6} a change of the group: {least} to {most} sessions of {sessions} worked out anew; {inheriting} inherit it");
    }
}

fn print_import(options: &Options, repeat: usize, imported: &Imported) {
    if options.json {
        let mut row = serde_json::json!(imported);
        row["repeat"] = repeat.into();
        row["what"] = "import".into();
        println!("{row}");
        return;
    }
    let Imported { users, groups, file_bytes, seconds, again_seconds, export_seconds, replica_mib, other_mib, command_mib } = imported;
    println!(
        "{repeat:>6} {users} users, {groups} groups ({file_bytes} bytes): import {seconds:.1} s, again {again_seconds:.1} s, export {export_seconds:.1} s"
    );
    for (which, [before, after, most]) in [("replica", replica_mib), ("other replica", other_mib)] {
        println!("{repeat:>6} {which}: {before:.0} MiB before, {after:.0} MiB after, {most:.0} MiB at the most");
    }
    println!("{repeat:>6} the command: {command_mib:.0} MiB at the most");
}
