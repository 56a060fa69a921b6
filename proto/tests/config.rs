//! Reading configuration: every value by its type, every mistake at once.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use moonbridge_proto::config::{Fields, parse_duration, read_file, show_duration};
use moonbridge_proto::snapshot::Address;
use moonbridge_proto::tls::{ClientTls, ServerTls};
use proptest::prelude::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// A reader of one field of every kind; `Ok` only without mistakes.
fn read(text: &str) -> Result<Vec<String>, String> {
    let mut fields = Fields::parse(text).map_err(|errors| errors.to_string())?;
    fields.require("name", "a name");
    let mut seen = Vec::new();
    let mut see = |value: Option<String>| seen.extend(value);
    see(fields.string("name"));
    see(fields.text("motd"));
    see(fields.integer("workers", 0..=64_u8).map(|n| n.to_string()));
    see(fields.size("buffer", 1..=1 << 30).map(|n| n.to_string()));
    see(fields.bool("drained").map(|b| b.to_string()));
    see(fields.duration("login", Duration::from_millis(1)..=HOUR).map(|d| format!("{d:?}")));
    see(fields.socket_address("listen").map(|a: SocketAddr| a.to_string()));
    see(fields.path("data_dir").map(|p| p.display().to_string()));
    see(fields.parsed::<Address>("backend").map(|a| a.to_string()));
    see(fields.one_of("store", &[("embedded", 1), ("etcd", 2)]).map(|n| n.to_string()));
    see(fields.strings("control").map(|list| list.join(" ")));
    see(fields.table("tls", ServerTls::read).map(|tls| format!("{:?}", tls.client_ca)));
    see(fields.table("control_tls", ClientTls::read).map(|tls| format!("{:?}", tls.domain)));
    see(fields.tables("node", |node| node.string("id")).map(|ids| ids.into_iter().flatten().collect::<Vec<_>>().join(" ")));
    fields.finish().map_err(|errors| errors.to_string())?;
    Ok(seen)
}

const GOOD: &str = r#"
name = "n1"
motd = ""
workers = 4
buffer = "16 MiB"
drained = true
login = "15s"
listen = "127.0.0.1:25565"
data_dir = "/var/lib/moonbridge"
backend = "[::1]:25566"
store = "etcd"
control = ["http://a:1", "http://b:2"]
tls = { cert = "c.pem", key = "k.pem" }
control_tls = { ca = "ca.pem", domain = "control" }
[[node]]
id = "x"
[[node]]
id = "y"
"#;

#[test]
fn every_kind_of_field_is_read() {
    let seen = read(GOOD).expect("no mistake");
    let expected = [
        "n1",
        "",
        "4",
        "16777216",
        "true",
        "15s",
        "127.0.0.1:25565",
        "/var/lib/moonbridge",
        "[::1]:25566",
        "2",
        "http://a:1 http://b:2",
        "None",
        "Some(\"control\")",
        "x y",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn every_mistake_is_reported_at_once_with_its_field() {
    let bad = r#"
motd = 7
wokers = 4
workers = 65
buffer = "16 MB"
drained = "yes"
login = 15
listen = "localhost:25565"
data_dir = ""
backend = "lobby"
store = "redis"
control = ["http://a:1", 2, ""]
tls = { cert = "c.pem", clientca = "ca.pem" }
control_tls = { cert = "c.pem" }
something_else = 1
[[node]]
id = 3
"#;
    let expected = r#"name: missing; expected a name
motd: expected a text, got 7
workers: expected a whole number from 0 to 64, got 65
buffer: expected a size from 1 B to 1 GiB, such as "16 MiB", got "16 MB"
drained: expected true or false, got "yes"
login: expected a time from 1ms to 1h, such as "30s", got 15
listen: expected an IP address and a port, such as "127.0.0.1:25565", got "localhost:25565"
data_dir: expected a path, got ""
backend: expected HOST:PORT (an IPv6 address in brackets), got "lobby"
store: expected "embedded" or "etcd", got "redis"
control[1]: expected a text, got 2
control[2]: expected a text, got ""
tls.key: missing; expected the PEM file of the certificate's private key
tls.clientca: unknown field; did you mean "client_ca"?
control_tls.ca: missing; expected the PEM file of the authority of the server's certificate
control_tls.key: missing; a client certificate needs both cert and key
node[0].id: expected a text, got 3
something_else: unknown field; expected one of backend, buffer, control, control_tls, data_dir, drained, listen, login, motd, name, node, store, tls, workers
wokers: unknown field; did you mean "workers"?"#;
    assert_eq!(read(bad).expect_err("full of mistakes"), expected);
}

#[test]
fn syntax_errors_have_line_and_column_and_do_not_hide_each_other() {
    let errors = Fields::parse("name = \"a\"\nlogin = = 3\n\n[limits\nx = 1\n").expect_err("two mistakes").0;
    let places: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    assert!(places.contains(&"line 2, column 9"), "{errors:?}");
    assert!(places.iter().any(|place| place.starts_with("line 4, ")), "{errors:?}");
    let twice = Fields::parse("ä = 1\nname = 1\nname = 2").expect_err("twice").0;
    assert_eq!(twice[0].field, "line 1, column 1", "{twice:?}");
    let large = Fields::parse("a = 99999999999999999999").expect_err("too large").0;
    assert!(large[0].field.starts_with("line 1, column"), "{large:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake_like_others() {
    let errors = read_file(Path::new("/nonexistent/moonbridge.toml")).expect_err("not there").0;
    assert_eq!(errors[0].field, "");
    // Whoever shows it names the file.
    assert!(errors[0].to_string().starts_with("cannot be read: No such file"), "{}", errors[0]);
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("large.toml");
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(read_file(&path).expect_err("too large").0[0].problem.contains("at most 1048576 bytes"));
    std::fs::write(&path, [0xff]).unwrap();
    assert!(read_file(&path).expect_err("no UTF-8").0[0].problem.starts_with("cannot be read"));
}

#[test]
fn times_as_people_write_them() {
    for (text, millis) in [("500ms", 500), ("30s", 30_000), ("2m", 120_000), ("1h", 3_600_000), ("3 s", 3_000), ("0s", 0)] {
        assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
    }
    for text in ["", "s", "30", "-1s", "1.5s", "1d", "30 sec", "99999999999999999999s", "18446744073709551615h", " 1s"] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn times_are_read_as_they_are_shown(millis in 0..10_000_000_000u64) {
        let time = Duration::from_millis(millis);
        prop_assert_eq!(parse_duration(&show_duration(time)), Some(time));
    }

    #[test]
    fn reading_survives_anything(text in "[a-z\\[\\]{}=\"'#.,0-9:\\n \\\\é-]{0,200}", line in 0..20usize, with in ".{0,20}") {
        let _ = read(&text);
        let mut lines: Vec<&str> = GOOD.lines().collect();
        let line = line % lines.len();
        lines[line] = &with;
        let _ = read(&lines.join("\n"));
    }
}
