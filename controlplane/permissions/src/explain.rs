//! How an answer comes about.

mod matching;

use crate::context::Contexts;
use crate::holder::{Groups, Tracks, User};
use crate::node::{Node, lower};
use crate::resolve::{Answer, Holder, Query, Walk};
use crate::settings::Settings;
use matching::Match;

/// So many nodes that did not decide are told of.
const MOST_OTHERS: usize = 100;

/// What about a node matched a permission; the earlier of these decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchedBy {
    /// Its key.
    Exact,
    /// Its regular expression.
    Regex,
    /// Its wildcard.
    Wildcard,
    /// Its key, as the beginning.
    Implicit,
}

/// A node that speaks of a permission, and the way to it.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The node.
    pub node: Node,
    /// What about it matched.
    pub matched_by: MatchedBy,
    /// From the user to its holder: "user", then groups' names.
    pub path: Vec<String>,
    /// Why it did not decide: "later", "context" or "expired"; empty for the one that did.
    pub why: &'static str,
}

/// How an answer comes about.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The answer, the same as [`crate::Resolved::check`] gives.
    pub answer: Answer,
    /// What decided it.
    pub decided_by: Option<Explained>,
    /// What else speaks of the permission, in order; at most 100.
    pub others: Vec<Explained>,
    /// Every group in the order in which it was walked.
    pub holders: Vec<String>,
}

/// Answers a check with the way to the answer.
pub fn explain(
    user: &User,
    groups: &Groups,
    tracks: &Tracks,
    settings: &Settings,
    contexts: &Contexts,
    now: i64,
    permission: &str,
) -> Explanation {
    let query = Query { user, groups, tracks, settings, contexts, now };
    let walk = Walk::of(&query);
    let permission = lower(permission);
    let mut found: Vec<Found<'_>> = Vec::new();
    for &holder in walk.holders() {
        for node in walk.nodes(holder) {
            found.extend(Match::of(node, &permission, settings).map(|matched| Found { matched, node, holder }));
        }
    }
    // Stable: of equal matches the first in the order of the walk comes first.
    found.sort_by_key(|found| found.matched);
    let deciding = found.iter().position(|found| query.applies(found.node)).map(|place| found.remove(place));
    Explanation {
        answer: deciding.as_ref().map(|found| found.node.value()).into(),
        decided_by: deciding.map(|found| found.explained(&walk, "")),
        others: found.iter().take(MOST_OTHERS).map(|found| found.explained(&walk, found.why_not(&query))).collect(),
        holders: walk.holders().iter().filter_map(|holder| holder.group()).map(|group| group.name().to_string()).collect(),
    }
}

/// The nodes that speak of a permission, in whatever contexts and however long, and what about each matched; in their order.
pub fn matching<'a>(nodes: &'a [Node], settings: &Settings, permission: &str) -> impl Iterator<Item = (&'a Node, MatchedBy)> {
    let permission = lower(permission);
    nodes.iter().filter_map(move |node| Some((node, Match::of(node, &permission, settings)?.by)))
}

struct Found<'a> {
    matched: Match,
    node: &'a Node,
    holder: Holder<'a>,
}

impl Found<'_> {
    fn why_not(&self, query: &Query<'_>) -> &'static str {
        if self.node.has_expired(query.now) {
            "expired"
        } else if query.applies(self.node) {
            "later"
        } else {
            "context"
        }
    }

    fn explained(&self, walk: &Walk<'_>, why: &'static str) -> Explained {
        Explained { node: self.node.clone(), matched_by: self.matched.by, path: walk.path(self.holder), why }
    }
}
