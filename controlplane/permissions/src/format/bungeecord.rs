//! BungeeCord's `config.yml`: `permissions` and `groups`.
//!
//! There everybody has the group `default` and whatever groups its name or UUID is listed with; nothing is inherited and nothing
//! weighs more than anything else. So every player gets `group.default` beside its groups.
//!
//! A permission is taken as it is, `-` in front for one that is taken away. Two families have another name here, and are taken under
//! that one, too: `bungeecord.server.X` is also `moonbridge.server.X`, and `bungeecord.command.X` also `moonbridge.command.X`.

mod read;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::{FormatError, Gathered, Imported, shown};
use crate::budget::Budget;
use crate::context::Contexts;
use crate::holder::{self, DEFAULT_GROUP, Group, User};
use crate::node::Node;

pub use read::read;

/// What has another name here.
const RENAMED: [(&str, &str); 2] = [("bungeecord.server.", "moonbridge.server."), ("bungeecord.command.", "moonbridge.command.")];

/// The part of `config.yml` that is about permissions.
#[derive(Debug, Default)]
pub struct Config {
    /// Permissions by group.
    pub permissions: BTreeMap<String, Vec<String>>,
    /// Groups by player's name or UUID.
    pub groups: BTreeMap<String, Vec<String>>,
}

/// What it says. Players by name are looked up with `uuid`; those it does not know are left out and named.
///
/// # Errors
/// If its shorthand or regular expressions come to more than any network has.
pub fn convert(config: &Config, uuid: impl Fn(&str) -> Option<Uuid>) -> Result<Imported, FormatError> {
    let mut gathered = Gathered::default();
    let mut budget = Budget::of_file();
    let mut permissions: BTreeMap<Arc<str>, Permissions> = BTreeMap::from([(Arc::from(DEFAULT_GROUP), Permissions::default())]);
    for (group, listed) in &config.permissions {
        let path = format!("permissions.{}", shown(group));
        match holder::name(group) {
            Ok(group) => permissions.entry(group).or_default().add(&mut gathered, &mut budget, &path, listed)?,
            Err(error) => gathered.leave_out(path, error),
        }
    }
    let mut players: BTreeMap<Uuid, Player> = BTreeMap::new();
    for (player, listed) in &config.groups {
        let path = format!("groups.{}", shown(player));
        let by_uuid = Uuid::parse_str(player).ok();
        let Some(uuid) = by_uuid.or_else(|| uuid(player)) else {
            gathered.leave_out(path, "nobody of this name has been seen here; put the UUID in its place");
            continue;
        };
        let Player { name, parents } = players.entry(uuid).or_default();
        if by_uuid.is_none() {
            *name = Some(player.clone());
        }
        add_parents(parents, &mut gathered, &path, listed);
    }
    for (uuid, Player { name, parents }) in players {
        let nodes = parents.iter().map(Node::inheritance).collect();
        gathered.users.insert(uuid, User { username: name, nodes, ..User::unknown(uuid) });
        for parent in parents {
            permissions.entry(parent).or_default();
        }
    }
    for (name, Permissions { nodes, .. }) in permissions {
        if let Ok(group) = Group::new(&name, nodes) {
            gathered.groups.insert(name, group);
        }
    }
    Ok(gathered.into())
}

/// A group's; no spelling twice.
struct Permissions {
    nodes: Vec<Node>,
    seen: HashSet<(Arc<str>, bool)>,
    budget: Budget,
}

/// Its groups, whether it is listed by name, by UUID, or both.
#[derive(Default)]
struct Player {
    name: Option<String>,
    parents: BTreeSet<Arc<str>>,
}

impl Default for Permissions {
    fn default() -> Self {
        Self { nodes: Vec::new(), seen: HashSet::new(), budget: Budget::of_holder() }
    }
}

impl Permissions {
    fn add(&mut self, gathered: &mut Gathered, file: &mut Budget, path: &str, listed: &[String]) -> Result<(), FormatError> {
        for (index, permission) in listed.iter().enumerate() {
            let (key, value) = permission.strip_prefix('-').map_or((&**permission, true), |taken| (taken, false));
            let renamed = RENAMED.iter().find_map(|(theirs, ours)| key.strip_prefix(theirs).map(|rest| format!("{ours}{rest}")));
            for key in std::iter::once(key).chain(renamed.as_deref()) {
                let at = || format!("{path}[{index}] ({})", shown(key));
                let node = match Node::new(key, value, Contexts::none(), None) {
                    Ok(node) => node,
                    Err(error) => {
                        gathered.leave_out(at(), error);
                        continue;
                    }
                };
                file.take(&node).map_err(|exhausted| FormatError::Invalid { path: at(), problem: exhausted.to_string() })?;
                if !self.seen.insert((Arc::clone(node.key()), value)) {
                    continue;
                }
                match self.budget.take(&node) {
                    Ok(()) => self.nodes.push(node),
                    Err(exhausted) => gathered.leave_out(at(), exhausted),
                }
            }
        }
        Ok(())
    }
}

/// The default group, which everybody has there, too.
fn add_parents(parents: &mut BTreeSet<Arc<str>>, gathered: &mut Gathered, path: &str, listed: &[String]) {
    parents.insert(Arc::from(DEFAULT_GROUP));
    for (index, group) in listed.iter().enumerate() {
        match holder::name(group) {
            Ok(group) => drop(parents.insert(group)),
            Err(error) => gathered.leave_out(format!("{path}[{index}]"), error),
        }
    }
}
