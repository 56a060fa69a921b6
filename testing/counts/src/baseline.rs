//! The committed figures.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::callgrind::Figure;

/// By how much a figure may differ from the committed one, up or down. They do not differ by chance: this is room for what a change
/// elsewhere does to how a function is compiled.
const TOLERANCE: f64 = 0.02;

/// By how much what is libc's may be more: its version may be another one.
const LIBC_TOLERANCE: f64 = 0.25;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.toml");

const HEAD: &str = "# Instructions a unit (testing/counts), for this compiler. Written by\n\
                    # cargo run --profile counts -p moonbridge-counts -- --write\n\n";

/// What to do about a complaint.
pub(crate) const WRITE: &str = "cargo run --profile counts -p moonbridge-counts -- --write";

/// Figures, and the compiler whose code they are of.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    compiler: String,
    figures: BTreeMap<String, Figure>,
}

impl Baseline {
    /// What is committed; empty if nothing is.
    pub(crate) fn read() -> anyhow::Result<Baseline> {
        if !Path::new(FILE).exists() {
            return Ok(Baseline::default());
        }
        let text = std::fs::read_to_string(FILE).with_context(|| format!("reading {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("{FILE} is not a baseline"))
    }

    /// These figures, of the compiler that is in use.
    pub(crate) fn of(figures: &[(&'static str, Figure)]) -> anyhow::Result<Baseline> {
        let round = |count: f64| (count * 100.0).round() / 100.0;
        let rounded = |figure: &Figure| Figure { ours: round(figure.ours), libc: round(figure.libc) };
        let figures = figures.iter().map(|(name, figure)| ((*name).to_owned(), rounded(figure))).collect();
        Ok(Baseline { compiler: compiler()?, figures })
    }

    pub(crate) fn write(&self) -> anyhow::Result<()> {
        std::fs::write(FILE, format!("{HEAD}{}", toml::to_string(self)?)).with_context(|| format!("writing {FILE}"))
    }

    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.get(name)
    }

    /// # Errors
    /// The figures are another compiler's.
    pub(crate) fn check_compiler(&self) -> anyhow::Result<()> {
        let here = compiler()?;
        ensure!(
            self.compiler == here,
            "testing/counts/baseline.toml holds for {:?}, and this is {here}: what one compiler makes cannot be compared with what another \
             does. On a revision that is known to be good, write new figures: {WRITE}",
            self.compiler
        );
        Ok(())
    }

    /// What is said of these figures.
    pub(crate) fn complaints(&self, figures: &[(&'static str, Figure)]) -> Vec<String> {
        let new = figures.iter().filter_map(|(name, counted)| match self.figure(name) {
            Some(committed) => complaint(name, committed, counted),
            None => Some(format!("{name}: {:.2} instructions, and none are committed", counted.ours)),
        });
        let gone = self.figures.keys().filter(|name| figures.iter().all(|(counted, _)| counted != name));
        new.chain(gone.map(|name| format!("{name}: committed, but no longer counted"))).collect()
    }
}

fn complaint(name: &str, committed: &Figure, counted: &Figure) -> Option<String> {
    let (before, now) = (committed.ours, counted.ours);
    let change = now - before;
    if change.abs() > before * TOLERANCE {
        let way = if change > 0.0 { "more" } else { "fewer" };
        let percent = change.abs() / before * 100.0;
        return Some(format!("{name}: {now:.2} instructions, {percent:.1} % {way} than the committed {before:.2}"));
    }
    let (before, now) = (committed.libc, counted.libc);
    let exceeds = now > before * (1.0 + LIBC_TOLERANCE) + 1.0;
    exceeds.then(|| format!("{name}: {now:.2} instructions in libc (copying, clearing, comparing, allocating), committed are {before:.2}"))
}

fn compiler() -> anyhow::Result<String> {
    // In this folder rustup takes the version that the repository asks for.
    let said = Command::new("rustc").arg("--version").current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let said = said.context("rustc cannot be started to ask its version")?;
    ensure!(said.status.success(), "rustc does not tell its version: {}", String::from_utf8_lossy(&said.stderr));
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Figure = Figure { ours: 100.0, libc: 40.0 };

    fn said_of(now: Figure) -> Vec<String> {
        let baseline = Baseline { compiler: String::new(), figures: BTreeMap::from([("walk".to_owned(), BEFORE)]) };
        baseline.complaints(&[("walk", now)])
    }

    #[test]
    fn two_in_a_hundred_pass_and_three_do_not() {
        for ours in [98.0, 100.0, 102.0] {
            assert_eq!(said_of(Figure { ours, ..BEFORE }), Vec::<String>::new());
        }
        assert_eq!(said_of(Figure { ours: 103.0, ..BEFORE }), ["walk: 103.00 instructions, 3.0 % more than the committed 100.00"]);
        assert_eq!(said_of(Figure { ours: 97.0, ..BEFORE }), ["walk: 97.00 instructions, 3.0 % fewer than the committed 100.00"]);
    }

    #[test]
    fn a_copy_more_is_told() {
        assert_eq!(said_of(Figure { libc: 50.0, ..BEFORE }), Vec::<String>::new());
        let told = said_of(Figure { libc: 52.0, ..BEFORE });
        assert!(told[0].starts_with("walk: 52.00 instructions in libc"), "{told:?}");
    }

    #[test]
    fn what_is_new_and_what_is_gone_is_told() {
        let baseline = Baseline { compiler: String::new(), figures: BTreeMap::from([("gone".to_owned(), BEFORE)]) };
        let told = baseline.complaints(&[("new", BEFORE)]);
        assert_eq!(told, ["new: 100.00 instructions, and none are committed", "gone: committed, but no longer counted"]);
    }

    #[test]
    fn what_is_written_is_read() {
        let baseline = Baseline { compiler: "rustc".to_owned(), figures: BTreeMap::from([("walk: small".to_owned(), BEFORE)]) };
        let written = toml::to_string(&baseline).expect("written");
        assert_eq!(toml::from_str::<Baseline>(&written).expect("read"), baseline);
    }
}
