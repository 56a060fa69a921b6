//! All that a node runs on, at one revision: validated once at the edge, then only read.
//!
//! A [`Snapshot`] is made from a [`v1::Snapshot`] (`TryFrom`), or from an older one and a [`v1::SnapshotDelta`]
//! ([`Snapshot::apply`]). Both report every mistake there is, each with the path of its field, and change nothing if there is one.

mod backend;
mod delta;
mod forwarding;
mod mistakes;
mod permissions;
mod route;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use moonbridge_permissions::{Groups, Settings as PermissionSettings, Tracks};

pub use backend::{Address, AddressError, Backend, MAX_NAME, name_problem};
pub use forwarding::{Forwarding, ForwardingToken, ForwardingTokenError};
pub use permissions::{read_contexts, temporary_add, write_contexts};
pub use route::{MAX_ROUTE_BACKENDS, MAX_ROUTE_HOST, OnKick, Route};
pub use settings::{DuplicateLogin, FAVICON_SIDE, MAX_FAVICON, MAX_MOTD, Settings};

use crate::v1;
use mistakes::{At, Mistakes};

/// The longest name of a generation of permissions, in bytes.
const MAX_GENERATION: usize = 64;

/// Settings, backends, routes, permission groups and tracks at one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Which state of the resources this is.
    pub revision: Revision,
    /// Network-wide settings.
    pub settings: Settings,
    /// The backends by name.
    pub backends: BTreeMap<String, Arc<Backend>>,
    /// The routes by host, as [`crate::routing::normalise_host`] writes it.
    pub routes: BTreeMap<String, Arc<Route>>,
    /// How permissions are resolved.
    pub permission_settings: PermissionSettings,
    /// The permission groups by name.
    pub groups: Groups,
    /// The permission tracks by name.
    pub tracks: Tracks,
    /// Which generation the groups and tracks are of: users of another are not resolved with them.
    pub permission_generation: Arc<str>,
}

/// Which state of the resources: the store it is of, and the newest modification among the resources themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Revision {
    /// The store's own id.
    pub store_id: String,
    /// Grows with every change of a resource; comparable within one store only.
    pub number: u64,
}

impl TryFrom<v1::Snapshot> for Snapshot {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: v1::Snapshot) -> Result<Self, Self::Error> {
        let mut mistakes = Mistakes::default();
        let root = At::root();
        let revision = mistakes::revision(raw.revision, &root.field("revision"), &mut mistakes);
        // Absent settings are the defaults: a fresh store has none.
        let settings = raw.settings.map(|raw| settings::validate(raw, &root.field("settings"), &mut mistakes)).unwrap_or_default();
        let permission_generation = generation(raw.permission_generation, &root.field("permission_generation"), &mut mistakes);
        let mut snapshot = Self { revision, settings, permission_generation, ..Self::default() };
        for (index, raw) in raw.backends.into_iter().enumerate() {
            let at = root.item("backends", index);
            let backend = backend::validate(raw, &at, &mut mistakes);
            if snapshot.backends.contains_key(&backend.name) {
                mistakes.add(&at.field("name"), format!("the backend {} is in the list twice", mistakes::shown(&backend.name)));
            }
            snapshot.backends.insert(backend.name.clone(), Arc::new(backend));
        }
        for (index, raw) in raw.routes.into_iter().enumerate() {
            let at = root.item("routes", index);
            let route = route::validate(raw, &at, &mut mistakes);
            if snapshot.routes.contains_key(&route.host) {
                mistakes.add(&at.field("host"), format!("the route {} is in the list twice", mistakes::shown(&route.host)));
            }
            snapshot.routes.insert(route.host.clone(), Arc::new(route));
        }
        if let Some(raw) = &raw.permission_settings {
            snapshot.permission_settings = permissions::settings(raw, &root.field("permission_settings"), &mut mistakes);
        }
        for (index, raw) in raw.permission_groups.iter().enumerate() {
            let at = root.item("permission_groups", index);
            let Some(group) = permissions::group(raw, &at, &mut mistakes) else { continue };
            if snapshot.groups.insert(group.name().to_string(), Arc::new(group)).is_some() {
                mistakes.add(&at.field("name"), format!("the group {} is in the list twice", mistakes::shown(&raw.name)));
            }
        }
        for (index, raw) in raw.permission_tracks.iter().enumerate() {
            let at = root.item("permission_tracks", index);
            let Some(track) = permissions::track(raw, &at, &mut mistakes) else { continue };
            if snapshot.tracks.insert(track.name().to_string(), Arc::new(track)).is_some() {
                mistakes.add(&at.field("name"), format!("the track {} is in the list twice", mistakes::shown(&raw.name)));
            }
        }
        mistakes.into_result(snapshot)
    }
}

/// A generation's name is the store's own, and only compared.
fn generation(name: String, at: &At, mistakes: &mut Mistakes) -> Arc<str> {
    if name.len() > MAX_GENERATION {
        mistakes.add(at, format!("expected at most {MAX_GENERATION} bytes, got {}", name.len()));
        return Arc::default();
    }
    name.into()
}

impl From<&Snapshot> for v1::Snapshot {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            revision: Some((&snapshot.revision).into()),
            settings: Some((&snapshot.settings).into()),
            backends: snapshot.backends.values().map(|backend| (&**backend).into()).collect(),
            routes: snapshot.routes.values().map(|route| (&**route).into()).collect(),
            permission_settings: Some((&snapshot.permission_settings).into()),
            permission_groups: snapshot.groups.values().map(|group| (&**group).into()).collect(),
            permission_tracks: snapshot.tracks.values().map(|track| (&**track).into()).collect(),
            permission_generation: snapshot.permission_generation.to_string(),
        }
    }
}

impl From<&Revision> for v1::Revision {
    fn from(revision: &Revision) -> Self {
        Self { store_id: revision.store_id.clone(), number: revision.number }
    }
}

impl From<v1::Revision> for Revision {
    fn from(raw: v1::Revision) -> Self {
        Self { store_id: raw.store_id, number: raw.number }
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.number, self.store_id)
    }
}

impl std::fmt::Display for v1::FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}
