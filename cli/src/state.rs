//! The user's state directory, and in it `up.json`, by which the admin verbs find a local `moonbridge up`.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
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

/// Reads `up.json` in this directory; `None` if there is none.
pub(crate) fn read_up_file(directory: &Path) -> Result<Option<UpFile>, String> {
    let path = directory.join(UP_FILE);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| format!("{} is damaged: {error}; remove it, or give --control", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

const UP_FILE: &str = "up.json";

/// The files of a running `up`; removed when dropped, if they are still its own.
#[derive(Debug)]
pub(crate) struct UpFiles {
    directory: PathBuf,
    token_file: PathBuf,
    content: UpFile,
}

impl UpFiles {
    /// Writes the token (mode 0600) and `up.json`, each in one step, and clears away the tokens of processes that have gone.
    pub(crate) fn write(directory: PathBuf, control: String, token: &str) -> io::Result<Self> {
        let pid = std::process::id();
        remove_stale_tokens(&directory);
        let token_file = directory.join(format!("up-{pid}.token"));
        write_private(&token_file, format!("{token}\n").as_bytes())?;
        let content = UpFile { control, token_file: token_file.clone(), pid };
        let files = UpFiles { directory, token_file, content };
        write_private(&files.directory.join(UP_FILE), serde_json::to_string_pretty(&files.content)?.as_bytes())?;
        Ok(files)
    }
}

impl Drop for UpFiles {
    fn drop(&mut self) {
        if read_up_file(&self.directory).is_ok_and(|found| found.as_ref() == Some(&self.content)) {
            let _ = fs::remove_file(self.directory.join(UP_FILE));
        }
        let _ = fs::remove_file(&self.token_file);
    }
}

/// Whether a process with this id is there.
pub(crate) fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn remove_stale_tokens(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("up-")?.strip_suffix(".token")?.parse().ok());
        if pid.is_some_and(|pid| !is_alive(pid)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a file that only this user can read, so that it is there whole or not at all.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_files_are_private_and_go_with_the_process() {
        let home = tempfile::tempdir().unwrap();
        let stale = home.path().join("up-2147483646.token");
        fs::write(&stale, "x").unwrap();
        let files = UpFiles::write(home.path().to_owned(), "http://127.0.0.1:1".into(), "secret").unwrap();
        assert!(!stale.exists());
        let up = read_up_file(home.path()).unwrap().unwrap();
        assert_eq!(up.control, "http://127.0.0.1:1");
        assert_eq!(fs::read_to_string(&up.token_file).unwrap().trim(), "secret");
        assert_eq!(fs::metadata(&up.token_file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(is_alive(up.pid));
        drop(files);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_process_s_file_stays() {
        let home = tempfile::tempdir().unwrap();
        let files = UpFiles::write(home.path().to_owned(), "http://127.0.0.1:1".into(), "secret").unwrap();
        let other = UpFile { control: "http://127.0.0.1:2".into(), token_file: "/elsewhere".into(), pid: 1 };
        fs::write(home.path().join(UP_FILE), serde_json::to_vec(&other).unwrap()).unwrap();
        drop(files);
        assert_eq!(read_up_file(home.path()).unwrap(), Some(other));
    }

    #[test]
    fn a_damaged_file_is_said_to_be_one() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read_up_file(home.path()).unwrap(), None);
        fs::write(home.path().join(UP_FILE), "{").unwrap();
        assert!(read_up_file(home.path()).unwrap_err().contains("damaged"));
    }
}
