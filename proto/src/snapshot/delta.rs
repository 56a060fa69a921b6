//! From one revision to a later one: the smallest change that leads there, and applying it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::mistakes::{self, At, Mistakes};
use super::{Snapshot, backend, generation, permissions, route, settings};
use crate::routing::normalise_host;
use crate::v1;

impl Snapshot {
    /// What leads from this snapshot to a later one of the same store.
    pub fn delta_to(&self, newer: &Snapshot) -> v1::SnapshotDelta {
        v1::SnapshotDelta {
            from: Some((&self.revision).into()),
            to: Some((&newer.revision).into()),
            settings: (self.settings != newer.settings).then(|| (&newer.settings).into()),
            set_backends: changed(&self.backends, &newer.backends).map(|backend| (&**backend).into()).collect(),
            removed_backends: removed(&self.backends, &newer.backends),
            set_routes: changed(&self.routes, &newer.routes).map(|route| (&**route).into()).collect(),
            removed_routes: removed(&self.routes, &newer.routes),
            permission_settings: (self.permission_settings != newer.permission_settings).then(|| (&newer.permission_settings).into()),
            set_permission_groups: changed(&self.groups, &newer.groups).map(|group| (&**group).into()).collect(),
            removed_permission_groups: removed(&self.groups, &newer.groups),
            set_permission_tracks: changed(&self.tracks, &newer.tracks).map(|track| (&**track).into()).collect(),
            removed_permission_tracks: removed(&self.tracks, &newer.tracks),
            permission_generation: (self.permission_generation != newer.permission_generation)
                .then(|| newer.permission_generation.to_string()),
        }
    }

    /// The snapshot that a delta leads to. Nothing of it is applied if any of it is wrong.
    ///
    /// # Errors
    /// Every mistake with the path of its field: a delta from another revision than this, one to another store or backwards,
    /// an invalid resource, a key twice, the removal of what is not there.
    pub fn apply(&self, delta: &v1::SnapshotDelta) -> Result<Snapshot, Vec<v1::FieldError>> {
        let mut mistakes = Mistakes::default();
        let root = At::root();
        let mut snapshot = self.clone();
        self.check_revisions(delta, &mut mistakes);
        snapshot.revision = mistakes::revision(delta.to.clone(), &root.field("to"), &mut mistakes);
        if let Some(raw) = &delta.settings {
            snapshot.settings = settings::validate(raw.clone(), &root.field("settings"), &mut mistakes);
        }

        let mut seen = HashSet::new();
        for (index, name) in delta.removed_backends.iter().enumerate() {
            if snapshot.backends.remove(name).is_none() {
                mistakes.add(&root.item("removed_backends", index), format!("there is no backend {}", mistakes::shown(name)));
            }
            seen.insert(name.clone());
        }
        for (index, raw) in delta.set_backends.iter().enumerate() {
            let at = root.item("set_backends", index);
            let backend = backend::validate(raw.clone(), &at, &mut mistakes);
            if !seen.insert(backend.name.clone()) {
                mistakes.add(&at.field("name"), format!("the backend {} is in the delta twice", mistakes::shown(&backend.name)));
            }
            snapshot.backends.insert(backend.name.clone(), Arc::new(backend));
        }

        seen.clear();
        for (index, host) in delta.removed_routes.iter().enumerate() {
            let host = normalise_host(host);
            if snapshot.routes.remove(&host).is_none() {
                mistakes.add(&root.item("removed_routes", index), format!("there is no route {}", mistakes::shown(&host)));
            }
            seen.insert(host);
        }
        for (index, raw) in delta.set_routes.iter().enumerate() {
            let at = root.item("set_routes", index);
            let route = route::validate(raw.clone(), &at, &mut mistakes);
            if !seen.insert(route.host.clone()) {
                mistakes.add(&at.field("host"), format!("the route {} is in the delta twice", mistakes::shown(&route.host)));
            }
            snapshot.routes.insert(route.host.clone(), Arc::new(route));
        }
        snapshot.apply_permissions(delta, &mut mistakes);
        mistakes.into_result(snapshot)
    }

    fn apply_permissions(&mut self, delta: &v1::SnapshotDelta, mistakes: &mut Mistakes) {
        let root = At::root();
        if let Some(raw) = &delta.permission_settings {
            self.permission_settings = permissions::settings(raw, &root.field("permission_settings"), mistakes);
        }
        if let Some(name) = &delta.permission_generation {
            self.permission_generation = generation(name.clone(), &root.field("permission_generation"), mistakes);
        }
        let mut seen = HashSet::new();
        for (index, name) in delta.removed_permission_groups.iter().enumerate() {
            if self.groups.remove(name).is_none() {
                mistakes.add(&root.item("removed_permission_groups", index), format!("there is no group {}", mistakes::shown(name)));
            }
            seen.insert(name.clone());
        }
        for (index, raw) in delta.set_permission_groups.iter().enumerate() {
            let at = root.item("set_permission_groups", index);
            let Some(group) = permissions::group(raw, &at, mistakes) else { continue };
            if !seen.insert(group.name().to_string()) {
                mistakes.add(&at.field("name"), format!("the group {} is in the delta twice", mistakes::shown(group.name())));
            }
            self.groups.insert(group.name().to_string(), Arc::new(group));
        }
        seen.clear();
        for (index, name) in delta.removed_permission_tracks.iter().enumerate() {
            if self.tracks.remove(name).is_none() {
                mistakes.add(&root.item("removed_permission_tracks", index), format!("there is no track {}", mistakes::shown(name)));
            }
            seen.insert(name.clone());
        }
        for (index, raw) in delta.set_permission_tracks.iter().enumerate() {
            let at = root.item("set_permission_tracks", index);
            let Some(track) = permissions::track(raw, &at, mistakes) else { continue };
            if !seen.insert(track.name().to_string()) {
                mistakes.add(&at.field("name"), format!("the track {} is in the delta twice", mistakes::shown(track.name())));
            }
            self.tracks.insert(track.name().to_string(), Arc::new(track));
        }
    }

    fn check_revisions(&self, delta: &v1::SnapshotDelta, mistakes: &mut Mistakes) {
        let root = At::root();
        let from = mistakes::revision(delta.from.clone(), &root.field("from"), mistakes);
        if delta.from.is_some() && from != self.revision {
            mistakes.add(&root.field("from"), format!("expected the revision in force, {}, got {from}", self.revision));
        }
        let Some(to) = &delta.to else { return };
        if to.store_id != self.revision.store_id {
            mistakes.add(&root.field("to.store_id"), format!("expected the store in force, {:?}", self.revision.store_id));
        } else if to.number < self.revision.number {
            mistakes.add(&root.field("to.number"), format!("expected at least {}, got {}", self.revision.number, to.number));
        }
    }
}

/// The values of `newer` that `older` lacks or has otherwise.
fn changed<'a, T: PartialEq>(older: &'a BTreeMap<String, Arc<T>>, newer: &'a BTreeMap<String, Arc<T>>) -> impl Iterator<Item = &'a Arc<T>> {
    newer.iter().filter(|(key, value)| older.get(*key) != Some(value)).map(|(_, value)| value)
}

/// The keys of `older` that `newer` lacks.
fn removed<T>(older: &BTreeMap<String, Arc<T>>, newer: &BTreeMap<String, Arc<T>>) -> Vec<String> {
    older.keys().filter(|key| !newer.contains_key(*key)).cloned().collect()
}
