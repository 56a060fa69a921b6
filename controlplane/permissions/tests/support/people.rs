//! Users and groups to measure with: for tests, those that count included, and the benchmark.
#![allow(dead_code, unreachable_pub, reason = "not all of them use all of it")]

use std::sync::Arc;

use moonbridge_permissions::{Contexts, Group, Groups, Node, User};
use uuid::Uuid;

fn node(key: &str, value: bool) -> Node {
    Node::new(key, value, Contexts::none(), None).expect("a node")
}

/// A user with five parents, each of so many nodes, of which none is a regular expression.
pub fn of_five_groups(nodes: usize) -> (User, Groups) {
    let groups = (1..=5).map(|group| {
        let mut all: Vec<Node> = (0..nodes - 4).map(|n| node(&format!("plugin.g{group}.feature.n{n}"), n % 7 != 3)).collect();
        // With a wildcard as long as any, every cut of a permission has to be looked up.
        all.push(node(&format!("{}.*", "long.".repeat(20)), true));
        all.extend([node(&format!("wild.g{group}.*"), group != 4), node(&format!("weight.{group}"), true), node("größe.äöü", true)]);
        let name = format!("g{group}");
        let group = Group::new(&name, all).expect("a name");
        (name, Arc::new(group))
    });
    let parents = (1..=5).map(|group| node(&format!("group.g{group}"), true)).collect();
    (User { nodes: parents, ..User::unknown(Uuid::nil()) }, groups.collect())
}

/// The same with 200 nodes and ten regular expressions in each.
pub fn with_regexes() -> (User, Groups) {
    let (user, groups) = of_five_groups(200);
    let with = |(name, group): (String, Arc<Group>)| {
        let regexes = (0..10).map(|n| node(&format!(r"r=moonbridge\.transfer\.(lobby|hub{n})[0-9]+"), true));
        let nodes = group.nodes().iter().cloned().chain(regexes).collect();
        let group = Group::new(&name, nodes).expect("a name");
        (name, Arc::new(group))
    };
    (user, groups.into_iter().map(with).collect())
}
