//! What the control plane has told of a player's own permissions.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use moonbridge_permissions::User;
use moonbridge_proto::snapshot::Revision;
use moonbridge_proto::v1;
use uuid::Uuid;

/// Where a session finds what its player has; empty until that has been told. Written by the control client only.
pub(crate) type Slot = Arc<ArcSwapOption<Known>>;

/// Mistakes of a message that are logged.
const MAX_MISTAKES: usize = 8;

/// What a player has of its own, as of a revision.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    revision: Revision,
    /// It goes with groups and tracks of the same generation.
    pub(super) generation: Arc<str>,
    /// None: there is something that this node cannot read. It may take permissions away, so what was known before is void.
    pub(super) user: Option<Arc<User>>,
}

impl Known {
    /// What a message says, and of whom; nothing if it is of nobody.
    pub(crate) fn read(raw: v1::UserPermissions) -> Option<(Uuid, Known)> {
        let uuid = Uuid::try_parse(&raw.player_uuid).ok()?;
        let revision = raw.revision.map(Revision::from).unwrap_or_default();
        let void = |mistakes: String| {
            tracing::error!(player = %uuid, %revision, mistakes, "this player's permissions cannot be read: it has none until they are set anew");
            None
        };
        let user = match raw.user.as_ref().map(User::try_from) {
            _ if raw.unreadable => void("the replica cannot read them".to_owned()),
            None => Some(User::unknown(uuid)),
            Some(Ok(user)) => Some(user),
            Some(Err(mistakes)) => void(mistakes.iter().take(MAX_MISTAKES).map(ToString::to_string).collect::<Vec<_>>().join("; ")),
        };
        Some((uuid, Known { revision, generation: raw.generation.into(), user: user.map(Arc::new) }))
    }

    /// Puts it into a slot, unless that has it already or knows better.
    pub(crate) fn put_into(mut self, slot: &Slot) {
        if let Some(held) = slot.load().as_ref() {
            if held.revision.store_id == self.revision.store_id && self.revision.number <= held.revision.number {
                return;
            }
            // So that nothing is resolved anew for it.
            if held.user == self.user {
                self.user.clone_from(&held.user);
            }
        }
        slot.store(Some(Arc::new(self)));
    }

    /// A new stream begins: what it tells first counts, whatever the revision. The store may have been restored from a backup.
    pub(crate) fn forget_revision(slot: &Slot) {
        if let Some(held) = slot.load().as_ref() {
            slot.store(Some(Arc::new(Known { revision: Revision::default(), ..Known::clone(held) })));
        }
    }
}
