//! How a node matches a permission, found without a table.

use super::MatchedBy;
use crate::node::{Kind, Node};
use crate::settings::Settings;

/// How a node matches; the least of all matches decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Match {
    pub(super) by: MatchedBy,
    /// How far this is from the permission itself.
    distance: usize,
    /// What a shorthand stands for gives way to what is written out.
    expanded: bool,
}

impl Match {
    /// The best match of a node. The permission is in lower case.
    pub(super) fn of(node: &Node, permission: &str, settings: &Settings) -> Option<Self> {
        let expanded = if settings.shorthand { node.expanded() } else { &[] };
        let by_expanded = expanded.iter().filter_map(|key| Self::by_key(key, permission, settings, true));
        let by_key = Self::by_key(node.lower(), permission, settings, false);
        by_key.into_iter().chain(Self::by_regex(node, permission, settings)).chain(by_expanded).min()
    }

    fn by_regex(node: &Node, permission: &str, settings: &Settings) -> Option<Self> {
        match node.kind() {
            Kind::Regex(regex) if settings.regex && regex.is_match(permission) => {
                Some(Self { by: MatchedBy::Regex, distance: 0, expanded: false })
            }
            _ => None,
        }
    }

    fn by_key(key: &str, permission: &str, settings: &Settings, expanded: bool) -> Option<Self> {
        if key == permission {
            return Some(Self { by: MatchedBy::Exact, distance: 0, expanded });
        }
        if settings.wildcards
            && let Some(distance) = wildcard(key, permission)
        {
            return Some(Self { by: MatchedBy::Wildcard, distance, expanded });
        }
        let distance = beginning(key, permission).filter(|_| settings.implicit_wildcards)?;
        Some(Self { by: MatchedBy::Implicit, distance, expanded })
    }
}

fn wildcard(key: &str, permission: &str) -> Option<usize> {
    match key {
        "*" => Some(permission.len()),
        "'*'" => Some(permission.len() + 1),
        _ => beginning(key.strip_suffix(".*")?, permission),
    }
}

/// How much of the permission is left after whole parts of it.
fn beginning(key: &str, permission: &str) -> Option<usize> {
    let rest = permission.strip_prefix(key).filter(|rest| rest.starts_with('.') && !key.is_empty())?;
    Some(rest.len())
}
