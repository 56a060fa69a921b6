//! What the command does without a control plane: usage, configuration files, completions, and what it says when there is none.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Output};

/// Runs the command with a state directory of its own and nothing of the caller's set-up.
fn moonbridge(home: &std::path::Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_moonbridge"))
        .args(args)
        .env("XDG_STATE_HOME", home)
        .env_remove("MOONBRIDGE_CONTROL")
        .env_remove("MOONBRIDGE_TOKEN_FILE")
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .output()
        .expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn completions_name_the_verbs() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = moonbridge(home.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let script = stdout(&output);
        for word in ["transfer", "undrain", "no-wait", "on-kick"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn usage_errors_name_the_argument_and_what_was_expected() {
    let home = tempfile::tempdir().unwrap();
    for (args, named) in [
        (&["backend", "set", "lobby", "--address", "10.0.0.7"][..], &["--address", "expected HOST:PORT"][..]),
        (&["backend", "set", "lobby", "--address", ""], &["--address", "expected HOST:PORT"]),
        (&["backend", "set", "lobby", "--address", "a b:5"], &["--address", "host name"]),
        (&["backend", "set", "lobby", "--address", "ünï.de:5"], &["--address", "host name"]),
        (&["route", "set", "--backends", "a", "--", "--"], &["HOST", "expected a host name"]),
        (&["backend", "set", "Lobby", "--address", "a:1"], &["NAME", "1 to 64 of a-z"]),
        (&["backend", "set", "lobby"], &["--address"]),
        (&["transfer", "start", "--to", "x"], &["PLAYERS"]),
        (&["transfer", "start", "Alice", "--from", "y", "--to", "x"], &["--from"]),
        (&["probe", "host:0"], &["HOST[:PORT]", "1 to 65535"]),
        (&["probe", "host", "--hold", "ten"], &["--hold", "10s"]),
        (&["probe", "host", "--name", "a b"], &["--name", "A-Z"]),
        (&["probe", "host", "--protocol", "47"], &["--protocol", "4 (1.7.2"]),
        (&["up", "--control", "0.0.0.0:1"], &["--control", "loopback"]),
        (&["up", "--backend", "x"], &["--backend", "NAME=HOST:PORT"]),
        (&["up", "--listen", "nowhere"], &["--listen"]),
        (&["up", "--listen", "0.0.0.0:0"], &["0.0.0.0:0", "any player's name", "--online", "--allow-offline-public"]),
        (&["up", "--session-server", "http://127.0.0.1:1"], &["--online"]),
        (&["up", "--online", "--session-server", "localhost:1"], &["--session-server", "expected http://HOST or https://HOST"]),
        (&["up", "--online", "--session-server", "http://auth.example.net"], &["--session-server", "use https"]),
        (&["node", "list", "-o", "xml"], &["--output", "table, json, yaml"]),
        (&["nod"], &["nod"]),
    ] {
        let output = moonbridge(home.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        for text in named {
            assert!(stderr(&output).contains(text), "{args:?} must name {text:?}: {}", stderr(&output));
        }
    }
}

/// What stands in the environment is no argument that was typed.
#[test]
fn the_environment_shows_in_no_usage_line_and_empty_is_unset() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str], control: &str, token: &str| {
        Command::new(env!("CARGO_BIN_EXE_moonbridge"))
            .args(args)
            .env("XDG_STATE_HOME", home.path())
            .env("MOONBRIDGE_CONTROL", control)
            .env("MOONBRIDGE_TOKEN_FILE", token)
            .output()
            .unwrap()
    };
    let output = run(&["transfer", "start", "Alice"], "http://127.0.0.1:1", "/token");
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("--to <BACKEND>") && !said.contains("--control") && !said.contains("--token-file"), "{said}");

    let output = run(&["player", "list"], "", "");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("no control plane given"), "{}", stderr(&output));
    let output = run(&["player", "list"], "ftp://x", "");
    assert_eq!(output.status.code(), Some(2), "it is read: {}", stderr(&output));
}

/// A listener whose backlog takes connections, and nobody behind it.
#[test]
fn every_replica_that_did_not_answer_is_named_with_its_reason() {
    let home = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let (_held, port) = held_port();
    let refusing = format!("http://127.0.0.1:{port}");
    let output = moonbridge(home.path(), &["backend", "list", "--control", &format!("{silent},{refusing}")]);
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(said.contains(&silent) && said.contains("no answer in 5 s"), "{said}");
    assert!(said.contains(&refusing) && said.contains("refused"), "{said}");
    assert!(!said.contains("--control-ca"), "no TLS, no advice about it: {said}");
}

#[test]
fn a_url_that_cannot_be_used_is_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    for (args, named) in [
        (&["node", "list", "--control", "ftp://x"][..], "expected http://HOST:PORT"),
        (&["node", "list", "--control", "http://192.0.2.1:25590"], "--allow-insecure-control"),
        (&["node", "list", "--control", "https://127.0.0.1:25590"], "--control-ca"),
        (&["node", "list", "--control", "http://127.0.0.1:1", "--token-file", "/nonexistent/token"], "/nonexistent/token"),
    ] {
        let output = moonbridge(home.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(named), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn no_control_plane_is_exit_code_3_with_what_was_tried() {
    let home = tempfile::tempdir().unwrap();
    let output = moonbridge(home.path(), &["player", "list"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("moonbridge up") && stderr(&output).contains("--control"), "{}", stderr(&output));

    // Bound and not listening: nothing can answer there, and nobody else can take the port.
    let (_held, port) = held_port();
    let url = format!("http://127.0.0.1:{port}");
    let output = moonbridge(home.path(), &["player", "list", "--control", &url]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains(&url) && stderr(&output).contains("refused"), "{}", stderr(&output));

    // What an `up` that was killed leaves behind.
    let folder = home.path().join("moonbridge");
    std::fs::create_dir(&folder).unwrap();
    let token = folder.join("up-2147483646.token");
    std::fs::write(&token, "secret").unwrap();
    let stale = format!(r#"{{"control":{url:?},"token_file":{token:?},"pid":2147483646}}"#);
    std::fs::write(folder.join("up-2147483646.json"), stale).unwrap();
    let output = moonbridge(home.path(), &["player", "list"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("left over") && stderr(&output).contains("up-2147483646.json"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("secret"));
}

/// A port that is taken but refuses connections, for as long as the socket lives.
fn held_port() -> (tokio::net::TcpSocket, u16) {
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind(std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let port = held.local_addr().unwrap().port();
    (held, port)
}

#[test]
fn config_check_reports_every_mistake_at_once() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };

    let good = file("node.toml", "listen = \"127.0.0.1:25565\"\nworkers = 2\n");
    let output = moonbridge(home.path(), &["config", "check", &good]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("data-plane"));

    let bad = file("bad.toml", "listen = \"nowhere\"\nworkers = -1\nlogn = 3\n[timeouts]\nlogin = \"soon\"\nlimits = 1\n");
    let output = moonbridge(home.path(), &["config", "check", &bad]);
    assert_eq!(output.status.code(), Some(2));
    for field in ["listen", "workers", "logn", "timeouts.login", "timeouts.limits"] {
        assert!(stderr(&output).contains(&format!("{bad}: {field}: ")), "{field}: {}", stderr(&output));
    }

    let syntax = file("syntax.toml", "listen = \n");
    let output = moonbridge(home.path(), &["config", "check", &syntax]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("line 1"), "{}", stderr(&output));

    let missing = home.path().join("missing.toml");
    let output = moonbridge(home.path(), &["config", "check", &good, missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "one bad file of two");

    // The processes say the same of such a file.
    let output = moonbridge(home.path(), &["dataplane", "--config", &bad]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("timeouts.login"), "{}", stderr(&output));
}

#[test]
fn config_check_tells_the_kinds_apart() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("replica.toml");
    std::fs::write(&path, "listen = \"127.0.0.1:25590\"\nlease = \"10s\"\n").unwrap();
    let path = path.to_str().unwrap();
    let output = moonbridge(home.path(), &["config", "check", path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("control-plane"));
    let output = moonbridge(home.path(), &["config", "check", "--kind", "dataplane", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("lease"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    use std::process::Stdio;
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_moonbridge"))
        .args(["completions", "bash"])
        .env("XDG_STATE_HOME", home.path())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}
