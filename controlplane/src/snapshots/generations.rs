//! Permission groups and tracks of the generation that is visible are in the snapshot; those of others, which imports write and sweepers
//! remove, wait apart, so that the snapshot changes at once with the head. Imports bound how many there are
//! ([`crate::permissions`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use moonbridge_permissions::{Group, Groups, Settings, Track, Tracks};
use moonbridge_proto::snapshot::Snapshot;
use moonbridge_proto::v1;

use crate::keys;
use crate::permissions::FIRST_GENERATION;
use crate::store::Entry;

/// What there is of generations that the snapshot does not show.
#[derive(Debug, Default)]
pub(super) struct Generations {
    apart: BTreeMap<String, Apart>,
}

#[derive(Debug, Default)]
struct Apart {
    groups: Groups,
    tracks: Tracks,
}

/// Whether a key has to do with what a snapshot shows: if not, the snapshot is not changed by it.
pub(super) fn shows(snapshot: &Snapshot, key: &str) -> bool {
    of_generation(key).is_none_or(|(generation, ..)| *generation == *snapshot.permission_generation)
}

/// Whatever is equal in the later snapshot becomes the same in memory, so that snapshots that are kept cost what they differ by.
pub(super) fn share(earlier: &Snapshot, later: &mut Snapshot) {
    share_equal(&earlier.groups, &mut later.groups);
    share_equal(&earlier.tracks, &mut later.tracks);
}

fn share_equal<T: PartialEq>(earlier: &BTreeMap<String, Arc<T>>, later: &mut BTreeMap<String, Arc<T>>) {
    for (name, value) in later {
        if let Some(known) = earlier.get(name).filter(|known| *known == value) {
            value.clone_from(known);
        }
    }
}

impl Generations {
    /// Enters something below [`keys::PERMISSION_RESOURCES`]. A value that cannot be read leaves what was there.
    pub(super) fn put(&mut self, snapshot: &mut Snapshot, entry: &Entry) -> Result<(), String> {
        if entry.key == keys::PERMISSION_HEAD {
            let head: v1::PermissionHead = decode(entry)?;
            self.show(snapshot, head.generation);
        } else if entry.key == keys::PERMISSION_SETTINGS {
            snapshot.permission_settings = Settings::try_from(&decode::<v1::PermissionSettings>(entry)?).map_err(mistakes)?;
        } else if let Some((generation, kind, name)) = of_generation(&entry.key) {
            match kind {
                Kind::Group => {
                    let group = Group::try_from(&decode::<v1::PermissionGroup>(entry)?).map_err(mistakes)?;
                    self.parts(snapshot, generation).0.insert(name.to_owned(), Arc::new(group));
                }
                Kind::Track => {
                    let track = Track::try_from(&decode::<v1::PermissionTrack>(entry)?).map_err(mistakes)?;
                    self.parts(snapshot, generation).1.insert(name.to_owned(), Arc::new(track));
                }
            }
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, snapshot: &mut Snapshot, key: &str) {
        if key == keys::PERMISSION_HEAD {
            self.show(snapshot, FIRST_GENERATION.to_owned());
        } else if key == keys::PERMISSION_SETTINGS {
            snapshot.permission_settings = Settings::default();
        } else if let Some((generation, kind, name)) = of_generation(key) {
            let (groups, tracks) = self.parts(snapshot, generation);
            match kind {
                Kind::Group => drop(groups.remove(name)),
                Kind::Track => drop(tracks.remove(name)),
            }
            self.apart.retain(|_, apart| !apart.groups.is_empty() || !apart.tracks.is_empty());
        }
    }

    /// Makes a generation the visible one.
    fn show(&mut self, snapshot: &mut Snapshot, generation: String) {
        if *generation == *snapshot.permission_generation {
            return;
        }
        let Apart { mut groups, mut tracks } = self.apart.remove(&generation).unwrap_or_default();
        share_equal(&snapshot.groups, &mut groups);
        share_equal(&snapshot.tracks, &mut tracks);
        let apart =
            Apart { groups: std::mem::replace(&mut snapshot.groups, groups), tracks: std::mem::replace(&mut snapshot.tracks, tracks) };
        let replaced = std::mem::replace(&mut snapshot.permission_generation, generation.into());
        if !apart.groups.is_empty() || !apart.tracks.is_empty() {
            self.apart.insert(replaced.to_string(), apart);
        }
    }

    fn parts<'a>(&'a mut self, snapshot: &'a mut Snapshot, generation: &str) -> (&'a mut Groups, &'a mut Tracks) {
        if *generation == *snapshot.permission_generation {
            return (&mut snapshot.groups, &mut snapshot.tracks);
        }
        let apart = self.apart.entry(generation.to_owned()).or_default();
        (&mut apart.groups, &mut apart.tracks)
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Group,
    Track,
}

/// The generation, kind and name that a key is of, if it is of one.
fn of_generation(key: &str) -> Option<(&str, Kind, &str)> {
    let of = |prefix, kind| keys::in_generation(prefix, key).map(|(generation, name)| (generation, kind, name));
    of(keys::PERMISSION_GROUPS, Kind::Group).or_else(|| of(keys::PERMISSION_TRACKS, Kind::Track))
}

fn decode<T: prost::Message + Default>(entry: &Entry) -> Result<T, String> {
    T::decode(&*entry.value).map_err(|error| error.to_string())
}

fn mistakes(mistakes: Vec<v1::FieldError>) -> String {
    super::shown(&mistakes)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::super::{Push, Resources, Snapshots, snapshot_of};
    use super::*;
    use crate::follow::View;
    use crate::store::{Batch, Event};

    fn entry(key: &str, value: &impl Message, modified: u64) -> Entry {
        Entry { key: key.to_owned(), value: value.encode_to_vec(), modified, lease: 0 }
    }

    fn group(generation: &str, name: &str, modified: u64) -> Entry {
        let group = v1::PermissionGroup { name: name.to_owned(), nodes: Vec::new() };
        entry(&keys::permission_group(generation, name), &group, modified)
    }

    fn names(snapshot: &Snapshot) -> Vec<&str> {
        snapshot.groups.keys().map(String::as_str).collect()
    }

    #[test]
    fn what_is_not_visible_waits_apart_and_comes_at_once_with_the_head() {
        let snapshots = Snapshots::new();
        let mut view = Resources::new(snapshots.clone(), "store");
        let mut stored = vec![group("0", "old", 1)];
        view.reset(stored.clone(), 1);
        let newest = || snapshots.newest().expect("a snapshot");
        let mut then = |view: &mut Resources, entry: Entry| {
            stored.push(entry.clone());
            view.apply(Batch { revision: entry.modified, events: vec![Event::Put(entry)] });
        };
        then(&mut view, group("new", "one", 2));
        then(&mut view, group("new", "two", 3));
        then(&mut view, group("given up", "three", 4));
        assert_eq!((names(&newest()), newest().revision.number), (vec!["old"], 1));
        let head = v1::PermissionHead { generation: "new".to_owned() };
        then(&mut view, entry(keys::PERMISSION_HEAD, &head, 5));
        assert_eq!((names(&newest()), newest().revision.number), (vec!["one", "two"], 5));
        // Who begins now sees the same.
        assert_eq!(snapshot_of("store", &stored), *newest());
        let swept = [keys::permission_group("0", "old"), keys::permission_group("given up", "three")];
        let events = swept.map(|key| Event::Delete { key, modified: 6 });
        view.apply(Batch { revision: 6, events: events.into() });
        assert_eq!((names(&newest()), newest().revision.number), (vec!["one", "two"], 5));
        assert!(view.current.generations.apart.is_empty());
        let gone = Event::Delete { key: keys::permission_group("new", "one"), modified: 7 };
        view.apply(Batch { revision: 7, events: vec![gone] });
        assert_eq!((names(&newest()), newest().revision.number), (vec!["two"], 7));
    }

    #[test]
    fn what_an_import_leaves_as_it_was_is_kept_once_and_old_generations_are_not_kept() {
        const IMPORTS: u64 = 5;
        let snapshots = Snapshots::new();
        let mut view = Resources::new(snapshots.clone(), "store");
        let mut stored = vec![group("0", "same", 1)];
        view.reset(stored.clone(), 1);
        let newest = || snapshots.newest().expect("a snapshot");
        let first = newest().groups["same"].clone();
        let mut held = vec![newest().revision.clone()];
        for import in 1..=IMPORTS {
            let (generation, at) = (format!("import{import}"), import * 100);
            let head = v1::PermissionHead { generation: generation.clone() };
            let entries = [
                group(&generation, "same", at),
                group(&generation, &format!("of{import}"), at),
                entry(keys::PERMISSION_HEAD, &head, at + 1),
                group(&generation, "later", at + 2),
            ];
            for entry in entries {
                stored.push(entry.clone());
                view.apply(Batch { revision: entry.modified, events: vec![Event::Put(entry)] });
                held.push(newest().revision.clone());
            }
            assert_eq!((&*newest().permission_generation, newest().revision.number), (&*generation, at + 2));
        }
        assert!(Arc::ptr_eq(&newest().groups["same"], &first));
        // One who lags by one import is told the difference; of all those before nothing is kept.
        held.dedup();
        held.pop();
        let deltas = held.iter().filter(|held| matches!(snapshots.push_from(Some(held)), Some((_, Push::Delta(_)))));
        assert_eq!(deltas.map(|held| held.number).collect::<Vec<_>>(), [402, 501]);
        // Nor is anything made anew by reading it all again.
        view.reset(stored, 1_000);
        assert!(Arc::ptr_eq(&newest().groups["same"], &first));
    }

    #[test]
    fn a_record_that_cannot_be_read_leaves_what_was_there() {
        let snapshots = Snapshots::new();
        let mut view = Resources::new(snapshots.clone(), "store");
        view.reset(vec![group("0", "mod", 1)], 1);
        let broken = Entry { value: vec![0xff], ..group("0", "mod", 2) };
        view.apply(Batch { revision: 2, events: vec![Event::Put(broken)] });
        let head = Entry { key: keys::PERMISSION_HEAD.to_owned(), value: vec![0xff], modified: 3, lease: 0 };
        view.apply(Batch { revision: 3, events: vec![Event::Put(head)] });
        assert_eq!(names(&snapshots.newest().expect("a snapshot")), ["mod"]);
    }
}
