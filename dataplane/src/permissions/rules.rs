//! What everybody's permissions are resolved by.

use std::sync::Arc;

use moonbridge_permissions::{Groups, Settings, Tracks};
use moonbridge_proto::snapshot::Snapshot;

/// The permissions' part of the snapshot in force. Of two that follow each other, whatever is equal is the same in memory, also when
/// the second came as a whole: so a set of permissions sees by pointers that nothing has changed for it.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Which one the groups and tracks are of.
    pub(super) generation: Arc<str>,
    pub(super) groups: Groups,
    pub(super) base: Arc<Base>,
}

/// What counts for every player.
#[derive(Debug, PartialEq)]
pub(super) struct Base {
    pub(super) tracks: Tracks,
    pub(super) settings: Settings,
}

impl Rules {
    /// Those of a snapshot that comes after `before`, and is to share with it.
    pub(crate) fn follow(before: Option<Arc<Rules>>, snapshot: &mut Snapshot) -> Arc<Rules> {
        let base = Base { tracks: snapshot.tracks.clone(), settings: snapshot.permission_settings.clone() };
        let generation = snapshot.permission_generation.clone();
        let Some(before) = before else { return Arc::new(Rules { generation, groups: snapshot.groups.clone(), base: Arc::new(base) }) };
        for (name, group) in &mut snapshot.groups {
            if let Some(known) = before.groups.get(name).filter(|known| *known == group) {
                group.clone_from(known);
            }
        }
        let base = if *before.base == base { before.base.clone() } else { Arc::new(base) };
        if before.generation == generation && Arc::ptr_eq(&base, &before.base) && before.groups == snapshot.groups {
            return before;
        }
        Arc::new(Rules { generation, groups: snapshot.groups.clone(), base })
    }
}
