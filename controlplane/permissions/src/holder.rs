//! Who has nodes: users and groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::node::{MAX_NAME, Node};
use crate::track::Track;

/// The group that everybody has.
pub const DEFAULT_GROUP: &str = "default";

/// All groups by name.
pub type Groups = BTreeMap<String, Arc<Group>>;
/// All tracks by name.
pub type Tracks = BTreeMap<String, Arc<Track>>;

/// A group. Made once and then only read: what resolving needs of it is worked out when it is made.
#[derive(Debug, Clone)]
pub struct Group {
    name: Arc<str>,
    nodes: Arc<[Node]>,
}

/// What one player has of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Who it is.
    pub uuid: Uuid,
    /// The name as last known.
    pub username: Option<String>,
    /// The stored primary group; `None`: [`DEFAULT_GROUP`].
    pub primary_group: Option<Arc<str>>,
    /// Its nodes, in the order in which they are stored.
    pub nodes: Vec<Node>,
}

/// A name that no group or track can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {MAX_NAME} characters without spaces, got {0:?}")]
pub struct NameError(pub String);

/// A name of a group or track, in lower case.
///
/// # Errors
/// If it is none.
pub fn name(text: &str) -> Result<Arc<str>, NameError> {
    let name = text.to_lowercase();
    let good =
        !name.is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/');
    if good { Ok(name.into()) } else { Err(NameError(text.to_owned())) }
}

impl Group {
    /// A group of these nodes.
    ///
    /// # Errors
    /// If the name is none.
    pub fn new(group: &str, nodes: Vec<Node>) -> Result<Self, NameError> {
        Ok(Self { name: name(group)?, nodes: nodes.into() })
    }

    /// Its name, in lower case.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its nodes, in the order in which they are stored.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The highest of its weights that has not expired.
    pub fn weight(&self, now: i64) -> Option<i32> {
        let _ = now;
        todo!("helper A")
    }

    /// Its display name, if it has one.
    pub fn display_name(&self, now: i64) -> Option<&str> {
        let _ = now;
        todo!("helper A")
    }
}

/// Two groups are equal if names and nodes are.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.nodes == other.nodes
    }
}

impl Eq for Group {}

impl User {
    /// A player of whom nothing is stored.
    pub fn unknown(uuid: Uuid) -> Self {
        Self { uuid, username: None, primary_group: None, nodes: Vec::new() }
    }
}
