//! Nodes: what a holder has, and which kind of thing that is.

use std::sync::Arc;

use crate::context::Contexts;

/// The longest key of a permission, in characters (LuckPerms' column is that long).
pub const MAX_PERMISSION: usize = 200;
/// The longest name of a group or track, in characters.
pub const MAX_NAME: usize = 36;

/// One thing that a user or group has: a key, true or false, where and until when. Its kind follows from the key.
#[derive(Debug, Clone)]
pub struct Node {
    key: Arc<str>,
    kind: Kind,
    value: bool,
    contexts: Contexts,
    expiry: Option<i64>,
}

/// What a node's key says it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Kind {
    /// A group that is inherited.
    Inheritance(Arc<str>),
    /// A prefix: priority and text.
    Prefix(i32, Arc<str>),
    /// A suffix: priority and text.
    Suffix(i32, Arc<str>),
    /// A meta key and its value.
    Meta(Arc<str>, Arc<str>),
    /// A group's weight.
    Weight(i32),
    /// A group's display name.
    DisplayName(Arc<str>),
    /// A permission by regular expression, which has to match the whole.
    Regex(regex::Regex),
    /// A permission. These are all it stands for, in lower case: itself, and what its shorthand expands to.
    Permission(Arc<[Arc<str>]>),
}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The key is empty or only spaces.
    #[error("the key is empty")]
    Empty,
    /// The key is too long.
    #[error("the key has {0} characters; at most {MAX_PERMISSION} are allowed")]
    TooLong(usize),
    /// The group's name cannot be one.
    #[error("{0:?} cannot be a group's name: expected 1 to {MAX_NAME} characters without spaces")]
    GroupName(String),
    /// The regular expression cannot be used.
    #[error("the regular expression {pattern:?} cannot be used: {problem}")]
    Regex {
        /// The expression.
        pattern: String,
        /// Why not.
        problem: String,
    },
}

impl Node {
    /// A node. The expiry is in seconds since 1970.
    ///
    /// # Errors
    /// If the key is none.
    pub fn new(key: &str, value: bool, contexts: Contexts, expiry: Option<i64>) -> Result<Self, NodeError> {
        let _ = (key, value, contexts, expiry);
        todo!("helper A")
    }

    /// The key as it was given.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// True, or false to take away.
    pub fn value(&self) -> bool {
        self.value
    }

    /// Where it applies.
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Until when, in seconds since 1970.
    pub fn expiry(&self) -> Option<i64> {
        self.expiry
    }

    /// Whether its time is over.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }

    /// Whether setting one replaces the other: same key and contexts.
    pub fn is_same(&self, other: &Node) -> bool {
        self.key == other.key && self.contexts == other.contexts
    }
}

/// Two nodes are equal if key, value, contexts and expiry are.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) && self.value == other.value && self.expiry == other.expiry
    }
}

impl Eq for Node {}

/// Keys of nodes, escaped as LuckPerms escapes them.
pub mod key {
    /// `group.NAME`
    pub fn inheritance(group: &str) -> String {
        format!("group.{}", group.to_lowercase())
    }

    /// `prefix.PRIORITY.TEXT`
    pub fn prefix(priority: i32, text: &str) -> String {
        let _ = (priority, text);
        todo!("helper A")
    }

    /// `suffix.PRIORITY.TEXT`
    pub fn suffix(priority: i32, text: &str) -> String {
        let _ = (priority, text);
        todo!("helper A")
    }

    /// `meta.KEY.VALUE`
    pub fn meta(key: &str, value: &str) -> String {
        let _ = (key, value);
        todo!("helper A")
    }

    /// `weight.NUMBER`
    pub fn weight(weight: i32) -> String {
        format!("weight.{weight}")
    }

    /// `displayname.TEXT`
    pub fn display_name(text: &str) -> String {
        format!("displayname.{text}")
    }
}
