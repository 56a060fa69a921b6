//! How long a transfer takes, phase by phase, between idle backends: vanilla, and Forge with 450 KB of ids.
//!
//! A real node and replica, the tests' own client model and backends, all on this machine. `testing/benchmarks/README.md` says
//! how to read what it prints.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Parser;
use moonbridge_testing::bench::measure::machine;
use moonbridge_testing::model::client::Install;
use moonbridge_testing::model::drive::Host;
use moonbridge_testing::model::messages::{Ids, Mod, mods};
use moonbridge_testing::model::server::Setup;
use moonbridge_testing::model::stage::Stage;

/// Measures transfers there and back.
#[derive(Debug, Parser)]
struct Options {
    /// Transfers of each kind that count.
    #[arg(long, default_value_t = 200)]
    transfers: usize,
    /// Transfers of each kind before those.
    #[arg(long, default_value_t = 20)]
    warmup: usize,
    /// How often all kinds are run, in turn.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Prints JSON: one object a kind, repeat and phase.
    #[arg(long)]
    json: bool,
}

/// Bytes of ids that a large modpack has.
const IDS: u32 = 450_000;

/// The whole transfer, as the node counts it: from the command's receipt until the player's socket has taken the last Respawn.
const NODE: &str = "node";
/// From the admin's call to the world that the client sees.
const END_TO_END: &str = "end to end";

type Times = BTreeMap<String, Vec<u64>>;

#[tokio::main]
async fn main() {
    let options = Options::parse();
    if !options.json {
        println!("{}", machine());
        println!("{:<14} {:>6} {:<12} {:>10} {:>10} {:>10}", "kind", "repeat", "phase", "p50 ms", "p95 ms", "max ms");
    }
    for repeat in 1..=options.repeats {
        for kind in ["vanilla", "forge, skipped", "forge, reset"] {
            for (phase, mut times) in measure(&options, kind).await {
                times.sort_unstable();
                let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize] as f64 / 1000.0;
                let (p50, p95, max) = (at(0.5), at(0.95), at(1.0));
                if options.json {
                    println!(
                        "{}",
                        serde_json::json!({ "kind": kind, "repeat": repeat, "phase": phase, "transfers": times.len(), "p50_ms": p50, "p95_ms": p95, "max_ms": max })
                    );
                } else {
                    println!("{kind:<14} {repeat:>6} {phase:<12} {p50:>10.3} {p95:>10.3} {max:>10.3}");
                }
            }
        }
    }
}

async fn measure(options: &Options, kind: &str) -> Times {
    let install = if kind == "vanilla" { Install::vanilla("Alice") } else { Install::forge("Alice", pack()) };
    let second = if kind == "forge, reset" { 300 } else { 256 };
    let hosts = [Host::start(setup(kind, "one", 1, 256)).await, Host::start(setup(kind, "two", 2, second)).await];
    hosts.iter().for_each(Host::keep_no_events);
    let stage = Stage::start(&[&hosts[0], &hosts[1]], "").await;
    let player = stage.join(install, &hosts[0]).await;
    let mut times = Times::new();
    for index in 0..options.warmup + options.transfers {
        let to = &hosts[(index + 1) % 2];
        let asked = Instant::now();
        let moved = stage.transfer(&player, to).await;
        assert!(moved.succeeded, "{moved:?}");
        player.is_on(&to.setup()).await;
        let whole = asked.elapsed().as_micros() as u64;
        if index >= options.warmup {
            times.entry(NODE.to_owned()).or_default().push(moved.phases.iter().map(|(_, micros)| micros).sum());
            times.entry(END_TO_END.to_owned()).or_default().push(whole);
            for (phase, micros) in moved.phases {
                times.entry(phase).or_default().push(micros);
            }
        }
    }
    times
}

fn setup(kind: &str, name: &str, entity_id: i32, first_id: i32) -> Setup {
    match kind {
        "vanilla" => Setup { entity_id, ..Setup::vanilla(name, 0) },
        _ => Setup { entity_id, ..Setup::forge(name, 0, pack(), &Ids::of_bytes(IDS, first_id)) },
    }
}

fn pack() -> Vec<Mod> {
    mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614")])
}
