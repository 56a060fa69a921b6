//! The fuzzers' corpus, replayed on stable; and their targets on arbitrary bytes, for a few more cases each time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

// The file is a library of its own, there.
#[allow(unreachable_pub)]
#[path = "../../../testing/fuzz/src/lib.rs"]
mod fuzz;

fn fuzz_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/fuzz").join(name)
}

/// The entries of a folder, by name without ending.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            (path.file_stem().expect("a name").to_string_lossy().into_owned(), path)
        })
        .collect()
}

#[test]
fn every_corpus_file_is_taken() {
    for (name, target) in fuzz::TARGETS {
        let files = entries(&fuzz_folder("corpus").join(name));
        assert!(files.len() >= 5, "{name} has {} corpus files", files.len());
        for (_, path) in files {
            let data = fs::read(&path).expect("a corpus file");
            // Shown only if the target panics.
            println!("{}", path.display());
            target(&data);
        }
    }
}

#[test]
fn every_target_has_a_fuzzer_and_a_corpus_and_nothing_else_has() {
    let targets: BTreeSet<String> = fuzz::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    for folder in ["corpus", "fuzz_targets"] {
        let there: BTreeSet<String> = entries(&fuzz_folder(folder)).into_iter().map(|(name, _)| name).collect();
        assert_eq!(there, targets, "{folder}");
    }
}

proptest! {
    #[test]
    fn no_target_minds_arbitrary_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz::TARGETS.iter().for_each(|(_, target)| target(&data));
    }

    /// Corpus files with some bytes changed, cut or doubled: closer to what a parser takes than arbitrary bytes are.
    #[test]
    fn no_target_minds_a_changed_corpus_file(
        which in any::<prop::sample::Index>(),
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
        twice in any::<bool>(),
    ) {
        let (name, target) = which.get(fuzz::TARGETS);
        let mut files = entries(&fuzz_folder("corpus").join(name));
        files.sort();
        let mut data = fs::read(&file.get(&files).1).expect("a corpus file");
        for (index, byte) in changes {
            if !data.is_empty() {
                *index.get_mut(&mut data) = byte;
            }
        }
        data.truncate(end.index(data.len() + 1));
        if twice {
            data.extend_from_within(..);
        }
        target(&data);
    }
}
