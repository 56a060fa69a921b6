//! Nodes: what a holder has, and which kind of thing that is.

mod order;
mod parse;
mod pattern;
mod shared;
mod shorthand;

use std::fmt;
use std::sync::Arc;

use crate::calendar::rfc3339;
use crate::context::Contexts;
pub(crate) use parse::lower;

/// The longest key of a permission, in characters (LuckPerms' column is that long).
pub const MAX_PERMISSION: usize = 200;
/// The longest key of anything else, in characters.
pub const MAX_KEY: usize = 1000;
/// The longest name of a group or track, in characters.
pub const MAX_NAME: usize = 36;

/// One thing that a user or group has: a key, true or false, where and until when. Its kind follows from the key.
#[derive(Debug, Clone)]
pub struct Node {
    key: Arc<str>,
    lower: Arc<str>,
    kind: Kind,
    value: bool,
    effort: u16,
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
    /// A meta key, in lower case, and its value.
    Meta(Arc<str>, Arc<str>),
    /// A group's weight.
    Weight(i32),
    /// A group's display name.
    DisplayName(Arc<str>),
    /// A permission by regular expression, which matches the whole of it or not at all.
    Regex(Arc<regex::Regex>),
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
    /// The key of a permission is too long.
    #[error("the key has {0} characters; at most {MAX_PERMISSION} are allowed")]
    TooLong(usize),
    /// The key of something else is too long.
    #[error("the key has {0} characters; at most {MAX_KEY} are allowed")]
    TextTooLong(usize),
    /// The group's name cannot be one.
    #[error("{0:?} cannot be a group's name: expected 1 to {MAX_NAME} visible characters without spaces or '/'")]
    GroupName(String),
    /// The meta key is empty, or cannot be written.
    #[error("{0:?} cannot be a meta key: expected at least one character, the last not a backslash")]
    MetaKey(String),
    /// The display name is empty.
    #[error("the display name is empty")]
    DisplayName,
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
        let parse::Parsed { key, kind, effort } = parse::parse(key)?;
        let lower = match &kind {
            Kind::Permission(all) => all.first().cloned(),
            _ => None,
        };
        let lower = lower.unwrap_or_else(|| parse::shared_lower(&key));
        Ok(Self { key, lower, kind, value, effort, contexts, expiry })
    }

    /// That a user or group inherits a group, everywhere and for good.
    pub(crate) fn inheritance(group: &Arc<str>) -> Self {
        let key: Arc<str> = key::inheritance(group).into();
        let kind = Kind::Inheritance(Arc::clone(group));
        Self { lower: Arc::clone(&key), key, kind, value: true, effort: 0, contexts: Contexts::none(), expiry: None }
    }

    /// The key, spelt the one way in which two that mean the same are equal: `Group.Mod` is `group.mod`, `weight.007` is `weight.7`.
    /// That of a permission is as it was given.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The key in lower case, by which permissions are looked up.
    pub(crate) fn lower(&self) -> &Arc<str> {
        &self.lower
    }

    /// What its shorthand expands to, in lower case.
    pub(crate) fn expanded(&self) -> &[Arc<str>] {
        match &self.kind {
            Kind::Permission(all) => all.get(1..).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Of shorthand, how many texts it took to expand, also if nothing came of it: no fewer than it stands for. Of an expression, how many
    /// usual ones it counts for.
    pub(crate) fn effort(&self) -> usize {
        self.effort.into()
    }

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The group that it says is inherited, or is not.
    pub fn group(&self) -> Option<&Arc<str>> {
        match &self.kind {
            Kind::Inheritance(group) => Some(group),
            _ => None,
        }
    }

    /// The group that it makes a parent.
    pub fn parent(&self) -> Option<&Arc<str>> {
        self.group().filter(|_| self.value)
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

    /// Whether it has an expiry, over or not.
    pub fn is_temporary(&self) -> bool {
        self.expiry.is_some()
    }

    /// Whether its time is over.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }

    /// The same, until then.
    pub(crate) fn until(&self, expiry: i64) -> Self {
        Self { expiry: Some(expiry), ..self.clone() }
    }

    /// The same, elsewhere and until then.
    pub(crate) fn within(self, contexts: Contexts, expiry: Option<i64>) -> Self {
        Self { contexts, expiry, ..self }
    }

    /// Whether this says that a group is inherited in exactly these contexts.
    pub(crate) fn is_parent_in(&self, contexts: &Contexts, now: i64) -> bool {
        self.parent().is_some() && self.contexts == *contexts && !self.has_expired(now)
    }

    /// Whether it is a permission that ends in a wildcard.
    fn is_wildcard(&self) -> bool {
        let is_one = |key: &str| matches!(key, "*" | "'*'") || (key.len() > 2 && key.ends_with(".*"));
        matches!(self.kind, Kind::Permission(_)) && is_one(&self.key)
    }

    /// Whether setting one replaces the other: same key and contexts, and both permanent or both temporary. A temporary node stands
    /// beside the permanent one, which is in force again afterwards.
    pub fn is_same(&self, other: &Node) -> bool {
        self.has_key_of(other) && self.contexts == other.contexts && self.is_temporary() == other.is_temporary()
    }

    /// Whether both have the same key, wherever and however long they hold.
    pub(crate) fn has_key_of(&self, other: &Node) -> bool {
        self.identity() == other.identity()
    }

    /// The key as it is compared: of a permission the key in any case of its letters.
    pub fn identity(&self) -> &Arc<str> {
        match self.kind {
            Kind::Permission(_) => &self.lower,
            _ => &self.key,
        }
    }
}

/// Two nodes are equal if key, value, contexts and expiry are.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.contexts == other.contexts && self.value == other.value && self.expiry == other.expiry
    }
}

impl Eq for Node {}

/// `moonbridge.server.vip = true (world=lobby) until 2026-09-21T14:13:20Z`
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.value)?;
        if !self.contexts.is_empty() {
            write!(f, " ({})", self.contexts)?;
        }
        match self.expiry {
            Some(expiry) => write!(f, " until {}", rfc3339(expiry)),
            None => Ok(()),
        }
    }
}

/// Keys of nodes, escaped as LuckPerms reads them.
pub mod key {
    use super::parse::{escape, lower};

    /// `group.NAME`
    pub fn inheritance(group: &str) -> String {
        format!("group.{}", group.to_lowercase())
    }

    /// `prefix.PRIORITY.TEXT`
    pub fn prefix(priority: i32, text: &str) -> String {
        format!("prefix.{priority}.{}", escape(text))
    }

    /// `suffix.PRIORITY.TEXT`
    pub fn suffix(priority: i32, text: &str) -> String {
        format!("suffix.{priority}.{}", escape(text))
    }

    /// `meta.KEY.VALUE`
    pub fn meta(key: &str, value: &str) -> String {
        format!("meta.{}.{}", escape(&lower(key)), escape(value))
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
