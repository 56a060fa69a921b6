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

/// Which generation a snapshot shows, and what there is of others.
#[derive(Debug)]
pub(super) struct Generations {
    visible: String,
    apart: BTreeMap<String, Apart>,
}

#[derive(Debug, Default)]
struct Apart {
    groups: Groups,
    tracks: Tracks,
}

impl Default for Generations {
    fn default() -> Self {
        Self { visible: FIRST_GENERATION.to_owned(), apart: BTreeMap::new() }
    }
}

impl Generations {
    /// Whether a key has to do with what is visible: if not, the snapshot is not changed by it.
    pub(super) fn shows(&self, key: &str) -> bool {
        of_generation(key).is_none_or(|(generation, ..)| generation == self.visible)
    }

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
        if generation == self.visible {
            return;
        }
        let Apart { groups, tracks } = self.apart.remove(&generation).unwrap_or_default();
        let apart =
            Apart { groups: std::mem::replace(&mut snapshot.groups, groups), tracks: std::mem::replace(&mut snapshot.tracks, tracks) };
        let replaced = std::mem::replace(&mut self.visible, generation);
        if !apart.groups.is_empty() || !apart.tracks.is_empty() {
            self.apart.insert(replaced, apart);
        }
    }

    fn parts<'a>(&'a mut self, snapshot: &'a mut Snapshot, generation: &str) -> (&'a mut Groups, &'a mut Tracks) {
        if generation == self.visible {
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
