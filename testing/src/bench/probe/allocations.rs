//! How often a process allocates: counted by `testing/benchmarks/allocations.c`, which it is made to load before libc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::bench::processes::Preload;

/// The library's source.
const SOURCE: &str = include_str!("../../../benchmarks/allocations.c");

/// The variable that tells the library its file.
const FILE: &str = "MOONBRIDGE_ALLOCATIONS";

/// The library, built.
#[derive(Debug)]
pub struct Library(PathBuf);

/// The count of one process and its children.
#[derive(Debug)]
pub struct Allocations {
    file: PathBuf,
    /// What the process is to be started with.
    pub preload: Preload,
}

impl Library {
    /// Builds it in `dir`.
    ///
    /// # Errors
    /// If there is no C compiler, or a libc other than glibc.
    pub fn build(dir: &Path) -> anyhow::Result<Self> {
        let (source, library) = (dir.join("allocations.c"), dir.join("allocations.so"));
        fs::write(&source, SOURCE)?;
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-fno-builtin", "-o"]).arg(&library).arg(&source);
        let built = cc.output().context("starting cc (package gcc)")?;
        ensure!(built.status.success(), "cc: {}", String::from_utf8_lossy(&built.stderr).trim());
        Ok(Library(library))
    }

    /// A count for one process, its file in `dir`.
    pub fn count(&self, dir: &Path) -> anyhow::Result<Allocations> {
        let file = dir.join("allocations");
        fs::write(&file, 0u64.to_ne_bytes())?;
        Ok(Allocations { file: file.clone(), preload: Preload { library: self.0.clone(), environment: vec![(FILE, file)] } })
    }
}

impl Allocations {
    /// Allocations so far.
    ///
    /// # Errors
    /// If there have been none: no process comes so far as to be looked at without.
    pub fn read(&self) -> anyhow::Result<u64> {
        let bytes = fs::read(&self.file)?;
        let count = u64::from_ne_bytes(bytes.as_slice().try_into().context("a count has 8 bytes")?);
        ensure!(count > 0, "no allocation was counted: the proxy does not allocate through glibc's malloc");
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_allocates_more_counts_more() {
        let dir = tempfile::tempdir().unwrap();
        let library = Library::build(dir.path()).unwrap();
        let count = |script: &str| {
            let allocations = library.count(dir.path()).unwrap();
            let Preload { library, environment } = &allocations.preload;
            let mut command = Command::new("python3");
            command.args(["-c", script]).env("PYTHONMALLOC", "malloc").env("LD_PRELOAD", library).envs(environment.clone());
            assert!(command.status().unwrap().success());
            allocations.read().unwrap()
        };
        let few = count("pass");
        let many = count("for each in range(100000): float(each)");
        assert!(many >= few + 50_000, "{few}, {many}");
    }

    #[test]
    fn a_process_that_is_not_counted_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let library = Library::build(dir.path()).unwrap();
        library.count(dir.path()).unwrap().read().unwrap_err();
    }
}
