//! What becomes of a record that is stored, has come, or both.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use moonbridge_permissions::{Group, Kind};
use moonbridge_proto::v1;
use tonic::Status;

/// What an import does with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nodes that come are added; those of the same key and contexts are replaced.
    Merge,
    /// What does not come goes.
    Replace,
}

pub(super) fn group(mode: Mode, old: Option<&v1::PermissionGroup>, new: Option<&v1::PermissionGroup>) -> Option<v1::PermissionGroup> {
    both(mode, old, new.cloned(), |old, new| v1::PermissionGroup { nodes: nodes(&old.nodes, new.nodes), ..new })
}

/// A track that comes takes the place of the old one: an order cannot be added to another.
pub(super) fn track(mode: Mode, old: Option<&v1::PermissionTrack>, new: Option<&v1::PermissionTrack>) -> Option<v1::PermissionTrack> {
    both(mode, old, new.cloned(), |_, new| new)
}

pub(super) fn user(mode: Mode, old: Option<&v1::PermissionUser>, new: Option<v1::PermissionUser>) -> Option<v1::PermissionUser> {
    both(mode, old, new, |old, new| {
        let given = |old: &String, new: String| if new.is_empty() { old.clone() } else { new };
        v1::PermissionUser {
            username: given(&old.username, new.username),
            primary_group: given(&old.primary_group, new.primary_group),
            nodes: nodes(&old.nodes, new.nodes),
            uuid: new.uuid,
        }
    })
}

fn both<T: Clone>(mode: Mode, old: Option<&T>, new: Option<T>, merge: impl FnOnce(&T, T) -> T) -> Option<T> {
    match (mode, old, new) {
        (Mode::Replace, _, new) => new,
        (Mode::Merge, Some(old), Some(new)) => Some(merge(old, new)),
        (Mode::Merge, old, new) => new.or_else(|| old.cloned()),
    }
}

/// Those of `old` in their places, replaced where one of the same key and contexts has come; then the rest of what has come.
fn nodes(old: &[v1::PermissionNode], new: Vec<v1::PermissionNode>) -> Vec<v1::PermissionNode> {
    type Identity = (String, Vec<(String, String)>);
    let identity = |node: &v1::PermissionNode| -> Identity {
        (node.key.clone(), node.contexts.iter().map(|context| (context.key.clone(), context.value.clone())).collect())
    };
    let mut merged = old.to_vec();
    let mut places: HashMap<Identity, usize> = merged.iter().enumerate().map(|(place, node)| (identity(node), place)).collect();
    for node in new {
        match places.get(&identity(&node)) {
            Some(place) => merged[*place] = node,
            None => {
                places.insert(identity(&node), merged.len());
                merged.push(node);
            }
        }
    }
    merged
}

/// Refuses groups of which one would inherit itself.
pub(super) fn check(groups: &[v1::PermissionGroup]) -> Result<(), Status> {
    let mut parents: HashMap<&str, Vec<Arc<str>>> = HashMap::new();
    for raw in groups {
        let group = Group::try_from(raw).map_err(|mistakes| crate::resources::invalid(&format!("group {}", raw.name), mistakes))?;
        let inherited = group.nodes().iter().filter(|node| node.value()).filter_map(|node| match node.kind() {
            Kind::Inheritance(parent) => Some(parent.clone()),
            _ => None,
        });
        parents.insert(&raw.name, inherited.collect());
    }
    match cycle(&parents) {
        Some(cycle) => Err(Status::failed_precondition(format!(
            "a group would inherit itself: {}. Take one of these parents away first; nothing was imported",
            cycle.join(" -> ")
        ))),
        None => Ok(()),
    }
}

/// A way from a group to itself.
fn cycle(parents: &HashMap<&str, Vec<Arc<str>>>) -> Option<Vec<String>> {
    let (mut done, mut names): (HashSet<&str>, Vec<&str>) = (HashSet::new(), parents.keys().copied().collect());
    names.sort_unstable();
    for start in names {
        // The way from `start`, and how many parents of each have been followed.
        let mut way: Vec<(&str, usize)> = vec![(start, 0)];
        let mut on_way: HashSet<&str> = HashSet::from([start]);
        while let Some((at, followed)) = way.last_mut() {
            let next = parents.get(at).and_then(|parents| parents.get(*followed));
            *followed += 1;
            match next {
                Some(next) if on_way.contains(&**next) => {
                    let names = way.iter().map(|(name, _)| *name).skip_while(|name| *name != &**next);
                    return Some(names.chain([&**next]).map(str::to_owned).collect());
                }
                Some(next) if !done.contains(&**next) => {
                    way.push((next, 0));
                    on_way.insert(next);
                }
                Some(_) => {}
                None => {
                    done.insert(at);
                    on_way.remove(at);
                    way.pop();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(key: &str, value: bool) -> v1::PermissionNode {
        v1::PermissionNode { key: key.to_owned(), value, ..v1::PermissionNode::default() }
    }

    fn in_world(node: v1::PermissionNode, world: &str) -> v1::PermissionNode {
        let context = v1::PermissionContext { key: "world".to_owned(), value: world.to_owned() };
        v1::PermissionNode { contexts: vec![context], ..node }
    }

    fn user_of(nodes: Vec<v1::PermissionNode>) -> v1::PermissionUser {
        v1::PermissionUser { uuid: "u".to_owned(), username: "Ada".to_owned(), nodes, ..v1::PermissionUser::default() }
    }

    #[test]
    fn a_merge_adds_and_replaces_by_key_and_contexts_and_keeps_the_rest() {
        let old = user_of(vec![node("a", true), node("b", true), in_world(node("b", true), "x")]);
        let new = v1::PermissionUser { username: String::new(), ..user_of(vec![node("c", true), in_world(node("b", false), "x")]) };
        let merged = user(Mode::Merge, Some(&old), Some(new.clone())).expect("a user");
        assert_eq!(merged.username, "Ada");
        assert_eq!(merged.nodes, [node("a", true), node("b", true), in_world(node("b", false), "x"), node("c", true)]);
        assert_eq!(user(Mode::Merge, Some(&old), None), Some(old.clone()));
        assert_eq!(user(Mode::Merge, None, Some(new.clone())), Some(new.clone()));
        assert_eq!(user(Mode::Replace, Some(&old), Some(new.clone())), Some(new));
        assert_eq!(user(Mode::Replace, Some(&old), None), None);
    }

    fn inheriting(name: &str, parents: &[(&str, bool)]) -> v1::PermissionGroup {
        let nodes = parents.iter().map(|(parent, value)| node(&format!("group.{parent}"), *value)).collect();
        v1::PermissionGroup { name: name.to_owned(), nodes }
    }

    #[test]
    fn cycles_are_found_and_diamonds_missing_groups_and_negated_parents_are_none() {
        let diamond = [inheriting("a", &[("b", true), ("c", true)]), inheriting("b", &[("d", true)]), inheriting("c", &[("d", true)])];
        check(&diamond).expect("none");
        check(&[inheriting("a", &[("b", true)]), inheriting("b", &[("a", false)])]).expect("none");
        let found = check(&[inheriting("x", &[("a", true)]), inheriting("a", &[("b", true)]), inheriting("b", &[("a", true)])]);
        assert!(found.expect_err("a cycle").message().contains("a -> b -> a"));
        assert!(check(&[inheriting("a", &[("a", true)])]).expect_err("a cycle").message().contains("a -> a"));
        let chain: Vec<_> = (0..5_000).map(|index| inheriting(&format!("g{index}"), &[(&format!("g{}", index + 1), true)])).collect();
        check(&chain).expect("none");
    }
}
