//! A player's resolved permissions, for as long as they stand; on each worker, players with the same share one.
//!
//! Most players have no nodes of their own, or one group. So a worker keeps in mind what it has resolved lately: a change of the group
//! that a thousand players inherit is resolved once for each backend they are on.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use moonbridge_permissions::{Resolved, User, resolve as resolve_alone};

use super::rules::{Base, Rules};
use crate::metrics::Tally;

/// Sets that a worker keeps in mind.
pub(super) const KEPT: usize = 256;

/// Players with more nodes than these are hardly like another.
const ALIKE: usize = 8;

thread_local! {
    /// Each is kept in being by the sessions that use it.
    static LATELY: RefCell<Vec<(Weak<Resolved>, Basis)>> = const { RefCell::new(Vec::new()) };
}

/// A resolved set.
pub(super) struct Set {
    resolved: Arc<Resolved>,
    basis: Basis,
}

/// What a set was made from.
#[derive(Clone)]
struct Basis {
    user: Arc<User>,
    backend: Option<Arc<str>>,
    /// Of user and groups.
    generation: Arc<str>,
    base: Arc<Base>,
    /// By these it stands. Weak: a session that asks nothing for long is not to hold groups that have gone.
    rules: Weak<Rules>,
}

/// What one session's set is made from; the rest is everybody's.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) user: &'a Arc<User>,
    /// The one that `user` is of.
    pub(super) generation: &'a Arc<str>,
    pub(super) backend: Option<&'a Arc<str>>,
}

/// What this user has on this backend.
pub(super) fn resolve(user: &Arc<User>, backend: Option<&Arc<str>>, rules: &Arc<Rules>, now: &impl Fn() -> i64, tally: &Tally) -> Set {
    let (generation, base) = (rules.generation.clone(), rules.base.clone());
    let basis = Basis { user: user.clone(), backend: backend.cloned(), generation, base, rules: Arc::downgrade(rules) };
    let resolve = || {
        tally.resolved();
        let Base { tracks, settings } = &*rules.base;
        Arc::new(resolve_alone(user, &rules.groups, tracks, settings, &settings.contexts(backend.map(|backend| &**backend)), now()))
    };
    if user.nodes.len() > ALIKE {
        return Set { resolved: resolve(), basis };
    }
    let resolved = LATELY.with_borrow_mut(|lately| {
        lately.retain(|(resolved, _)| resolved.strong_count() > 0);
        if let Some(place) = lately.iter().position(|(_, known)| known.is_like(&basis)) {
            let (resolved, known) = &mut lately[place];
            if let Some(resolved) = resolved.upgrade().filter(|resolved| !has_run_out(resolved, now) && known.agrees(resolved, rules)) {
                return resolved;
            }
            lately.remove(place);
        }
        if lately.len() == KEPT {
            lately.remove(0);
        }
        let resolved = resolve();
        lately.push((Arc::downgrade(&resolved), basis.clone()));
        resolved
    });
    Set { resolved, basis }
}

impl Set {
    pub(super) fn resolved(&self) -> &Arc<Resolved> {
        &self.resolved
    }

    /// Whether it would come out the same by these rules, at this time. Of a user and rules that do not go together, those of its own
    /// generation count; those of another have no say until both are of it.
    pub(super) fn stands(&mut self, own: Own<'_>, rules: &Arc<Rules>, now: &impl Fn() -> i64) -> bool {
        let Self { resolved, basis } = self;
        if basis.backend.as_ref() != own.backend || has_run_out(resolved, now) {
            return false;
        }
        let is_whole = *own.generation == rules.generation;
        let has_say = |generation: &Arc<str>| is_whole || *generation == basis.generation;
        let (user_has, rules_have) = (has_say(own.generation), has_say(&rules.generation));
        let stands = (!user_has || Arc::ptr_eq(&basis.user, own.user)) && (!rules_have || basis.agrees(resolved, rules));
        if stands && is_whole && !Arc::ptr_eq(&basis.generation, &rules.generation) {
            basis.generation.clone_from(&rules.generation);
        }
        stands
    }
}

fn has_run_out(resolved: &Resolved, now: &impl Fn() -> i64) -> bool {
    resolved.valid_until().is_some_and(|until| now() >= until)
}

impl Basis {
    /// Whether the rules say what they said.
    fn agrees(&mut self, resolved: &Resolved, rules: &Arc<Rules>) -> bool {
        if std::ptr::eq(self.rules.as_ptr(), Arc::as_ptr(rules)) {
            return true;
        }
        let agrees = Arc::ptr_eq(&self.base, &rules.base) && resolved.is_current(&rules.groups);
        if agrees {
            self.rules = Arc::downgrade(rules);
        }
        agrees
    }

    /// Whether what is made from it is as good for the other.
    fn is_like(&self, other: &Basis) -> bool {
        let (own, others) = (&self.user, &other.user);
        self.backend == other.backend && own.primary_group == others.primary_group && own.nodes == others.nodes
    }
}

/// How many sets this worker keeps in mind.
#[cfg(test)]
pub(super) fn kept() -> usize {
    LATELY.with_borrow(Vec::len)
}
