//! In which order a holder's nodes count.

use std::cmp::Ordering;

use super::{Kind, Node};
use crate::context::{Contexts, SERVER, WORLD};

impl Node {
    /// Whether this counts before another of the same holder: first by where they apply, then by what they are.
    pub(crate) fn precedence(&self, other: &Node) -> Ordering {
        by_contexts(&self.contexts, &other.contexts).then_with(|| by_node(self, other))
    }
}

/// The more particular first. Of equally particular ones the greater, which is arbitrary, but LuckPerms' choice.
fn by_contexts(a: &Contexts, b: &Contexts) -> Ordering {
    let particular = |contexts: &Contexts| (!contexts.is_empty(), contexts.has(SERVER), contexts.has(WORLD), contexts.len());
    if a.is_empty() && b.is_empty() {
        return Ordering::Equal;
    }
    particular(b).cmp(&particular(a)).then_with(|| b.cmp(a))
}

fn by_node(a: &Node, b: &Node) -> Ordering {
    let kind = a.kind.rank().cmp(&b.kind.rank());
    let temporary_first = || b.expiry.is_some().cmp(&a.expiry.is_some());
    let wildcard_last = || a.is_wildcard().cmp(&b.is_wildcard());
    let sooner_first = || a.expiry.cmp(&b.expiry);
    let higher_level_first = || b.wildcard_level().cmp(&a.wildcard_level());
    kind.then_with(temporary_first)
        .then_with(wildcard_last)
        .then_with(sooner_first)
        .then_with(higher_level_first)
        .then_with(|| a.identity().cmp(b.identity()))
        .then_with(|| a.value.cmp(&b.value))
}

impl Node {
    fn wildcard_level(&self) -> usize {
        if self.is_wildcard() { self.key.bytes().filter(|&b| b == b'.').count() } else { 0 }
    }
}

impl Kind {
    fn rank(&self) -> u8 {
        match self {
            Self::Inheritance(_) => 0,
            Self::Prefix(..) => 1,
            Self::Suffix(..) => 2,
            Self::Meta(..) => 3,
            Self::Weight(_) => 4,
            Self::DisplayName(_) => 5,
            Self::Regex(_) => 6,
            Self::Permission(_) => 7,
        }
    }
}
