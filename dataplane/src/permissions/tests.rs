//! Checks, and what makes them be answered anew.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use moonbridge_permissions::{Group, Node as Entry, User};
use moonbridge_proto::snapshot::{Revision, Snapshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;
use crate::config::Config;

const STORE: &str = "store";

/// A permission that is granted; behind `!`, one that is taken away; behind `@`, one with a context (`KEY=VALUE@permission`).
fn entry(text: &str) -> Entry {
    let (contexts, text) = text.rsplit_once('@').map_or((None, text), |(context, text)| (context.split_once('='), text));
    let contexts = Contexts::of(contexts).expect("contexts");
    let (value, key) = text.strip_prefix('!').map_or((true, text), |key| (false, key));
    Entry::new(key, value, contexts, None).expect("a node")
}

fn entries(texts: &[&str]) -> Vec<Entry> {
    texts.iter().map(|text| entry(text)).collect()
}

fn node(groups: &[(&str, &[&str])]) -> Node {
    let node = Node::new(Config::default(), CancellationToken::new());
    put_in_force(&node, 1, groups);
    node
}

/// As a whole snapshot comes: nothing of it is shared with the one before.
fn put_in_force(node: &Node, number: u64, groups: &[(&str, &[&str])]) {
    let groups = groups.iter().map(|(name, texts)| ((*name).to_owned(), Arc::new(Group::new(name, entries(texts)).expect("a group"))));
    let revision = Revision { store_id: STORE.into(), number };
    node.put_in_force(Snapshot { revision, groups: groups.collect(), ..Snapshot::default() });
}

/// Changes the snapshot in force.
fn change(node: &Node, change: impl FnOnce(&mut Snapshot)) {
    let mut snapshot = Snapshot::clone(&node.snapshot.load_full().expect("a snapshot"));
    change(&mut snapshot);
    node.put_in_force(snapshot);
}

fn message(store: &str, number: u64, entries: Vec<Entry>) -> v1::UserPermissions {
    let user = User { nodes: entries, ..User::unknown(Uuid::from_u128(1)) };
    let revision = Some(v1::Revision { store_id: store.into(), number });
    v1::UserPermissions { player_uuid: user.uuid.to_string(), revision, user: Some((&user).into()), ..Default::default() }
}

fn tell(permissions: &Permissions, message: v1::UserPermissions) {
    Known::read(message).expect("of a player").1.put_into(permissions.slot());
}

/// A player of whom this is stored, on the lobby.
fn player(texts: &[&str]) -> Permissions {
    let mut permissions = Permissions::default();
    permissions.moved("lobby");
    tell(&permissions, message(STORE, 1, entries(texts)));
    permissions
}

#[test]
fn what_is_not_known_is_never_allowed() {
    let empty = Node::new(Config::default(), CancellationToken::new());
    let node = node(&[("default", &["a", "!b"])]);
    let mut permissions = Permissions::default();
    for (known, permission, expected) in
        [(false, "a", Answer::Unavailable), (true, "a", Answer::True), (true, "b", Answer::False), (true, "c", Answer::Undefined)]
    {
        if known {
            // Nothing is stored of it: it has what everybody has.
            tell(&permissions, v1::UserPermissions { user: None, ..message(STORE, 1, Vec::new()) });
        }
        assert_eq!(permissions.check(&node, permission), expected);
        assert_eq!(permissions.are_known(&node), known);
    }
    assert_eq!(permissions.check(&empty, "a"), Answer::Unavailable, "without a snapshot nothing is known");
    let all = [Answer::True, Answer::False, Answer::Undefined, Answer::Unavailable];
    assert_eq!(all.map(Answer::is_allowed), [true, false, false, false]);
    assert_eq!(all.map(|answer| answer.is_allowed_or(true)), [true, false, true, false]);
    assert_eq!(all.map(|answer| answer.is_allowed_or(false)), [true, false, false, false]);
}

#[test]
fn a_node_expires_by_the_clock_alone() {
    let node = node(&[]);
    let mut permissions = Permissions::default();
    let temporary = Entry::new("a", true, Contexts::none(), Some(100)).expect("a node");
    tell(&permissions, message(STORE, 1, vec![temporary]));
    let mut at = |now| permissions.resolved(&node, || now).expect("known").check("a");
    // A clock that jumps back gives nothing back that it took before.
    let answers = [1, 99, 100, 101, 99].map(&mut at).map(Answer::from);
    assert_eq!(answers, [Answer::True, Answer::True, Answer::Undefined, Answer::Undefined, Answer::Undefined]);
    assert_eq!(node.tally.resolved_in_all(), 2);
}

#[test]
fn the_world_is_the_backend_from_the_moment_it_is_told() {
    let node = node(&[("default", &["world=lobby@fly", "world=arena@!fly"])]);
    let mut permissions = player(&[]);
    assert_eq!(permissions.check(&node, "fly"), Answer::True);
    permissions.moved("arena");
    assert_eq!(permissions.check(&node, "fly"), Answer::False);
    let contexts = permissions.contexts(&node);
    assert_eq!(contexts.iter().collect::<Vec<_>>(), [("server", "proxy"), ("world", "arena")]);
    permissions.moved("lobby");
    assert_eq!(permissions.check(&node, "fly"), Answer::True);
}

#[test]
fn a_change_of_a_group_is_worked_out_for_those_only_who_inherit_it() {
    const MODS: [&str; 2] = ["kick", "!ban"];
    let node = node(&[("default", &["help"]), ("mod", &MODS), ("vip", &["fly"])]);
    let (mut moderator, mut other) = (player(&["group.mod"]), player(&["group.vip"]));
    let mut resolved = |expected_of_mod: Answer, expected: u64| {
        assert_eq!((moderator.check(&node, "ban"), other.check(&node, "fly")), (expected_of_mod, Answer::True));
        assert_eq!(node.tally.resolved_in_all(), expected);
    };
    resolved(Answer::False, 2);
    resolved(Answer::False, 2);
    // As a delta changes it, and a whole snapshot with the same in it.
    change(&node, |snapshot| {
        let group = Arc::new(Group::new("mod", entries(&["kick", "ban"])).expect("a group"));
        snapshot.groups.insert("mod".to_owned(), group);
    });
    resolved(Answer::True, 3);
    put_in_force(&node, 2, &[("default", &["help"]), ("mod", &["kick", "ban"]), ("vip", &["fly"])]);
    resolved(Answer::True, 3);
    // A whole one with another group, what is no group, and what counts for everybody.
    put_in_force(&node, 3, &[("default", &["help"]), ("mod", &MODS), ("vip", &["fly"])]);
    resolved(Answer::False, 4);
    change(&node, |snapshot| snapshot.settings.motd = "new".into());
    resolved(Answer::False, 4);
    // The group goes and comes again.
    put_in_force(&node, 4, &[("default", &["help"]), ("vip", &["fly"])]);
    resolved(Answer::Undefined, 5);
    put_in_force(&node, 5, &[("default", &["help"]), ("mod", &MODS), ("vip", &["fly"])]);
    resolved(Answer::False, 6);
    change(&node, |snapshot| snapshot.permission_settings.server = Some("edge".into()));
    resolved(Answer::False, 8);
}

#[test]
fn of_what_is_told_the_newest_counts() {
    let node = node(&[]);
    let mut permissions = player(&["v1"]);
    let mut told = |message, expected: [Answer; 3]| {
        tell(&permissions, message);
        assert_eq!(["v1", "v2", "v3"].map(|permission| permissions.check(&node, permission)), expected);
    };
    use Answer::{True, Unavailable, Undefined};
    told(message(STORE, 5, entries(&["v2"])), [Undefined, True, Undefined]);
    for older in [1, 4, 5] {
        told(message(STORE, older, entries(&["v1"])), [Undefined, True, Undefined]);
    }
    told(message("another", 2, entries(&["v3"])), [Undefined, Undefined, True]);
    // What cannot be read may take something away.
    let mut unreadable = message("another", 3, Vec::new());
    let bad = v1::PermissionNode { key: "r=(".into(), value: true, ..Default::default() };
    unreadable.user.as_mut().expect("a user").nodes.push(bad);
    told(unreadable, [Unavailable; 3]);
    told(message("another", 2, entries(&["v3"])), [Unavailable; 3]);
    told(message("another", 4, entries(&["v1", "v3"])), [True, Undefined, True]);
    // Nor what the replica cannot read.
    told(v1::UserPermissions { unreadable: true, user: None, ..message("another", 5, Vec::new()) }, [Unavailable; 3]);
    told(message("another", 6, entries(&["v1", "v3"])), [True, Undefined, True]);
    // On a new stream it all begins anew; until something comes, what was told last holds.
    Known::forget_revision(permissions.slot());
    assert_eq!(permissions.check(&node, "v1"), True);
    tell(&permissions, message("another", 1, entries(&["v2"])));
    assert_eq!(permissions.check(&node, "v2"), True);
    assert_eq!(Known::read(v1::UserPermissions { player_uuid: "nobody".into(), ..Default::default() }).map(|(uuid, _)| uuid), None);
}

/// Puts the groups of an import in force: everybody has this.
fn import_groups(node: &Node, number: u64, generation: &str, permission: &str) {
    let revision = Revision { store_id: STORE.into(), number };
    let group = Group::new("default", vec![entry(permission)]).expect("a group");
    let groups = [("default".to_owned(), Arc::new(group))].into();
    node.put_in_force(Snapshot { revision, groups, permission_generation: generation.into(), ..Snapshot::default() });
}

/// Tells the user of an import.
fn import_user(slot: &Slot, number: u64, generation: &str, permission: &str) {
    let message = v1::UserPermissions { generation: generation.into(), ..message(STORE, number, vec![entry(permission)]) };
    Known::read(message).expect("of a player").1.put_into(slot);
}

#[test]
fn half_of_an_import_changes_no_answer() {
    use Answer::{True, Unavailable, Undefined};
    let all = ["everybody.old", "own.old", "everybody.new", "own.new"];
    for groups_first in [true, false] {
        let node = node(&[]);
        let mut permissions = player(&[]);
        let slot = permissions.slot().clone();
        let groups = |generation: &str| import_groups(&node, 2, generation, &format!("everybody.{generation}"));
        let user = |generation: &str, number| import_user(&slot, number, generation, &format!("own.{generation}"));
        let mut answers = |expected: [Answer; 4], when: &str| {
            assert_eq!(all.map(|name| permissions.check(&node, name)), expected, "{when}, groups first: {groups_first}");
        };
        let (old, new) = ([True, True, Undefined, Undefined], [Undefined, Undefined, True, True]);
        groups("old");
        user("old", 2);
        answers(old, "before");
        if groups_first {
            groups("new")
        } else {
            user("new", 3)
        }
        answers(old, "half of it");
        if groups_first {
            user("new", 3)
        } else {
            groups("new")
        }
        answers(new, "all of it");
        // Who has asked nothing yet has no last answer.
        let mut other = Permissions::default();
        import_user(other.slot(), 2, "old", "own.old");
        assert_eq!(other.check(&node, "own.old"), Unavailable);
    }
}

#[test]
fn while_half_of_an_import_is_here_an_answer_that_is_over_is_not_given() {
    let node = node(&[]);
    let at_first = || {
        import_groups(&node, 2, "old", "a");
        let mut permissions = player(&[]);
        let temporary = Entry::new("b", true, Contexts::none(), Some(100)).expect("a node");
        tell(&permissions, v1::UserPermissions { generation: "old".into(), ..message(STORE, 2, vec![temporary]) });
        assert!(permissions.resolved(&node, || 1).is_some_and(|resolved| Answer::from(resolved.check("b")).is_allowed()));
        import_groups(&node, 3, "new", "a");
        assert!(permissions.resolved(&node, || 99).is_some());
        permissions
    };
    assert!(at_first().resolved(&node, || 100).is_none(), "it has run out");
    let mut elsewhere = at_first();
    elsewhere.moved("arena");
    assert!(elsewhere.resolved(&node, || 1).is_none(), "it was of another backend");
    let mut changed = at_first();
    import_user(changed.slot(), 3, "old", "c");
    assert!(changed.resolved(&node, || 1).is_none(), "something may have been taken away");
    let mut void = at_first();
    tell(&void, v1::UserPermissions { generation: "old".into(), unreadable: true, ..message(STORE, 3, Vec::new()) });
    assert!(void.resolved(&node, || 1).is_none(), "something may have been taken away");
    for mut permissions in [elsewhere, changed, void] {
        import_user(permissions.slot(), 9, "new", "d");
        assert_eq!(["a", "d"].map(|name| permissions.check(&node, name)), [Answer::True; 2]);
    }
}

/// A session that is asked all the time, while imports come in halves.
#[test]
fn of_two_imports_nobody_ever_has_a_mixture() {
    const IMPORTS: u64 = 300;
    let node = node(&[]);
    let mut permissions = player(&[]);
    let slot = permissions.slot().clone();
    let import = |number: u64| {
        let generation = number.to_string();
        let groups = || import_groups(&node, number, &generation, &format!("everybody.{number}"));
        let user = || import_user(&slot, number, &generation, &format!("own.{number}"));
        if number.is_multiple_of(2) {
            groups();
            user();
        } else {
            user();
            groups();
        }
    };
    import(2);
    assert_eq!(permissions.check(&node, "own.2"), Answer::True);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 3..=IMPORTS {
                import(number);
                done.store(number, Ordering::Release);
            }
        });
        let mut last = 2;
        loop {
            let is_over = done.load(Ordering::Acquire) == IMPORTS;
            let resolved = permissions.resolved(&node, now).expect("the last answers hold").clone();
            let has = |kind: &str| -> Vec<u64> {
                let is_allowed = |number: &u64| Answer::from(resolved.check(&format!("{kind}.{number}"))).is_allowed();
                (2..=IMPORTS).filter(is_allowed).collect()
            };
            let [everybody, own] = ["everybody", "own"].map(has);
            assert_eq!(everybody, own);
            assert!(own.len() == 1 && own[0] >= last, "{own:?} after {last}");
            last = own[0];
            if is_over {
                break;
            }
        }
        assert_eq!(last, IMPORTS);
    });
}

#[test]
fn being_told_the_same_again_resolves_nothing() {
    let node = node(&[("default", &["a"])]);
    let mut permissions = player(&["b"]);
    assert_eq!(permissions.check(&node, "b"), Answer::True);
    Known::forget_revision(permissions.slot());
    assert_eq!(permissions.check(&node, "b"), Answer::True);
    tell(&permissions, message(STORE, 9, entries(&["b"])));
    assert_eq!(permissions.check(&node, "b"), Answer::True);
    // Nor by an import that changes nothing for it.
    change(&node, |snapshot| snapshot.permission_generation = "imported".into());
    assert_eq!(permissions.check(&node, "b"), Answer::True);
    tell(&permissions, v1::UserPermissions { generation: "imported".into(), ..message(STORE, 10, entries(&["b"])) });
    assert_eq!(permissions.check(&node, "b"), Answer::True);
    assert_eq!(node.tally.resolved_in_all(), 1);
}

#[test]
fn a_check_allocates_nothing_while_nothing_has_changed_for_it() {
    let node = node(&[("default", &["a.b", "c.*", "world=lobby@!d"]), ("other", &["x"])]);
    // Something that expires, but not yet.
    let mut permissions = player(&["e"]);
    let later = Entry::new("temporary", true, Contexts::none(), Some(i64::MAX)).expect("a node");
    tell(&permissions, message(STORE, 2, vec![later]));
    let expected = [Answer::True, Answer::True, Answer::False, Answer::Undefined, Answer::True];
    let mut check = || {
        let answers = ["a.b", "c.d.e", "d", "nothing.of.it", "TEMPORARY"].map(|permission| permissions.check(&node, permission));
        assert_eq!(answers, expected);
    };
    check();
    let counted = allocation_counter::measure(|| (0..1_000).for_each(|_| check()));
    assert_eq!(counted.count_total, 0, "{counted:?}");
    // Nor if others are concerned.
    change(&node, |snapshot| {
        let group = Arc::new(Group::new("other", entries(&["y"])).expect("a group"));
        snapshot.groups.insert("other".to_owned(), group);
    });
    let counted = allocation_counter::measure(check);
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[test]
fn players_with_the_same_share_a_set() {
    let node = node(&[("default", &["a"]), ("vip", &["a"])]);
    let ask = |players: &mut Vec<Permissions>| {
        for permissions in players {
            assert_eq!(permissions.check(&node, "a"), Answer::True);
        }
        node.tally.resolved_in_all()
    };
    let mut players: Vec<_> = (0..1_000).map(|index| player(if index % 2 == 0 { &[] } else { &["group.vip"] })).collect();
    assert_eq!(ask(&mut players), 2);
    players[0].moved("arena");
    assert_eq!(ask(&mut players), 3);
    put_in_force(&node, 2, &[("default", &["a", "b"]), ("vip", &["a", "b"])]);
    assert_eq!(ask(&mut players), 6);
    // With many of their own they are not looked for, and what is kept in mind has an end.
    let many: Vec<_> = (0..20).map(|index| format!("own.{index}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let mut others: Vec<_> = (0..2).map(|_| player(&many)).collect();
    assert_eq!(ask(&mut others), 8);
    let mut different: Vec<_> = (0..1_000).map(|index| player(&[format!("own.{index}").as_str()])).collect();
    assert_eq!(ask(&mut different), 1_008);
    assert_eq!(set::kept(), set::KEPT);
    drop((different, others, players));
    assert_eq!(player(&[]).check(&node, "b"), Answer::True);
    assert!(set::kept() <= 1, "what nobody uses is gone");
}

/// Whatever was told before a check is in its answer, while groups and the player's own nodes change under it.
#[test]
fn a_check_is_never_behind_what_was_told_before_it() {
    const VERSIONS: u64 = 200;
    let names = |kind: &str, upto: u64| (1..=upto).map(|version| format!("{kind}.{version}")).collect::<Vec<_>>();
    let node = node(&[("default", &[])]);
    let mut permissions = player(&[]);
    let slot = permissions.slot().clone();
    let told = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=VERSIONS {
                let groups = names("group-has", version);
                let groups: Vec<_> = groups.iter().map(String::as_str).collect();
                put_in_force(&node, version, &[("default", &groups)]);
                let own = names("own", version);
                let own: Vec<_> = own.iter().map(String::as_str).collect();
                Known::read(message(STORE, version + 1, entries(&own))).expect("of a player").1.put_into(&slot);
                told.store(version, Ordering::Release);
            }
        });
        loop {
            let version = told.load(Ordering::Acquire);
            if version > 0 {
                let names = [format!("group-has.{version}"), format!("own.{version}")];
                assert_eq!(names.map(|name| permissions.check(&node, &name)), [Answer::True; 2], "{version}");
            }
            if version == VERSIONS {
                break;
            }
        }
    });
}
