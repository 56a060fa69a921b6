//! What a player may do, answered by its session itself from what the node holds: no I/O and no lock, and no allocation while
//! nothing has changed.
//!
//! An answer follows from four things, and a check sees for itself when one of them has changed:
//! - what the player has of its own: the control client puts it into the session's [`Slot`];
//! - groups, tracks and settings: the node's [`Rules`], which come with the snapshot;
//! - the backend that the player is on: the context `world`, which changes at the cutover;
//! - the time, for nodes that expire. It needs nobody's message, so that it goes on with the control plane away.
//!
//! An import replaces the first two at once, but they come one after the other. Each says which *generation* it is of, and until both
//! are of the same the last answers hold: never a mixture of the old and the new.
//!
//! Whatever is for some players only asks here, by a permission of its own: a restricted backend for `moonbridge.server.NAME`
//! ([`Permissions::entry`]), a command for `moonbridge.command.NAME`. A session in play has its own at hand:
//! `self.registration.permissions.check(&self.node, "moonbridge.command.list").is_allowed()`, or [`Answer::is_allowed_or`] for what
//! everybody may do unless it is taken away.

mod known;
mod rules;
mod set;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use moonbridge_permissions::{Contexts, Resolved};
use moonbridge_proto::snapshot::Backend;
use moonbridge_proto::v1;

use crate::node::Node;
pub(crate) use known::{Known, Slot};
pub(crate) use rules::Rules;
use set::{Own, Set};

/// What a check comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Granted.
    True,
    /// Taken away.
    False,
    /// Nothing says either.
    Undefined,
    /// What the player has is not known: the control plane has not told it.
    Unavailable,
}

impl Answer {
    /// Whether it is granted.
    pub fn is_allowed(self) -> bool {
        self == Self::True
    }

    /// The same, but by default where nothing says either. What is not known is never allowed.
    pub fn is_allowed_or(self, default: bool) -> bool {
        match self {
            Self::True => true,
            Self::Undefined => default,
            Self::False | Self::Unavailable => false,
        }
    }
}

/// What one session's player may do, where it is now.
#[derive(Default)]
pub struct Permissions {
    slot: Slot,
    /// None before the first.
    backend: Option<Arc<str>>,
    /// What the last check was answered from.
    set: Option<Set>,
}

impl Permissions {
    /// Whether the player has a permission.
    pub fn check(&mut self, node: &Node, permission: &str) -> Answer {
        self.resolved(node, now).map_or(Answer::Unavailable, |resolved| resolved.check(permission).into())
    }

    /// Which restricted backends the player may enter, as of now.
    pub(crate) fn entry(&mut self, node: &Node) -> impl Fn(&Backend) -> bool + use<> {
        let resolved = self.resolved(node, now).cloned();
        move |backend| resolved.as_ref().is_some_and(|resolved| Answer::from(resolved.check(&backend.permission())).is_allowed())
    }

    /// Whether anything is known of what the player may do.
    pub(crate) fn are_known(&mut self, node: &Node) -> bool {
        self.resolved(node, now).is_some()
    }

    /// The contexts that its checks are made in.
    pub(crate) fn contexts(&self, node: &Node) -> Contexts {
        let rules = node.rules.load();
        rules.as_ref().map(|rules| rules.base.settings.contexts(self.backend.as_deref())).unwrap_or_default()
    }

    /// The player is on this backend from here on.
    pub(crate) fn moved(&mut self, backend: impl Into<Arc<str>>) {
        self.backend = Some(backend.into());
    }

    /// Where the control client puts what the player has.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The set to ask: the last one while it would come out the same, else a new one. None if what the player has is not known.
    fn resolved(&mut self, node: &Node, now: impl Fn() -> i64) -> Option<&Arc<Resolved>> {
        let (rules, known) = (node.rules.load(), self.slot.load());
        let (rules, known) = (rules.as_ref()?, known.as_ref()?);
        let Some(user) = &known.user else {
            self.set = None;
            return None;
        };
        let own = Own { user, generation: &known.generation, backend: self.backend.as_ref() };
        let stands = self.set.as_mut().is_some_and(|set| set.stands(own, rules, &now));
        if !stands {
            // Half of an import is here, and the rest on its way: the two do not go together.
            let is_whole = *own.generation == rules.generation;
            self.set = is_whole.then(|| set::resolve(user, own.backend, rules, &now, &node.tally));
        }
        self.set.as_ref().map(Set::resolved)
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl From<moonbridge_permissions::Answer> for Answer {
    fn from(answer: moonbridge_permissions::Answer) -> Self {
        match answer {
            moonbridge_permissions::Answer::True => Self::True,
            moonbridge_permissions::Answer::False => Self::False,
            moonbridge_permissions::Answer::Undefined => Self::Undefined,
        }
    }
}

impl From<Answer> for v1::PermissionAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::True => Self::True,
            Answer::False => Self::False,
            Answer::Undefined => Self::Undefined,
            Answer::Unavailable => Self::Unavailable,
        }
    }
}
