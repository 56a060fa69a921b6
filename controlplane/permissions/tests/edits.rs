//! Edits of nodes and steps along tracks.

use std::collections::BTreeMap;
use std::sync::Arc;

use moonbridge_permissions::edit::{Clear, Edit, EditError, difference, edit};
use moonbridge_permissions::settings::TemporaryAdd;
use moonbridge_permissions::track::{Direction, MAX_GROUPS, Moved, NoTrack, TrackError, step};
use moonbridge_permissions::{Contexts, Group, Groups, Kind, Node, NodeError, Track, User};
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

const NOW: i64 = 1000;

fn lobby() -> Contexts {
    Contexts::of([("world", "lobby")]).expect("contexts")
}

/// `key`, `-key` for a false one, `key@lobby` in the lobby, `key until 5`.
fn node(text: &str) -> Node {
    let (text, expiry) = match text.split_once(" until ") {
        Some((text, expiry)) => (text, Some(expiry.parse().expect("a time"))),
        None => (text, None),
    };
    let (text, contexts) = text.strip_suffix("@lobby").map_or((text, Contexts::none()), |text| (text, lobby()));
    let (key, value) = text.strip_prefix('-').map_or((text, true), |text| (text, false));
    Node::new(key, value, contexts, expiry).expect("a node")
}

fn nodes(texts: &[&str]) -> Vec<Node> {
    texts.iter().map(|text| node(text)).collect()
}

fn set(text: &str, temporary: TemporaryAdd) -> Edit {
    Edit::Set(node(text), temporary)
}

fn unset(key: &str, contexts: Contexts) -> Edit {
    Edit::Unset { key: key.to_owned(), contexts, only_temporary: false }
}

fn unset_temporary(key: &str) -> Edit {
    Edit::Unset { key: key.to_owned(), contexts: Contexts::none(), only_temporary: true }
}

fn unset_meta(key: &str, only_temporary: bool) -> Edit {
    Edit::UnsetMeta { key: key.to_owned(), contexts: Contexts::none(), only_temporary }
}

#[test]
fn edits() {
    let none = Contexts::none;
    let meta_until = |value: &str, expiry| Edit::SetMeta { key: "K".to_owned(), value: value.to_owned(), contexts: none(), expiry };
    let meta = |value: &str| meta_until(value, None);
    let parent = |contexts, expiry| Edit::SetParent { group: "Vip".to_owned(), contexts, expiry };
    let cases: Vec<(&[&str], Edit, &[&str])> = vec![
        (&["a"], set("b", TemporaryAdd::Deny), &["a", "b"]),
        (&["a", "b", "c"], set("-b", TemporaryAdd::Deny), &["a", "-b", "c"]),
        (&["a"], set("a@lobby", TemporaryAdd::Deny), &["a", "a@lobby"]),
        (&["a", "b"], set("a until 2000", TemporaryAdd::Deny), &["a", "b", "a until 2000"]),
        (&["a"], set("-a until 2000", TemporaryAdd::Deny), &["a", "-a until 2000"]),
        (&["a", "-a until 2000"], set("a until 1500", TemporaryAdd::Deny), &["a", "a until 1500"]),
        (&["a", "a until 2000"], set("a until 1500", TemporaryAdd::Accumulate), &["a", "a until 2500"]),
        (&["a until 2000"], set("a", TemporaryAdd::Deny), &["a until 2000", "a"]),
        (&["a until 2000", "a"], set("-a", TemporaryAdd::Deny), &["a until 2000", "-a"]),
        (&["group.admin"], set("group.admin until 2000", TemporaryAdd::Deny), &["group.admin", "group.admin until 2000"]),
        (&["prefix.1.x"], set("prefix.1.x until 2000", TemporaryAdd::Deny), &["prefix.1.x", "prefix.1.x until 2000"]),
        (&["a until 2000"], set("-a until 1500", TemporaryAdd::Deny), &["-a until 1500"]),
        (&["a until 2000"], set("a until 1500", TemporaryAdd::Replace), &["a until 2000"]),
        (&["a until 2000"], set("a until 2500", TemporaryAdd::Replace), &["a until 2500"]),
        (&["a until 2000"], set("-a until 1500", TemporaryAdd::Replace), &["-a until 1500"]),
        (&["a until 2000"], set("a until 1500", TemporaryAdd::Accumulate), &["a until 2500"]),
        (&["a until 2000"], set("-a until 1500", TemporaryAdd::Accumulate), &["-a until 1500"]),
        (&["a until 9223372036854775807"], set("a until 1500", TemporaryAdd::Accumulate), &["a until 9223372036854775807"]),
        (&["a until 1000", "b until 1001"], set("a until 1500", TemporaryAdd::Deny), &["b until 1001", "a until 1500"]),
        (&["a", "a@lobby", "b"], unset("a", lobby()), &["a", "b"]),
        (&["group.mod"], unset("Group.MOD", none()), &[]),
        (&["a until 2000", "b"], unset("a", none()), &["b"]),
        (&["a", "-a until 2000", "b"], unset("a", none()), &["b"]),
        (&["a", "-a until 2000", "-a@lobby until 2000"], unset_temporary("A"), &["a", "-a@lobby until 2000"]),
        (&["a", "group.b", "prefix.1.x", "r=a@lobby"], Edit::Clear(Clear::All, None), &[]),
        (&["a", "group.b", "prefix.1.x", "r=a@lobby"], Edit::Clear(Clear::All, Some(lobby())), &["a", "group.b", "prefix.1.x"]),
        (&["a", "group.b", "prefix.1.x", "r=a@lobby"], Edit::Clear(Clear::Permissions, None), &["group.b", "prefix.1.x"]),
        (&["a", "group.b", "-group.c@lobby"], Edit::Clear(Clear::Parents, None), &["a"]),
        (&["prefix.1.x", "suffix.1.x", "meta.k.v", "weight.1", "a"], Edit::Clear(Clear::Meta, None), &["weight.1", "a"]),
        (&["meta.k.1", "meta.k.2", "meta.l.1", "meta.k.3@lobby"], meta("a.b"), &["meta.l.1", "meta.k.3@lobby", r"meta.k.a\.b"]),
        (&["meta.k.1", "meta.k.2 until 2000"], meta("3"), &["meta.k.2 until 2000", "meta.k.3"]),
        (&["meta.k.1", "meta.k.2 until 2000"], meta_until("3", Some(1500)), &["meta.k.1", "meta.k.3 until 1500"]),
        (&["meta.k.1", "meta.k.2@lobby"], unset_meta("K", false), &["meta.k.2@lobby"]),
        (&["meta.k.1", "meta.k.2 until 2000"], unset_meta("K", false), &[]),
        (&["meta.k.1", "meta.k.2 until 2000"], unset_meta("K", true), &["meta.k.1"]),
        (&["group.a", "-group.b", "group.c@lobby", "x"], parent(none(), None), &["group.c@lobby", "x", "group.vip"]),
        (&["group.a", "group.a until 2000"], parent(none(), None), &["group.vip"]),
        (&["group.a", "group.c@lobby"], parent(lobby(), Some(2000)), &["group.a", "group.vip@lobby until 2000"]),
        (&["weight.1", "a", "weight.2@lobby"], Edit::Weight(-5), &["a", "weight.-5"]),
        (&["displayname.x", "a"], Edit::DisplayName("The Mods".to_owned()), &["a", "displayname.The Mods"]),
        (&["displayname.x", "a"], Edit::DisplayName(String::new()), &["a"]),
    ];
    for (before, change, after) in cases {
        let mut edited = nodes(before);
        assert_eq!(edit(&mut edited, &change, NOW), Ok(()), "{before:?} {change:?}");
        assert_eq!(edited, nodes(after), "{before:?} {change:?}");
    }
}

#[test]
fn what_fails_changes_nothing_and_says_why() {
    let none = Contexts::none;
    let meta = |key: &str| Edit::SetMeta { key: key.to_owned(), value: "v".to_owned(), contexts: none(), expiry: None };
    let absent = |key: &str, elsewhere: &[&str]| EditError::Absent {
        what: key.to_owned(),
        elsewhere: elsewhere.iter().map(|place| (*place).to_owned()).collect(),
    };
    for (change, expected) in [
        (set("a until 1500", TemporaryAdd::Deny), EditError::Temporary { key: "a".to_owned(), expiry: 2000 }),
        (unset("b", none()), absent("b", &[])),
        (unset("a", lobby()), absent("a", &["everywhere", "server=x, world=y"])),
        (unset("old", none()), absent("old", &[])),
        (unset_temporary("b"), absent("temporary b", &[])),
        (unset_meta("k", true), absent("temporary k", &[])),
        (unset("group.", none()), NodeError::GroupName(String::new()).into()),
        (unset_meta("k", false), absent("k", &["world=lobby"])),
        (meta(""), NodeError::MetaKey(String::new()).into()),
        (meta(r"k\"), NodeError::MetaKey(r"k\".to_owned()).into()),
        (
            Edit::SetParent { group: "two words".to_owned(), contexts: none(), expiry: None },
            NodeError::GroupName("two words".to_owned()).into(),
        ),
    ] {
        let mut before = nodes(&["a until 2000", "old until 999", "meta.k.v@lobby"]);
        before.push(Node::new("A", false, Contexts::of([("world", "y"), ("server", "x")]).expect("contexts"), None).expect("a node"));
        let mut edited = before.clone();
        assert_eq!(edit(&mut edited, &change, NOW), Err(expected), "{change:?}");
        assert_eq!(edited, before, "{change:?}");
    }
    let elsewhere = absent("a", &["everywhere", "server=x, world=y"]).to_string();
    assert_eq!(elsewhere, "there is no a in these contexts; there is one: everywhere; server=x, world=y");
    assert_eq!(absent("b", &[]).to_string(), "there is no b in these contexts");
    let there = EditError::Temporary { key: "a".to_owned(), expiry: 1_796_255_537 }.to_string();
    assert!(there.contains("until 2026-12-02T23:52:17Z:") && there.contains("`--if-exists replace`"), "{there}");
}

#[test]
fn a_difference_is_told_in_lines() {
    let before = nodes(&["a", "b", "c until 5", "d@lobby"]);
    let after = nodes(&["b", "-a", "c until 6", "d@lobby", "e"]);
    let (gone, come) = difference(&before, &after);
    assert_eq!(gone, ["a = true", "c = true until 1970-01-01T00:00:05Z"]);
    assert_eq!(come, ["a = false", "c = true until 1970-01-01T00:00:06Z", "e = true"]);
    assert_eq!(node("d@lobby until 7").to_string(), "d = true (world=lobby) until 1970-01-01T00:00:07Z");
    let contexts = Contexts::of([("world", "b"), ("World", "A"), ("server", "x")]).expect("contexts");
    assert_eq!(Node::new("a", false, contexts, None).expect("a node").to_string(), "a = false (server=x, world=a, world=b)");
}

fn groups(names: &[&str]) -> Groups {
    names.iter().map(|name| ((*name).to_owned(), Arc::new(Group::new(name, Vec::new()).expect("a name")))).collect()
}

fn user(primary: Option<&str>, own: &[&str]) -> User {
    User { primary_group: primary.map(Arc::from), nodes: nodes(own), ..User::unknown(Uuid::nil()) }
}

#[test]
fn steps_along_a_track() {
    use Direction::{Demote, Promote};
    let staff = Track::new("staff", ["default", "mod", "admin"]).expect("a track");
    let all = groups(&["default", "mod", "admin", "vip"]);
    type Name = Option<&'static str>;
    type Own = &'static [&'static str];
    /// Primary group, nodes, step, where; from, to, and both afterwards.
    type Case = (Name, Own, Direction, Contexts, Name, Name, Name, Own);
    #[rustfmt::skip]
    let cases: &[Case] = &[
        (None, &["group.mod", "a"], Promote, Contexts::none(), Some("mod"), Some("admin"), None, &["group.admin", "a"]),
        (Some("mod"), &["group.mod"], Promote, Contexts::none(), Some("mod"), Some("admin"), Some("admin"), &["group.admin"]),
        (Some("mod"), &["group.mod"], Demote, Contexts::none(), Some("mod"), Some("default"), Some("default"), &["group.default"]),
        (None, &["group.default"], Promote, Contexts::none(), Some("default"), Some("mod"), Some("mod"), &["group.mod"]),
        (None, &["group.default"], Demote, Contexts::none(), Some("default"), None, None, &[]),
        // The default group that everybody has is one to be promoted from.
        (None, &[], Promote, Contexts::none(), Some("default"), Some("mod"), Some("mod"), &["group.mod"]),
        (None, &["group.vip"], Promote, Contexts::none(), None, Some("default"), None, &["group.vip", "group.default"]),
        (None, &["-group.mod", "group.vip"], Promote, Contexts::none(), None, Some("default"), None, &["-group.mod", "group.vip", "group.default"]),
        (None, &["group.mod until 2000"], Promote, Contexts::none(), Some("mod"), Some("admin"), None, &["group.admin until 2000"]),
        (None, &["group.mod", "a", "group.mod until 2000"], Promote, Contexts::none(), Some("mod"), Some("admin"), None, &["group.admin", "group.admin until 2000", "a"]),
        (None, &["group.mod until 2000", "group.mod"], Demote, Contexts::none(), Some("mod"), Some("default"), None, &["group.default until 2000", "group.default"]),
        (None, &["group.mod", "-group.mod until 2000"], Promote, Contexts::none(), Some("mod"), Some("admin"), None, &["group.admin"]),
        // A denial of it gives the default group no end.
        (None, &["-group.default until 2000"], Promote, Contexts::none(), Some("default"), Some("mod"), Some("mod"), &["group.mod"]),
        (None, &["group.mod", "-group.admin"], Promote, Contexts::none(), Some("mod"), Some("admin"), None, &["group.admin"]),
        (Some("mod"), &["group.mod", "group.mod@lobby"], Promote, lobby(), Some("mod"), Some("admin"), Some("mod"), &["group.mod", "group.admin@lobby"]),
        (None, &["group.mod"], Promote, lobby(), None, Some("default"), None, &["group.mod", "group.default@lobby"]),
    ];
    for (primary, own, direction, contexts, from, to, primary_after, after) in cases {
        let mut moved = user(*primary, own);
        let told = step(&mut moved, &staff, &all, contexts, *direction, NOW);
        assert_eq!(told, Ok(Moved { from: from.map(Arc::from), to: to.map(Arc::from) }), "{own:?} {direction:?}");
        assert_eq!(moved, user(*primary_after, after), "{own:?} {direction:?}");
    }
}

#[test]
fn what_has_expired_goes_with_a_step_and_stays_without_one() {
    let staff = Track::new("staff", ["default", "mod", "admin"]).expect("a track");
    let all = groups(&["default", "mod", "admin"]);
    let mut moved = user(None, &["old until 999", "group.mod", "group.admin@lobby until 999", "a until 2000"]);
    step(&mut moved, &staff, &all, &Contexts::none(), Direction::Promote, NOW).expect("a step");
    assert_eq!(moved, user(None, &["group.admin", "a until 2000"]));
    let before = user(None, &["old until 999", "group.admin"]);
    let mut kept = before.clone();
    assert!(step(&mut kept, &staff, &all, &Contexts::none(), Direction::Promote, NOW).is_err());
    assert_eq!(kept, before);
}

/// The track's first group comes beside the default one, which is on no track here.
#[test]
fn who_is_promoted_from_nowhere_keeps_the_default_group() {
    let staff = Track::new("staff", ["mod", "admin"]).expect("a track");
    let all = groups(&["default", "mod", "admin"]);
    for (contexts, after) in [(Contexts::none(), &["group.default", "group.mod"][..]), (lobby(), &["group.mod@lobby"])] {
        let mut moved = user(None, &[]);
        step(&mut moved, &staff, &all, &contexts, Direction::Promote, NOW).expect("a step");
        assert_eq!(moved, user(None, after));
    }
}

#[test]
fn steps_that_cannot_be_made() {
    use Direction::{Demote, Promote};
    let track = || "staff".to_owned();
    let two = || TrackError::Ambiguous { track: track(), groups: "admin, mod".to_owned() };
    for (own, direction, expected) in [
        (vec!["group.admin"], Promote, TrackError::End(track())),
        (vec!["group.vip"], Demote, TrackError::NotOnTrack(track())),
        (vec!["group.mod@lobby"], Demote, TrackError::NotOnTrack(track())),
        (vec!["group.mod until 1000"], Demote, TrackError::NotOnTrack(track())),
        (vec!["group.mod", "group.admin"], Promote, two()),
        (vec!["group.mod", "group.admin until 2000"], Demote, two()),
        (vec!["group.helper"], Promote, TrackError::NoGroup("mod".to_owned())),
        (vec!["group.vip"], Promote, TrackError::NoGroup("helper".to_owned())),
    ] {
        let staff = Track::new("staff", ["helper", "mod", "admin"]).expect("a track");
        let before = user(Some("mod"), &own);
        let mut moved = before.clone();
        assert_eq!(step(&mut moved, &staff, &groups(&["admin", "vip"]), &Contexts::none(), direction, NOW), Err(expected), "{own:?}");
        assert_eq!(moved, before);
    }
    let empty = Track::new("empty", []).expect("a track");
    let step = step(&mut user(None, &[]), &empty, &groups(&[]), &Contexts::none(), Promote, NOW);
    assert_eq!(step, Err(TrackError::Empty("empty".to_owned())));
}

#[test]
fn tracks_that_cannot_be() {
    assert_eq!(Track::new("t", ["a", "b", "A"]), Err(NoTrack::Twice("a".to_owned())));
    assert!(matches!(Track::new("two words", ["a"]), Err(NoTrack::Name(_))));
    assert!(matches!(Track::new("t", ["two words"]), Err(NoTrack::Name(_))));
    let names: Vec<String> = (0..=MAX_GROUPS).map(|n| format!("g{n}")).collect();
    let of = |most: usize| Track::new("t", names[..most].iter().map(String::as_str));
    assert_eq!((of(MAX_GROUPS).map(|track| track.groups().len()), of(MAX_GROUPS + 1)), (Ok(MAX_GROUPS), Err(NoTrack::TooLong)));
}

fn any_node() -> impl Strategy<Value = String> {
    let key = select(&["a", "b", "group.mod", "group.admin", "group.default", "meta.k.1", "meta.k.2", "prefix.1.x", "weight.3"][..]);
    let expiry = select(&["", "", " until 999", " until 1500", " until 2000"][..]);
    (select(&["", "-"][..]), key, select(&["", "@lobby"][..]), expiry)
        .prop_map(|(value, key, contexts, expiry)| format!("{value}{key}{contexts}{expiry}"))
}

/// Nodes as a store has them: of the same key and contexts there is one for good and one for a time.
fn any_nodes() -> impl Strategy<Value = Vec<Node>> {
    proptest::collection::vec(any_node(), 0..8).prop_map(|texts| {
        let by_identity: BTreeMap<_, _> = texts
            .iter()
            .map(|text| node(text))
            .map(|node| ((node.key().to_string(), node.contexts().clone(), node.is_temporary()), node))
            .collect();
        by_identity.into_values().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_set_is_there_once_and_the_rest_is_as_before(before in any_nodes(), new in any_node(), how in select(&[TemporaryAdd::Deny, TemporaryAdd::Replace, TemporaryAdd::Accumulate][..])) {
        let new = node(&new);
        let mut after = before.clone();
        if edit(&mut after, &Edit::Set(new.clone(), how), NOW).is_ok() {
            let (same, rest): (Vec<Node>, Vec<Node>) = after.into_iter().partition(|node| node.is_same(&new));
            prop_assert_eq!(same.len(), 1);
            prop_assert_eq!(same[0].value(), new.value());
            prop_assert_eq!(same[0].expiry().is_some(), new.expiry().is_some());
            prop_assert_eq!(rest, before.into_iter().filter(|node| !node.is_same(&new) && !node.has_expired(NOW)).collect::<Vec<_>>());
        } else {
            prop_assert_eq!(how, TemporaryAdd::Deny);
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn what_is_set_can_be_unset(before in any_nodes(), new in any_node()) {
        let new = node(&new);
        let is_there = |node: &Node| node.key() == new.key() && node.contexts() == new.contexts();
        let mut after: Vec<Node> = before.into_iter().filter(|node| !is_there(node) && !node.has_expired(NOW)).collect();
        let without = after.clone();
        prop_assert_eq!(edit(&mut after, &Edit::Set(new.clone(), TemporaryAdd::Deny), NOW), Ok(()));
        let unset = edit(&mut after, &unset(new.key(), new.contexts().clone()), NOW);
        prop_assert_eq!(unset.is_ok(), !new.has_expired(NOW));
        if unset.is_ok() {
            prop_assert_eq!(after, without);
        }
    }

    #[test]
    fn a_difference_leads_from_the_one_to_the_other(before in any_nodes(), after in any_nodes()) {
        let lines = |nodes: &[Node]| nodes.iter().map(Node::to_string).collect::<Vec<_>>();
        let (gone, come) = difference(&before, &after);
        let mut led: Vec<String> = lines(&before).into_iter().filter(|line| !gone.contains(line)).chain(come).collect();
        let mut there = lines(&after);
        led.sort();
        there.sort();
        prop_assert_eq!(led, there);
    }

    #[test]
    fn a_step_moves_between_neighbours_and_leaves_the_rest_alone(own in any_nodes(), up: bool, in_lobby: bool) {
        let staff = Track::new("staff", ["default", "mod", "admin"]).expect("a track");
        let contexts = if in_lobby { lobby() } else { Contexts::none() };
        let before = User { nodes: own, ..User::unknown(Uuid::nil()) };
        let mut after = before.clone();
        let direction = if up { Direction::Promote } else { Direction::Demote };
        match step(&mut after, &staff, &groups(&["default", "mod", "admin"]), &contexts, direction, NOW) {
            Ok(Moved { from, to }) => {
                let place = |group: &Option<Arc<str>>| group.as_ref().map_or(-1, |group| staff.groups().iter().position(|other| other == group).expect("on it") as i64);
                prop_assert_eq!(place(&to) - place(&from), if up { 1 } else { -1 });
                let moved = |node: &Node| {
                    let about = matches!(node.kind(), Kind::Inheritance(group) if [&from, &to].into_iter().flatten().any(|other| other == group));
                    about && *node.contexts() == contexts
                };
                let rest = |nodes: &[Node]| nodes.iter().filter(|node| !moved(node) && !node.has_expired(NOW)).cloned().collect::<Vec<_>>();
                prop_assert_eq!(rest(&before.nodes), rest(&after.nodes));
                let on: Vec<&Node> = after.nodes.iter().filter(|node| moved(node)).collect();
                let left = before.nodes.iter().filter(|node| from.is_some() && node.parent() == from.as_ref() && *node.contexts() == contexts && !node.has_expired(NOW)).count();
                prop_assert_eq!(on.len(), if to.is_some() { left.max(1) } else { 0 });
                prop_assert!(on.iter().all(|node| node.value()));
                prop_assert!(!after.nodes.iter().any(|node| node.has_expired(NOW)));
            }
            Err(_) => prop_assert_eq!(after, before),
        }
    }
}
