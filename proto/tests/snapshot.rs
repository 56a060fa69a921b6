//! The snapshot: deltas lead where they should, and validation finds every mistake and survives anything.

use std::collections::BTreeSet;

use moonbridge_proto::routing::normalise_host;
use moonbridge_proto::snapshot::{Address, Backend, DuplicateLogin, Forwarding, OnKick, Route, Settings, Snapshot};
use moonbridge_proto::v1;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

fn backend(name: String) -> impl Strategy<Value = v1::Backend> {
    let host = prop_oneof![Just("10.0.0.1"), Just("[::1]"), Just("lobby.internal")];
    (host, 1u16.., 0..4i32, any::<bool>(), "[!-~]{8,9}").prop_map(move |(host, port, forwarding, drained, token)| v1::Backend {
        name: name.clone(),
        address: format!("{host}:{port}"),
        forwarding,
        drained,
        restricted: !drained,
        plugin_channel_off: drained,
        forwarding_token: if forwarding == v1::Forwarding::Bungeeguard as i32 { token } else { String::new() },
    })
}

fn route(host: String) -> impl Strategy<Value = v1::Route> {
    let names = proptest::sample::subsequence(vec!["a", "b", "c", "d"], 1..=4).prop_shuffle();
    (names, 0..3i32).prop_map(move |(names, on_kick)| v1::Route {
        host: host.clone(),
        backends: names.into_iter().map(str::to_owned).collect(),
        on_kick,
    })
}

fn group(name: String) -> impl Strategy<Value = v1::PermissionGroup> {
    let context = vec(("(server|world)", "[ab]"), 0..2).prop_map(|pairs| {
        // As they are read back: sorted, none twice.
        let pairs: BTreeSet<_> = pairs.into_iter().collect();
        pairs.into_iter().map(|(key, value)| v1::PermissionContext { key, value }).collect::<Vec<_>>()
    });
    let node =
        ("(group\\.[a-c]|weight\\.[1-9]|prefix\\.5\\.x|r=a+|some\\.(\\*|thing))", any::<bool>(), context, prop_oneof![Just(0), 1..9i64])
            .prop_map(|(key, value, contexts, expiry)| v1::PermissionNode { key, value, contexts, expiry });
    vec(node, 0..3).prop_map(move |nodes| v1::PermissionGroup { name: name.clone(), nodes })
}

fn track(name: String) -> impl Strategy<Value = v1::PermissionTrack> {
    let groups = proptest::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle();
    groups.prop_map(move |groups| v1::PermissionTrack { name: name.clone(), groups: groups.into_iter().map(str::to_owned).collect() })
}

prop_compose! {
    fn permission_settings()(server in "[a-z]{0,5}", flags in any::<[bool; 6]>(), enums in any::<[bool; 3]>(), spacer in "[ -]{0,2}") -> v1::PermissionSettings {
        let stack = v1::MetaStack {
            elements: vec!["highest_own".into(), "lowest_on_track_staff".into()],
            middle_spacer: spacer,
            duplicates: "retain-all".into(),
            ..Default::default()
        };
        let plain = v1::PermissionSettings::from(&Default::default());
        v1::PermissionSettings {
            server,
            apply_wildcards: Some(flags[0]),
            apply_regex: Some(flags[1]),
            apply_shorthand: Some(flags[2]),
            apply_implicit_wildcards: flags[3],
            sort_after_traversal: flags[4],
            contexts_want_all_values: flags[5],
            traversal: 1 + i32::from(enums[0]),
            primary_group: 1 + i32::from(enums[1]),
            temporary_add: 1 + i32::from(enums[2]),
            prefix: Some(stack),
            ..plain
        }
    }
}

prop_compose! {
    /// A valid snapshot over few names, so that two of them have much in common.
    fn snapshot()(
        backends in btree_map("[a-e]", Just(()), 0..5).prop_flat_map(|names| names.into_keys().map(backend).collect::<Vec<_>>()),
        routes in btree_map("(\\*|\\*\\.[ab]|[a-d]\\.net)", Just(()), 0..5).prop_flat_map(|hosts| hosts.into_keys().map(route).collect::<Vec<_>>()),
        settings in option::of(("[a-z§ ]{0,20}", 0..5u32, 0..3)),
        number in 1..1_000u64,
        permission_groups in btree_map("[a-c]", Just(()), 0..3).prop_flat_map(|names| names.into_keys().map(group).collect::<Vec<_>>()),
        permission_tracks in btree_map("[a-c]", Just(()), 0..2).prop_flat_map(|names| names.into_keys().map(track).collect::<Vec<_>>()),
        permission_settings in option::of(permission_settings()),
        permission_generation in "[01]?",
    ) -> Snapshot {
        let settings = settings.map(|(motd, max_players, duplicate_login)| v1::Settings { motd, max_players, favicon: Vec::new(), duplicate_login });
        let revision = Some(v1::Revision { store_id: "store".into(), number });
        let raw = v1::Snapshot {
            revision, settings, backends, routes, permission_settings, permission_groups, permission_tracks, permission_generation,
        };
        raw.try_into().expect("made valid")
    }
}

#[test]
fn settings_that_a_message_leaves_out_are_the_defaults() {
    let settings = |raw: v1::PermissionSettings| moonbridge_permissions::Settings::try_from(&raw).expect("settings");
    let default = moonbridge_permissions::Settings { server: None, ..Default::default() };
    assert_eq!(settings(v1::PermissionSettings::default()), default);
    let off = settings(v1::PermissionSettings { apply_regex: Some(false), ..Default::default() });
    assert!(off.wildcards && off.shorthand && !off.regex);
}

#[test]
fn a_route_has_at_most_126_backends() {
    let route = |count| {
        let backends = (0..count).map(|index| format!("b{index}")).collect();
        Route::try_from(v1::Route { host: "*".into(), backends, on_kick: 0 })
    };
    assert!(route(126).is_ok());
    let mistakes = route(127).expect_err("one too many");
    assert!(mistakes.iter().any(|mistake| mistake.path.ends_with("backends") && mistake.problem.contains("126")), "{mistakes:?}");
}

prop_compose! {
    fn garbage_backend()(name in ".{0,80}", address in ".{0,40}|.{0,5}:[0-9]{0,6}|\\[.{0,9}\\]:1", forwarding in -1..5i32, drained in any::<bool>(), forwarding_token in ".{0,9}") -> v1::Backend {
        v1::Backend { name, address, forwarding, drained, forwarding_token, restricted: drained, plugin_channel_off: !drained }
    }
}

prop_compose! {
    fn garbage_route()(host in ".{0,300}|[*.a\\[\\]:0-9]{0,12}", backends in vec(".{0,70}", 0..5), on_kick in -1..5i32) -> v1::Route {
        v1::Route { host, backends, on_kick }
    }
}

prop_compose! {
    fn garbage_settings()(motd in ".{0,3000}", max_players in any::<u32>(), favicon in vec(any::<u8>(), 0..64), duplicate_login in -1..5) -> v1::Settings {
        v1::Settings { motd, max_players, favicon, duplicate_login }
    }
}

prop_compose! {
    fn garbage_groups()(groups in vec((".{0,40}", vec((".{0,20}|r=[(a*+]{0,5}|group\\..{0,5}", ".{0,3}", any::<i64>()), 0..4)), 0..3)) -> Vec<v1::PermissionGroup> {
        let node = |(key, context, expiry): (String, String, i64)| v1::PermissionNode {
            key,
            value: true,
            contexts: vec![v1::PermissionContext { key: context.clone(), value: context }],
            expiry,
        };
        groups.into_iter().map(|(name, nodes)| v1::PermissionGroup { name, nodes: nodes.into_iter().map(node).collect() }).collect()
    }
}

prop_compose! {
    fn garbage_permission_settings()(server in ".{0,300}", numbers in any::<[i32; 5]>(), element in ".{0,9}|highest_.{0,9}", word in ".{0,300}") -> v1::PermissionSettings {
        let stack = v1::MetaStack { elements: vec![element], start_spacer: word.clone(), duplicates: word.clone(), ..Default::default() };
        v1::PermissionSettings {
            server,
            static_contexts: vec![v1::PermissionContext { key: word.clone(), value: word.clone() }],
            traversal: numbers[0],
            primary_group: numbers[1],
            temporary_add: numbers[2],
            prefix: Some(stack),
            meta_selection: numbers[3],
            meta_selection_of: [(word, numbers[4])].into(),
            ..Default::default()
        }
    }
}

proptest! {
    #[test]
    fn a_delta_leads_to_the_newer_snapshot(older in snapshot(), mut newer in snapshot()) {
        newer.revision.number += older.revision.number;
        let delta = older.delta_to(&newer);
        prop_assert_eq!(older.apply(&delta).expect("a delta of ours applies"), newer.clone());
        // Nothing that is the same on both sides is in it.
        prop_assert_eq!(delta.settings.is_some(), older.settings != newer.settings);
        for backend in &delta.set_backends {
            prop_assert_ne!(older.backends.get(&backend.name), newer.backends.get(&backend.name));
        }
        for group in &delta.set_permission_groups {
            prop_assert_ne!(older.groups.get(&group.name), newer.groups.get(&group.name));
        }
        prop_assert_eq!(delta.permission_settings.is_some(), older.permission_settings != newer.permission_settings);
        // Who inherits a group that did not change need not be resolved anew.
        let applied = older.apply(&delta).expect("it applies");
        for (name, group) in &older.groups {
            let same = newer.groups.get(name) == Some(group);
            prop_assert_eq!(same, applied.groups.get(name).is_some_and(|applied| std::sync::Arc::ptr_eq(applied, group)));
        }
    }

    #[test]
    fn a_snapshot_survives_the_wire(snapshot in snapshot()) {
        prop_assert_eq!(Snapshot::try_from(v1::Snapshot::from(&snapshot)).expect("what we send is valid"), snapshot);
    }

    #[test]
    fn validation_survives_anything(
        base in snapshot(),
        backends in vec(garbage_backend(), 0..4),
        routes in vec(garbage_route(), 0..4),
        settings in option::of(garbage_settings()),
        from in option::of((".{0,9}", any::<u64>())),
        removed in vec(".{0,9}|[a-e]", 0..4),
        groups in garbage_groups(),
        permission_settings in option::of(garbage_permission_settings()),
        generation in ".{0,80}",
    ) {
        let revision = from.map(|(store_id, number)| v1::Revision { store_id, number });
        let tracks: Vec<_> = groups.iter().map(|group| v1::PermissionTrack { name: group.name.clone(), groups: removed.clone() }).collect();
        let raw = v1::Snapshot {
            revision: revision.clone(),
            settings: settings.clone(),
            backends: backends.clone(),
            routes: routes.clone(),
            permission_settings: permission_settings.clone(),
            permission_groups: groups.clone(),
            permission_tracks: tracks.clone(),
            permission_generation: generation.clone(),
        };
        if let Ok(snapshot) = Snapshot::try_from(raw) {
            // What got through is as good as what we make ourselves.
            prop_assert_eq!(Snapshot::try_from(v1::Snapshot::from(&snapshot)), Ok(snapshot));
        }
        let delta = v1::SnapshotDelta {
            from: Some((&base.revision).into()), to: revision, settings,
            set_backends: backends, removed_backends: removed.clone(), set_routes: routes, removed_routes: removed.clone(),
            permission_settings, set_permission_groups: groups, removed_permission_groups: removed.clone(),
            set_permission_tracks: tracks, removed_permission_tracks: removed, permission_generation: Some(generation),
        };
        let before = base.clone();
        let _ = base.apply(&delta);
        prop_assert_eq!(base, before);
    }

    #[test]
    fn an_address_is_read_as_it_is_written(host in "[a-zA-Z0-9._-]{1,20}|[0-9a-f:]{2,20}", port in 1u16..) {
        let text = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        match text.parse::<Address>() {
            Ok(address) => prop_assert_eq!(address.to_string(), text),
            Err(_) => prop_assert!(host.contains(':') && host.parse::<std::net::Ipv6Addr>().is_err()),
        }
    }

    #[test]
    fn a_host_is_normal_after_once(host in ".{0,40}|[\\[\\]:.*aB0\0]{0,12}") {
        let once = normalise_host(&host);
        prop_assert_eq!(normalise_host(&once), once);
    }
}

fn valid() -> v1::Snapshot {
    v1::Snapshot {
        revision: Some(v1::Revision { store_id: "store".into(), number: 7 }),
        settings: Some(v1::Settings {
            motd: "hello".into(),
            max_players: 10,
            favicon: png(64, 64),
            duplicate_login: v1::DuplicateLogin::Refuse.into(),
        }),
        backends: vec![
            v1::Backend { name: "lobby".into(), address: "lobby:25565".into(), forwarding: 2, drained: false, ..Default::default() },
            v1::Backend { name: "game".into(), address: "[::1]:25566".into(), forwarding: 0, drained: true, ..Default::default() },
        ],
        routes: vec![v1::Route { host: "Play.Example.NET.:25565".into(), backends: vec!["lobby".into(), "away".into()], on_kick: 2 }],
        ..Default::default()
    }
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([0; 20]);
    bytes
}

fn paths(errors: &[v1::FieldError]) -> BTreeSet<&str> {
    errors.iter().map(|error| error.path.as_str()).collect()
}

#[test]
fn a_snapshot_holds_what_was_sent() {
    let snapshot = Snapshot::try_from(valid()).expect("valid");
    assert_eq!((snapshot.revision.store_id.as_str(), snapshot.revision.number), ("store", 7));
    let lobby = &snapshot.backends["lobby"];
    assert_eq!((lobby.address.host.as_str(), lobby.address.port, &lobby.forwarding), ("lobby", 25565, &Forwarding::Legacy));
    let game = &snapshot.backends["game"];
    assert_eq!((game.address.host.as_str(), &game.forwarding, game.drained), ("::1", &Forwarding::None, true));
    let route = &snapshot.routes["play.example.net"];
    assert_eq!((route.host.as_str(), route.on_kick), ("play.example.net", OnKick::Disconnect));
    assert_eq!((snapshot.settings.favicon, snapshot.settings.duplicate_login), (Some(png(64, 64)), DuplicateLogin::Refuse));
    let fresh = v1::Snapshot { settings: None, ..valid() };
    let settings = Snapshot::try_from(fresh).expect("settings may be absent").settings;
    assert_eq!(
        settings,
        Settings { motd: "A MoonBridge network".into(), max_players: 1_000, favicon: None, duplicate_login: DuplicateLogin::Newest }
    );
}

#[test]
fn every_mistake_is_reported_with_its_path() {
    let mut raw = valid();
    raw.revision = None;
    raw.settings = Some(v1::Settings { motd: "a\u{7}".into(), max_players: u32::MAX, favicon: png(64, 32), duplicate_login: 9 });
    raw.backends.push(v1::Backend { name: "Lobby".into(), address: "lobby".into(), forwarding: 9, drained: false, ..Default::default() });
    raw.backends.push(v1::Backend { name: "lobby".into(), address: "lobby:0".into(), forwarding: 0, drained: false, ..Default::default() });
    raw.routes.push(v1::Route { host: "a.*.net".into(), backends: vec!["lobby".into(), "?".into(), "lobby".into()], on_kick: 3 });
    raw.routes.push(v1::Route { host: "play.example.net".into(), backends: vec![], on_kick: 0 });
    let errors = Snapshot::try_from(raw).expect_err("full of mistakes");
    let expected = [
        "revision",
        "settings.motd",
        "settings.max_players",
        "settings.favicon",
        "settings.duplicate_login",
        "backends[2].name",
        "backends[2].address",
        "backends[2].forwarding",
        "backends[3].name",
        "backends[3].address",
        "routes[1].host",
        "routes[1].backends[1]",
        "routes[1].backends[2]",
        "routes[1].on_kick",
        "routes[2].host",
        "routes[2].backends",
    ];
    assert_eq!(paths(&errors), BTreeSet::from(expected));
    assert_eq!(errors.len(), expected.len(), "each once: {errors:?}");
}

const TOKEN: &str = "AUSXEwebkOGVnbihJM8gBS0QUutDzvIG009xoAfo1Huba9pGvhfjrA21r8dWVsa8";

fn guarded(token: &str) -> v1::Backend {
    let forwarding = v1::Forwarding::Bungeeguard.into();
    v1::Backend { name: "lobby".into(), address: "lobby:1".into(), forwarding, forwarding_token: token.into(), ..Default::default() }
}

#[test]
fn a_token_goes_with_bungeeguard_and_with_nothing_else() {
    let Forwarding::BungeeGuard(token) = Backend::try_from(guarded(TOKEN)).expect("valid").forwarding else { panic!("not bungeeguard") };
    assert_eq!(token.reveal(), TOKEN);
    assert!(Backend::try_from(guarded(&"x".repeat(8))).is_ok() && Backend::try_from(guarded(&"x".repeat(256))).is_ok());
    for wrong in ["", "1234567", &"x".repeat(257), "with a blank", "tab\tin it", "nul\0in it", "umlauts-äöü", &"ä".repeat(2_000)] {
        let errors = Backend::try_from(guarded(wrong)).expect_err(wrong);
        assert_eq!(paths(&errors), BTreeSet::from(["forwarding_token"]), "{wrong}");
        assert!(wrong.is_empty() || !errors[0].problem.contains(wrong), "what is wrong with a secret must not show it: {errors:?}");
    }
    let missing = Backend::try_from(guarded("")).expect_err("no token");
    assert!(missing[0].problem.contains("--forwarding-token-file"), "{missing:?}");
    for kind in 0..3 {
        let errors = Backend::try_from(v1::Backend { forwarding: kind, ..guarded(TOKEN) }).expect_err("a token for nothing");
        assert_eq!(paths(&errors), BTreeSet::from(["forwarding_token"]));
        assert!(!format!("{errors:?}").contains(TOKEN));
    }
}

#[test]
fn a_delta_carries_a_changed_token() {
    let with = |number, token| {
        let revision = Some(v1::Revision { store_id: "store".into(), number });
        Snapshot::try_from(v1::Snapshot { revision, backends: vec![guarded(token)], ..Default::default() }).expect("valid")
    };
    let (older, newer) = (with(1, "first-token"), with(2, "second-token"));
    let delta = older.delta_to(&newer);
    assert_eq!(delta.set_backends, [guarded("second-token")]);
    assert_eq!(older.apply(&delta).expect("it applies"), newer);
}

#[test]
fn no_debug_output_shows_a_token() {
    let raw = v1::Snapshot { backends: vec![guarded(TOKEN)], ..valid() };
    let snapshot = Snapshot::try_from(v1::Snapshot { routes: vec![], ..raw.clone() }).expect("valid");
    let request = v1::SetBackendRequest { backend: Some(guarded(TOKEN)), keep_drained: true };
    for shown in [format!("{raw:?} {raw:#?}"), format!("{snapshot:?} {snapshot:#?}"), format!("{request:?}")] {
        assert!(shown.contains("lobby") && !shown.contains(TOKEN), "{shown}");
    }
    assert!(format!("{:?}", guarded(TOKEN)).contains("(set)"));
    assert!(!format!("{:?}", guarded("")).contains("(set)"));
}

fn bad_group() -> v1::PermissionGroup {
    let contexts = vec![v1::PermissionContext { key: "world".into(), value: " ".into() }];
    let node = v1::PermissionNode { key: "r=(".into(), value: true, contexts, expiry: -1 };
    v1::PermissionGroup { name: "no name".into(), nodes: vec![node] }
}

#[test]
fn a_delta_from_elsewhere_is_refused_with_every_reason() {
    let base = Snapshot::try_from(valid()).expect("valid");
    let delta = v1::SnapshotDelta {
        from: Some(v1::Revision { store_id: "store".into(), number: 6 }),
        to: Some(v1::Revision { store_id: "other".into(), number: 8 }),
        settings: None,
        set_backends: vec![v1::Backend { name: "lobby".into(), address: "x".into(), forwarding: 0, drained: false, ..Default::default() }],
        removed_backends: vec!["nobody".into(), "lobby".into()],
        set_routes: vec![],
        removed_routes: vec!["nowhere".into()],
        set_permission_groups: vec![bad_group()],
        removed_permission_groups: vec!["nobody".into()],
        removed_permission_tracks: vec!["nobody".into()],
        ..Default::default()
    };
    let errors = base.apply(&delta).expect_err("full of mistakes");
    let expected = ["from", "to.store_id", "set_backends[0].name", "set_backends[0].address", "removed_backends[0]", "removed_routes[0]"];
    let expected = expected.into_iter().chain([
        "set_permission_groups[0].name",
        "set_permission_groups[0].nodes[0].key",
        "set_permission_groups[0].nodes[0].contexts[0]",
        "set_permission_groups[0].nodes[0].expiry",
        "removed_permission_groups[0]",
        "removed_permission_tracks[0]",
    ]);
    assert_eq!(paths(&errors), expected.collect());
    let backwards = v1::SnapshotDelta {
        from: Some(v1::Revision { store_id: "store".into(), number: 7 }),
        to: Some(v1::Revision { store_id: "store".into(), number: 6 }),
        ..Default::default()
    };
    assert_eq!(paths(&base.apply(&backwards).expect_err("backwards")), BTreeSet::from(["to.number"]));
}

#[test]
fn thousands_of_mistakes_make_no_thousands_of_lines() {
    let mut raw = valid();
    raw.backends = (0..5_000).map(|_| v1::Backend { name: "X".repeat(10_000), ..Default::default() }).collect();
    let errors = Snapshot::try_from(raw).expect_err("full of mistakes");
    assert!(errors.len() <= 100 && errors.iter().all(|error| error.problem.len() < 500), "{}", errors.len());
}

#[test]
fn a_holder_of_endless_shorthand_is_refused_at_the_node_that_is_too_much_and_not_read_on() {
    let node = |key: String| v1::PermissionNode { key, value: true, ..Default::default() };
    let nodes = |count: usize| (0..count).map(|n| node(format!("{{1-250}}.{n}"))).chain([node(String::new())]).collect();
    let group = |count: usize| v1::PermissionGroup { name: "a".into(), nodes: nodes(count) };
    let errors = moonbridge_permissions::Group::try_from(&group(20_000)).expect_err("too much");
    assert_eq!(paths(&errors), BTreeSet::from(["nodes[200].key"]));
    let errors = moonbridge_permissions::Group::try_from(&group(200)).expect_err("no key");
    assert_eq!(paths(&errors), BTreeSet::from(["nodes[200].key"]));
    assert!(errors[0].problem.contains("empty"), "{errors:?}");
    let user = v1::PermissionUser { uuid: uuid::Uuid::nil().to_string(), nodes: nodes(201), ..Default::default() };
    assert!(moonbridge_permissions::User::try_from(&user).is_err());
}

#[test]
fn words_in_permission_settings_are_bounded() {
    let long = "x".repeat(257);
    let context = |key: &str, value: &str| v1::PermissionContext { key: key.into(), value: value.into() };
    let settings = v1::PermissionSettings {
        server: long.clone(),
        static_contexts: vec![context("region", &long), context(&long, "eu"), context("region", &long[..256])],
        prefix: Some(v1::MetaStack { middle_spacer: long.clone(), ..Default::default() }),
        ..Default::default()
    };
    let errors = moonbridge_permissions::Settings::try_from(&settings).expect_err("three words too long");
    let expected = ["server", "static_contexts[0].value", "static_contexts[1].key", "prefix.middle_spacer"];
    assert_eq!(paths(&errors), BTreeSet::from(expected));
}

#[test]
fn single_resources_are_validated_alike() {
    let errors =
        Backend::try_from(v1::Backend { name: "-a".into(), address: ":1".into(), ..Default::default() }).expect_err("two mistakes");
    assert_eq!(paths(&errors), BTreeSet::from(["name", "address"]));
    let errors = Route::try_from(v1::Route::default()).expect_err("two mistakes");
    assert_eq!(paths(&errors), BTreeSet::from(["host", "backends"]));
    let errors = Settings::try_from(v1::Settings { favicon: vec![1], ..Default::default() }).expect_err("no PNG");
    assert_eq!(paths(&errors), BTreeSet::from(["favicon"]));
    for host in ["*", "*.a", "a", "a.b", "*.b.c", "münchen.de", "::1", "my_host"] {
        let route = Route::try_from(v1::Route { host: host.into(), backends: vec!["a".into()], on_kick: 0 });
        assert_eq!(route.expect("a good host").host, host);
    }
    for host in ["", ".", "*.", "**", "a.*", "*a", "a..b", ".a", "a b", "http://a"] {
        let route = Route::try_from(v1::Route { host: host.into(), backends: vec!["a".into()], on_kick: 0 });
        assert_eq!(paths(&route.expect_err(host)), BTreeSet::from(["host"]), "{host:?}");
    }
}
