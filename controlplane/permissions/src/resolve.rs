//! From holders to answers.

use std::sync::Arc;

use crate::context::Contexts;
use crate::holder::{Group, Groups, Tracks, User};
use crate::settings::Settings;

/// What a check comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Granted.
    True,
    /// Taken away.
    False,
    /// Nothing says either.
    Undefined,
}

/// What a user has in one set of contexts, ready to be asked.
#[derive(Debug)]
pub struct Resolved {
    valid_until: Option<i64>,
    primary_group: Arc<str>,
}

/// Works out what a user has in these contexts, at this time.
pub fn resolve(user: &User, groups: &Groups, tracks: &Tracks, settings: &Settings, contexts: &Contexts, now: i64) -> Resolved {
    let _ = (user, groups, tracks, settings, contexts, now);
    todo!("helper A")
}

impl Resolved {
    /// Whether the user has a permission. Allocates nothing.
    pub fn check(&self, permission: &str) -> Answer {
        let _ = permission;
        todo!("helper A")
    }

    /// When the first of the nodes that apply expires, in seconds since 1970: from then on it is to be worked out anew.
    pub fn valid_until(&self) -> Option<i64> {
        self.valid_until
    }

    /// Whether the groups that it was worked out from are still these: looks at those only that the user inherits (or would, if
    /// they existed).
    pub fn is_current(&self, groups: &Groups) -> bool {
        let _ = groups;
        todo!("helper A")
    }

    /// The groups that the user inherits, in the order in which they were walked.
    pub fn inherited(&self) -> impl Iterator<Item = &Arc<Group>> {
        std::iter::empty()
    }

    /// The user's primary group.
    pub fn primary_group(&self) -> &str {
        &self.primary_group
    }

    /// The prefix, put together.
    pub fn prefix(&self) -> Option<&str> {
        None
    }

    /// The suffix, put together.
    pub fn suffix(&self) -> Option<&str> {
        None
    }

    /// The value of a meta key.
    pub fn meta(&self, key: &str) -> Option<&str> {
        let _ = key;
        None
    }

    /// All meta, by key.
    pub fn all_meta(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }
}
