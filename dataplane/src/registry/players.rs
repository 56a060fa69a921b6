//! Whose each player is.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

/// The session that has each player, which is one by its UUID and by its name in any case.
#[derive(Default)]
pub(crate) struct Players {
    by_uuid: HashMap<Uuid, Uuid>,
    /// In lower case.
    by_name: HashMap<Box<str>, Uuid>,
}

impl Players {
    /// Who has this player, or (by name and by UUID) these two.
    pub(crate) fn holders(&self, name: &str, uuid: &Uuid) -> BTreeSet<Uuid> {
        let by_name = self.by_name.get(name.to_lowercase().as_str());
        by_name.into_iter().chain(self.by_uuid.get(uuid)).copied().collect()
    }

    /// Who has the player with this UUID.
    pub(super) fn holder(&self, uuid: &Uuid) -> Option<&Uuid> {
        self.by_uuid.get(uuid)
    }

    /// The player is this session's.
    pub(super) fn take(&mut self, name: &str, uuid: Uuid, session: Uuid) {
        self.by_name.insert(name.to_lowercase().into(), session);
        self.by_uuid.insert(uuid, session);
    }

    /// The session has ended: what nobody has taken from it is nobody's.
    pub(super) fn leave(&mut self, name: &str, uuid: &Uuid, session: &Uuid) {
        let name = name.to_lowercase();
        if self.by_name.get(name.as_str()) == Some(session) {
            self.by_name.remove(name.as_str());
        }
        if self.by_uuid.get(uuid) == Some(session) {
            self.by_uuid.remove(uuid);
        }
    }

    /// Whether nobody has any.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_uuid.is_empty() && self.by_name.is_empty()
    }
}
