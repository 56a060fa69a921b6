//! From holders to answers.

mod lookup;
mod meta;
mod walk;

use std::sync::Arc;

use crate::context::Contexts;
use crate::holder::{Group, Groups, Tracks, User};
use crate::node::{Kind, Node};
use crate::settings::{PrimaryGroup, Settings};
use lookup::Lookup;
use meta::Meta;
pub(crate) use walk::{Holder, Walk};

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
    lookup: Lookup,
    meta: Meta,
    primary_group: Arc<str>,
    inherited: Vec<Arc<Group>>,
    missing: Vec<Arc<str>>,
    valid_until: Option<i64>,
}

/// What is asked, and of whom.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) user: &'a User,
    pub(crate) groups: &'a Groups,
    pub(crate) tracks: &'a Tracks,
    pub(crate) settings: &'a Settings,
    pub(crate) contexts: &'a Contexts,
    pub(crate) now: i64,
}

impl Query<'_> {
    pub(crate) fn applies(&self, node: &Node) -> bool {
        !node.has_expired(self.now) && node.contexts().is_satisfied_by(self.contexts, self.settings.satisfy)
    }
}

/// Works out what a user has in these contexts, at this time.
///
/// What comes of it depends on the user, the settings, the contexts, the groups that [`Resolved::is_current`] looks at, and on the
/// tracks if a prefix or suffix is put together by them.
pub fn resolve(user: &User, groups: &Groups, tracks: &Tracks, settings: &Settings, contexts: &Contexts, now: i64) -> Resolved {
    let query = Query { user, groups, tracks, settings, contexts, now };
    let walk = Walk::of(&query);
    let mut lookup = Lookup::new(settings, walk.size());
    let mut meta = meta::Accumulator::new(&query);
    let mut expanding = Vec::new();
    let mut valid_until: Option<i64> = None;
    for &holder in walk.holders() {
        for node in walk.nodes(holder) {
            let applies = query.applies(node);
            if applies || (matches!(node.kind(), Kind::Weight(_)) && !node.has_expired(now)) {
                valid_until = valid_until.into_iter().chain(node.expiry()).min();
            }
            if applies {
                lookup.add(node);
                meta.add(node, holder);
                if !node.expanded().is_empty() {
                    expanding.push(node);
                }
            }
        }
    }
    // What is written out anywhere beats what a shorthand stands for.
    expanding.into_iter().for_each(|node| lookup.add_expanded(node));
    let primary_group = primary_group(&query, &walk);
    let (inherited, missing) = walk.into_groups();
    Resolved { lookup, meta: meta.finish(), primary_group, inherited, missing, valid_until }
}

fn primary_group(query: &Query<'_>, walk: &Walk<'_>) -> Arc<str> {
    let weight = |group: &Group| group.weight(query.now).unwrap_or(0);
    let group = match query.settings.primary_group {
        PrimaryGroup::ParentsByWeight => {
            let heavier = |best: &'_ Arc<Group>, other: &Arc<Group>| weight(other) > weight(best);
            walk.own_parents(query).reduce(|best, other| if heavier(best, other) { other } else { best }).map(|group| group.name())
        }
        PrimaryGroup::AllParentsByWeight => walk.by_weight(query).into_iter().find_map(Holder::group).map(|group| group.name()),
        // As LuckPerms does when it loads a user: a stored one that is not inherited everywhere gives way to the first that is.
        PrimaryGroup::Stored => {
            let everywhere = || walk.parents_everywhere(query.now);
            everywhere().find(|group| ***group == *walk.stored_primary()).or_else(|| everywhere().next())
        }
    };
    group.map_or_else(|| walk.stored_primary().into(), Arc::clone)
}

impl Resolved {
    /// Whether the user has a permission. Allocates nothing, unless the permission is longer than any reasonable one, or a regular
    /// expression is tried for the first time.
    pub fn check(&self, permission: &str) -> Answer {
        self.lookup.check(permission).into()
    }

    /// When the first of the nodes that apply expires, in seconds since 1970: from then on it is to be worked out anew.
    pub fn valid_until(&self) -> Option<i64> {
        self.valid_until
    }

    /// Whether the groups that it was worked out from are still these: looks at those only that the user inherits (or would, if
    /// they existed).
    pub fn is_current(&self, groups: &Groups) -> bool {
        let same = |group: &Arc<Group>| groups.get(&**group.name()).is_some_and(|current| Arc::ptr_eq(current, group));
        self.inherited.iter().all(same) && !self.missing.iter().any(|name| groups.contains_key(&**name))
    }

    /// The groups that the user inherits, in the order in which they were walked.
    pub fn inherited(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.inherited.iter()
    }

    /// The user's primary group.
    pub fn primary_group(&self) -> &str {
        &self.primary_group
    }

    /// The prefix, put together.
    pub fn prefix(&self) -> Option<&str> {
        self.meta.prefix.as_deref()
    }

    /// The suffix, put together.
    pub fn suffix(&self) -> Option<&str> {
        self.meta.suffix.as_deref()
    }

    /// The value of a meta key, whatever its case.
    pub fn meta(&self, key: &str) -> Option<&str> {
        self.meta.values.get(&*crate::node::lower(key)).map(|value| &**value)
    }

    /// All meta, by key.
    pub fn all_meta(&self) -> impl Iterator<Item = (&str, &str)> {
        self.meta.values.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl From<Option<bool>> for Answer {
    fn from(value: Option<bool>) -> Self {
        match value {
            Some(true) => Self::True,
            Some(false) => Self::False,
            None => Self::Undefined,
        }
    }
}
