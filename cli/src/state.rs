//! The user's state directory, and in it a file `up-PID.json` for each running `moonbridge up`, by which the admin verbs find it.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};

/// What a running `up` leaves behind for the admin verbs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpFile {
    /// URL of the control plane.
    pub(crate) control: String,
    /// File that holds the admin token.
    pub(crate) token_file: PathBuf,
    /// The process that serves it.
    pub(crate) pid: u32,
}

/// `$XDG_STATE_HOME/moonbridge`, or `~/.local/state/moonbridge`. `None` if the environment names neither.
pub(crate) fn directory() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(base.join("moonbridge"))
}

/// The same, made if it is not there, for this user only.
pub(crate) fn make_directory() -> Outcome<PathBuf> {
    let path = directory().ok_or_else(|| {
        Failure::failed("neither XDG_STATE_HOME nor HOME is set to an absolute path: set one, for MoonBridge to keep its state under")
    })?;
    DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|error| {
        Failure::failed(format!(
            "cannot make the state directory {}: {error}; set XDG_STATE_HOME to a directory that can be written",
            path.display()
        ))
    })?;
    Ok(path)
}

/// The file of an `up`, and whether that still runs.
#[derive(Debug)]
pub(crate) struct Found {
    /// The file.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) up: UpFile,
    /// Whether its process is there.
    pub(crate) alive: bool,
}

/// Every `up` that has its file in this directory, by process id. Files that cannot be read are none: an `up` writes its own whole.
pub(crate) fn find_ups(directory: &Path) -> Vec<Found> {
    let mut ups: Vec<Found> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| pid_in(&entry.file_name(), ".json").is_some())
        .filter_map(|entry| {
            let path = entry.path();
            let mut file = File::open(&path).ok()?;
            let up: UpFile = serde_json::from_reader(&mut file).ok()?;
            let alive = is_held(&file, up.pid);
            Some(Found { path, up, alive })
        })
        .collect();
    ups.sort_by_key(|found| found.up.pid);
    ups
}

/// The files of a running `up`; removed when dropped.
#[derive(Debug)]
pub(crate) struct UpFiles {
    token_file: PathBuf,
    file: PathBuf,
    /// Its lock says that the process is there: process ids come again, locks end with their process.
    _held: File,
}

impl UpFiles {
    /// Writes the token and `up-PID.json` (both mode 0600), each in one step, and clears away those of processes that have gone.
    pub(crate) fn write(directory: &Path, control: String, token: &str) -> io::Result<Self> {
        let pid = std::process::id();
        remove_stale(directory);
        let token_file = directory.join(format!("up-{pid}.token"));
        write_private(&token_file, format!("{token}\n").as_bytes())?;
        let content = UpFile { control, token_file: token_file.clone(), pid };
        let file = directory.join(format!("up-{pid}.json"));
        let held = write_private(&file, serde_json::to_string_pretty(&content)?.as_bytes())?;
        Ok(UpFiles { token_file, file, _held: held })
    }

    /// Where they are.
    pub(crate) fn paths(&self) -> [PathBuf; 2] {
        [self.file.clone(), self.token_file.clone()]
    }
}

impl Drop for UpFiles {
    fn drop(&mut self) {
        for path in self.paths() {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether the `up` that wrote this file runs. Where the file system has no locks, its process id tells.
fn is_held(file: &File, pid: u32) -> bool {
    match file.try_lock_shared() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => is_alive(pid),
    }
}

/// Whether a process with this id is there.
fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// The process id in the name of an `up`'s file.
fn pid_in(name: &OsStr, suffix: &str) -> Option<u32> {
    name.to_str()?.strip_prefix("up-")?.strip_suffix(suffix)?.parse().ok()
}

fn remove_stale(directory: &Path) {
    for found in find_ups(directory).into_iter().filter(|found| !found.alive) {
        let _ = fs::remove_file(found.path);
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if pid_in(&entry.file_name(), ".token").is_some_and(|pid| !is_alive(pid)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a file that only this user can read, so that it is there whole, and locked by us, or not at all.
fn write_private(path: &Path, content: &[u8]) -> io::Result<File> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    // Not every file system has locks; who looks for them then asks for the process.
    let _ = file.try_lock();
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_files_are_private_and_go_with_the_process() {
        let home = tempfile::tempdir().unwrap();
        // Ours is alive as a process, but nobody holds the file: a process id that came again.
        let of = |pid: u32| UpFile { control: "http://127.0.0.1:2".into(), token_file: "/elsewhere".into(), pid };
        let reused = home.path().join("up-1.json");
        let gone = home.path().join("up-2147483646.json");
        fs::write(&reused, serde_json::to_vec(&of(std::process::id())).unwrap()).unwrap();
        fs::write(&gone, serde_json::to_vec(&of(2_147_483_646)).unwrap()).unwrap();
        fs::write(home.path().join("up-2147483646.token"), "x").unwrap();
        assert!(find_ups(home.path()).iter().all(|found| !found.alive));
        assert_eq!(find_ups(home.path()).len(), 2);

        let files = UpFiles::write(home.path(), "http://127.0.0.1:1".into(), "secret").unwrap();
        let found = find_ups(home.path());
        assert_eq!(found.len(), 1, "those that are left over have gone: {found:?}");
        let Found { up, alive, .. } = &found[0];
        assert!(*alive);
        assert_eq!((up.control.as_str(), up.pid), ("http://127.0.0.1:1", std::process::id()));
        assert_eq!(fs::read_to_string(&up.token_file).unwrap().trim(), "secret");
        for path in files.paths() {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(files);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_that_say_nothing_are_no_up() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("up-1.json"), "{").unwrap();
        fs::write(home.path().join("up.json"), "{}").unwrap();
        assert!(find_ups(home.path()).is_empty());
        assert!(find_ups(&home.path().join("none")).is_empty());
    }
}
