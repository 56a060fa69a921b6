//! What BungeeCord's `config.yml` comes to here. How it is read as YAML is for who has a YAML reader.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use moonbridge_permissions::format::Imported;
use moonbridge_permissions::format::bungeecord::{Config, convert};
use moonbridge_permissions::{Answer, Contexts, Groups, Settings, Tracks, User, resolve};
use serde_json::{Value, json};
use uuid::Uuid;

const ADA: Uuid = Uuid::from_u128(1);
const ALAN: Uuid = Uuid::from_u128(2);

fn converted(config: Value) -> Imported {
    let config: Config = serde_json::from_value(config).unwrap();
    convert(&config, |name| match name {
        "Ada" => Some(ADA),
        "Alan" => Some(ALAN),
        _ => None,
    })
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
