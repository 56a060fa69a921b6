//! Changing a holder's nodes.

use std::sync::Arc;

use crate::context::Contexts;
use crate::node::{Node, NodeError};
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
    let _ = (nodes, edit, now);
    todo!("helper A")
}

/// What differs between two lists of nodes, a line each: those that are gone or were otherwise, and those that have come or are
/// otherwise. Lines read like `moonbridge.server.vip = true (world=lobby) until 1790000000`.
pub fn difference(before: &[Node], after: &[Node]) -> (Vec<String>, Vec<String>) {
    let _ = (before, after);
    todo!("helper A")
}

/// A group that a user is put under; for callers that build nodes.
pub(crate) fn _parent(group: &Arc<str>) -> String {
    crate::node::key::inheritance(group)
}
