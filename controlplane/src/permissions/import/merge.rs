//! What becomes of a record that is stored, has come, or both.

use std::collections::HashMap;
use std::sync::Arc;

use moonbridge_permissions::{Budget, Group, Groups, Node, User, find_cycle};
use moonbridge_proto::v1;
use tonic::Status;

/// What an import does with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nodes that come are added; one of the same key and contexts is replaced, a permanent one by a permanent one.
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

/// Those of `old` in their places, replaced where one has come that setting it would replace it by; then the rest of what has come.
fn nodes(old: &[v1::PermissionNode], new: Vec<v1::PermissionNode>) -> Vec<v1::PermissionNode> {
    type Identity = (Arc<str>, Vec<(String, String)>, bool);
    let identity = |node: &v1::PermissionNode| -> Identity {
        let key = Node::try_from(node).map_or_else(|_| node.key.as_str().into(), |node| node.identity().clone());
        let is_temporary = node.expiry != 0;
        (key, node.contexts.iter().map(|context| (context.key.clone(), context.value.clone())).collect(), is_temporary)
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

/// Refuses a user of old and new nodes that come to so much together that it could not be read again.
pub(super) fn check_user(user: &v1::PermissionUser) -> Result<(), Status> {
    User::try_from(user).map_err(|mistakes| crate::resources::invalid(&format!("user {}", user.uuid), mistakes)).map(drop)
}

/// Refuses groups of which one would inherit itself, and more shorthand and regular expressions than every node is to hold.
pub(super) fn check(groups: &[v1::PermissionGroup]) -> Result<(), Status> {
    let (mut all, mut budget) = (Groups::new(), Budget::of_groups());
    for raw in groups {
        let group = Group::try_from(raw).map_err(|mistakes| crate::resources::invalid(&format!("group {}", raw.name), mistakes))?;
        let taken = budget.take_all(group.nodes());
        taken.map_err(|exhausted| Status::failed_precondition(format!("group {}: {exhausted}. Nothing was imported", raw.name)))?;
        all.insert(group.name().to_string(), Arc::new(group));
    }
    match find_cycle(&all) {
        Some(cycle) => Err(Status::failed_precondition(format!(
            "a group would inherit itself: {}. Take one of these parents away first; nothing was imported",
            cycle.join(" -> ")
        ))),
        None => Ok(()),
    }
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

    #[test]
    fn a_permission_that_comes_in_other_letters_is_the_same_and_a_prefix_is_not() {
        let old = user_of(vec![node("A.b", true), node("prefix.1.[Mod]", true)]);
        let new = user_of(vec![node("a.B", false), node("prefix.1.[mod]", true)]);
        let merged = user(Mode::Merge, Some(&old), Some(new)).expect("a user");
        assert_eq!(merged.nodes, [node("a.B", false), node("prefix.1.[Mod]", true), node("prefix.1.[mod]", true)]);
    }

    #[test]
    fn a_temporary_node_that_comes_leaves_the_permanent_one_and_the_other_way_round() {
        let until = |node: v1::PermissionNode, expiry: i64| v1::PermissionNode { expiry, ..node };
        let old = user_of(vec![node("a", true), until(node("b", true), 10), node("group.mod", true)]);
        let new = [until(node("a", false), 20), until(node("b", false), 20), node("b", true), until(node("group.mod", true), 20)];
        let merged = user(Mode::Merge, Some(&old), Some(user_of(new.to_vec()))).expect("a user");
        let [a, b_until, b, mod_until] = new;
        assert_eq!(merged.nodes, [node("a", true), b_until, node("group.mod", true), a, b, mod_until]);
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
    #[test]
    fn what_is_too_much_together_is_refused_also_if_each_half_is_not() {
        let nodes = |from: usize| (from..from + 150).map(|n| node(&format!("{{1-250}}.{n}"), true)).collect();
        let (old, new) = (user_of(nodes(0)), user_of(nodes(150)));
        let with_uuid = |user: v1::PermissionUser| v1::PermissionUser { uuid: uuid::Uuid::nil().to_string(), ..user };
        check_user(&with_uuid(new.clone())).expect("half of it");
        let merged = user(Mode::Merge, Some(&old), Some(new)).expect("a user");
        let refused = check_user(&with_uuid(merged)).expect_err("too much");
        assert!(refused.message().contains("more than 50000 permissions"), "{refused}");

        let groups: Vec<_> = (0..27).map(|n| v1::PermissionGroup { name: format!("g{n}"), nodes: nodes(0) }).collect();
        let refused = check(&groups).expect_err("too much");
        assert!(refused.message().contains("group g26: with it, shorthand would stand for more than 1000000"), "{refused}");
    }
}
