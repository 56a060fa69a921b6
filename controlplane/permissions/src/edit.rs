//! Changing a holder's nodes.

use std::collections::HashSet;

use crate::context::Contexts;
use crate::node::{Kind, Node, NodeError, key, lower};
use crate::settings::TemporaryAdd;

/// One edit of a holder's nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replaces one of the same key and contexts; a temporary one as this says.
    Set(Node, TemporaryAdd),
    /// Takes away the node of this key and these contexts, permanent or temporary.
    Unset(String, Contexts),
    /// Takes away all of a kind; in exactly these contexts, if given.
    Clear(Clear, Option<Contexts>),
    /// Replaces what there is for a meta key in these contexts.
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
    UnsetMeta(String, Contexts),
    /// Replaces the parents in these contexts by one.
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
    #[error("there is a temporary {key} in these contexts already, until {expiry}: replace it or add to its time")]
    Temporary {
        /// Its key.
        key: String,
        /// Its expiry, in seconds since 1970.
        expiry: i64,
    },
    /// There is nothing to take away.
    #[error("there is no {0} in these contexts")]
    Absent(String),
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
    let mut edited: Vec<Node> = nodes.iter().filter(|node| !node.has_expired(now)).cloned().collect();
    match edit {
        Edit::Set(node, temporary) => set(&mut edited, node, *temporary, now)?,
        Edit::Unset(key, contexts) => {
            // By the one spelling of the key; one that is none cannot be there.
            let node = Node::new(key, true, contexts.clone(), None)?;
            take(&mut edited, key, |existing| existing.is_same(&node))?;
        }
        Edit::Clear(what, contexts) => {
            let in_contexts = |node: &Node| contexts.as_ref().is_none_or(|contexts| node.contexts() == contexts);
            edited.retain(|node| !(what.takes(node) && in_contexts(node)));
        }
        Edit::SetMeta { key, value, contexts, expiry } => {
            let node = Node::new(&key::meta(key, value), true, contexts.clone(), *expiry)?;
            // A key with a backslash at its end reads as another one.
            if !is_meta(&node, key) {
                return Err(NodeError::MetaKey(key.clone()).into());
            }
            edited.retain(|node| !(is_meta(node, key) && node.contexts() == contexts));
            edited.push(node);
        }
        Edit::UnsetMeta(key, contexts) => take(&mut edited, key, |node| is_meta(node, key) && node.contexts() == contexts)?,
        Edit::SetParent { group, contexts, expiry } => {
            let node = Node::new(&key::inheritance(group), true, contexts.clone(), *expiry)?;
            edited.retain(|node| !(matches!(node.kind(), Kind::Inheritance(_)) && node.contexts() == contexts));
            edited.push(node);
        }
        Edit::Weight(weight) => {
            edited.retain(|node| !matches!(node.kind(), Kind::Weight(_)));
            edited.push(Node::new(&key::weight(*weight), true, Contexts::none(), None)?);
        }
        Edit::DisplayName(name) => {
            edited.retain(|node| !matches!(node.kind(), Kind::DisplayName(_)));
            if !name.is_empty() {
                edited.push(Node::new(&key::display_name(name), true, Contexts::none(), None)?);
            }
        }
    }
    *nodes = edited;
    Ok(())
}

/// In the place of the one that it replaces.
fn set(nodes: &mut Vec<Node>, node: &Node, temporary: TemporaryAdd, now: i64) -> Result<(), EditError> {
    let Some(existing) = nodes.iter_mut().find(|existing| existing.is_same(node)) else {
        nodes.push(node.clone());
        return Ok(());
    };
    // Only a temporary one that says the same is in the way of a temporary one; another value is news.
    *existing = match (existing.expiry(), node.expiry()) {
        (Some(until), Some(expiry)) => match temporary {
            TemporaryAdd::Deny if existing.value() == node.value() => {
                return Err(EditError::Temporary { key: node.key().to_string(), expiry: until });
            }
            TemporaryAdd::Deny => node.clone(),
            TemporaryAdd::Replace if existing.value() != node.value() => node.clone(),
            TemporaryAdd::Replace => node.until(until.max(expiry)),
            TemporaryAdd::Accumulate => node.until(until.saturating_add(expiry.saturating_sub(now))),
        },
        _ => node.clone(),
    };
    Ok(())
}

fn take(nodes: &mut Vec<Node>, key: &str, which: impl Fn(&Node) -> bool) -> Result<(), EditError> {
    let before = nodes.len();
    nodes.retain(|node| !which(node));
    if nodes.len() == before { Err(EditError::Absent(key.to_owned())) } else { Ok(()) }
}

fn is_meta(node: &Node, key: &str) -> bool {
    matches!(node.kind(), Kind::Meta(existing, _) if **existing == *lower(key))
}

impl Clear {
    fn takes(self, node: &Node) -> bool {
        match self {
            Self::All => true,
            Self::Permissions => matches!(node.kind(), Kind::Permission(_) | Kind::Regex(_)),
            Self::Parents => matches!(node.kind(), Kind::Inheritance(_)),
            Self::Meta => matches!(node.kind(), Kind::Prefix(..) | Kind::Suffix(..) | Kind::Meta(..)),
        }
    }
}

/// What differs between two lists of nodes, a line each: those that are gone or were otherwise, and those that have come or are
/// otherwise. Lines read like `moonbridge.server.vip = true (world=lobby) until 1790000000`.
pub fn difference(before: &[Node], after: &[Node]) -> (Vec<String>, Vec<String>) {
    let lines = |nodes: &[Node]| nodes.iter().map(Node::to_string).collect::<Vec<_>>();
    let (before, after) = (lines(before), lines(after));
    (without(&before, &after), without(&after, &before))
}

fn without(lines: &[String], others: &[String]) -> Vec<String> {
    let others: HashSet<&String> = others.iter().collect();
    lines.iter().filter(|line| !others.contains(line)).cloned().collect()
}
