//! LuckPerms' exports are read, whatever is in them, and written as they are read.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use moonbridge_permissions::context::Contexts;
use moonbridge_permissions::format::{FormatError, Imported, luckperms};
use moonbridge_permissions::{Group, Kind, Node, Track, User};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

const ADA: &str = "6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11";

fn read(json: &Value) -> Imported {
    luckperms::read(json.to_string().as_bytes()).unwrap()
}

fn refused(json: &str) -> String {
    luckperms::read(json.as_bytes()).unwrap_err().to_string()
}

fn left_out(imported: &Imported) -> Vec<String> {
    imported.left_out.iter().map(|left_out| format!("{}: {}", left_out.path, left_out.problem)).collect()
}

fn write(imported: &Imported) -> String {
    let mut writer = luckperms::Writer::new(Vec::new(), "2026-01-02 03:04:05 UTC", &imported.groups, &imported.tracks).unwrap();
    for user in &imported.users {
        writer.user(user).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

/// The one node of the user Ada, whatever it is made of.
fn node(node: Value) -> Result<Node, String> {
    let mut imported = read(&json!({"users": {ADA: {"nodes": [node]}}}));
    match imported.left_out.pop() {
        Some(left_out) => Err(left_out.problem),
        None => Ok(imported.users.remove(0).nodes.remove(0)),
    }
}

#[test]
fn everything_of_an_export_is_read() {
    let imported = read(&json!({
        "metadata": {"generatedBy": "x", "generatedAt": "y"},
        "groups": {"Mod": {"nodes": [
            {"type": "inheritance", "key": "group.default", "value": true},
            {"type": "permission", "key": "a.b", "value": false, "expiry": 1_790_000_000, "context": {"world": ["hub", "lobby"], "server": "proxy"}},
        ]}},
        "tracks": {"Staff": {"groups": ["default", "Mod"]}},
        "users": {ADA: {"username": "Ada", "primaryGroup": "Mod", "nodes": []}},
        "somethingNew": [1, {"a": null}],
    }));
    assert_eq!(imported.left_out, []);
    let contexts = Contexts::of([("server", "proxy"), ("world", "hub"), ("world", "lobby")]).unwrap();
    let nodes = vec![
        Node::new("group.default", true, Contexts::none(), None).unwrap(),
        Node::new("a.b", false, contexts, Some(1_790_000_000)).unwrap(),
    ];
    assert_eq!(imported.groups, [Group::new("mod", nodes).unwrap()]);
    assert_eq!(imported.tracks, [Track::new("staff", ["default", "mod"]).unwrap()]);
    let ada = User {
        uuid: Uuid::parse_str(ADA).unwrap(),
        username: Some("Ada".to_owned()),
        primary_group: Some("mod".into()),
        nodes: Vec::new(),
    };
    assert_eq!(imported.users, [ada]);
}

#[test]
fn sections_and_parts_may_be_missing() {
    let imported = read(&json!({}));
    assert!(imported.groups.is_empty() && imported.tracks.is_empty() && imported.users.is_empty());
    let imported = read(&json!({"groups": {"vip": {}}, "users": {ADA: {}}, "tracks": {"t": {}}}));
    assert_eq!((imported.groups.len(), imported.users.len(), imported.tracks.len()), (1, 1, 1));
}

#[test]
fn the_web_editors_data_is_read() {
    let imported = read(&json!({
        "knownPermissions": ["a.b"],
        "permissionHolders": [
            {"nodes": [{"key": "a.b", "value": true}], "displayName": "Mods", "id": "Mod", "type": "group"},
            {"type": "USER", "id": ADA, "displayName": "Ada", "nodes": [{"key": "group.mod", "value": true}]},
            {"type": "user", "id": "00000000-0000-4000-8000-000000000001", "displayName": "00000000-0000-4000-8000-000000000001", "nodes": []},
            {"type": "clan", "id": "x", "nodes": []},
        ],
        "tracks": [{"type": "track", "id": "staff", "groups": ["mod"]}],
    }));
    assert_eq!(imported.groups.iter().map(|group| &**group.name()).collect::<Vec<_>>(), ["mod"]);
    assert_eq!(imported.tracks, [Track::new("staff", ["mod"]).unwrap()]);
    let users: Vec<_> = imported.users.iter().map(|user| (user.uuid.to_string(), user.username.as_deref(), user.nodes.len())).collect();
    assert_eq!(users, [("00000000-0000-4000-8000-000000000001".to_owned(), None, 0), (ADA.to_owned(), Some("Ada"), 1)]);
    assert_eq!(left_out(&imported), ["permissionHolders[3] (x): expected type group or user, got \"clan\""]);
}

#[test]
fn the_kind_of_a_node_follows_from_its_key() {
    let node = node(json!({"type": "permission", "key": "weight.5", "value": true})).unwrap();
    assert!(matches!(node.kind(), Kind::Weight(5)));
}

#[test]
fn values_are_read_as_luckperms_reads_them() {
    for (value, expected) in
        [(json!(true), true), (json!(false), false), (json!("true"), true), (json!("FALSE"), false), (Value::Null, true)]
    {
        assert_eq!(node(json!({"key": "a", "value": value})).unwrap().value(), expected, "{value}");
    }
    assert!(node(json!({"key": "a"})).unwrap().value(), "no value is true");
    for value in [json!(1), json!("yes"), json!([true]), json!({})] {
        let problem = node(json!({"key": "a", "value": value})).unwrap_err();
        assert!(problem.starts_with("value: expected true or false, got"), "{problem}");
    }
}

#[test]
fn expiries_are_seconds_and_0_is_never() {
    for (expiry, expected) in [(json!(0), None), (Value::Null, None), (json!(1_700_000_000), Some(1_700_000_000)), (json!("17"), Some(17))]
    {
        assert_eq!(node(json!({"key": "a", "expiry": expiry})).unwrap().expiry(), expected, "{expiry}");
    }
    for expiry in [json!(-1), json!(1.5), json!("soon"), json!(true), json!(u64::MAX)] {
        let problem = node(json!({"key": "a", "expiry": expiry})).unwrap_err();
        assert!(problem.starts_with("expiry: expected seconds since 1970, got"), "{problem}");
    }
}

#[test]
fn contexts_have_one_value_or_several() {
    for (context, expected) in [
        (json!({"world": "Hub"}), "world=hub"),
        (json!({"world": ["hub", "lobby", "hub"]}), "world=hub world=lobby"),
        (json!({"world": []}), ""),
        (json!({"level": 5, "night": true}), "level=5 night=true"),
        (json!({"server": "global", "world": "global"}), ""),
        (Value::Null, ""),
    ] {
        let node = node(json!({"key": "a", "context": context})).unwrap();
        let got: Vec<_> = node.contexts().iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(got.join(" "), expected, "{context}");
    }
    for context in [json!("world"), json!({"world": null}), json!({"world": {"is": "hub"}}), json!({"world": ""}), json!({"": "hub"})] {
        assert!(node(json!({"key": "a", "context": context})).is_err(), "{context}");
    }
}

#[test]
fn what_cannot_be_used_is_left_out_by_name_and_the_rest_is_not() {
    let imported = read(&json!({
        "groups": {
            "good": {"nodes": [{"key": "a"}, {"key": "r=["}, {"key": "b".repeat(201)}, {"value": true}, {"key": "c"}]},
            "two words": {"nodes": []},
        },
        "tracks": {"good": {"groups": ["good", "two words", "GOOD", "other"]}, "bad/track": {"groups": []}},
        "users": {
            ADA: {"username": "no name", "primaryGroup": "no group", "nodes": [{"key": "group.no group"}]},
            "ada": {"nodes": []},
        },
    }));
    assert_eq!(imported.groups.iter().map(|group| group.nodes().len()).collect::<Vec<_>>(), [2]);
    assert_eq!(imported.tracks, [Track::new("good", ["good", "other"]).unwrap()]);
    assert_eq!(imported.users, [User::unknown(Uuid::parse_str(ADA).unwrap())]);
    let paths: Vec<_> = imported.left_out.iter().map(|left_out| &*left_out.path).collect();
    let long = format!("groups.good.nodes[2] ({}…)", "b".repeat(60));
    assert_eq!(
        paths,
        [
            "groups.good.nodes[1] (r=[)",
            &*long,
            "groups.good.nodes[3] ()",
            "groups.two words",
            "tracks.bad/track",
            "tracks.good.groups[1]",
            "tracks.good.groups[2]",
            "users.6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11.nodes[0] (group.no group)",
            "users.6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11.username",
            "users.6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11.primaryGroup",
            "users.ada",
        ]
    );
}

#[test]
fn the_same_twice_is_refused_in_whatever_spelling() {
    let undashed = ADA.replace('-', "").to_uppercase();
    for (json, path) in [
        (format!(r#"{{"users": {{"{ADA}": {{}}, "{ADA}": {{}}}}}}"#), format!("users.{ADA}")),
        (format!(r#"{{"users": {{"{ADA}": {{}}, "{undashed}": {{}}}}}}"#), format!("users.{undashed}")),
        (r#"{"groups": {"vip": {}, "vip": {}}}"#.to_owned(), "groups.vip".to_owned()),
        (r#"{"groups": {"vip": {}, "VIP": {}}}"#.to_owned(), "groups.VIP".to_owned()),
        (r#"{"tracks": {"a": {}, "A": {}}}"#.to_owned(), "tracks.A".to_owned()),
        (r#"{"tracks": [{"id": "a"}, {"id": "A"}]}"#.to_owned(), "tracks.A".to_owned()),
        (
            r#"{"groups": {"vip": {}}, "permissionHolders": [{"type": "group", "id": "vip"}]}"#.to_owned(),
            "permissionHolders[0] (vip)".to_owned(),
        ),
    ] {
        match luckperms::read(json.as_bytes()) {
            Err(FormatError::Invalid { path: got, problem }) => {
                assert_eq!(got, path);
                assert!(problem.contains("is there twice"), "{problem}");
            }
            other => panic!("{json}: {other:?}"),
        }
    }
    assert!(refused(r#"{"groups": {}, "groups": {}}"#).contains("duplicate field `groups`"));
}

#[test]
fn what_is_no_export_is_refused_with_where() {
    for (json, says) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{\"groups\": {\n\"vip\": {\"nodes\": [", "EOF while parsing a list at line 2 column 18"),
        ("{\"users\": {\"a", "EOF while parsing a string at line 1 column 13"),
        ("{} {}", "trailing characters at line 1 column 4"),
        ("[1]", "invalid type: sequence, expected an object of groups, tracks and users"),
        ("\"text\"", "invalid type: string"),
        ("{\"groups\": 5}", "invalid type: integer `5`, expected entries by name at line 1 column 13"),
        ("{\"groups\": {\"vip\": {\"nodes\": {}}}}", "expected a list of nodes at line 1"),
        ("{\"groups\": {\"vip\": {\"nodes\": [5]}}}", "invalid type: integer `5`"),
        ("{\"users\": {\"x\": {\"username\": 5}}}", "invalid type: integer `5`, expected a string at line 1 column 31"),
    ] {
        let refused = refused(json);
        assert!(refused.starts_with("not a LuckPerms export: ") && refused.contains(says), "{json:?}: {refused}");
    }
}

#[test]
fn nesting_without_end_is_passed_over_without_nesting() {
    for deep in [r#"{"x": "#, r#"{"groups": {"a": {"nodes": [{"context": "#, r#"{"groups": {"a": {"nodes": [{"key": "#] {
        let refused = refused(&format!("{deep}{}", "[".repeat(100_000)));
        assert!(refused.contains("EOF while parsing a list"), "{refused}");
    }
    let whole = format!(r#"{{"key": "a", "context": {}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    let imported = luckperms::read(format!(r#"{{"groups": {{"a": {{"nodes": [{whole}, {{"key": "b"}}]}}}}}}"#).as_bytes()).unwrap();
    assert_eq!((imported.groups[0].nodes().len(), imported.left_out.len()), (1, 1));
}

#[test]
fn a_node_has_no_more_contexts_than_any_needs() {
    let worlds = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>();
    assert_eq!(node(json!({"key": "a", "context": {"world": worlds(500)}})).unwrap().contexts().len(), 500);
    for context in [
        json!({"world": worlds(501)}),
        json!({"world": vec!["hub"; 100_000]}),
        json!({"world": worlds(300), "server": worlds(300)}),
        Value::Object(worlds(501).into_iter().map(|key| (key, json!("x"))).collect()),
    ] {
        let problem = node(json!({"key": "a", "context": context})).unwrap_err();
        assert!(problem.contains("at most 500 contexts") || problem.contains("more than a node may have"), "{problem}");
    }
}

#[test]
fn a_holder_has_no_more_shorthand_and_expressions_than_any_needs() {
    let many = |start: &str, count: usize| (0..count).map(|n| json!({"key": format!("{start}{n}")})).collect::<Vec<_>>();
    let a = [many("{1-250}.", 201), many("z", 2)].concat();
    let imported = read(&json!({
        "groups": {"a": {"nodes": a}, "b": {"nodes": many("r=", 1_001)}},
        "users": {ADA: {"nodes": many("{1-250}.", 200)}},
    }));
    assert_eq!(imported.groups.iter().map(|group| group.nodes().len()).collect::<Vec<_>>(), [202, 1_000]);
    assert_eq!(imported.users[0].nodes.len(), 200);
    assert_eq!(
        left_out(&imported),
        [
            "groups.a.nodes[200] ({1-250}.200): with it, shorthand would stand for more than 50000 permissions: write fewer of them, or wildcards",
            "groups.b.nodes[1000] (r=1000): with it, there would be more than 1000 different regular expressions, of which a large one counts \
             for eight: write fewer of them, or wildcards",
        ]
    );
}

#[test]
fn nor_has_a_file_also_in_what_is_left_out() {
    let nodes = |start: &str, count: usize| Value::Array((0..count).map(|n| json!({"key": format!("{start}{n}")})).collect());
    let refused_of_one = refused(&json!({"groups": {"a": {"nodes": nodes("{0-9}{0-9}{0-9}{0-9}", 2_000)}}}).to_string());
    assert!(refused_of_one.contains("more than 2000000 permissions"), "{refused_of_one}");
    let holders: serde_json::Map<_, _> = (0..11).map(|n| (format!("g{n}"), json!({"nodes": nodes(&format!("r={n}x"), 1_000)}))).collect();
    let refused = refused(&json!({"groups": holders}).to_string());
    assert!(refused.contains("more than 10000 different regular expressions"), "{refused}");
}

#[test]
fn what_is_left_out_without_end_is_counted() {
    let bad = format!("[{}{{}}]", "{},".repeat(60_000));
    let json = format!(r#"{{"groups": {{"a": {{"nodes": {bad}}}, "b": {{"nodes": {bad}}}}}, "users": {{"nobody": {{}}}}}}"#);
    let imported = luckperms::read(json.as_bytes()).unwrap();
    assert_eq!(imported.left_out.len(), 100_001);
    assert_eq!(left_out(&imported).last().unwrap(), "elsewhere: 20003 more, which are not listed");
}

#[test]
fn a_track_of_very_many_groups_is_left_out() {
    let names: Vec<_> = (0..100_000).map(|n| format!("g{n}")).collect();
    let imported = read(&json!({"tracks": {"long": {"groups": names}, "short": {"groups": ["a"]}}}));
    assert_eq!(left_out(&imported), ["tracks.long: expected at most 100 groups"]);
    assert_eq!(imported.tracks, [Track::new("short", ["a"]).unwrap()]);
}

#[test]
fn an_export_is_written_a_holder_a_line() {
    let imported = read(&json!({
        "groups": {"mod": {"nodes": [
            {"key": "group.default"}, {"key": "prefix.5.[\"Mod\"] "}, {"key": "suffix.5.~"}, {"key": "meta.a.b"}, {"key": "weight.5"},
            {"key": "displayname.Müller"}, {"key": "r=a\\d"}, {"key": "a.b", "value": false},
        ]}},
        "tracks": {"staff": {"groups": ["default", "mod"]}},
        "users": {
            ADA: {"username": "Ada", "primaryGroup": "mod", "nodes": [
                {"key": "a", "expiry": 17, "context": {"world": ["lobby", "hub"], "server": "proxy"}},
            ]},
            "00000000-0000-4000-8000-000000000001": {"primaryGroup": "Default"},
        },
    }));
    let expected = r#"{
"metadata": {"generatedBy":"moonbridge","generatedAt":"2026-01-02 03:04:05 UTC"},
"groups": {
"mod": {"nodes":[{"type":"inheritance","key":"group.default","value":true},{"type":"prefix","key":"prefix.5.[\"Mod\"] ","value":true},{"type":"suffix","key":"suffix.5.~","value":true},{"type":"meta","key":"meta.a.b","value":true},{"type":"weight","key":"weight.5","value":true},{"type":"display_name","key":"displayname.Müller","value":true},{"type":"regex_permission","key":"r=a\\d","value":true},{"type":"permission","key":"a.b","value":false}]}
},
"tracks": {
"staff": {"groups":["default","mod"]}
},
"users": {
"00000000-0000-4000-8000-000000000001": {"nodes":[]},
"6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11": {"username":"Ada","primaryGroup":"mod","nodes":[{"type":"permission","key":"a","value":true,"expiry":17,"context":{"server":"proxy","world":["hub","lobby"]}}]}
}
}
"#;
    assert_eq!(write(&imported), expected);
}

#[test]
fn an_export_of_nothing_is_one() {
    let written = write(&Imported::default());
    assert_eq!(write(&luckperms::read(written.as_bytes()).unwrap()), written);
}

#[test]
fn a_networks_export_is_read_whole_and_written_as_it_was() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testing/vectors/permissions/luckperms-export.json");
    let file = std::fs::read(path).unwrap();
    let imported = luckperms::read(&*file).unwrap();
    assert_eq!(left_out(&imported), Vec::<String>::new());
    assert_eq!((imported.groups.len(), imported.tracks.len(), imported.users.len()), (12, 3, 40));
    assert!(imported.users.is_sorted_by_key(|user| user.uuid));
    let theirs: Value = serde_json::from_slice(&file).unwrap();
    let ours: Value = serde_json::from_str(&write(&imported)).unwrap();
    for section in ["groups", "tracks", "users"] {
        let (theirs, ours) = (theirs[section].as_object().unwrap(), ours[section].as_object().unwrap());
        assert!(theirs.keys().eq(ours.keys()), "{section}");
        for (name, entry) in theirs {
            assert_eq!(ours[name], *entry, "{section}.{name}");
        }
    }
}

fn contexts() -> impl Strategy<Value = Contexts> {
    let pair = ("[a-z]{1,3}", "[^\\s]{1,4}");
    vec(pair, 0..4).prop_map(|pairs| {
        let mut contexts = Contexts::none();
        for (key, value) in pairs {
            contexts.add(&key, &value).unwrap();
        }
        contexts
    })
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let key = prop_oneof![
        "[a-z]{1,4}(\\.[a-z*]{1,4}){0,3}",
        "group\\.[a-z]{1,8}",
        "(prefix|suffix)\\.-?[0-9]{1,3}\\.\\PC{0,12}",
        "meta\\.[a-z]{1,5}\\.\\PC{1,8}",
        "weight\\.[0-9]{1,3}",
        "displayname\\.\\PC{1,12}",
        "r=[a-z]{1,4}\\.\\*",
        "\\PC{1,30}",
    ];
    let node = (key, any::<bool>(), contexts(), option::of(1..4_000_000_000_i64));
    vec(node.prop_filter_map("no node", |(key, value, contexts, expiry)| Node::new(&key, value, contexts, expiry).ok()), 0..8)
}

fn imported() -> impl Strategy<Value = Imported> {
    let name = || "[a-z0-9_ä-]{1,8}";
    let user = (option::of("[A-Za-z0-9_]{1,16}"), option::of(name()), nodes());
    (btree_map(name(), nodes(), 0..5), btree_map(name(), btree_set(name(), 0..5), 0..4), btree_map(any::<u128>(), user, 0..5)).prop_map(
        |(groups, tracks, users)| Imported {
            groups: groups.into_iter().map(|(name, nodes)| Group::new(&name, nodes).unwrap()).collect(),
            tracks: tracks.into_iter().map(|(name, groups)| Track::new(&name, groups.iter().map(|group| &**group)).unwrap()).collect(),
            users: users
                .into_iter()
                .map(|(uuid, (username, primary_group, nodes))| User {
                    uuid: Uuid::from_u128(uuid),
                    username,
                    primary_group: primary_group.filter(|group| group != "default").map(Into::into),
                    nodes,
                })
                .collect(),
            left_out: Vec::new(),
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(imported in imported()) {
        let read = luckperms::read(write(&imported).as_bytes()).unwrap();
        prop_assert_eq!(read.left_out, []);
        prop_assert_eq!(read.groups, imported.groups);
        prop_assert_eq!(read.tracks, imported.tracks);
        prop_assert_eq!(read.users, imported.users);
    }

    #[test]
    fn nothing_makes_it_panic(mut json in imported().prop_map(|imported| write(&imported).into_bytes()), place in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let place = place.index(json.len());
        json[place] = byte;
        if cut {
            json.truncate(place);
        }
        if let Err(error) = luckperms::read(&*json) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
