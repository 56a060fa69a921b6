//! The crate gives the answers of a slow and plain model of the rules, whatever users, groups, contexts, times and settings.

#[path = "model/naive.rs"]
mod naive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moonbridge_permissions::context::Satisfy;
use moonbridge_permissions::settings::{Duplicates, Element, MetaSelection, PrimaryGroup, Stack, Traversal};
use moonbridge_permissions::{Answer, Contexts, Group, Groups, Node, Resolved, Settings, Track, Tracks, User, explain, resolve};
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

use naive::World;

const NOW: i64 = 100;
const GROUPS: [&str; 6] = ["default", "mod", "admin", "vip", "builder", "missing"];

/// The same world in the crate's own types.
struct Real {
    user: User,
    groups: Groups,
    tracks: Tracks,
    settings: Settings,
    contexts: Contexts,
    now: i64,
}

impl Real {
    fn of(world: &World) -> Self {
        let group =
            |(name, nodes): (&String, &Vec<naive::Node>)| (name.clone(), Arc::new(Group::new(name, nodes_of(nodes)).expect("it is one")));
        let track = |(name, groups): (&String, &Vec<String>)| {
            (name.clone(), Arc::new(Track::new(name, groups.iter().map(String::as_str)).expect("it is one")))
        };
        let primary_group = world.stored_primary.as_deref().map(Arc::from);
        Self {
            user: User { primary_group, nodes: nodes_of(&world.user), ..User::unknown(Uuid::nil()) },
            groups: world.groups.iter().map(group).collect(),
            tracks: world.tracks.iter().map(track).collect(),
            settings: world.settings.clone(),
            contexts: contexts_of(&world.contexts),
            now: world.now,
        }
    }

    fn resolve_at(&self, now: i64) -> Resolved {
        resolve(&self.user, &self.groups, &self.tracks, &self.settings, &self.contexts, now)
    }
}

fn nodes_of(nodes: &[naive::Node]) -> Vec<Node> {
    nodes.iter().map(|node| Node::new(&node.key, node.value, contexts_of(&node.contexts), node.expiry).expect("it is one")).collect()
}

fn contexts_of(pairs: &BTreeSet<(String, String)>) -> Contexts {
    Contexts::of(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))).expect("it is one")
}

fn permissions() -> impl Strategy<Value = String> {
    let part = select(&["a", "b", "c", "1", "2", "B"][..]);
    let dotted = proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("."));
    let odd = select(&["*", "'*'", "a.*", "a.b.*", "group.mod", "group.*", "meta.k.1", "", ".", "a.", ".a", "a..b", "weight.5", "é.ß"][..]);
    prop_oneof![8 => dotted, 1 => odd.prop_map(str::to_owned)]
}

fn keys() -> impl Strategy<Value = String> {
    // `meta.k.1.*` would be meta.
    let wildcard =
        permissions().prop_filter("no meta", |beginning| !beginning.starts_with("meta")).prop_map(|beginning| format!("{beginning}.*"));
    let shorthand = select(&["a.{b,c}", "(a|b).c", "{a-c}.b", "a.{1-2}.(b,c|)", "{a,b}.*", "a.{*,b}", "A.{B,c}", "{a,b}"][..]);
    let regex = select(&[r"r=a\..*", r"r=[ab]\.c", r"r=A\.B", r"r=\w+\.b", "r=(a+)+", r"r=.*\.[0-9]", "r=c|a"][..]);
    let group = select(&GROUPS[..]).prop_map(|group| format!("group.{group}"));
    let text = (select(&["prefix", "suffix"][..]), -2..3, select(&["x", "y", "z"][..]));
    let meta = (select(&["k", "l"][..]), select(&["1", "20", "3", "-4", "no"][..]));
    prop_oneof![
        8 => permissions().prop_filter("keys are not empty", |key| !key.is_empty()),
        4 => wildcard,
        2 => shorthand.prop_map(str::to_owned),
        2 => regex.prop_map(str::to_owned),
        1 => select(&["*", "'*'", ".*"][..]).prop_map(str::to_owned),
        6 => group,
        3 => text.prop_map(|(kind, priority, text)| format!("{kind}.{priority}.{text}")),
        3 => meta.prop_map(|(key, value)| format!("meta.{key}.{value}")),
        3 => (-3..10).prop_map(|weight| format!("weight.{weight}")),
        1 => Just("displayname.x".to_owned()),
    ]
}

fn contexts(most: usize) -> impl Strategy<Value = BTreeSet<(String, String)>> {
    let pairs = [("server", "proxy"), ("server", "other"), ("world", "lobby"), ("world", "survival"), ("region", "eu"), ("region", "us")];
    let pair = select(pairs.to_vec()).prop_map(|(key, value)| (key.to_owned(), value.to_owned()));
    proptest::collection::btree_set(pair, 0..most)
}

fn nodes(most: usize) -> impl Strategy<Value = Vec<naive::Node>> {
    let contexts = prop_oneof![3 => Just(BTreeSet::new()), 2 => contexts(4)];
    let expiry = prop_oneof![4 => Just(None), 1 => (NOW - 3..NOW + 8).prop_map(Some)];
    let node = (keys(), proptest::bool::weighted(0.7), contexts, expiry);
    let node = node.prop_map(|(key, value, contexts, expiry)| naive::Node { key, value, contexts, expiry });
    proptest::collection::vec(node, 0..most)
}

fn stacks() -> impl Strategy<Value = Stack> {
    let names = [
        "highest",
        "lowest",
        "highest_own",
        "lowest_own",
        "highest_inherited",
        "lowest_inherited",
        "highest_on_track_staff",
        "lowest_not_on_track_staff",
        "highest_from_group_mod",
        "lowest_not_from_group_mod",
        "highest_not_on_track_none",
        "highest_on_track_none",
    ];
    let elements = proptest::collection::vec(select(names.to_vec()), 0..4)
        .prop_map(|names| names.into_iter().map(|name| name.parse::<Element>().expect("it is one")).collect());
    let duplicates = select(vec![Duplicates::FirstOnly, Duplicates::LastOnly, Duplicates::RetainAll]);
    let stack = (elements, duplicates).prop_map(|(elements, duplicates)| Stack {
        elements,
        start_spacer: "<".to_owned(),
        middle_spacer: "|".to_owned(),
        end_spacer: ">".to_owned(),
        duplicates,
    });
    prop_oneof![Just(Stack::default()), stack]
}

fn settings() -> impl Strategy<Value = Settings> {
    let on = || proptest::bool::weighted(0.8);
    let switches = (on(), on(), on(), proptest::bool::weighted(0.3), proptest::bool::weighted(0.3));
    let traversal = select(vec![Traversal::DepthFirstPreOrder, Traversal::BreadthFirst, Traversal::DepthFirstPostOrder]);
    let primary = select(vec![PrimaryGroup::ParentsByWeight, PrimaryGroup::AllParentsByWeight, PrimaryGroup::Stored]);
    let selection = || select(vec![MetaSelection::Inheritance, MetaSelection::HighestNumber, MetaSelection::LowestNumber]);
    let satisfy = select(vec![Satisfy::One, Satisfy::All]);
    let parts = (switches, traversal, primary, selection(), selection(), stacks(), stacks(), satisfy);
    let made = parts.prop_map(|(switches, traversal, primary_group, meta_selection, of_k, prefix, suffix, satisfy)| {
        let (wildcards, regex, shorthand, implicit_wildcards, sort_after_traversal) = switches;
        let meta_selection_of = BTreeMap::from([("k".to_owned(), of_k)]);
        Settings {
            wildcards,
            regex,
            shorthand,
            implicit_wildcards,
            sort_after_traversal,
            traversal,
            primary_group,
            meta_selection,
            meta_selection_of,
            prefix,
            suffix,
            satisfy,
            ..Settings::default()
        }
    });
    prop_oneof![1 => Just(Settings::default()), 2 => made]
}

fn worlds() -> impl Strategy<Value = World> {
    let groups = proptest::collection::vec(nodes(8), GROUPS.len() - 1)
        .prop_map(|nodes| GROUPS.iter().map(|name| (*name).to_owned()).zip(nodes).collect());
    let stored = proptest::option::of(select(&GROUPS[..]).prop_map(str::to_owned));
    (nodes(12), stored, groups, settings(), contexts(5)).prop_map(|(user, stored_primary, groups, settings, contexts)| World {
        user,
        stored_primary,
        groups,
        tracks: BTreeMap::from([("staff".to_owned(), vec!["mod".to_owned(), "admin".to_owned()])]),
        settings,
        contexts,
        now: NOW,
    })
}

fn assert_same(world: &World, resolved: &Resolved, asked: &[String]) -> Result<(), TestCaseError> {
    for permission in asked {
        prop_assert_eq!(resolved.check(permission), Answer::from(world.check(permission)), "{}", permission);
    }
    prop_assert_eq!(resolved.primary_group(), world.primary_group());
    prop_assert_eq!(resolved.prefix().map(str::to_owned), world.prefix());
    prop_assert_eq!(resolved.suffix().map(str::to_owned), world.suffix());
    let meta: BTreeMap<String, String> = resolved.all_meta().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    prop_assert_eq!(meta, world.meta());
    let inherited: Vec<String> = resolved.inherited().map(|group| group.name().to_string()).collect();
    prop_assert_eq!(inherited, world.holders().into_iter().flatten().collect::<Vec<_>>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_the_model(world in worlds(), asked in proptest::collection::vec(permissions(), 1..12)) {
        assert_same(&world, &Real::of(&world).resolve_at(world.now), &asked)?;
    }

    #[test]
    fn an_explanation_gives_the_same_answer_and_the_node_that_gave_it(world in worlds(), asked in permissions()) {
        let real = Real::of(&world);
        let explanation = explain(&real.user, &real.groups, &real.tracks, &real.settings, &real.contexts, real.now, &asked);
        prop_assert_eq!(explanation.answer, Answer::from(world.check(&asked)));
        prop_assert_eq!(explanation.decided_by.as_ref().map(|found| found.node.value()).map_or(Answer::Undefined, |value| Answer::from(Some(value))), explanation.answer);
        prop_assert_eq!(explanation.holders, world.holders().into_iter().flatten().collect::<Vec<_>>());
        for found in explanation.decided_by.iter().chain(&explanation.others) {
            // The way leads over nodes that are there.
            prop_assert_eq!(found.path.first().map(String::as_str), Some("user"));
            let own = found.path.last().map(String::as_str) == Some("user");
            let holder = found.path.last().and_then(|name| world.groups.get(name));
            prop_assert!(own || holder.is_some_and(|nodes| nodes_of(nodes).contains(&found.node)), "{:?}", found);
            prop_assert_eq!(found.why == "expired", found.node.has_expired(NOW));
        }
    }

    #[test]
    fn it_holds_until_it_says(world in worlds(), asked in proptest::collection::vec(permissions(), 1..8)) {
        let real = Real::of(&world);
        let resolved = real.resolve_at(NOW);
        let until = resolved.valid_until().unwrap_or(i64::MAX);
        prop_assert!(until > NOW);
        for now in NOW..until.min(NOW + 10) {
            assert_same(&World { now, ..world.clone() }, &resolved, &asked)?;
        }
    }

    #[test]
    fn it_is_current_until_a_group_changes_that_it_depends_on(world in worlds(), asked in proptest::collection::vec(permissions(), 1..8), changed in nodes(4), which in select(&GROUPS[..])) {
        let real = Real::of(&world);
        let resolved = real.resolve_at(NOW);
        prop_assert!(resolved.is_current(&real.groups));
        let mut groups = real.groups.clone();
        groups.insert(which.to_owned(), Arc::new(Group::new(which, nodes_of(&changed)).expect("it is one")));
        let inherits = resolved.inherited().any(|group| &**group.name() == which);
        if inherits {
            prop_assert!(!resolved.is_current(&groups));
        }
        if resolved.is_current(&groups) {
            let mut world = world;
            world.groups.insert(which.to_owned(), changed);
            assert_same(&world, &resolved, &asked)?;
        }
    }
}
