//! How an answer comes about.

use crate::context::Contexts;
use crate::holder::{Groups, Tracks, User};
use crate::node::Node;
use crate::resolve::Answer;
use crate::settings::Settings;

/// What about a node matched a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    let _ = (user, groups, tracks, settings, contexts, now, permission);
    todo!("helper A")
}
