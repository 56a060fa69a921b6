//! What BungeeCord's `config.yml` comes to here. How it is read as YAML is for who has a YAML reader.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use moonbridge_permissions::format::Imported;
use moonbridge_permissions::format::bungeecord::{convert, read};
use moonbridge_permissions::{Answer, Contexts, Groups, Settings, Tracks, User, resolve};
use serde_json::{Value, json};
use uuid::Uuid;

const ADA: Uuid = Uuid::from_u128(1);
const ALAN: Uuid = Uuid::from_u128(2);

fn converted(config: Value) -> Imported {
    let config = read(config, usize::MAX).unwrap();
    convert(&config, |name| match name {
        "Ada" => Some(ADA),
        "Alan" => Some(ALAN),
        _ => None,
    })
    .unwrap()
}

fn keys(imported: &Imported, group: &str) -> Vec<String> {
    let group = imported.groups.iter().find(|has| &**has.name() == group).unwrap();
    group.nodes().iter().map(|node| format!("{}{}", if node.value() { "" } else { "-" }, node.key())).collect()
}

fn user_keys(user: &User) -> Vec<&str> {
    user.nodes.iter().map(|node| &**node.key()).collect()
}

#[test]
fn permissions_are_taken_as_they_are_and_by_their_name_here() {
    let imported =
        converted(json!({"permissions": {"Admin": ["a.b", "bungeecord.server.build", "-bungeecord.command.end", "bungeecord.command.*"]}}));
    assert_eq!(imported.left_out, []);
    assert_eq!(
        keys(&imported, "admin"),
        [
            "a.b",
            "bungeecord.server.build",
            "moonbridge.server.build",
            "-bungeecord.command.end",
            "-moonbridge.command.end",
            "bungeecord.command.*",
            "moonbridge.command.*"
        ]
    );
}

#[test]
fn everybody_has_the_default_group() {
    let imported = converted(json!({"groups": {"Ada": ["admin"]}}));
    assert_eq!(
        imported.groups.iter().map(|group| &**group.name()).collect::<Vec<_>>(),
        ["admin", "default"],
        "groups that are only named, too"
    );
    assert_eq!(user_keys(&imported.users[0]), ["group.admin", "group.default"]);
    assert_eq!(imported.users[0].username.as_deref(), Some("Ada"));
}

#[test]
fn name_and_uuid_are_one_player() {
    let imported = converted(json!({"groups": {"Ada": ["b", "B"], ADA.to_string(): ["a", "b"], ALAN.to_string(): []}}));
    assert_eq!(imported.users.iter().map(|user| user.uuid).collect::<Vec<_>>(), [ADA, ALAN]);
    let mut ada = user_keys(&imported.users[0]);
    ada.sort_unstable();
    assert_eq!((ada, imported.users[0].username.as_deref()), (vec!["group.a", "group.b", "group.default"], Some("Ada")));
    assert_eq!((user_keys(&imported.users[1]), imported.users[1].username.as_deref()), (vec!["group.default"], None));
}

#[test]
fn what_cannot_be_taken_over_is_named() {
    let imported = converted(json!({
        "permissions": {"two words": ["a"], "good": ["a", "b".repeat(201), "-", "c"]},
        "groups": {"Nobody": ["good"], "Ada": ["two words", "good"]},
    }));
    let paths: Vec<_> = imported.left_out.iter().map(|left_out| &*left_out.path).collect();
    let long = format!("permissions.good[1] ({}…)", "b".repeat(60));
    assert_eq!(paths, [&*long, "permissions.good[2] ()", "permissions.two words", "groups.Ada[0]", "groups.Nobody"]);
    assert_eq!(keys(&imported, "good"), ["a", "c"]);
    assert_eq!(imported.users.iter().map(|user| user.uuid).collect::<Vec<_>>(), [ADA]);
}

#[test]
fn what_is_empty_in_yaml_is_empty() {
    let imported = converted(json!({"permissions": {"empty": null}, "groups": null}));
    assert_eq!(keys(&imported, "empty"), Vec::<String>::new());
    assert!(converted(json!({})).users.is_empty());
}

#[test]
fn what_is_twice_is_taken_once_also_in_two_spellings_and_very_long_lists() {
    let many: Vec<_> = (0..100_000).map(|n| format!("a.{}", n % 50_000)).collect();
    let imported = converted(json!({"permissions": {"Admin": ["a", "-a", "a"], "admin": ["a", "b"], "many": many}}));
    assert_eq!(keys(&imported, "admin"), ["a", "-a", "b"]);
    assert_eq!(keys(&imported, "many").len(), 50_000);
    let groups: Vec<_> = (0..50_000).map(|n| format!("g{n}")).collect();
    let imported = converted(json!({"groups": {"Ada": groups, ADA.to_string(): groups}}));
    assert_eq!(imported.users[0].nodes.len(), 50_001);
}

#[test]
fn shorthand_is_bounded_in_a_group_and_in_a_file() {
    let many = |count: usize| (0..count).map(|n| format!("{{1-250}}.{n}")).collect::<Vec<_>>();
    let imported = converted(json!({"permissions": {"a": many(201), "b": many(2)}}));
    assert_eq!(imported.groups.iter().map(|group| group.nodes().len()).collect::<Vec<_>>(), [200, 2, 0]);
    assert_eq!(imported.left_out.iter().map(|left_out| &*left_out.path).collect::<Vec<_>>(), ["permissions.a[200] ({1-250}.200)"]);
    let config = read(json!({"permissions": {"a": many(8_001)}}), usize::MAX).unwrap();
    let refused = convert(&config, |_| None).unwrap_err().to_string();
    assert!(refused.starts_with("permissions.a[8000] ({1-250}.8000): with it, shorthand would stand for more than"), "{refused}");
}

#[test]
fn there_is_no_more_in_it_than_its_text_can_hold() {
    let config = || json!({"permissions": {"a": ["b", "c"]}});
    assert_eq!(read(config(), 10).unwrap().permissions["a"], ["b", "c"]);
    assert!(read(config(), 8).unwrap_err().to_string().contains("aliases repeat what is in it"));
    for twice in [r#"{"groups": {}, "groups": {}}"#, r#"{"permissions": {}, "permissions": null}"#] {
        let refused = read(&mut serde_json::Deserializer::from_str(twice), 100).unwrap_err().to_string();
        assert!(refused.contains("duplicate field"), "{refused}");
    }
}

#[test]
fn the_answers_are_bungeecords() {
    let imported = converted(json!({
        "permissions": {"default": ["bungeecord.command.list"], "admin": ["bungeecord.server.build", "-fly"]},
        "groups": {"Ada": ["admin"]},
    }));
    let groups: Groups = imported.groups.into_iter().map(|group| (group.name().to_string(), group.into())).collect();
    let check = |user: &User, permission: &str| {
        resolve(user, &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0).check(permission)
    };
    let (ada, stranger) = (&imported.users[0], &User::unknown(ALAN));
    for (user, permission, answer) in [
        (ada, "moonbridge.server.build", Answer::True),
        (ada, "bungeecord.server.build", Answer::True),
        (ada, "moonbridge.command.list", Answer::True),
        (ada, "fly", Answer::False),
        (ada, "moonbridge.server.other", Answer::Undefined),
        (stranger, "moonbridge.command.list", Answer::True),
        (stranger, "moonbridge.server.build", Answer::Undefined),
    ] {
        assert_eq!(check(user, permission), answer, "{} {permission}", user.uuid);
    }
}
