//! Real backends read who the player is, and the token that proves it is seen by them alone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use moonbridge_testing::network::{Up, command, folder};
use moonbridge_testing::peer::{Backend, Kind, Player, Served};
use moonbridge_testing::process::{Process, SOON};
use serde_json::json;

const ALICE: &str = "10920508d5d83eed93d292f193afe7d7";
const FIRST: &str = "first-token-that-nobody-else-sees";
const SECOND: &str = "second-token-that-nobody-else-sees";

async fn backend(name: &str) -> (Backend, String) {
    let (backend, port) = Backend::serve(Kind::Npm, name, json!({})).await;
    (backend, format!("127.0.0.1:{port}"))
}

fn token_file(folder: &Path, name: &str, token: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("{token}\n")).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

/// Host, address and UUID that came next, the names of the properties, and the token.
async fn forwarded(backend: &mut Backend) -> (String, String, String, usize, Option<String>) {
    backend
        .expect("what was forwarded", |served| match served {
            Served::Forwarded { host, address, uuid, properties, token, .. } => {
                Some((host.clone(), address.clone(), uuid.clone(), properties.len(), token.clone()))
            }
            _ => None,
        })
        .await
}

fn offline(host: &str, token: Option<&str>) -> (String, String, String, usize, Option<String>) {
    (host.to_owned(), "127.0.0.1".to_owned(), ALICE.to_owned(), 0, token.map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread")]
async fn legacy_forwarding_tells_the_backend_who_the_player_is() {
    let (mut one, one_at) = backend("one").await;
    let (mut two, two_at) = backend("two").await;
    let (one_argument, two_argument) = (format!("one={one_at}"), format!("two={two_at}"));
    let up = Up::start(&["--backend", &one_argument, "--backend", &two_argument, "--forwarding", "legacy"]).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({ "virtualHost": "play.example.net" }));
    player.in_world().await;
    assert_eq!(forwarded(&mut one).await, offline("play.example.net", None));
    one.joined("Alice").await;
    up.cli.ok(&["transfer", "start", "Alice", "--to", "two"]).await;
    two.joined("Alice").await;
    let host =
        two.eventually("a handshake", |served| if let Served::Handshake { host, .. } = served { Some(host.clone()) } else { None }).await;
    // Three parts where there is no profile, as BungeeCord does.
    assert_eq!(host, ["play.example.net", "127.0.0.1", ALICE].join("\0"));
    player.assert_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_player_types_forges_nothing() {
    let forged = ["play.example.net", "192.0.2.66", "00000000000000000000000000000000", "[{\"name\":\"a\",\"value\":\"b\"}]"].join("\0");
    let (mut told, told_at) = backend("told").await;
    let (mut plain, plain_at) = backend("plain").await;
    let argument = format!("told={told_at}");
    let up = Up::start(&["--backend", &argument, "--forwarding", "legacy"]).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({ "virtualHost": forged }));
    player.in_world().await;
    assert_eq!(forwarded(&mut told).await, offline("play.example.net", None));
    // A backend with no forwarding gets what was typed: it is the one that must not believe it.
    up.cli.ok(&["backend", "set", "plain", "--address", &plain_at]).await;
    up.cli.ok(&["transfer", "start", "Alice", "--to", "plain"]).await;
    plain.joined("Alice").await;
    let host =
        plain.eventually("a handshake", |served| if let Served::Handshake { host, .. } = served { Some(host.clone()) } else { None }).await;
    assert_eq!(host, forged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_reaches_its_backend_and_no_output() {
    let files = folder();
    let (first, second) = (token_file(files.path(), "first", FIRST), token_file(files.path(), "second", SECOND));
    let (mut one, one_at) = backend("one").await;
    let (mut two, two_at) = backend("two").await;
    let argument = format!("one={one_at}");
    let arguments = ["--backend", &argument, "--forwarding", "bungeeguard", "--forwarding-token-file", &first];
    let up = Up::start_with(&arguments, &[("RUST_LOG", "trace")]).await;
    let mut said = String::new();
    let guarded = |name, at| ["backend", "set", name, "--address", at, "--forwarding", "bungeeguard"];
    for format in ["table", "json", "yaml"] {
        let set = [&guarded("two", &two_at)[..], &["--forwarding-token-file", &second, "-o", format]].concat();
        said.push_str(&up.cli.ok(&set).await.said());
    }
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({ "virtualHost": "play.example.net" }));
    player.in_world().await;
    assert_eq!(forwarded(&mut one).await, offline("play.example.net", Some(FIRST)));
    one.joined("Alice").await;
    for (to, backend, token) in [("two", &mut two, SECOND), ("one", &mut one, FIRST)] {
        said.push_str(&up.cli.ok(&["transfer", "start", "Alice", "--to", to]).await.said());
        assert_eq!(forwarded(backend).await, offline("play.example.net", Some(token)));
        backend.joined("Alice").await;
    }
    // Changed, and set again without a file: the newest stays.
    said.push_str(&up.cli.ok(&[&guarded("two", &two_at)[..], &["--forwarding-token-file", &first]].concat()).await.said());
    said.push_str(&up.cli.ok(&guarded("two", &two_at)).await.said());
    up.cli.ok(&["transfer", "start", "Alice", "--to", "two"]).await;
    assert_eq!(forwarded(&mut two).await, offline("play.example.net", Some(FIRST)));
    player.assert_well();

    for format in ["table", "json", "yaml"] {
        for verb in [
            &["backend", "list"][..],
            &["backend", "drain", "two"],
            &["backend", "undrain", "two"],
            &["route", "list"],
            &["route", "test", "play.example.net"],
            &["player", "show", "Alice"],
            &["node", "list"],
            &["transfer", "list"],
        ] {
            said.push_str(&up.cli.ok(&[verb, &["-o", format]].concat()).await.said());
        }
    }
    assert!(said.contains("bungeeguard"), "that it has one is no secret: {said}");
    said.push_str(&up.process.log());
    for token in [FIRST, SECOND] {
        assert!(!said.contains(token), "{}", said.lines().find(|line| line.contains(token)).unwrap_or_default());
    }
    // Forgotten with other forwarding.
    up.cli.ok(&["backend", "set", "two", "--address", &two_at, "--forwarding", "legacy"]).await;
    let ran = up.cli.run(&guarded("two", &two_at)).await.ended(1);
    assert!(ran.stderr.contains("--forwarding-token-file"), "{ran:?}");
}

/// npm's server takes a first byte FE for an old client's ping, whatever follows.
#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_of_any_length_is_taken() {
    let files = folder();
    let (mut one, at) = backend("one").await;
    // Id, version, the host's own length, port and next state are 7 bytes; the first of a length of 254 is FE.
    let others = ["h", "127.0.0.1", ALICE, r#"[{"name":"bungeeguard-token","value":"","signature":""}]"#].join("\0").len() + 7;
    let token = "x".repeat(254 - others);
    let file = token_file(files.path(), "token", &token);
    let argument = format!("one={at}");
    let up = Up::start(&["--backend", &argument, "--forwarding", "bungeeguard", "--forwarding-token-file", &file]).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({ "virtualHost": "h" }));
    player.in_world().await;
    assert_eq!(forwarded(&mut one).await, offline("h", Some(&token)));
    let host = one.all().into_iter().find_map(|served| if let Served::Handshake { host, .. } = served { Some(host) } else { None });
    assert_eq!(host.map(|host| host.len() + 7), Some(255), "a blank was needed, or this test shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn up_keeps_the_token_of_its_last_run() {
    let files = folder();
    let first = token_file(files.path(), "first", FIRST);
    let data = files.path().join("data");
    let data = data.to_str().expect("UTF-8");
    let (mut one, at) = backend("one").await;
    let argument = format!("one={at}");
    let arguments = ["--data-dir", data, "--backend", &argument, "--forwarding", "bungeeguard"];
    let up = Up::start(&[&arguments[..], &["--forwarding-token-file", &first]].concat()).await;
    assert_eq!(up.stop().await, 0);
    let store = std::fs::metadata(files.path().join("data/store.redb")).expect("the store").permissions();
    assert_eq!(store.mode() & 0o077, 0, "others cannot read it, even in a folder that they can look into");
    let up = Up::start(&arguments).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({ "virtualHost": "h" }));
    player.in_world().await;
    assert_eq!(forwarded(&mut one).await, offline("h", Some(FIRST)));
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_and_the_token_is_not() {
    let files = folder();
    let file = |name: &str, text: &str| token_file(files.path(), name, text);
    let (good, short, long) = (file("good", FIRST), file("short", "SECRET7"), file("long", &"SECRET".repeat(43)));
    let (blank, other, empty) = (file("blank", "SECRET with blanks"), file("other", "SECRETäöü"), file("empty", ""));
    let up = Up::start(&["--backend", "lobby=127.0.0.1:1"]).await;
    let bad: &[(&str, Option<&str>, i32, &str)] = &[
        ("bungee", None, 2, "bungeeguard"),
        ("none", Some(&good), 2, "--forwarding-token-file"),
        ("legacy", Some(&good), 2, "only --forwarding bungeeguard"),
        ("bungeeguard", Some("/no/such/file"), 2, "/no/such/file"),
        ("bungeeguard", Some(&short), 2, "8 to 256"),
        ("bungeeguard", Some(&long), 2, "8 to 256"),
        ("bungeeguard", Some(&blank), 2, "visible ASCII"),
        ("bungeeguard", Some(&other), 2, "visible ASCII"),
        ("bungeeguard", Some(&empty), 2, "is empty"),
        ("bungeeguard", None, 1, "--forwarding-token-file"),
    ];
    for (forwarding, file, code, named) in bad {
        let file = file.map_or_else(Vec::new, |file| vec!["--forwarding-token-file", file]);
        let set = ["backend", "set", "lobby", "--address", "127.0.0.1:1", "--forwarding", forwarding];
        let ran = up.cli.run(&[&set[..], &file].concat()).await;
        assert!(ran.code == *code && ran.stderr.contains(named), "{forwarding} {file:?}: {ran:?}");
        assert!(!ran.said().contains("SECRET") && !ran.said().contains(FIRST), "{ran:?}");
    }
    assert_eq!(up.cli.rows(&["backend", "list"]).await[0]["forwarding"], "none", "nothing of it was done");

    let state = folder();
    for (arguments, code, named) in [
        (vec!["--forwarding", "bungeeguard"], 1, "--forwarding-token-file"),
        (vec!["--forwarding-token-file", &good], 2, "only --forwarding bungeeguard"),
        (vec!["--forwarding", "bungeeguard", "--forwarding-token-file", &short], 2, "8 to 256"),
    ] {
        let mut command = command(state.path());
        command.args(["up", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--backend", "lobby=127.0.0.1:1"]).args(&arguments);
        let mut up = Process::start("up", command);
        up.line("the mistake", |line| line.contains(named).then_some(())).await;
        assert_eq!(up.ended(SOON).await, code, "{arguments:?}: {}", up.log());
        assert!(!up.log().contains("SECRET"), "{arguments:?}: {}", up.log());
    }
}
