//! BungeeCord's `config.yml`: `permissions` and `groups`.
//!
//! There everybody has the group `default` and whatever groups its name or UUID is listed with; nothing is inherited and nothing
//! weighs more than anything else. So every player gets `group.default` beside its groups.
//!
//! A permission is taken as it is, `-` in front for one that is taken away. Two families have another name here, and are taken under
//! that one, too: `bungeecord.server.X` is also `moonbridge.server.X`, and `bungeecord.command.X` also `moonbridge.command.X`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::{Gathered, Imported, shown};
use crate::context::Contexts;
use crate::holder::{self, DEFAULT_GROUP, Group, User};
use crate::node::{Node, key};

/// What has another name here.
const RENAMED: [(&str, &str); 2] = [("bungeecord.server.", "moonbridge.server."), ("bungeecord.command.", "moonbridge.command.")];

/// The part of `config.yml` that is about permissions; read it with a YAML reader.
#[derive(Debug, Default, Deserialize)]
pub struct Config {
    /// Permissions by group.
    #[serde(default, deserialize_with = "lists")]
    pub permissions: BTreeMap<String, Vec<String>>,
    /// Groups by player's name or UUID.
    #[serde(default, deserialize_with = "lists")]
    pub groups: BTreeMap<String, Vec<String>>,
}

/// What it says. Players by name are looked up with `uuid`; those it does not know are left out and named.
pub fn convert(config: &Config, uuid: impl Fn(&str) -> Option<Uuid>) -> Imported {
    let mut gathered = Gathered::default();
    let mut permissions: BTreeMap<Arc<str>, Vec<Node>> = BTreeMap::from([(Arc::from(DEFAULT_GROUP), Vec::new())]);
    for (group, listed) in &config.permissions {
        let path = format!("permissions.{}", shown(group));
        match holder::name(group) {
            Ok(group) => {
                let nodes = nodes(&mut gathered, &path, listed);
                permissions.entry(group).or_default().extend(nodes);
            }
            Err(error) => gathered.leave_out(path, error),
        }
    }
    for (player, listed) in &config.groups {
        let path = format!("groups.{}", shown(player));
        let by_uuid = Uuid::parse_str(player).ok();
        let Some(uuid) = by_uuid.or_else(|| uuid(player)) else {
            gathered.leave_out(path, "nobody of this name has been seen here; put the UUID in its place");
            continue;
        };
        let parents = parents(&mut gathered, &path, listed);
        for parent in &parents {
            permissions.entry(Arc::clone(parent)).or_default();
        }
        let user = gathered.users.entry(uuid).or_insert_with(|| User::unknown(uuid));
        if by_uuid.is_none() {
            user.username = Some(player.clone());
        }
        let inherited = parents.iter().filter_map(|parent| granted(&key::inheritance(parent), true).ok());
        for node in inherited {
            if !user.nodes.contains(&node) {
                user.nodes.push(node);
            }
        }
    }
    for (name, nodes) in permissions {
        if let Ok(group) = Group::new(&name, nodes) {
            gathered.groups.insert(name, group);
        }
    }
    gathered.into()
}

fn nodes(gathered: &mut Gathered, path: &str, listed: &[String]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for (index, permission) in listed.iter().enumerate() {
        let (key, value) = permission.strip_prefix('-').map_or((&**permission, true), |taken| (taken, false));
        let renamed = RENAMED.iter().find_map(|(theirs, ours)| key.strip_prefix(theirs).map(|rest| format!("{ours}{rest}")));
        for key in std::iter::once(key).chain(renamed.as_deref()) {
            match granted(key, value) {
                Ok(node) if nodes.contains(&node) => {}
                Ok(node) => nodes.push(node),
                Err(error) => gathered.leave_out(format!("{path}[{index}] ({})", shown(key)), error),
            }
        }
    }
    nodes
}

fn parents(gathered: &mut Gathered, path: &str, listed: &[String]) -> BTreeSet<Arc<str>> {
    let mut parents = BTreeSet::from([Arc::from(DEFAULT_GROUP)]);
    for (index, group) in listed.iter().enumerate() {
        match holder::name(group) {
            Ok(group) => {
                parents.insert(group);
            }
            Err(error) => gathered.leave_out(format!("{path}[{index}]"), error),
        }
    }
    parents
}

fn granted(key: &str, value: bool) -> Result<Node, crate::node::NodeError> {
    Node::new(key, value, Contexts::none(), None)
}

/// Lists by name; a name with nothing behind it has an empty one.
fn lists<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let lists = Option::<BTreeMap<String, Option<Vec<String>>>>::deserialize(deserializer)?;
    Ok(lists.unwrap_or_default().into_iter().map(|(name, list)| (name, list.unwrap_or_default())).collect())
}
