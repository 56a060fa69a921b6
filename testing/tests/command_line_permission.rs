//! `moonbridge permission`: what it says, in words and for programs, and how it ends.

use std::path::Path;

use moonbridge_testing::network::{Cli, Plane, Ran, Up, command, folder};
use moonbridge_testing::process::{Process, SOON};
use serde_json::{Value, json};
use tempfile::TempDir;

const ADA: &str = "6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11";

/// A replica alone, with its admin and a folder for files.
async fn alone() -> (Plane, Cli, TempDir) {
    let folder = folder();
    let replica = Plane::replica("alone", &format!("[store.embedded]\ndata_dir = {:?}\n", folder.path().join("store"))).await;
    let cli = replica.cli();
    (replica, cli, folder)
}

/// Runs `permission` with these words, which may be quoted with single quotes; to a good end.
async fn ok(cli: &Cli, words: &str) -> Ran {
    run(cli, words, 0).await
}

async fn run(cli: &Cli, words: &str, code: i32) -> Ran {
    let mut arguments = vec!["permission"];
    for (index, part) in words.split('\'').enumerate() {
        match index % 2 {
            0 => arguments.extend(part.split_whitespace()),
            _ => arguments.push(part),
        }
    }
    let ran = cli.run(&arguments).await;
    assert_eq!(ran.code, code, "{words}: {ran:?}");
    ran
}

async fn json(cli: &Cli, words: &str) -> Value {
    ok(cli, &format!("{words} -o json")).await.json()
}

/// What the answer says but for the revision, which it ends with.
fn said(ran: &Ran) -> &str {
    let (words, revision) = ran.stdout.trim_end().rsplit_once(", revision ").unwrap_or_else(|| panic!("no revision: {ran:?}"));
    assert!(revision.parse::<u64>().is_ok_and(|revision| revision > 0), "{ran:?}");
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_says_what_is_now() {
    let (_replica, cli, _folder) = alone().await;
    let ran = ok(&cli, "group create Mod").await;
    assert_eq!(said(&ran), "group mod is there");
    for (words, expected) in [
        ("group weight mod -50", "mod: weight -50"),
        ("group weight mod 50", "mod: weight 50"),
        ("group displayname mod 'The Mods'", "mod: display name \"The Mods\""),
        ("group meta add-prefix mod 50 '&a[V.I.P] '", "mod: prefix \"&a[V.I.P] \" of priority 50"),
        ("group set mod moonbridge.command.*", "mod: moonbridge.command.* = true"),
        ("group parent add mod default", "mod: inherits default"),
    ] {
        assert_eq!(said(&ok(&cli, words).await), expected, "{words}");
    }
    let user = format!("user {ADA}");
    for (words, expected) in [
        ("set Fly.High false --context World=Lobby --until 2099-12-31", "Fly.High = false (world=lobby) until 2099-12-31T00:00:00Z"),
        ("set -- -old.node", "-old.node = true"),
        ("unset -- -old.node", "-old.node is not set any more"),
        ("parent add mod", "inherits mod"),
        ("primary mod", "primary group mod"),
        ("meta set home-limit 5.5", "meta home-limit = 5.5"),
        ("meta unset home-limit", "meta home-limit is not set any more"),
        ("meta add-suffix 1 x --context world=a --context world=b", "suffix \"x\" of priority 1 (world=a, world=b)"),
        ("meta remove-suffix 1 x --context world=b --context world=a", "no suffix \"x\" of priority 1 (world=a, world=b) any more"),
    ] {
        let ran = ok(&cli, &format!("{user} {words}")).await;
        assert_eq!(said(&ran), format!("{ADA}: {expected}"), "{words}");
    }

    let group = json(&cli, "group info mod").await;
    assert_eq!((&group["name"], &group["weight"], &group["display_name"]), (&json!("mod"), &json!(50), &json!("The Mods")));
    let list = json(&cli, "group list").await;
    let listed = list.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "mod")).expect("it is listed");
    assert_eq!((&listed["parents"], &listed["nodes"]), (&json!(["default"]), &json!(group["nodes"].as_array().map(Vec::len))));
    assert_eq!(listed["revision"], group["revision"]);
    // With -o json a change prints the whole user, as info does.
    let changed = json(&cli, &format!("{user} set another.node")).await;
    assert_eq!(changed, json(&cli, &format!("{user} info")).await);
    let mut nodes: Vec<Value> = changed["nodes"].as_array().expect("nodes").clone();
    nodes.sort_by_key(|node| node["key"].to_string());
    let node = |key: &str, value: bool, contexts: Value, expiry: Value, kind: &str| json!({ "key": key, "value": value, "contexts": contexts, "expiry": expiry, "kind": kind });
    assert_eq!(
        nodes,
        [
            node("Fly.High", false, json!(["world=lobby"]), json!("2099-12-31T00:00:00Z"), "permission"),
            node("another.node", true, json!([]), Value::Null, "permission"),
            node("group.default", true, json!([]), Value::Null, "inheritance"),
            node("group.mod", true, json!([]), Value::Null, "inheritance"),
        ]
    );
    assert_eq!((&changed["uuid"], &changed["primary_group"]), (&json!(ADA), &json!("mod")));
    let table = ok(&cli, &format!("{user} info")).await.stdout;
    assert!(table.contains("primary_group  mod") && table.contains("KEY") && table.contains("false"), "{table}");

    let members = json(&cli, "group members mod").await;
    assert_eq!(members, json!([{ "kind": "user", "name": null, "uuid": ADA, "contexts": [], "expiry": null }]));
    let found = json(&cli, "search another.node").await;
    assert_eq!(
        (found.as_array().map(Vec::len), &found[0]["key"], &found[0]["matched_by"]),
        (Some(1), &json!("another.node"), &json!("exact"))
    );

    let ran = ok(&cli, &format!("{user} clear permissions --context world=lobby")).await;
    assert_eq!(said(&ran), format!("{ADA}: no permissions (world=lobby) any more"));
    assert_eq!(json(&cli, &format!("{user} info")).await["nodes"].as_array().map(Vec::len), Some(3));
    ok(&cli, &format!("{user} clear")).await;
    assert_eq!(json(&cli, &format!("{user} info")).await["nodes"], json!([]));
    assert_eq!(ok(&cli, "group delete mod").await.stdout.trim_end(), "group mod is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_node_that_is_there_is_dealt_with_as_asked() {
    let (_replica, cli, _folder) = alone().await;
    let set = |more: &str| format!("user {ADA} set a.b {more}");
    ok(&cli, &set("--until 2090-01-01")).await;
    let ran = run(&cli, &set("--until 2091-01-01 --if-exists deny"), 1).await;
    assert!(ran.stderr.contains("a.b"), "{ran:?}");
    let ran = ok(&cli, &set("--until 2091-01-01 --if-exists replace")).await;
    assert!(said(&ran).ends_with("until 2091-01-01T00:00:00Z"), "{ran:?}");
    // What is told is what is there now, not what was asked for.
    let ran = ok(&cli, &set("--for 365d --if-exists accumulate")).await;
    assert!(said(&ran).contains("until 209") && !said(&ran).contains("2091-01-01"), "{ran:?}");
    let ran = run(&cli, &set("--until 2020-01-01"), 2).await;
    assert!(ran.stderr.contains("past"), "{ran:?}");
    ok(&cli, &format!("user {ADA} unset a.b")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_the_answer_in_words_and_by_its_exit_code() {
    let (_replica, cli, _folder) = alone().await;
    ok(&cli, "group create mod").await;
    ok(&cli, "group set mod a.* --context world=lobby").await;
    ok(&cli, &format!("user {ADA} parent add mod")).await;
    ok(&cli, &format!("user {ADA} set a.no false")).await;
    let check = |more: &str| format!("check {ADA} {more}");
    assert_eq!(ok(&cli, &check("a.b --context world=lobby")).await.stdout, "true (server=proxy, world=lobby)\n");
    assert_eq!(run(&cli, &check("a.b"), 1).await.stdout, "undefined (server=proxy)\n");
    assert_eq!(run(&cli, &check("a.no"), 1).await.stdout, "false (server=proxy)\n");
    assert_eq!(run(&cli, &check("a.b --exact"), 1).await.stdout, "undefined (in no context)\n");
    let ran = run(&cli, &check("a.b --live"), 1).await;
    assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "nobody of that UUID is online: {ran:?}");

    let answer = json(&cli, &check("a.b --context world=lobby")).await;
    assert_eq!((&answer["answer"], &answer["contexts"]), (&json!("true"), &json!(["server=proxy", "world=lobby"])));
    assert_eq!(answer["primary_group"], "mod");
    let explained = json(&cli, &check("a.b --context world=lobby --explain")).await;
    assert_eq!((&explained["answer"], &explained["matched_by"], &explained["key"]), (&json!("true"), &json!("wildcard"), &json!("a.*")));
    assert!(explained["path"].to_string().contains("group mod") && explained["holders"].to_string().contains("group mod"), "{explained}");
    let text = run(&cli, &check("a.no --context world=lobby --explain"), 1).await.stdout;
    for words in ["false (server=proxy, world=lobby)", "decided by  a.no = false (exact)", "looked at", "Also speak of it", "a.*"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tracks_lead_up_and_down_and_a_revision_protects() {
    let (_replica, cli, _folder) = alone().await;
    for group in ["helper", "mod", "admin"] {
        ok(&cli, &format!("group create {group}")).await;
    }
    assert_eq!(said(&ok(&cli, "track create staff helper").await), "staff: helper");
    assert_eq!(said(&ok(&cli, "track append staff admin").await), "staff: helper > admin");
    assert_eq!(said(&ok(&cli, "track insert staff mod 2").await), "staff: helper > mod > admin");
    for (words, expected) in
        [("insert staff mod 1", "already"), ("remove staff default", "not on it"), ("append nowhere mod", "track list")]
    {
        let ran = run(&cli, &format!("track {words}"), 1).await;
        assert!(ran.stderr.contains(expected), "{words}: {ran:?}");
    }
    let user = format!("user {ADA}");
    let promoted = json(&cli, &format!("{user} promote staff")).await;
    assert_eq!((&promoted["from"], &promoted["to"]), (&Value::Null, &json!("helper")));
    assert_eq!((&promoted["uuid"], &promoted["nodes"][1]["key"]), (&json!(ADA), &json!("group.helper")));
    assert_eq!(said(&ok(&cli, &format!("{user} promote staff")).await), format!("{ADA}: on mod now, before on helper"));
    ok(&cli, &format!("{user} promote staff")).await;
    let ran = run(&cli, &format!("{user} promote staff"), 1).await;
    assert!(ran.stderr.contains("staff"), "{ran:?}");
    assert_eq!(said(&ok(&cli, &format!("{user} demote staff")).await), format!("{ADA}: on mod now, before on admin"));

    let track = json(&cli, "track info staff").await;
    let old = track["revision"].to_string();
    assert_eq!(track["groups"], json!(["helper", "mod", "admin"]));
    ok(&cli, &format!("track remove staff helper --revision {old}")).await;
    let now = json(&cli, "track info staff").await;
    let ran = run(&cli, &format!("track remove staff mod --revision {old}"), 1).await;
    assert!(ran.stderr.contains(&now["revision"].to_string()), "{ran:?}");
    assert_eq!(json(&cli, "track list").await, json!([now]));
    ok(&cli, "track delete staff").await;
    assert_eq!(json(&cli, "track list").await, json!([]));
}

/// Each sets what it was told to, on top of what the others did.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_set_at_the_same_moment_are_all_set() {
    let (_replica, cli, _folder) = alone().await;
    let set = async |key: usize| ok(&cli, &format!("settings set static-contexts.k{key}=v")).await;
    tokio::join!(set(0), set(1), set(2), set(3), set(4), set(5));
    let settings = json(&cli, "settings show").await;
    for key in 0..6 {
        assert_eq!(settings[format!("static-contexts.k{key}")], "v", "{settings}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_where_it_is() {
    let (_replica, cli, _folder) = alone().await;
    ok(&cli, "group create g1").await;
    ok(&cli, &format!("user {ADA} parent add g1 --context world=lobby")).await;
    let ran = run(&cli, &format!("user {ADA} parent remove g1"), 1).await;
    assert!(ran.stderr.contains("no group.g1 in these contexts; there is one: world=lobby"), "{ran:?}");
    ok(&cli, &format!("user {ADA} parent remove g1 --context world=lobby")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_have_the_names_of_luckperms() {
    let (_replica, cli, _folder) = alone().await;
    let before = json(&cli, "settings show").await;
    assert_eq!((&before["server"], &before["apply-sponge-implicit-wildcards"]), (&json!("proxy"), &json!("false")));
    let ran = run(&cli, "settings set server=hub apply-regex=perhaps no-such=1", 2).await;
    assert!(ran.stderr.contains("apply-regex") && ran.stderr.contains("no-such"), "{ran:?}");
    assert_eq!(json(&cli, "settings show").await, before);
    let set = "settings set server=hub static-contexts.region=eu 'meta-formatting.prefix.middle-spacer= | '";
    let after = json(&cli, set).await;
    assert_eq!((&after["server"], &after["meta-formatting.prefix.middle-spacer"]), (&json!("hub"), &json!(" | ")));
    assert_eq!(after["temporary-add-behaviour"], before["temporary-add-behaviour"]);
    assert_eq!(run(&cli, &format!("check {ADA} a.b"), 1).await.stdout, "undefined (region=eu, server=hub)\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_names_what_it_leaves_out_and_an_export_is_read_again() {
    let (_replica, cli, folder) = alone().await;
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file in a new folder");
        path.to_str().expect("a plain path").to_owned()
    };
    let nodes = json!([{ "key": "r=(", "value": true }, { "key": "a.b", "value": true }]);
    let path = file("in.json", &json!({ "users": { ADA: { "username": "Ada", "nodes": nodes } } }).to_string());
    let dry = ok(&cli, &format!("import {path} --dry-run")).await;
    assert!(dry.stdout.contains("(Ada)") && dry.stdout.contains("a dry run: nothing was changed"), "{dry:?}");
    for told in [&dry.stdout, &dry.stderr] {
        assert!(told.contains("nodes[0]") && told.contains("r=("), "{dry:?}");
    }
    run(&cli, "user Ada info", 1).await;
    let report = json(&cli, &format!("import {path}")).await;
    assert_eq!((&report["dry_run"], report["left_out"].as_array().map(Vec::len)), (&json!(false), Some(1)));
    assert!(report["revision"].as_u64() > Some(0), "{report}");
    let users = report["counts"].as_array().and_then(|counts| counts.iter().find(|count| count["what"] == "users")).expect("users");
    assert_eq!((&users["added"], &users["removed"]), (&json!(1), &json!(0)));
    ok(&cli, "check Ada a.b").await;

    let nothing = file("nothing.json", &json!({ "groups": { "two words": { "nodes": [] } } }).to_string());
    let ran = run(&cli, &format!("import {nothing} --replace"), 1).await;
    assert!(ran.stderr.contains("two words") && ran.stderr.contains("nothing"), "{ran:?}");

    let config = file(
        "config.yml",
        &format!("permissions:\n  mod: [bungeecord.server.vip]\ngroups:\n  ada: [mod]\n  Nobody: [mod]\n  {ADA}: [mod]\n"),
    );
    let ran = ok(&cli, &format!("import {config}")).await;
    assert!(ran.stderr.contains("groups.Nobody"), "{ran:?}");
    assert!(!ran.stderr.contains("groups.ada"), "{ran:?}");
    ok(&cli, "check Ada moonbridge.server.vip").await;

    let out = folder.path().join("out.json");
    let ran = ok(&cli, &format!("export {}", out.display())).await;
    assert!(ran.stdout.contains("users: 1"), "{ran:?}");
    let text = std::fs::read_to_string(&out).expect("it is there");
    let stdout = ok(&cli, "export -").await;
    let sections = |text: &str| {
        let mut all: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        all.as_object_mut().expect("an object").remove("metadata").expect("metadata");
        all
    };
    assert_eq!(sections(&stdout.stdout), sections(&text));
    assert_eq!(sections(&text)["users"][ADA]["username"], "Ada");
    let unchanged = json(&cli, &format!("import {} --replace", out.display())).await;
    for count in unchanged["counts"].as_array().expect("counts") {
        assert_eq!([&count["added"], &count["changed"], &count["removed"]], [&json!(0); 3], "{unchanged}");
    }
    let ran = run(&cli, "export /no/such/folder/out.json", 1).await;
    assert!(ran.stderr.contains("/no/such/folder/out.json"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_who_is_online_is_asked_where_it_is() {
    let up = Up::start(&["--demo"]).await;
    let state = folder();
    let player = probe(state.path(), &up.listen.to_string());
    player.line("the world", |line| line.contains("in-world").then_some(())).await;
    let rows = up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    let world = format!("world={}", rows[0]["backend"].as_str().expect("it is on one"));
    // Found by its name alone, in any case: it has been here.
    ok(&up.cli, &format!("user alice set a.b --context {world}")).await;
    assert_eq!(ok(&up.cli, "check ALICE a.b").await.stdout, format!("true (server=proxy, {world})\n"));
    let live = run(&up.cli, "check alice x.y --live -o json", 1).await.json();
    assert_eq!((&live["answer"], live["contexts"].to_string().contains(&world)), (&json!("undefined"), true), "{live}");
    // The node learns of a change within a moment.
    let told = async { while up.cli.run(&["permission", "check", "Alice", "a.b", "--live"]).await.code != 0 {} };
    tokio::time::timeout(SOON, told).await.expect("the session has the change");
}

fn probe(state: &Path, server: &str) -> Process {
    let mut probe = command(state);
    probe.args(["probe", server, "--name", "Alice", "--hold", "10m"]);
    Process::start("probe", probe)
}
