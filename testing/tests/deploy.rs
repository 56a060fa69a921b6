//! What lies in deploy/ is what the code takes: configuration files with every field at its default, units that start real
//! subcommands under hardening, and settings that a real etcd knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use moonbridge_proto::config::ConfigErrors;
use moonbridge_testing::process::{Process, SOON, moonbridge};
use tokio::process::Command;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn text(file: &str) -> String {
    let path = deploy().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(extension: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![deploy()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.insert(path.strip_prefix(deploy()).expect("below deploy/").display().to_string());
            }
        }
    }
    found
}

/// Reads a configuration as its plane does; what it holds is compared by its `Debug` form.
type Parse = fn(&str) -> Result<String, ConfigErrors>;

fn dataplane(text: &str) -> Result<String, ConfigErrors> {
    moonbridge_dataplane::config::Config::parse(text).map(|config| format!("{config:#?}"))
}

fn controlplane(text: &str) -> Result<String, ConfigErrors> {
    moonbridge_controlplane::config::Config::parse(text).map(|config| format!("{config:#?}"))
}

/// Every configuration file, how it is read, and the least that a file of its kind must say to have the defaults.
const CONFIGS: [(&str, Parse, &str); 3] = [
    ("controlplane-etcd.toml", controlplane, "[store.etcd]\nendpoints = [\"http://127.0.0.1:2379\"]"),
    ("controlplane.toml", controlplane, ""),
    ("dataplane.toml", dataplane, ""),
];

/// The file with its examples (`#name = value`, `#[table]`) in force. Comments have a space after the `#`.
fn with_examples(text: &str) -> String {
    let example = |line: &str| line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '['));
    text.lines().map(|line| if example(line) { &line[1..] } else { line }).fold(String::new(), |all, line| all + line + "\n")
}

#[test]
fn every_configuration_file_is_valid_and_has_the_defaults() {
    assert_eq!(files("toml"), CONFIGS.iter().map(|(file, ..)| (*file).to_owned()).collect(), "each has its line in CONFIGS");
    for (file, parse, least) in CONFIGS {
        let text = text(file);
        let config = parse(&text).unwrap_or_else(|errors| panic!("{file}:\n{errors}"));
        assert_eq!(config, parse(least).expect("the defaults"), "{file}: not the defaults");
        let examples = with_examples(&text);
        assert!(examples != text, "{file} has examples");
        let config = parse(&examples).unwrap_or_else(|errors| panic!("{file} with its examples:\n{errors}"));
        assert_ne!(config, parse(least).expect("the defaults"), "{file}: the examples say something");
    }
}

/// The fields that a reader knows in a table ("" is the top), as its own complaint about an unknown one lists them.
fn known_fields(parse: Parse, table: &str) -> Vec<String> {
    // So long and so odd that nothing is near it.
    const STRANGER: &str = "qqqqqqqqqqqqqqqqqqqqqqqq";
    let text = if table.is_empty() { format!("{STRANGER} = 1") } else { format!("[{table}]\n{STRANGER} = 1") };
    let errors = parse(&text).expect_err("an unknown field").0;
    let problem = errors.iter().find(|error| error.field.ends_with(STRANGER)).expect("it is reported").problem.clone();
    let list = problem.split_once("expected one of ").expect("the known ones are listed").1;
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_field_is_in_the_files() {
    let replica = ["", "tls", "settings", "telemetry"];
    for (file, parse, tables) in [
        ("dataplane.toml", dataplane as Parse, &["", "control_tls", "session_server", "timeouts", "limits", "commands", "telemetry"][..]),
        ("controlplane.toml", controlplane, &[&replica[..], &["store.embedded"]].concat()),
        ("controlplane-etcd.toml", controlplane, &[&replica[..], &["store.etcd", "store.etcd.tls"]].concat()),
    ] {
        let all: toml::Table = with_examples(&text(file)).parse().expect("TOML");
        for table in tables {
            let mut here = &all;
            for name in table.split('.').filter(|name| !name.is_empty()) {
                here = here.get(name).and_then(|value| value.as_table()).unwrap_or_else(|| panic!("{file}: no table {table}"));
            }
            for field in known_fields(parse, table) {
                assert!(here.contains_key(&field), "{file} does not show the field {field:?} of {table:?}");
            }
        }
    }
}

#[test]
fn every_field_is_explained() {
    for (file, ..) in CONFIGS {
        let text = text(file);
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some((name, _)) = line.trim_start_matches('#').split_once(" = ").filter(|_| !line.starts_with("# ")) else { continue };
            let before = index.checked_sub(1).map_or("", |before| lines[before]);
            // "[store.embedded]" is explained as a whole; so are a user and its password.
            let explained = before.starts_with("# ") || before.starts_with("[store") || before.starts_with("#user");
            assert!(explained, "{file}: {name} has no comment before it");
        }
    }
}

/// A unit: section, then name, then its values in order.
type Unit = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn unit(file: &str) -> Unit {
    let mut unit = Unit::new();
    let mut section = String::new();
    for line in text(file).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else {
            let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("{file}: {line:?} is no setting"));
            assert!(!section.is_empty(), "{file}: {line:?} is in no section");
            unit.entry(section.clone()).or_default().entry(name.to_owned()).or_default().push(value.to_owned());
        }
    }
    unit
}

const HARDENING: &[(&str, &str)] = &[
    ("NoNewPrivileges", "yes"),
    ("CapabilityBoundingSet", ""),
    ("ProtectSystem", "strict"),
    ("ProtectHome", "yes"),
    ("PrivateTmp", "yes"),
    ("PrivateDevices", "yes"),
    ("ProtectClock", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX AF_NETLINK"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("LockPersonality", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "@system-service"),
    ("UMask", "0077"),
    ("Restart", "always"),
];

fn assert_hardened(file: &str, service: &BTreeMap<String, Vec<String>>) {
    for (name, value) in HARDENING {
        let given = service.get(*name).unwrap_or_else(|| panic!("{file}: no {name}"));
        assert_eq!(given[0], *value, "{file}: {name}");
    }
}

/// Seconds of a systemd time of one unit.
fn seconds(value: &str) -> u64 {
    value.strip_suffix('s').and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{value:?} is no time in seconds"))
}

#[tokio::test]
async fn every_unit_is_hardened_and_starts_a_real_subcommand() {
    let planes = ["dataplane", "controlplane"];
    let expected = planes.map(|plane| format!("systemd/moonbridge-{plane}.service"));
    assert_eq!(files("service"), BTreeSet::from(expected.clone()), "each is looked at here");
    let users = text("systemd/moonbridge.sysusers");
    for (plane, file) in planes.into_iter().zip(&expected) {
        let unit = unit(file);
        let service = &unit["Service"];
        assert_hardened(file, service);
        assert_eq!(service["MemoryDenyWriteExecute"], ["yes"]);
        assert_eq!(service["SystemCallFilter"], ["@system-service", "~@privileged"]);
        let user = format!("moonbridge-{plane}");
        assert_eq!((&service["User"], &service["Group"]), (&vec![user.clone()], &vec![user.clone()]));
        assert!(users.lines().any(|line| line.starts_with(&format!("u {user} "))), "{user} is made by sysusers.d");
        assert_eq!(unit["Install"]["WantedBy"], ["multi-user.target"]);
        let config = format!("/etc/moonbridge/{plane}.toml");
        assert_eq!(service["ExecStart"], [format!("/usr/bin/moonbridge {plane} --config {config}")]);
        // Exit code 2 is a wrong configuration; only that of the main process counts.
        assert!(!service.contains_key("ExecStartPre"));
        assert_eq!(service["RestartPreventExitStatus"], ["2"]);
        // Anything else is tried again for ever.
        assert_eq!(unit["Unit"]["StartLimitIntervalSec"], ["0"]);
        takes_these_arguments(&service["ExecStart"][0]).await;
        takes_these_arguments(&format!("/usr/bin/moonbridge config check {config}")).await;
        let stop = seconds(&service["TimeoutStopSec"][0]);
        let drain = moonbridge_dataplane::config::Config::default().timeouts.drain;
        assert!(Duration::from_secs(stop) > drain + Duration::from_secs(5), "{file}: a drain takes {drain:?}");
    }
    let folder = &unit(&expected[0])["Service"]["StateDirectory"][0];
    assert!(text("dataplane.toml").contains(&format!("recordings = \"/var/lib/{folder}\"")), "StateDirectory is the example's: {folder}");
    let store = controlplane("").expect("the defaults");
    assert_eq!(unit(&expected[1])["Service"]["StateDirectory"], ["moonbridge"]);
    assert!(store.contains("\"/var/lib/moonbridge\""), "StateDirectory is the default data_dir: {store}");
}

/// The binary knows every word and option of the command line: what is wrong with it is only that the file is not there.
async fn takes_these_arguments(command: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.toml").display().to_string();
    let arguments: Vec<&str> =
        command.split(' ').skip(1).map(|word| if word.ends_with(".toml") { missing.as_str() } else { word }).collect();
    assert!(arguments.contains(&missing.as_str()), "{command} names a file");
    let run = Command::new(moonbridge()).args(&arguments).stdin(Stdio::null()).output();
    let output = tokio::time::timeout(SOON, run).await.expect("it ends").expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{command}: {said}");
    assert!(said.contains(&missing) && said.contains("No such file"), "{command}: {said}");
    assert!(!said.contains("Usage:"), "{command}: {said}");
}

#[tokio::test]
async fn config_check_takes_every_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, ..) in CONFIGS {
        let run = Command::new(moonbridge()).args(["config", "check"]).arg(deploy().join(file)).stdin(Stdio::null()).output();
        let output = tokio::time::timeout(SOON, run).await.expect("it ends").expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{file}: {said}");
        // That it looks at all: the same file with two mistakes.
        let wrong = folder.path().join(file);
        let broken = text(file)
            .replace("listen = \"127.0.0.1:", "listen = \"nowhere:")
            .replace("allow_insecure_control = false", "allow_insecure_control = 3");
        std::fs::write(&wrong, broken).expect("written");
        let run = Command::new(moonbridge()).args(["config", "check"]).arg(&wrong).stdin(Stdio::null()).output();
        let output = tokio::time::timeout(SOON, run).await.expect("it ends").expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(said.contains("listen: ") && said.contains("allow_insecure_control: "), "{file}: {said}");
    }
}

/// `NAME=value` settings for etcd, of the drop-in and of /etc/default/etcd, those that are comments there included or not.
fn etcd_settings(with_comments: bool) -> Vec<(String, String)> {
    let drop_in = unit("systemd/etcd.service.d/moonbridge.conf");
    let defaults = text("systemd/etcd.default");
    let lines = defaults.lines().map(|line| if with_comments { line.trim_start_matches('#') } else { line });
    let lines = lines.filter(|line| line.starts_with("ETCD_")).map(str::to_owned);
    let settings = drop_in["Service"]["Environment"].iter().cloned().chain(lines);
    settings.map(|line| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).expect("NAME=value")).collect()
}

#[tokio::test]
async fn a_real_etcd_takes_its_settings() {
    let file = "systemd/etcd.service.d/moonbridge.conf";
    assert_hardened(file, &unit(file)["Service"]);

    // Every name is one that etcd has: it takes each flag from the environment under its own name.
    let help = Command::new("etcd").arg("--help").output().await.expect("etcd is installed (Debian: etcd-server)");
    let help = String::from_utf8_lossy(&help.stdout) + String::from_utf8_lossy(&help.stderr);
    for (name, _) in etcd_settings(true) {
        let flag = format!("--{}", name.trim_start_matches("ETCD_").to_lowercase().replace('_', "-"));
        assert!(help.split_whitespace().any(|word| word == flag), "{name}: etcd has no {flag}");
    }

    // And it starts with the values, moved to free ports and a folder of the test.
    let folder = tempfile::tempdir().expect("a folder");
    let held = [std::net::TcpListener::bind("127.0.0.1:0"), std::net::TcpListener::bind("127.0.0.1:0")];
    let [client, peer] = held.map(|held| held.expect("a free port").local_addr().expect("bound").port().to_string());
    let mut command = Command::new("etcd");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCD_")) {
        command.env_remove(name);
    }
    for (name, value) in etcd_settings(false) {
        command.env(name, value.replace(":2379", &format!(":{client}")).replace(":2380", &format!(":{peer}")));
    }
    command.env("ETCD_DATA_DIR", folder.path().join("data"));
    if cfg!(target_arch = "aarch64") {
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    }
    let mut etcd = Process::start("etcd", command);
    etcd.line("serving clients", |line| line.contains("client requests").then_some(())).await;
    for line in etcd.lines() {
        assert!(!line.to_lowercase().contains("unrecognized environment variable"), "{line}");
    }
    etcd.kill().await;
}
