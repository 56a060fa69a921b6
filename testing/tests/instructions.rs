//! What the hot paths cost in instructions is what is committed (`testing/counts`), and a session costs no more for what it has
//! been through.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use cargo_metadata::Message;

#[test]
fn hot_paths_cost_what_is_committed() {
    let run = Command::new(counts()).arg("--check").output().expect("the program that cargo has built");
    println!("{}", String::from_utf8_lossy(&run.stdout));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// The program that counts, optimised as what is released; `testing/run` has built it before.
fn counts() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--quiet", "--profile", "counts", "-p", "moonbridge-counts", "--message-format", "json"]);
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    // What cargo tells this test of its own package is not to be taken for a change by build scripts.
    let told = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"].iter().any(|prefix| name.starts_with(prefix));
    for (name, _) in std::env::vars().filter(|(name, _)| told(name)) {
        cargo.env_remove(name);
    }
    let built = cargo.stderr(Stdio::inherit()).output().expect("cargo runs");
    assert!(built.status.success(), "moonbridge-counts could not be built");
    let executables = Message::parse_stream(&*built.stdout).filter_map(|message| match message.expect("a message of cargo's") {
        Message::CompilerArtifact(artifact) => artifact.executable,
        _ => None,
    });
    executables.last().expect("a program").into()
}
