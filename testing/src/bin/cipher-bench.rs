//! The cipher benchmark: what every kernel of moonbridge-crypto costs a byte and a frame, beside the `cfb8` crate.
//!
//! `testing/benchmarks/README.md` says how to read what it prints.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use moonbridge_testing::bench::kernels::{self, FRAMES, JAVA, Operation, Row};
use moonbridge_testing::bench::measure::machine;

/// Measures the cipher's kernels on one CPU.
#[derive(Debug, Parser)]
struct Cli {
    /// A JSON object a row, and nothing else.
    #[arg(long)]
    json: bool,
    /// Exit code 1 if a row misses the ratio that it must reach.
    #[arg(long)]
    check: bool,
    /// How often every row is measured.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// How long a row is measured each time, in microseconds of CPU time.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sample: u32,
    /// The CPU to run on; the last one, unless told.
    #[arg(long)]
    cpu: Option<usize>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let machine = machine();
    let cpu = kernels::pin(cli.cpu)?;
    let (table, by_frame) = (kernels::table(), kernels::by_frame());
    let plans: Vec<_> = table.iter().chain(&by_frame).copied().collect();
    let rows = kernels::measure(&plans, cli.repeats.into(), Duration::from_micros(cli.sample.into()))?;
    if cli.json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        println!("{machine}, on CPU {cpu}");
        println!("{} repeats of {} µs a row; medians [least–most]\n", cli.repeats, cli.sample);
        let (table, by_frame) = rows.split_at(table.len());
        print_table(table);
        print_by_frame(by_frame);
    }
    let missed = rows.iter().any(|row| row.met == Some(false));
    Ok(if cli.check && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print_table(rows: &[Row]) {
    println!("          kernel      streams   bytes   ns/byte                    of cfb8   must");
    for row in rows {
        let operation = match row.operation {
            Operation::Encrypt => "encrypt",
            Operation::Decrypt => "decrypt",
        };
        print!("{operation}   {:10} {:8} {:7}   ", row.kernel, row.streams, row.bytes);
        let (Some(ns), Some([least, most]), Some(ratio)) = (row.ns_per_byte, row.range, row.ratio_to_cfb8) else {
            println!("{}", row.status);
            continue;
        };
        print!("{ns:7.3} {:18}   {ratio:7.4}", format!("[{least:.3}–{most:.3}]"));
        match (row.must, row.met) {
            (Some(must), Some(true)) => println!("   ≤ {must}: met"),
            (Some(must), _) => println!("   ≤ {must}: MISSED"),
            _ => println!(),
        }
    }
}

fn print_by_frame(rows: &[Row]) {
    println!("\nns to encrypt a frame of        {}", FRAMES.map(|bytes| format!("{bytes:6} B")).join(" "));
    let line = |name: &str, of: &dyn Fn(usize) -> Option<f64>| {
        let cells: Vec<_> = (0..FRAMES.len()).map(|i| of(i).map_or_else(|| format!("{:>8}", "-"), |ns| format!("{ns:8.0}"))).collect();
        println!("{name:31} {}", cells.join(" "));
    };
    let per_size = rows.len() / FRAMES.len();
    let names = ["cfb8 crate, a call a frame", "one call a frame", "one call over 32 frames", "one call, 32 streams a frame"];
    for (i, name) in names.into_iter().enumerate() {
        line(name, &|size| rows.get(size * per_size + i).and_then(|row| row.ns_per_frame));
    }
    line("the Java proxy, elsewhere", &|size| JAVA.get(size).copied());
}
