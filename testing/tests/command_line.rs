//! What the command does with mistakes: it names them, says what was expected, and exits as designed.

use moonbridge_testing::network::{Cli, Up, folder};

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
async fn a_route_test_fails_when_no_route_matches() {
    let up = Up::start(&["--backend", "lobby=127.0.0.1:1"]).await;
    let found = up.cli.run(&["route", "test", "play.example.net"]).await.ended(0);
    assert!(found.stdout.contains("lobby"), "{found:?}");
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
