//! What MoonBridge's hot paths cost in instructions: counted by callgrind, which no other process and no clock disturbs, and
//! compared with what is committed in `baseline.toml`. `testing/tests/instructions.rs` runs it with `--check`.
//!
//! ```text
//! cargo run --profile counts -p moonbridge-counts              # all figures, beside the baseline
//! cargo run --profile counts -p moonbridge-counts session      # those with "session" in their names
//! cargo run --profile counts -p moonbridge-counts -- --check   # fails where one has gone up or down, or a bound is exceeded
//! cargo run --profile counts -p moonbridge-counts -- --write   # makes what is counted now the baseline
//! ```
//!
//! This program is what is counted, too: it starts itself under callgrind once for each [`subjects::Subject`].

mod baseline;
mod bounds;
mod callgrind;
mod host;
mod subjects;

use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};

use self::baseline::Baseline;
use self::callgrind::Figure;
use self::subjects::{SUBJECTS, Subject};

/// How the program begins that callgrind runs; the subject's name follows.
const BE_COUNTED: &str = "--be-counted";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_or_else(|error| {
        eprintln!("counts: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    match *arguments {
        [BE_COUNTED, name] => be_counted(name).map(|()| ExitCode::SUCCESS),
        ["--write"] => write().map(|()| ExitCode::SUCCESS),
        ["--check"] => check(),
        [] => show("").map(|()| ExitCode::SUCCESS),
        [part] if !part.starts_with('-') => show(part).map(|()| ExitCode::SUCCESS),
        _ => bail!("usage: counts [--check | --write | PART-OF-A-NAME]"),
    }
}

fn be_counted(name: &str) -> anyhow::Result<()> {
    let subject = SUBJECTS.iter().find(|subject| subject.name == name).with_context(|| format!("there is nothing called {name}"))?;
    println!("{}", (subject.run)()?);
    Ok(())
}

fn show(part: &str) -> anyhow::Result<()> {
    let wanted = |subject: &&Subject| subject.name.contains(part);
    ensure!(SUBJECTS.iter().any(|subject| wanted(&subject)), "no name has {part:?} in it");
    count(&Baseline::read()?, SUBJECTS.iter().filter(wanted)).map(drop)
}

fn write() -> anyhow::Result<()> {
    host::check()?;
    let figures = count(&Baseline::read()?, SUBJECTS.iter())?;
    Baseline::of(&figures)?.write()
}

fn check() -> anyhow::Result<ExitCode> {
    host::check()?;
    let baseline = Baseline::read()?;
    baseline.check_compiler()?;
    let figures = count(&baseline, SUBJECTS.iter())?;
    let changed = baseline.complaints(&figures);
    let exceeded = bounds::complaints(&figures);
    for complaint in changed.iter().chain(&exceeded) {
        eprintln!("{complaint}");
    }
    if !changed.is_empty() {
        eprintln!("Where that is as it should be, commit the file that this writes: {}", baseline::WRITE);
    }
    Ok(if changed.is_empty() && exceeded.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Counts, and prints each figure as it is had.
fn count<'a>(baseline: &Baseline, subjects: impl Iterator<Item = &'a Subject>) -> anyhow::Result<Vec<(&'static str, Figure)>> {
    println!("{:34} {:>12} {:>10} {:>10}  a", "", "instructions", "baseline", "in libc");
    subjects
        .map(|subject| {
            let figure = callgrind::count(subject)?;
            let committed = baseline.figure(subject.name).map_or_else(|| "-".to_owned(), |figure| format!("{:.1}", figure.ours));
            println!("{:34} {:>12.1} {:>10} {:>10.1}  {}", subject.name, figure.ours, committed, figure.libc, subject.unit);
            Ok((subject.name, figure))
        })
        .collect()
}
