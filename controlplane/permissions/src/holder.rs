//! Who has nodes: users and groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::context::Contexts;
use crate::node::{Kind, MAX_NAME, Node};
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
    /// Where in `nodes` the first is that counts, and so on.
    order: Arc<[usize]>,
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
#[error("expected 1 to {MAX_NAME} visible characters without spaces or '/', got {0:?}")]
pub struct NameError(pub String);

/// A name of a group or track, in lower case.
///
/// # Errors
/// If it is none.
pub fn name(text: &str) -> Result<Arc<str>, NameError> {
    let name = text.to_lowercase();
    let is_good = |c: char| !c.is_whitespace() && !c.is_control() && !is_invisible(c) && c != '/';
    let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(is_good);
    if is_name { Ok(name.into()) } else { Err(NameError(text.to_owned())) }
}

/// Whether nothing is seen of a character (Unicode's Default_Ignorable_Code_Point): with one, two names could look the same.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'
    )
}

impl Group {
    /// A group of these nodes.
    ///
    /// # Errors
    /// If the name is none.
    pub fn new(group: &str, nodes: Vec<Node>) -> Result<Self, NameError> {
        let name = name(group)?;
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by(|&a, &b| nodes[a].precedence(&nodes[b]));
        Ok(Self { name, nodes: nodes.into(), order: order.into() })
    }

    /// Its name, in lower case.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its nodes, in the order in which they are stored.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Its nodes, in the order in which they count.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Node> {
        self.order.iter().map(|&place| &self.nodes[place])
    }

    /// The highest of its weights that has not expired, wherever that applies and whatever its value is: LuckPerms asks for neither.
    pub fn weight(&self, now: i64) -> Option<i32> {
        let weight = |node: &Node| match node.kind() {
            Kind::Weight(weight) if !node.has_expired(now) => Some(*weight),
            _ => None,
        };
        self.nodes.iter().filter_map(weight).max()
    }

    /// Its display name, if it has one.
    pub fn display_name(&self, now: i64) -> Option<&str> {
        self.in_order().find_map(|node| match node.kind() {
            Kind::DisplayName(name) if node.value() && !node.has_expired(now) => Some(&**name),
            _ => None,
        })
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

    /// Whether the user has the default group without a node that says so: as LuckPerms does when it loads a user, exactly if no other
    /// group, existing or not, is inherited everywhere. A parent in a context does not count, nor does one that has expired.
    pub(crate) fn has_default_implied(&self, now: i64) -> bool {
        !self.nodes.iter().any(|node| node.is_parent_in(&Contexts::none(), now))
    }

    /// Gives the user one more parent everywhere its due: whoever has the default group by implication has it by a node from here on,
    /// as every user of LuckPerms does, or the other parent would take it away.
    pub fn keep_default_beside(&mut self, parent: &Node, now: i64) {
        let is_other = parent.parent().is_some_and(|group| &**group != DEFAULT_GROUP);
        if is_other && parent.is_parent_in(&Contexts::none(), now) && self.has_default_implied(now) {
            let default = Node::inheritance(&Arc::from(DEFAULT_GROUP));
            self.nodes.retain(|node| !node.is_same(&default));
            self.nodes.push(default);
        }
    }
}
