//! Nodes and edits for people: as rows, and in words.

use moonbridge_permissions::{Kind, Node};
use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_edit::Edit;
use serde_json::{Value, json};

use super::parsed;
use crate::args::Format;
use crate::output::Listing;
use crate::time::rfc3339;

const NODE: &[&str] = &["key", "value", "contexts", "expiry", "kind"];

/// Nodes as a list.
pub(super) fn nodes(nodes: &[v1::PermissionNode], format: Format) -> Listing {
    let mut listing = Listing::new(NODE);
    for node in nodes {
        listing.push([json!(node.key), value(node.value, format), pairs(&node.contexts), ends(node), json!(kind(node))]);
    }
    listing
}

/// A node's value: for people as they set it.
pub(super) fn value(value: bool, format: Format) -> Value {
    if format == Format::Table { json!(value.to_string()) } else { json!(value) }
}

/// Contexts as a list of KEY=VALUE.
pub(super) fn pairs(contexts: &[v1::PermissionContext]) -> Value {
    contexts.iter().map(|context| json!(format!("{}={}", context.key, context.value))).collect()
}

/// When a node's time ends, or null.
pub(super) fn ends(node: &v1::PermissionNode) -> Value {
    json!(rfc3339(node.expiry.saturating_mul(1_000)))
}

/// What a node is, in LuckPerms' terms.
fn kind(node: &v1::PermissionNode) -> &'static str {
    match parsed(node).as_ref().map(Node::kind) {
        Some(Kind::Inheritance(_)) => "inheritance",
        Some(Kind::Prefix(..)) => "prefix",
        Some(Kind::Suffix(..)) => "suffix",
        Some(Kind::Meta(..)) => "meta",
        Some(Kind::Weight(_)) => "weight",
        Some(Kind::DisplayName(_)) => "display_name",
        Some(Kind::Regex(_)) => "regex_permission",
        Some(Kind::Permission(_)) => "permission",
        _ => "unknown",
    }
}

/// A node in words: "moonbridge.server.vip = true (world=lobby) until 2026-12-31T00:00:00Z".
pub(super) fn node(node: &v1::PermissionNode) -> String {
    let tail = format!("{}{}", places(&node.contexts), until(node.expiry));
    match parsed(node).as_ref().map(Node::kind) {
        Some(Kind::Inheritance(group)) if node.value => format!("inherits {group}{tail}"),
        Some(Kind::Prefix(priority, text)) if node.value => format!("prefix {text:?} of priority {priority}{tail}"),
        Some(Kind::Suffix(priority, text)) if node.value => format!("suffix {text:?} of priority {priority}{tail}"),
        Some(Kind::Meta(key, text)) if node.value => format!("meta {key} = {text}{tail}"),
        _ => format!("{} = {}{tail}", node.key, node.value),
    }
}

/// What an edit has come to, with the nodes as they are now.
pub(super) fn edited(edit: &Edit, now: &[v1::PermissionNode]) -> String {
    // With an expiry that was added up, the node that is there is not the one that was sent.
    let there = |wanted: &v1::PermissionNode| {
        let is_temporary = |node: &v1::PermissionNode| node.expiry != 0;
        let is_there = |node: &&v1::PermissionNode| {
            node.key == wanted.key && node.contexts == wanted.contexts && is_temporary(node) == is_temporary(wanted)
        };
        let found = now.iter().find(is_there);
        node(found.unwrap_or(wanted))
    };
    match edit {
        Edit::Set(v1::SetNode { node, .. }) => node.as_ref().map(there).unwrap_or_default(),
        Edit::Unset(unset) => left(now, unset).map_or_else(|| without(unset), node),
        Edit::Clear(clear) => {
            let what = match clear.kind() {
                v1::ClearKind::Unspecified | v1::ClearKind::All => "no nodes",
                v1::ClearKind::Permissions => "no permissions",
                v1::ClearKind::Parents => "no parents",
                v1::ClearKind::Meta => "no prefixes, suffixes and meta",
            };
            format!("{what}{} any more", places(&clear.contexts))
        }
        Edit::SetMeta(set) => format!("meta {} = {}{}{}", set.key, set.value, places(&set.contexts), until(set.expiry)),
        Edit::UnsetMeta(unset) => match left_of_meta(now, unset) {
            Some(left) => node(left),
            None => format!("meta {} is not set{} any more", unset.key, places(&unset.contexts)),
        },
        Edit::SetParent(set) => format!("inherits {} and nothing else{}{}", set.group, places(&set.contexts), until(set.expiry)),
        Edit::PrimaryGroup(group) => format!("primary group {group}"),
        Edit::Weight(weight) => format!("weight {weight}"),
        Edit::DisplayName(name) if name.is_empty() => "no display name".to_owned(),
        Edit::DisplayName(name) => format!("display name {name:?}"),
    }
}

/// The permanent node, where only the temporary one was taken away.
fn left<'a>(now: &'a [v1::PermissionNode], unset: &v1::UnsetNode) -> Option<&'a v1::PermissionNode> {
    let gone = parsed(&v1::PermissionNode { key: unset.key.clone(), value: true, ..Default::default() })?;
    let is_it = |node: &Node| node.identity() == gone.identity();
    now.iter().find(|node| node.contexts == unset.contexts && parsed(node).as_ref().is_some_and(is_it))
}

fn left_of_meta<'a>(now: &'a [v1::PermissionNode], unset: &v1::UnsetMeta) -> Option<&'a v1::PermissionNode> {
    let is_it = |node: &Node| matches!(node.kind(), Kind::Meta(key, _) if **key == *unset.key.to_lowercase());
    now.iter().find(|node| node.contexts == unset.contexts && parsed(node).as_ref().is_some_and(is_it))
}

fn without(unset: &v1::UnsetNode) -> String {
    let node = v1::PermissionNode { key: unset.key.clone(), value: true, ..Default::default() };
    let places = places(&unset.contexts);
    match parsed(&node).as_ref().map(Node::kind) {
        Some(Kind::Inheritance(group)) => format!("does not inherit {group}{places} any more"),
        Some(Kind::Prefix(priority, text)) => format!("no prefix {text:?} of priority {priority}{places} any more"),
        Some(Kind::Suffix(priority, text)) => format!("no suffix {text:?} of priority {priority}{places} any more"),
        _ => format!("{} is not set{places} any more", unset.key),
    }
}

/// Contexts in words, to be put behind something: " (world=lobby)".
pub(super) fn places(contexts: &[v1::PermissionContext]) -> String {
    let places: Vec<String> = contexts.iter().map(|context| format!("{}={}", context.key, context.value)).collect();
    if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) }
}

fn until(expiry: i64) -> String {
    rfc3339(expiry.saturating_mul(1_000)).map_or_else(String::new, |moment| format!(" until {moment}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(key: &str, value: bool, expiry: i64) -> v1::PermissionNode {
        let world = v1::PermissionContext { key: "world".to_owned(), value: "lobby".to_owned() };
        v1::PermissionNode { key: key.to_owned(), value, contexts: vec![world], expiry }
    }

    #[test]
    fn nodes_in_words() {
        let end = 1_709_209_845;
        for (key, value, expiry, words) in [
            ("moonbridge.server.vip", true, 0, "moonbridge.server.vip = true (world=lobby)"),
            ("a.b", false, end, "a.b = false (world=lobby) until 2024-02-29T12:30:45Z"),
            ("group.mod", true, 0, "inherits mod (world=lobby)"),
            ("group.mod", false, 0, "group.mod = false (world=lobby)"),
            (r"prefix.50.&a[Mod\.] ", true, 0, r#"prefix "&a[Mod.] " of priority 50 (world=lobby)"#),
            ("suffix.-1.x", true, 0, r#"suffix "x" of priority -1 (world=lobby)"#),
            ("meta.home-limit.5", true, 0, "meta home-limit = 5 (world=lobby)"),
        ] {
            assert_eq!(node(&raw(key, value, expiry)), words);
        }
    }

    #[test]
    fn an_edit_says_what_is_now() {
        let sent = Edit::Set(v1::SetNode { node: Some(raw("a.b", true, 1_000)), temporary: 0 });
        let now = [raw("a.b", false, 0), raw("a.b", true, 1_709_209_845)];
        assert_eq!(edited(&sent, &now), "a.b = true (world=lobby) until 2024-02-29T12:30:45Z");
        let contexts = now[0].contexts.clone();
        let unset = |key: &str| Edit::Unset(v1::UnsetNode { key: key.to_owned(), contexts: contexts.clone(), only_temporary: false });
        assert_eq!(edited(&unset("a.b"), &[]), "a.b is not set (world=lobby) any more");
        assert_eq!(edited(&unset("group.mod"), &[]), "does not inherit mod (world=lobby) any more");
        let for_good = [raw("A.b", true, 0), raw("meta.k.v", true, 0)];
        assert_eq!(edited(&unset("a.B"), &for_good), "A.b = true (world=lobby)");
        assert_eq!(edited(&unset("a.c"), &for_good), "a.c is not set (world=lobby) any more");
        let meta = |key: &str| Edit::UnsetMeta(v1::UnsetMeta { key: key.to_owned(), contexts: contexts.clone(), only_temporary: true });
        assert_eq!(edited(&meta("K"), &for_good), "meta k = v (world=lobby)");
        assert_eq!(edited(&meta("l"), &for_good), "meta l is not set (world=lobby) any more");
        let clear = v1::ClearNodes { contexts: Vec::new(), in_contexts: false, kind: v1::ClearKind::Parents.into() };
        assert_eq!(edited(&Edit::Clear(clear), &[]), "no parents any more");
        assert_eq!(edited(&Edit::DisplayName(String::new()), &[]), "no display name");
    }

    #[test]
    fn rows_of_nodes() {
        let listing = nodes(&[raw("r=a.*", true, 0), raw("weight.5", true, 1_709_209_845)], Format::Json);
        let text = serde_json::to_value(listing.records()).unwrap();
        assert_eq!(
            text,
            json!([
                { "key": "r=a.*", "value": true, "contexts": ["world=lobby"], "expiry": null, "kind": "regex_permission" },
                { "key": "weight.5", "value": true, "contexts": ["world=lobby"], "expiry": "2024-02-29T12:30:45Z", "kind": "weight" },
            ])
        );
        assert_eq!(value(false, Format::Table), json!("false"));
    }
}
