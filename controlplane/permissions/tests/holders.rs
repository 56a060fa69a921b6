//! Many nodes, long chains, cycles; what an explanation tells; what a resolved set depends on.

use std::sync::Arc;

use moonbridge_permissions::context::Satisfy;
use moonbridge_permissions::edit::{self, Edit};
use moonbridge_permissions::settings::{Element, TemporaryAdd, Traversal};
use moonbridge_permissions::{
    Answer, Contexts, Group, Groups, MatchedBy, Node, Settings, Tracks, User, explain, find_cycle, makes_cycle, resolve,
};
use uuid::Uuid;

fn node(key: &str, value: bool) -> Node {
    Node::new(key, value, Contexts::none(), None).expect("a node")
}

fn user(keys: &[&str]) -> User {
    User { nodes: keys.iter().map(|key| node(key, true)).collect(), ..User::unknown(Uuid::nil()) }
}

fn groups(all: &[(&str, &[&str])]) -> Groups {
    let group = |(name, keys): &(&str, &[&str])| {
        let nodes = keys.iter().map(|key| node(key, true)).collect();
        ((*name).to_owned(), Arc::new(Group::new(name, nodes).expect("a name")))
    };
    all.iter().map(group).collect()
}

fn check(user: &User, groups: &Groups, permission: &str) -> Answer {
    resolve(user, groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0).check(permission)
}

#[test]
fn ten_thousand_nodes_and_names_of_all_sorts() {
    let mut many = user(&["with spaces.and dots", "größe.ÄÖÜ", "日本.*", "'quoted'.x", "a/b:c"]);
    many.nodes.extend((0..10_000).map(|n| node(&format!("many.n{n}.x"), n % 2 == 0)));
    let resolved = resolve(&many, &Groups::new(), &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    for n in 0..10_000 {
        assert_eq!(resolved.check(&format!("many.n{n}.x")), if n % 2 == 0 { Answer::True } else { Answer::False });
    }
    for permission in ["With Spaces.And dots", "GRÖßE.äöü", "日本.東京", "'quoted'.X", "A/B:C"] {
        assert_eq!(resolved.check(permission), Answer::True, "{permission}");
    }
    assert_eq!(resolved.check("日本"), Answer::Undefined);
    assert_eq!(resolved.check("many.n10000.x"), Answer::Undefined);
}

#[test]
fn a_chain_of_ten_thousand_groups_is_walked_to_its_end() {
    let chain = |n: usize| {
        let next = if n < 9_999 { format!("group.g{}", n + 1) } else { "the.end".to_owned() };
        let name = format!("g{n}");
        (name.clone(), Arc::new(Group::new(&name, vec![node(&next, true)]).expect("a name")))
    };
    let groups: Groups = (0..10_000).map(chain).collect();
    for traversal in [Traversal::DepthFirstPreOrder, Traversal::DepthFirstPostOrder, Traversal::BreadthFirst] {
        let settings = Settings { traversal, ..Settings::default() };
        let resolved = resolve(&user(&["group.g0"]), &groups, &Tracks::new(), &settings, &Contexts::none(), 0);
        assert_eq!(resolved.check("the.end"), Answer::True);
        assert_eq!(resolved.inherited().count(), 10_000);
    }
    assert_eq!(makes_cycle(&groups, "g9999", "g0").expect("a cycle").len(), 10_001);
    assert_eq!(find_cycle(&groups), None);
    let told = explain(&user(&["group.g0"]), &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0, "the.end");
    assert_eq!(told.decided_by.expect("decided").path.len(), 10_001);
}

#[test]
fn groups_in_a_circle_are_each_walked_once() {
    let circle = groups(&[("a", &["group.b", "group.a"]), ("b", &["group.c"]), ("c", &["group.a", "x"])]);
    let resolved = resolve(&user(&["group.b"]), &circle, &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    assert_eq!(resolved.inherited().map(|group| &**group.name()).collect::<Vec<_>>(), ["b", "c", "a"]);
    assert_eq!(resolved.check("x"), Answer::True);
}

#[test]
fn a_cycle_is_told_before_it_is_made() {
    let mut all = groups(&[("a", &["group.b"]), ("b", &["group.c", "group.gone"]), ("c", &[]), ("d", &[])]);
    assert_eq!(makes_cycle(&all, "c", "a"), Some(["c", "a", "b", "c"].map(str::to_owned).to_vec()));
    assert_eq!(makes_cycle(&all, "a", "a"), Some(["a", "a"].map(str::to_owned).to_vec()));
    assert_eq!(makes_cycle(&all, "d", "a"), None);
    assert_eq!(makes_cycle(&all, "a", "missing"), None);
    // One that was there before, elsewhere, is no reason to refuse; nor does it keep the search from ending.
    all.extend(groups(&[("x", &["group.y"]), ("y", &["group.x"])]));
    assert_eq!(makes_cycle(&all, "d", "x"), None);
    // A parent that is denied is none.
    all.insert("b".to_owned(), Arc::new(Group::new("b", vec![node("group.c", false)]).expect("a name")));
    assert_eq!(makes_cycle(&all, "c", "a"), None);
}

#[test]
fn a_cycle_that_is_there_is_found_and_diamonds_missing_groups_and_denied_parents_are_none() {
    let mut all = groups(&[("a", &["group.b", "group.c"]), ("b", &["group.d"]), ("c", &["group.d", "group.gone"]), ("d", &[])]);
    assert_eq!(find_cycle(&all), None);
    all.insert("d".to_owned(), Arc::new(Group::new("d", vec![node("group.a", false)]).expect("a name")));
    assert_eq!(find_cycle(&all), None);
    all.extend(groups(&[("d", &["group.e"]), ("e", &["group.c"])]));
    assert_eq!(find_cycle(&all), Some(["d", "e", "c", "d"].map(str::to_owned).to_vec()));
    assert_eq!(find_cycle(&groups(&[("a", &["group.a"])])), Some(["a", "a"].map(str::to_owned).to_vec()));
}

#[test]
fn an_explanation_tells_the_way_and_what_else_there_was() {
    let lobby = Contexts::of([("world", "lobby")]).expect("contexts");
    let mut all = groups(&[("default", &["a.*"]), ("mod", &["group.helper", "a.b.*"])]);
    let helper = vec![
        node("a.b.c", false),
        Node::new("a.b.c", true, lobby, None).expect("a node"),
        Node::new("a.b.c", true, Contexts::none(), Some(50)).expect("a node"),
        node("r=a.*c", true),
        node("other", true),
    ];
    all.insert("helper".to_owned(), Arc::new(Group::new("helper", helper).expect("a name")));
    let told = explain(&user(&["group.mod", "group.default"]), &all, &Tracks::new(), &Settings::default(), &Contexts::none(), 50, "A.b.C");
    assert_eq!(told.answer, Answer::False);
    assert_eq!(told.holders, ["default", "mod", "helper"]);
    let decided = told.decided_by.expect("decided");
    assert_eq!((decided.path.join(" "), decided.why, decided.matched_by), ("user mod helper".to_owned(), "", MatchedBy::Exact));
    let others: Vec<_> =
        told.others.iter().map(|found| (found.node.to_string(), found.path.join(" "), found.matched_by, found.why)).collect();
    let line = |node: &str, path: &str, by, why| (node.to_owned(), path.to_owned(), by, why);
    assert_eq!(
        others,
        [
            line("a.b.c = true (world=lobby)", "user mod helper", MatchedBy::Exact, "context"),
            line("a.b.c = true until 1970-01-01T00:00:50Z", "user mod helper", MatchedBy::Exact, "expired"),
            line("r=a.*c = true", "user mod helper", MatchedBy::Regex, "later"),
            line("a.b.* = true", "user mod", MatchedBy::Wildcard, "later"),
            line("a.* = true", "user default", MatchedBy::Wildcard, "later"),
        ]
    );
    let implicit = Settings { implicit_wildcards: true, ..Settings::default() };
    let told = explain(&user(&["a"]), &all, &Tracks::new(), &implicit, &Contexts::none(), 0, "a.x");
    assert_eq!(told.decided_by.expect("decided").matched_by, MatchedBy::Wildcard);
    let told = explain(&user(&["b"]), &all, &Tracks::new(), &implicit, &Contexts::none(), 0, "b.x");
    assert_eq!(told.decided_by.expect("decided").matched_by, MatchedBy::Implicit);
    let told = explain(&user(&[]), &all, &Tracks::new(), &implicit, &Contexts::none(), 0, "nothing");
    assert!(told.answer == Answer::Undefined && told.decided_by.is_none() && told.others.is_empty());
}

#[test]
fn an_explanation_is_no_longer_than_anybody_reads() {
    let mut many = user(&["a.b"]);
    many.nodes.extend(
        (0..500).map(|n| Node::new("a.b", true, Contexts::of([("n", n.to_string().as_str())]).expect("contexts"), None).expect("a node")),
    );
    let told = explain(&many, &Groups::new(), &Tracks::new(), &Settings::default(), &Contexts::none(), 0, "a.b");
    assert_eq!((told.answer, told.others.len()), (Answer::True, 100));
}

#[test]
fn everybody_has_default_unless_there_is_another_group_everywhere() {
    let all = groups(&[("default", &["d"]), ("mod", &[])]);
    let lobby = || Contexts::of([("world", "lobby")]).expect("contexts");
    let in_lobby = |expiry| Node::new("group.mod", true, lobby(), expiry).expect("a node");
    let until = |expiry| Node::new("group.mod", true, Contexts::none(), Some(expiry)).expect("a node");
    for (node, expected) in [
        (None, Answer::True),
        (Some(node("group.mod", true)), Answer::Undefined),
        (Some(node("group.gone", true)), Answer::Undefined),
        (Some(node("group.mod", false)), Answer::True),
        (Some(node("group.default", false)), Answer::True),
        (Some(in_lobby(None)), Answer::True),
        (Some(until(1)), Answer::Undefined),
        (Some(until(0)), Answer::True),
    ] {
        let asked = User { nodes: node.iter().cloned().collect(), ..User::unknown(Uuid::nil()) };
        assert_eq!(check(&asked, &all, "d"), expected, "{node:?}");
    }
}

#[test]
fn it_is_current_as_long_as_the_groups_are_the_same() {
    let all = groups(&[("default", &[]), ("mod", &["group.helper", "group.gone"]), ("helper", &[]), ("other", &[])]);
    let resolved = resolve(&user(&["group.mod"]), &all, &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    let with = |name: &str| {
        let mut changed = all.clone();
        changed.extend(groups(&[(name, &[])]));
        changed
    };
    assert!(resolved.is_current(&all.clone()));
    for (name, current) in [("default", true), ("other", true), ("new", true), ("mod", false), ("helper", false), ("gone", false)] {
        assert_eq!(resolved.is_current(&with(name)), current, "{name}");
    }
    let mut less = all.clone();
    less.remove("helper");
    assert!(!resolved.is_current(&less));
}

#[test]
fn weights_and_display_names_of_a_group() {
    let until = |key: &str, expiry| Node::new(key, true, Contexts::none(), Some(expiry)).expect("a node");
    let nodes = vec![
        node("weight.5", true),
        node("weight.-7", true),
        until("weight.9", 100),
        until("displayname.Soon", 100),
        node("displayname.X", true),
    ];
    let group = Group::new("Mod", nodes).expect("a name");
    assert_eq!((&**group.name(), group.weight(99), group.weight(100)), ("mod", Some(9), Some(5)));
    assert_eq!((group.display_name(99), group.display_name(100)), (Some("Soon"), Some("X")));
    assert_eq!(Group::new("none", Vec::new()).expect("a name").weight(0), None);
    for name in ["", "two words", "a/b", "new\nline", &"x".repeat(37)] {
        assert!(Group::new(name, Vec::new()).is_err(), "{name:?}");
    }
}

#[test]
fn contexts_are_satisfied_by_one_or_by_all_values() {
    let of = |pairs: &[(&str, &str)]| Contexts::of(pairs.iter().copied()).expect("contexts");
    let both = of(&[("World", " Lobby "), ("world", "hub"), ("world", "hub")]);
    assert_eq!(both.iter().collect::<Vec<_>>(), [("world", "hub"), ("world", "lobby")]);
    for (query, one, all) in [
        (of(&[]), false, false),
        (of(&[("world", "lobby")]), true, false),
        (of(&[("world", "lobby"), ("world", "hub"), ("server", "x")]), true, true),
        (of(&[("server", "lobby")]), false, false),
    ] {
        assert_eq!((both.is_satisfied_by(&query, Satisfy::One), both.is_satisfied_by(&query, Satisfy::All)), (one, all), "{query:?}");
    }
    assert!(Contexts::none().is_satisfied_by(&both, Satisfy::All));
    assert!(Contexts::of([(" ", "x")]).is_err() && Contexts::of([("x", "")]).is_err());
}

#[test]
fn elements_of_stacks_are_written_as_they_are_read() {
    for extreme in ["highest", "lowest"] {
        for of in ["", "_own", "_inherited", "_on_track_staff", "_not_on_track_a_b", "_from_group_mod", "_not_from_group_mod"] {
            let text = format!("{extreme}{of}");
            assert_eq!(text.to_uppercase().parse::<Element>().expect("an element").to_string(), text);
        }
    }
    for text in ["", "middle", "highest_", "highest_on_track_", "lowest_from", "highest_own_"] {
        assert!(text.parse::<Element>().is_err(), "{text}");
    }
}

#[test]
fn one_more_parent_does_not_take_the_default_group_away() {
    let all = groups(&[("default", &["of.default"]), ("vip", &["of.vip"])]);
    let parent = |contexts: &[(&str, &str)], expiry| {
        Node::new("group.vip", true, Contexts::of(contexts.iter().copied()).expect("contexts"), expiry).expect("a node")
    };
    let with = |mut user: User, parent: Node| {
        user.keep_default_beside(&parent, 0);
        user.nodes.push(parent);
        user
    };
    for given in [parent(&[], None), parent(&[], Some(9))] {
        let user = with(User::unknown(Uuid::nil()), given);
        assert_eq!(user.nodes[0], node("group.default", true));
        assert_eq!((check(&user, &all, "of.default"), check(&user, &all, "of.vip")), (Answer::True, Answer::True));
    }
    // In a context it takes nothing away, so that nothing need be written down; nor does what is over, or says no.
    for given in [parent(&[("world", "a")], None), parent(&[], Some(-1)), node("group.vip", false), node("group.default", true)] {
        assert_eq!(with(User::unknown(Uuid::nil()), given).nodes.len(), 1);
    }
    // Who has chosen another group before has not the default one, and does not get it back.
    let chosen = with(user(&["group.staff"]), parent(&[], None));
    assert_eq!(check(&chosen, &all, "of.default"), Answer::Undefined);
}

#[test]
fn a_permission_is_the_same_in_any_case_of_its_letters() {
    let (loud, quiet) = (node("MOONBRIDGE.server.VIP", true), node("moonbridge.server.vip", false));
    assert!(loud.is_same(&quiet) && loud != node("moonbridge.server.vip", true));
    let mut nodes = vec![loud.clone()];
    edit::edit(&mut nodes, &Edit::Set(quiet.clone(), TemporaryAdd::Deny), 0).expect("set");
    assert_eq!(nodes, std::slice::from_ref(&quiet), "it takes the place of the other");
    edit::edit(&mut nodes, &Edit::Unset { key: "Moonbridge.Server.vip".into(), contexts: Contexts::none(), only_temporary: false }, 0)
        .expect("unset");
    assert!(nodes.is_empty());
    // Both may come from a file: the false one counts, wherever it stands.
    for nodes in [vec![loud.clone(), quiet.clone()], vec![quiet, loud]] {
        let user = User { nodes, ..User::unknown(Uuid::nil()) };
        assert_eq!(check(&user, &Groups::new(), "moonbridge.server.vip"), Answer::False);
    }
    // The letters of a text are its own.
    assert!(!node("prefix.5.[VIP]", true).is_same(&node("prefix.5.[vip]", true)));
}
