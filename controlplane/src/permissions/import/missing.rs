//! Groups that records of an import name, and that are nowhere: they are taken over as they are, and come to nothing. LuckPerms keeps
//! such, too; but whoever moves over is to know.

use std::collections::{BTreeMap, HashSet};

use moonbridge_permissions::{DEFAULT_GROUP, Node};
use moonbridge_proto::v1;

/// Missing groups that are kept in mind, and that are listed.
const MAX_GROUPS: usize = 10_000;
const MAX_LINES: usize = 1_000;
/// Holders that are named of each.
const MAX_NAMED: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Missing {
    exist: HashSet<String>,
    groups: BTreeMap<String, Naming>,
    /// Names of groups that were not kept in mind.
    more: u64,
}

/// Who names a group.
#[derive(Debug, Default)]
struct Naming {
    first: Vec<String>,
    more: u64,
}

impl Missing {
    /// These groups, and the default one, exist.
    pub(super) fn beside<'a>(groups: impl Iterator<Item = &'a str>) -> Self {
        let exist = groups.chain([DEFAULT_GROUP]).map(str::to_owned).collect();
        Self { exist, ..Self::default() }
    }

    pub(super) fn group(&mut self, group: &v1::PermissionGroup) {
        self.parents(&group.nodes, || format!("group {}", group.name));
    }

    pub(super) fn track(&mut self, track: &v1::PermissionTrack) {
        for group in &track.groups {
            self.named(group, || format!("track {}", track.name));
        }
    }

    pub(super) fn user(&mut self, user: &v1::PermissionUser) {
        self.parents(&user.nodes, || super::report::user(user));
    }

    fn parents(&mut self, nodes: &[v1::PermissionNode], holder: impl Fn() -> String) {
        // Most nodes are permissions: they need not be read for this.
        let is_parent = |node: &&v1::PermissionNode| node.key.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("group."));
        for node in nodes.iter().filter(is_parent).filter_map(|node| Node::try_from(node).ok()) {
            if let Some(parent) = node.parent() {
                self.named(parent, &holder);
            }
        }
    }

    fn named(&mut self, group: &str, holder: impl Fn() -> String) {
        if self.exist.contains(group) {
            return;
        }
        if !self.groups.contains_key(group) {
            if self.groups.len() == MAX_GROUPS {
                self.more += 1;
                return;
            }
            self.groups.insert(group.to_owned(), Naming::default());
        }
        let Some(naming) = self.groups.get_mut(group) else { return };
        match naming.first.len() {
            0..MAX_NAMED => naming.first.push(holder()),
            _ => naming.more += 1,
        }
    }

    /// A line for each group, and how many more there are.
    pub(super) fn notes(&self) -> (Vec<String>, u64) {
        let line = |(group, Naming { first, more }): (&String, &Naming)| {
            let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
            format!("there is no group {group}: named by {}{more}", first.join(", "))
        };
        let lines: Vec<_> = self.groups.iter().take(MAX_LINES).map(line).collect();
        let more = (self.groups.len() - lines.len()) as u64 + self.more;
        (lines, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(keys: &[&str]) -> Vec<v1::PermissionNode> {
        keys.iter().map(|key| v1::PermissionNode { key: (*key).to_owned(), value: true, ..v1::PermissionNode::default() }).collect()
    }

    fn user(index: usize, keys: &[&str]) -> v1::PermissionUser {
        v1::PermissionUser { uuid: format!("u{index}"), nodes: nodes(keys), ..v1::PermissionUser::default() }
    }

    #[test]
    fn groups_that_are_nowhere_are_told_with_who_has_them() {
        let mut missing = Missing::beside(["mod"].into_iter());
        let nodes_of_mod = nodes(&["group.default", "group.gone", "groups.x", "weight.1"]);
        missing.group(&v1::PermissionGroup { name: "mod".to_owned(), nodes: nodes_of_mod });
        missing.track(&v1::PermissionTrack { name: "staff".to_owned(), groups: vec!["mod".to_owned(), "other".to_owned()] });
        let named = v1::PermissionUser { username: "Ada".to_owned(), ..user(0, &["GROUP.Gone", "group.mod"]) };
        missing.user(&named);
        let negated = v1::PermissionNode { value: false, ..nodes(&["group.never"]).remove(0) };
        missing.user(&v1::PermissionUser { nodes: vec![negated], ..user(1, &[]) });
        for index in 2..5 {
            missing.user(&user(index, &["group.gone"]));
        }
        let expected = [
            "there is no group gone: named by group mod, user u0 (Ada), user u2 and 2 more",
            "there is no group other: named by track staff",
        ];
        assert_eq!(missing.notes(), (expected.map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn a_file_of_nothing_but_missing_groups_is_cut() {
        let mut missing = Missing::beside([].into_iter());
        for index in 0..MAX_GROUPS + 5 {
            missing.user(&user(index, &[&format!("group.g{index}")]));
        }
        let (lines, more) = missing.notes();
        assert_eq!((lines.len(), more as usize), (MAX_LINES, MAX_GROUPS + 5 - MAX_LINES));
    }
}
