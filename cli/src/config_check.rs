//! `moonbridge config check`: reads a configuration file as its process would.

use std::path::{Path, PathBuf};

use moonbridge_proto::config::{ConfigErrors, read_file};

use crate::args::PlaneKind;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Checks every file; exit code 2 if any has a mistake.
pub(crate) fn run(files: &[PathBuf], kind: Option<PlaneKind>) -> Outcome {
    let mut mistakes = Vec::new();
    for file in files {
        match check(file, kind) {
            Ok(kind) => output::line(&format!("{}: ok ({} configuration)", file.display(), kind_name(kind)))?,
            Err(errors) => mistakes.extend(errors.0.iter().map(|error| format!("{}: {error}", file.display()))),
        }
    }
    match mistakes.len() {
        0 => Ok(()),
        1 => Err(Failure::usage(mistakes.remove(0))),
        count => Err(Failure::usage(format!("{count} mistakes\n{}", mistakes.join("\n")))),
    }
}

fn check(file: &Path, kind: Option<PlaneKind>) -> Result<PlaneKind, ConfigErrors> {
    let text = read_file(file)?;
    let kind = kind.unwrap_or_else(|| guess(file, &text));
    match kind {
        PlaneKind::Dataplane => moonbridge_dataplane::config::Config::parse(&text)?.check_files()?,
        PlaneKind::Controlplane => moonbridge_controlplane::config::Config::parse(&text)?.check_files()?,
    }
    Ok(kind)
}

fn parse(text: &str, kind: PlaneKind) -> Result<(), ConfigErrors> {
    match kind {
        PlaneKind::Dataplane => moonbridge_dataplane::config::Config::parse(text).map(drop),
        PlaneKind::Controlplane => moonbridge_controlplane::config::Config::parse(text).map(drop),
    }
}

/// Which kind of file it is: the one of which it has fewer unknown fields, whatever is wrong with their values. Where that does
/// not tell, its name does.
fn guess(file: &Path, text: &str) -> PlaneKind {
    let unknown = |kind| match parse(text, kind) {
        Ok(()) => 0,
        Err(errors) => errors.0.iter().filter(|error| error.problem.starts_with("unknown field")).count(),
    };
    let (node, replica) = (unknown(PlaneKind::Dataplane), unknown(PlaneKind::Controlplane));
    let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    match node.cmp(&replica) {
        std::cmp::Ordering::Less => PlaneKind::Dataplane,
        std::cmp::Ordering::Greater => PlaneKind::Controlplane,
        std::cmp::Ordering::Equal if name.contains("control") => PlaneKind::Controlplane,
        std::cmp::Ordering::Equal => PlaneKind::Dataplane,
    }
}

fn kind_name(kind: PlaneKind) -> &'static str {
    match kind {
        PlaneKind::Dataplane => "data-plane",
        PlaneKind::Controlplane => "control-plane",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_tell_the_kind_even_with_wrong_values() {
        let of = |name: &str, text: &str| guess(Path::new(name), text);
        assert_eq!(of("x.toml", "workers = -1"), PlaneKind::Dataplane);
        assert_eq!(of("control.toml", "workers = -1"), PlaneKind::Dataplane);
        assert_eq!(of("x.toml", "lease = 7"), PlaneKind::Controlplane);
        assert_eq!(of("moonbridge-controlplane.toml", ""), PlaneKind::Controlplane);
        assert_eq!(of("moonbridge-dataplane.toml", ""), PlaneKind::Dataplane);
    }
}
