//! Lines as people type them.

use clap::Parser;

use super::*;
use crate::args::{Cli, Command};

fn parse(line: &[&str]) -> Result<PermissionVerb, String> {
    let line = ["moonbridge", "permission"].iter().chain(line);
    match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
        Command::Permission { verb, .. } => Ok(verb),
        other => panic!("{other:?}"),
    }
}

fn good(line: &[&str]) -> PermissionVerb {
    parse(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

#[test]
fn a_grant_with_everything() {
    let verb = good(&[
        "user",
        "Ada",
        "set",
        "Some.Node",
        "false",
        "--for",
        "1d12h",
        "--context",
        "World= Lobby",
        "--context",
        "server=proxy",
        "--if-exists",
        "accumulate",
        "--revision",
        "7",
        "-o",
        "json",
    ]);
    let PermissionVerb::User { player, verb: UserVerb::Change(ChangeVerb::Set { change, node, value, temporary }) } = verb else {
        panic!("{verb:?}")
    };
    assert_eq!((player.as_str(), node.as_str(), value), ("Ada", "Some.Node", false));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(change.contexts, [pair("world", "lobby"), pair("server", "proxy")]);
    assert_eq!(change.at.revision, Some(7));
    assert_eq!(temporary.until.lasting, Some(36 * 3_600));
    assert_eq!(temporary.if_exists, Some(IfExistsArg::Accumulate));
}

/// Each of the lines, in every form.
#[test]
fn every_line_is_understood() {
    let lines: &[&[&str]] = &[
        &["user", "Ada", "info"],
        &["user", "Ada", "set", "a.b"],
        &["user", "Ada", "set", "a.b", "true", "--until", "2099-12-31"],
        &["user", "Ada", "set", "--", "-a.b", "false"],
        &["user", "SET", "set", "a.b"],
        &["user", "Ada", "unset", "a.b", "--context", "world=lobby"],
        &["user", "Ada", "parent", "add", "mod", "--for", "2w"],
        &["user", "Ada", "parent", "remove", "mod"],
        &["user", "Ada", "parent", "set", "mod", "--context", "world=a", "--context", "world=b"],
        &["user", "Ada", "meta", "set", "home-limit", "5", "--for", "1h"],
        &["user", "Ada", "meta", "unset", "home-limit"],
        &["user", "Ada", "meta", "add-prefix", "-50", "&a[Mod] ", "--for", "1h", "--if-exists", "replace"],
        &["user", "Ada", "meta", "remove-prefix", "50", "&a[Mod] "],
        &["user", "Ada", "meta", "add-suffix", "50", ""],
        &["user", "Ada", "meta", "remove-suffix", "50", "x"],
        &["user", "Ada", "promote", "staff", "--context", "world=lobby"],
        &["user", "Ada", "demote", "staff"],
        &["user", "Ada", "primary", "mod"],
        &["user", "Ada", "clear"],
        &["user", "Ada", "clear", "parents", "--context", "world=lobby"],
        &["group", "list"],
        &["group", "create", "Grün.1"],
        &["group", "delete", "mod", "--revision", "7"],
        &["group", "info", "mod"],
        &["group", "set", "mod", "a.b", "false", "--for", "1h"],
        &["group", "unset", "mod", "a.b"],
        &["group", "parent", "add", "mod", "helper"],
        &["group", "parent", "remove", "mod", "helper"],
        &["group", "parent", "set", "mod", "helper"],
        &["group", "weight", "mod", "-5"],
        &["group", "displayname", "mod", "The Moderators"],
        &["group", "meta", "set", "mod", "key", "value"],
        &["group", "meta", "add-prefix", "mod", "50", "&a"],
        &["group", "clear", "mod", "meta"],
        &["group", "members", "mod"],
        &["track", "list"],
        &["track", "create", "staff"],
        &["track", "create", "staff", "default", "mod"],
        &["track", "delete", "staff"],
        &["track", "info", "staff"],
        &["track", "append", "staff", "mod"],
        &["track", "insert", "staff", "mod", "1"],
        &["track", "remove", "staff", "mod"],
        &["check", "Ada", "a.b", "--context", "world=lobby", "--explain"],
        &["check", "Ada", "a.b", "--live"],
        &["check", "Ada", "--", "-a.b"],
        &["search", "a.b"],
        &["import", "luckperms.json.gz", "--dry-run", "--replace", "--format", "luckperms"],
        &["import", "-", "--format", "bungeecord"],
        &["export", "-"],
        &["settings", "show"],
        &["settings", "set", "server=", "meta-formatting.prefix.middle-spacer= | "],
    ];
    for line in lines {
        good(line);
    }
}

#[test]
fn mistakes_say_what_was_expected() {
    let lines: &[(&[&str], &str)] = &[
        (&["user", "", "info"], "PLAYER"),
        (&["user", "Ada"], "promote"),
        (&["user", "Ada", "set", ""], "empty"),
        (&["user", "Ada", "set", "r=("], "regular expression"),
        (&["user", "Ada", "set", "a.b", "maybe"], "true, false"),
        (&["user", "Ada", "set", "-a.b"], "--"),
        (&["user", "Ada", "set", "a.b", "--context", "lobby"], "world=lobby"),
        (&["user", "Ada", "set", "a.b", "--context", "world="], "KEY=VALUE"),
        (&["user", "Ada", "set", "a.b", "--for", "soon"], "1d12h"),
        (&["user", "Ada", "set", "a.b", "--until", "soon"], "2026-12-31"),
        (&["user", "Ada", "set", "a.b", "--for", "1d", "--until", "2099-12-31"], "cannot be used with"),
        (&["user", "Ada", "set", "a.b", "--if-exists", "deny"], "--for"),
        (&["user", "Ada", "meta", "set", "", "5"], "KEY"),
        (&["user", "Ada", "meta", "add-prefix", "high", "x"], "PRIORITY"),
        (&["user", "Ada", "parent", "add", "two words"], "two words"),
        (&["group", "create", ""], "characters"),
        (&["group", "create", "a group"], "without spaces"),
        (&["group", "weight", "mod", "heavy"], "NUMBER"),
        (&["track", "insert", "staff", "mod", "0"], "POSITION"),
        (&["check", "Ada", ""], "NODE"),
        (&["check", "Ada", "a.b", "--live", "--explain"], "cannot be used with"),
        (&["import", "f", "--format", "essentials"], "bungeecord"),
        (&["settings", "set", "apply-regex"], "KEY=VALUE"),
        (&["settings", "set"], "KEY=VALUE"),
    ];
    for (line, expected) in lines {
        let error = parse(line).expect_err(&format!("{line:?}"));
        assert!(error.contains(expected), "{line:?}: {error}");
    }
}
