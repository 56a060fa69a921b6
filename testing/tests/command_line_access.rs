//! The command's part in who may call and who changed what: tokens, the audit, restricted backends.

use std::path::{Path, PathBuf};

use moonbridge_testing::network::{Ran, Up};
use serde_json::{Value, json};

/// What was printed, as a file.
fn keep(folder: &Path, name: &str, ran: &Ran) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, &ran.stdout).expect("a file");
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_token_is_a_file_that_works_until_it_is_revoked() {
    let up = Up::start(&["--backend", "lobby=127.0.0.1:1"]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let made = up.cli.run(&["token", "create", "looker", "--role", "viewer"]).await.ended(0);
    let secret = made.stdout.trim_end().to_owned();
    assert!(secret.starts_with("mb_") && secret.len() == 67 && made.stdout == format!("{secret}\n"), "nothing else on stdout: {made:?}");
    assert!(made.stderr.contains("looker") && made.stderr.contains("viewer") && !made.stderr.contains(&secret), "{made:?}");
    let file = keep(folder.path(), "looker.token", &made);
    let file = file.to_str().expect("UTF-8");
    up.cli.run(&["backend", "list", "--token-file", file]).await.ended(0);
    let refused = up.cli.run(&["backend", "drain", "lobby", "--token-file", file]).await.ended(1);
    assert!(["not allowed", "looker", "viewer", "operator"].iter().all(|word| refused.stderr.contains(word)), "{refused:?}");

    let mover = up.cli.run(&["token", "create", "mover", "--role", "operator", "--for", "30d", "-o", "json"]).await.ended(0);
    let mover = mover.json();
    assert!(mover["token"].as_str().is_some_and(|token| token.starts_with("mb_")) && mover["expires"].is_string(), "{mover}");
    let listed = up.cli.rows(&["token", "list"]).await;
    let shown: Vec<_> = listed.iter().map(|row| json!([row["name"], row["role"], row["created_by"], row["expired"]])).collect();
    assert_eq!(shown, [json!(["looker", "viewer", "configured", false]), json!(["mover", "operator", "configured", false])]);
    assert_eq!((&listed[0]["expires"], &listed[1]["expires"]), (&Value::Null, &mover["expires"]));

    up.cli.run(&["token", "revoke", "looker"]).await.ended(0);
    let refused = up.cli.run(&["backend", "list", "--token-file", file]).await.ended(1);
    assert!(refused.stderr.contains("revoked") && refused.stderr.contains("--token-file"), "{refused:?}");
    assert!(up.cli.run(&["token", "revoke", "looker"]).await.ended(1).stderr.contains("token list"));
    up.cli.run(&["token", "create", "x"]).await.ended(2);
    up.cli.run(&["token", "create", "x", "--role", "viewer", "--for", "ever"]).await.ended(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_says_what_the_command_changed() {
    let up = Up::start(&["--backend", "lobby=127.0.0.1:1"]).await;
    up.cli.ok(&["backend", "restrict", "lobby"]).await;
    up.cli.ok(&["backend", "restrict", "lobby"]).await;
    let row = json!({
        "time": null, "who": "configured", "role": "admin", "what": "backend.restrict", "target": "backend lobby",
        "before": ["restricted = false"], "after": ["restricted = true"],
    });
    let audit = async |arguments: &[&str]| up.cli.rows(&[&["audit"], arguments].concat()).await;
    let mut newest: Vec<Value> = audit(&["--limit", "1"]).await;
    assert!(newest[0]["time"].as_str().is_some_and(|time| time.ends_with('Z')));
    newest[0]["time"] = Value::Null;
    assert_eq!(newest, [row]);
    let kinds =
        |records: Vec<Value>| records.iter().map(|record| record["what"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>();
    // Of `up` itself, newest first.
    assert_eq!(kinds(audit(&[]).await), ["backend.restrict", "route.set", "backend.set"]);
    let none = up.cli.run(&["audit", "--what", "nope"]).await.ended(1);
    assert!(none.stderr.contains("what: expected backend, permission"), "{none:?}");
    assert_eq!(kinds(audit(&["--what", "backend", "--since", "1h", "--who", "configured"]).await), ["backend.restrict", "backend.set"]);
    assert_eq!(kinds(audit(&["--target", "route *"]).await), ["route.set"]);
    assert!(audit(&["--since", "2100-01-01"]).await.is_empty());
    let table = up.cli.run(&["audit", "--limit", "1"]).await.ended(0).stdout;
    assert!(table.starts_with("TIME") && table.contains("restricted = false") && table.lines().count() == 2, "{table}");
    for wrong in [["--since", "yesterday"], ["--limit", "0"]] {
        up.cli.run(&[&["audit"], &wrong[..]].concat()).await.ended(2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_backend_shows_in_the_list_and_in_a_route_s_test() {
    let up = Up::start(&["--backend", "lobby=127.0.0.1:1", "--backend", "vip=127.0.0.1:2"]).await;
    let ada = "6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11";
    up.cli.ok(&["backend", "restrict", "vip"]).await;
    // Setting it anew leaves it restricted.
    up.cli.ok(&["backend", "set", "vip", "--address", "127.0.0.1:3"]).await;
    let listed = up.cli.rows(&["backend", "list"]).await;
    assert_eq!(listed.iter().map(|row| &row["restricted"]).collect::<Vec<_>>(), [&json!(false), &json!(true)]);
    let why = async |arguments: &[&str]| {
        let ran = up.cli.run(&[&["route", "test", "any", "-o", "json"], arguments].concat()).await.ended(0);
        ran.json()["candidates"][1]["why"].clone()
    };
    assert_eq!((why(&[]).await, why(&["--player", ada]).await), (json!("restricted"), json!("restricted")));
    up.cli.ok(&["permission", "user", ada, "set", "moonbridge.server.vip"]).await;
    assert_eq!((why(&[]).await, why(&["--player", ada]).await), (json!("restricted"), json!("ok")));
    let unknown = up.cli.run(&["route", "test", "any", "--player", "Nobody"]).await.ended(1);
    assert!(unknown.stderr.contains("Nobody") && unknown.stderr.contains("UUID"), "{unknown:?}");
    up.cli.ok(&["backend", "unrestrict", "vip"]).await;
    assert_eq!(why(&[]).await, json!("ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_s_plugin_channel_is_switched_off_and_on() {
    let up = Up::start(&["--backend", "lobby=127.0.0.1:1", "--backend", "vip=127.0.0.1:2"]).await;
    let listed = async || {
        let rows = up.cli.rows(&["backend", "list"]).await;
        rows.iter().map(|row| row["plugin_channel"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [json!(true), json!(true)]);
    up.cli.ok(&["backend", "plugin-channel", "vip", "off"]).await;
    // Setting it anew leaves it off.
    up.cli.ok(&["backend", "set", "vip", "--address", "127.0.0.1:3"]).await;
    assert_eq!(listed().await, [json!(true), json!(false)]);
    up.cli.ok(&["backend", "plugin-channel", "vip", "on"]).await;
    assert_eq!(listed().await, [json!(true), json!(true)]);
    let unknown = up.cli.run(&["backend", "plugin-channel", "nowhere", "off"]).await;
    assert!(unknown.stderr.contains("nowhere"), "{unknown:?}");
}
