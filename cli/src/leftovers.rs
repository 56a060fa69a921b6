//! Files that must not outlive the process, not even when a second signal ends it at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What to remove at an end that runs no destructors. Cheap to clone: all clones are the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leftovers(Arc<Mutex<Vec<PathBuf>>>);

impl Leftovers {
    /// These go, files and whole folders. Gone already is well.
    pub(crate) fn add(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
    }

    /// Removes them now.
    pub(crate) fn remove(&self) {
        for path in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            remove(&path);
        }
    }
}

fn remove(path: &Path) {
    // The store may still be writing into its folder: what it adds meanwhile takes another round.
    for _ in 0..10 {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        if removed.is_ok() || !path.exists() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_go() {
        let home = tempfile::tempdir().unwrap();
        let (file, folder) = (home.path().join("file"), home.path().join("folder"));
        fs::write(&file, "x").unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("inside"), "x").unwrap();
        let leftovers = Leftovers::default();
        leftovers.clone().add([file, folder, home.path().join("gone already")]);
        leftovers.remove();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
