//! What the command does with mistakes: it names them, says what was expected, and exits as designed.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use moonbridge_testing::network::{Cli, Plane, Up, command, folder};
use moonbridge_testing::process::{Process, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn bad_arguments_are_named() {
    let state = folder();
    let cli = Cli::beside(state.path());
    let bad: &[(&[&str], &str)] = &[
        (&["frobnicate"], "frobnicate"),
        (&["up", "--listen", "nowhere"], "--listen"),
        (&["up", "--backend", "lobby"], "--backend"),
        (&["up", "--backend", "lobby=127.0.0.1:notaport"], "--backend"),
        (&["up", "--control", "0.0.0.0:25590"], "--control"),
        (&["up", "--listen", "0.0.0.0:0"], "--allow-offline-public"),
        (&["up", "--session-server", "http://127.0.0.1:1"], "--online"),
        (&["up", "--online", "--session-server", "http://sessions.example.net"], "plaintext"),
        (&["up", "--online", "--session-server", "https://s.example.net/session/minecraft/hasJoined"], "--session-server"),
        (&["probe", "127.0.0.1:70000"], "70000"),
        (&["probe", "127.0.0.1", "--hold", "soon"], "--hold"),
        (&["backend", "set", "lobby"], "--address"),
        (&["backend", "set", "Not A Name", "--address", "127.0.0.1:1"], "Not A Name"),
        (&["transfer", "start", "Alice"], "--to"),
        (&["player", "list", "-o", "xml"], "xml"),
    ];
    for (arguments, named) in bad {
        let ran = cli.run(arguments).await;
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(named), "{arguments:?}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_control_plane_admins_are_told_how_to_get_one() {
    let state = folder();
    let ran = Cli::beside(state.path()).run(&["player", "list"]).await;
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("moonbridge up") && ran.stderr.contains("--control"), "{ran:?}");
    let ran = Cli::to(state.path(), "http://127.0.0.1:1").run(&["player", "list"]).await;
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("127.0.0.1:1"), "{ran:?}");
}

/// For scripts: the exit code says whether the host leads anywhere, the output where.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_test_fails_when_a_player_would_be_refused() {
    let up = Up::start(&["--backend", "lobby=127.0.0.1:1"]).await;
    let found = up.cli.run(&["route", "test", "play.example.net"]).await.ended(0);
    assert!(found.stdout.contains("lobby"), "{found:?}");
    up.cli.ok(&["backend", "drain", "lobby"]).await;
    let none = up.cli.run(&["route", "test", "play.example.net"]).await.ended(1);
    assert!(none.stdout.contains("drained") && none.stdout.contains("no candidate is usable"), "{none:?}");
    let none = up.cli.run(&["route", "test", "play.example.net", "-o", "json"]).await.ended(1);
    assert_eq!(none.json()["first"], serde_json::Value::Null);
    up.cli.ok(&["route", "remove", "*"]).await;
    let none = up.cli.run(&["route", "test", "play.example.net"]).await.ended(1);
    assert!(none.stdout.contains("no route matches"), "{none:?}");
    let none = up.cli.run(&["route", "test", "play.example.net", "-o", "json"]).await.ended(1);
    let decision: serde_json::Value = serde_json::from_str(&none.stdout).expect("one document");
    assert_eq!((&decision["host"], &decision["route"]), (&"play.example.net".into(), &serde_json::Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_of_a_configuration_is_reported_at_once() {
    let state = folder();
    let file = state.path().join("node.toml");
    std::fs::write(&file, "listn = \"127.0.0.1:1\"\ncontrol = [\"ftp://x\"]\nworkers = \"many\"\n[timeouts]\nlogin = \"15 parsecs\"\n")
        .expect("a file");
    let path = file.to_str().expect("UTF-8");
    let ran = Cli::beside(state.path()).run(&["config", "check", "--kind", "dataplane", path]).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    for field in ["listn", "control[0]", "workers", "timeouts.login"] {
        assert!(ran.said().contains(field), "{field}: {ran:?}");
    }
    assert!(ran.said().contains("listen"), "the nearest known name: {ran:?}");
    std::fs::write(&file, "listen = [\n").expect("a file");
    let ran = Cli::beside(state.path()).run(&["dataplane", "--config", path]).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    let ran = Cli::beside(state.path()).run(&["dataplane", "--config", "/no/such/file.toml"]).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("/no/such/file.toml"), "{ran:?}");
}

/// Starts `up` with this state folder, and waits until it serves; gives it with the players' address and the control plane's URL.
async fn up_beside(state: &Path, temporary: &Path) -> (Process, SocketAddr, String) {
    let mut command = command(state);
    command.args(["up", "--demo", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]).env("TMPDIR", temporary);
    let process = Process::start("up", command);
    let after = |words: &'static str| move |line: &str| Some(line.split_once(words)?.1.trim().to_owned());
    let listen = process.line("the players' address", after("players connect to")).await;
    let control = process.line("the control plane's URL", after("control plane   ")).await;
    process.line("the end of its greeting", |line| line.contains("Ctrl-C ends it").then_some(())).await;
    (process, listen.parse().expect("an address"), control)
}

fn probe(state: &Path, server: SocketAddr, name: &str) -> Process {
    let mut probe = command(state);
    probe.args(["probe", &server.to_string(), "--name", name, "--hold", "10m"]);
    Process::start(format!("probe {name}"), probe)
}

/// A replica that is stopped still takes connections; so does this listener, which nobody reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_answer_leads_to_the_next() {
    let data = folder();
    let replica = Plane::replica("r1", &format!("[store.embedded]\ndata_dir = {:?}\n", data.path().join("store"))).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let urls = format!("http://{},{}", silent.local_addr().expect("bound"), replica.url());
    let state = folder();
    let ran = Cli::to(state.path(), &urls).run(&["backend", "list", "-o", "json"]).await.ended(0);
    assert_eq!(ran.json(), serde_json::json!([]));
    // A replica that refuses has answered: no other is asked for its opinion.
    let guarded = data.path().join("token");
    std::fs::write(&guarded, "a-long-secret\n").expect("a file");
    let store = data.path().join("guarded");
    let guarded = Plane::replica("r2", &format!("token_file = {guarded:?}\n[store.embedded]\ndata_dir = {store:?}\n")).await;
    let ran = Cli::to(state.path(), &format!("{},{}", guarded.url(), replica.url())).run(&["backend", "list"]).await.ended(1);
    assert_eq!(ran.stderr.matches("--token-file").count(), 1, "advice is given once: {ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_that_logs_in_again_is_shown_in_its_new_session() {
    let (state, temporary) = (folder(), folder());
    let (_up, listen, _) = up_beside(state.path(), temporary.path()).await;
    let cli = Cli::beside(state.path());
    let mut first = probe(state.path(), listen, "Alice");
    let before = cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    let older = cli.run(&["player", "show", "alice", "-o", "json"]).await.ended(0).json();
    let _second = probe(state.path(), listen, "Alice");
    first.ended(SOON).await;
    cli.until(&["player", "list"], |rows| rows.len() == 1 && rows[0]["address"] != before[0]["address"]).await;
    let newer = cli.run(&["player", "show", "alice", "-o", "json"]).await.ended(0).json();
    assert!(older["session"].is_string() && newer["session"].is_string(), "{older} {newer}");
    assert_ne!(newer["session"], older["session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_up_takes_nothing_from_the_first() {
    let (state, temporary) = (folder(), folder());
    let (mut first, _, first_url) = up_beside(state.path(), temporary.path()).await;
    let (mut second, _, second_url) = up_beside(state.path(), temporary.path()).await;
    assert!(second.lines().iter().any(|line| line.ends_with(&format!("player list --control {second_url}"))), "{}", second.log());
    let cli = Cli::beside(state.path());
    let ran = cli.run(&["player", "list"]).await.ended(2);
    assert!(ran.stderr.contains(&first_url) && ran.stderr.contains(&second_url), "{ran:?}");
    for url in [&first_url, &second_url] {
        cli.run(&["player", "list", "--control", url]).await.ended(0);
    }
    second.interrupt();
    assert_eq!(second.ended(SOON).await, 0, "{}", second.log());
    cli.run(&["player", "list"]).await.ended(0);
    // Killed, it leaves its file: that is told, and cleared away by the next.
    first.kill().await;
    let ran = cli.run(&["player", "list"]).await.ended(3);
    assert!(ran.stderr.contains("left over"), "{ran:?}");
    let (_third, _, _) = up_beside(state.path(), temporary.path()).await;
    cli.run(&["player", "list"]).await.ended(0);
}

/// YAML 1.1 reads `no` as false and `2020-01-01` as a date.
#[tokio::test(flavor = "multi_thread")]
async fn yaml_is_the_same_for_readers_of_1_1() {
    let up = Up::start(&["--backend", "no=127.0.0.1:1", "--backend", "2020-01-01=127.0.0.1:2"]).await;
    let yaml = up.cli.run(&["route", "list", "-o", "yaml"]).await.ended(0).stdout;
    assert_eq!(yaml, "- host: \"*\"\n  backends:\n    - \"no\"\n    - \"2020-01-01\"\n  on_kick: \"fallback\"\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_up_drains() {
    let (state, temporary) = (folder(), folder());
    let (mut up, listen, _) = up_beside(state.path(), temporary.path()).await;
    let mut player = probe(state.path(), listen, "Alice");
    player.line("the world", |line| line.contains("in-world").then_some(())).await;
    up.hang_up();
    assert_eq!(up.ended(SOON).await, 0, "{}", up.log());
    let told = player.line("its end", |line| line.contains("kicked").then(|| line.to_owned())).await;
    assert!(!told.trim_end().ends_with("kicked"), "a reason: {told}");
    assert_eq!(player.ended(SOON).await, 1);
    assert_eq!(entries(temporary.path()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_at_once_and_leaves_no_temporary_store() {
    let (state, temporary) = (folder(), folder());
    let (mut up, _, _) = up_beside(state.path(), temporary.path()).await;
    assert_eq!(entries(temporary.path()).len(), 1, "the store");
    // Both are there before it can do anything about the first.
    up.freeze();
    up.interrupt();
    up.terminate();
    up.thaw();
    assert_eq!(up.ended(Duration::from_secs(10)).await, 130, "{}", up.log());
    assert_eq!(entries(temporary.path()), Vec::<String>::new());
    assert_eq!(entries(&state.path().join("moonbridge")), Vec::<String>::new());
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
}
