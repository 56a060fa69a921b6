//! Changing a holder's nodes.

use std::collections::HashSet;

use crate::calendar::rfc3339;
use crate::context::Contexts;
use crate::node::{Kind, Node, NodeError, key, lower};
use crate::settings::TemporaryAdd;

/// So many places of what is not where it was looked for are told.
const MAX_ELSEWHERE: usize = 5;

/// One edit of a holder's nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replaces one of the same key and contexts: a permanent node a permanent one, a temporary node a temporary one, as this says.
    Set(Node, TemporaryAdd),
    /// Takes away the nodes of a key in these contexts.
    Unset {
        /// The key.
        key: String,
        /// Where.
        contexts: Contexts,
        /// Leaves the permanent one.
        only_temporary: bool,
    },
    /// Takes away all of a kind; in exactly these contexts, if given.
    Clear(Clear, Option<Contexts>),
    /// Replaces what there is for a meta key in these contexts, permanent or temporary as the new one is.
    SetMeta {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// Where.
        contexts: Contexts,
        /// Until when.
        expiry: Option<i64>,
    },
    /// Takes away what there is for a meta key in these contexts.
    UnsetMeta {
        /// The key.
        key: String,
        /// Where.
        contexts: Contexts,
        /// Leaves what is permanent.
        only_temporary: bool,
    },
    /// Replaces all parents in these contexts, permanent and temporary, by one.
    SetParent {
        /// The parent.
        group: String,
        /// Where.
        contexts: Contexts,
        /// Until when.
        expiry: Option<i64>,
    },
    /// Replaces a group's weight.
    Weight(i32),
    /// Replaces a group's display name; empty: takes it away.
    DisplayName(String),
}

/// What a clear takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    /// Everything.
    All,
    /// Permissions, regular expressions too.
    Permissions,
    /// Parents.
    Parents,
    /// Prefixes, suffixes and meta.
    Meta,
}

/// Why an edit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// There is a temporary one already.
    #[error(
        "there is a temporary {key} in these contexts already, until {}: keep the later end with `--if-exists replace`, \
         or add up the times with `--if-exists accumulate`",
        rfc3339(*expiry)
    )]
    Temporary {
        /// Its key.
        key: String,
        /// Its expiry, in seconds since 1970.
        expiry: i64,
    },
    /// There is nothing to take away.
    #[error("there is no {what} in these contexts{}", but_elsewhere(elsewhere))]
    Absent {
        /// Its key; before it `temporary`, if only that was looked for.
        what: String,
        /// The contexts in which there is one, `world=lobby, world=hub`, or `everywhere`; some of them.
        elsewhere: Vec<String>,
    },
    /// The node is none.
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// Makes the edit; the nodes are as before if it fails. Nodes that have expired go on the occasion.
/// Whether anything changed is for the caller to compare.
///
/// # Errors
/// If it cannot be made.
pub fn edit(nodes: &mut Vec<Node>, edit: &Edit, now: i64) -> Result<(), EditError> {
    let mut replace = |of: &dyn Fn(&Node) -> bool, node: Option<Node>| {
        nodes.retain(|node| !node.has_expired(now) && !of(node));
        nodes.extend(node);
    };
    match edit {
        Edit::Set(node, temporary) => set(nodes, node, *temporary, now)?,
        Edit::Unset { key, contexts, only_temporary } => {
            // By the one spelling of the key; one that is none cannot be there.
            let node = Node::new(key, true, contexts.clone(), None)?;
            take(nodes, key, contexts, *only_temporary, now, |existing| existing.has_key_of(&node))?;
        }
        Edit::Clear(what, contexts) => {
            let in_contexts = |node: &Node| contexts.as_ref().is_none_or(|contexts| node.contexts() == contexts);
            replace(&|node| what.takes(node) && in_contexts(node), None);
        }
        Edit::SetMeta { key, value, contexts, expiry } => {
            let node = Node::new(&key::meta(key, value), true, contexts.clone(), *expiry)?;
            // A key with a backslash at its end reads as another one.
            if !is_meta(&node, key) {
                return Err(NodeError::MetaKey(key.clone()).into());
            }
            let is_temporary = node.is_temporary();
            replace(&|node| is_meta(node, key) && node.contexts() == contexts && node.is_temporary() == is_temporary, Some(node));
        }
        Edit::UnsetMeta { key, contexts, only_temporary } => {
            take(nodes, key, contexts, *only_temporary, now, |node| is_meta(node, key))?;
        }
        Edit::SetParent { group, contexts, expiry } => {
            let node = Node::new(&key::inheritance(group), true, contexts.clone(), *expiry)?;
            replace(&|node| node.group().is_some() && node.contexts() == contexts, Some(node));
        }
        Edit::Weight(weight) => {
            let node = Node::new(&key::weight(*weight), true, Contexts::none(), None)?;
            replace(&|node| matches!(node.kind(), Kind::Weight(_)), Some(node));
        }
        Edit::DisplayName(name) => {
            let node = |name: &str| Node::new(&key::display_name(name), true, Contexts::none(), None);
            let node = if name.is_empty() { None } else { Some(node(name)?) };
            replace(&|node| matches!(node.kind(), Kind::DisplayName(_)), node);
        }
    }
    Ok(())
}

/// In the place of the one that it replaces.
fn set(nodes: &mut Vec<Node>, node: &Node, temporary: TemporaryAdd, now: i64) -> Result<(), EditError> {
    let place = nodes.iter().position(|existing| existing.is_same(node) && !existing.has_expired(now));
    let existing = place.map(|place| &nodes[place]);
    // Only a temporary one that says the same matters to a temporary one; another value is news, and replaces it.
    let both = existing.filter(|existing| existing.value() == node.value()).and_then(|existing| existing.expiry().zip(node.expiry()));
    let new = match (temporary, both) {
        (TemporaryAdd::Deny, Some((until, _))) => return Err(EditError::Temporary { key: node.key().to_string(), expiry: until }),
        (TemporaryAdd::Replace, Some((until, expiry))) => node.until(until.max(expiry)),
        (TemporaryAdd::Accumulate, Some((until, expiry))) => node.until(until.saturating_add(expiry.saturating_sub(now))),
        (_, None) => node.clone(),
    };
    match place {
        Some(place) => nodes[place] = new,
        None => nodes.push(new),
    }
    let place = place.unwrap_or(nodes.len() - 1);
    let mut places = 0..;
    nodes.retain(|node| places.next() == Some(place) || !node.has_expired(now));
    Ok(())
}

/// Takes away those of `which` in exactly these contexts.
fn take(
    nodes: &mut Vec<Node>,
    key: &str,
    contexts: &Contexts,
    only_temporary: bool,
    now: i64,
    which: impl Fn(&Node) -> bool,
) -> Result<(), EditError> {
    let which = |node: &Node| which(node) && (node.is_temporary() || !only_temporary);
    let found = nodes.iter().filter(|node| !node.has_expired(now) && which(node));
    let (here, others): (Vec<_>, Vec<_>) = found.partition(|node| node.contexts() == contexts);
    if here.is_empty() {
        let elsewhere = others.into_iter().take(MAX_ELSEWHERE).map(|node| node.contexts().to_string()).collect();
        let what = if only_temporary { format!("temporary {key}") } else { key.to_owned() };
        return Err(EditError::Absent { what, elsewhere });
    }
    let goes = |node: &Node| node.has_expired(now) || (which(node) && node.contexts() == contexts);
    nodes.retain(|node| !goes(node));
    Ok(())
}

fn but_elsewhere(elsewhere: &[String]) -> String {
    match elsewhere {
        [] => String::new(),
        places => format!("; there is one: {}", places.join("; ")),
    }
}

fn is_meta(node: &Node, key: &str) -> bool {
    matches!(node.kind(), Kind::Meta(existing, _) if **existing == *lower(key))
}

impl Clear {
    fn takes(self, node: &Node) -> bool {
        match self {
            Self::All => true,
            Self::Permissions => matches!(node.kind(), Kind::Permission(_) | Kind::Regex(_)),
            Self::Parents => node.group().is_some(),
            Self::Meta => matches!(node.kind(), Kind::Prefix(..) | Kind::Suffix(..) | Kind::Meta(..)),
        }
    }
}

/// What differs between two lists of nodes, a line each: those that are gone or were otherwise, and those that have come or are
/// otherwise. Lines read like `moonbridge.server.vip = true (world=lobby) until 2026-09-21T14:13:20Z`.
pub fn difference(before: &[Node], after: &[Node]) -> (Vec<String>, Vec<String>) {
    let lines = |nodes: &[Node]| nodes.iter().map(Node::to_string).collect::<Vec<_>>();
    let (before, after) = (lines(before), lines(after));
    (without(&before, &after), without(&after, &before))
}

fn without(lines: &[String], others: &[String]) -> Vec<String> {
    let others: HashSet<&String> = others.iter().collect();
    lines.iter().filter(|line| !others.contains(line)).cloned().collect()
}
