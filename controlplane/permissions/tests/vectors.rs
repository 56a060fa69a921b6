//! The hand-written cases of `testing/vectors/permissions`; its README says how they are read.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use moonbridge_permissions::context::Satisfy;
use moonbridge_permissions::format::luckperms;
use moonbridge_permissions::settings::{Duplicates, MetaSelection, PrimaryGroup, Stack, Traversal};
use moonbridge_permissions::track::{Direction, TrackError, step};
use moonbridge_permissions::{Answer, Contexts, Groups, Kind, Node, Resolved, Settings, Tracks, User, duration, explain, holder, resolve};
use serde_json::{Value, json};
use uuid::Uuid;

/// What the network is like that a file asks about.
struct Network {
    groups: Groups,
    tracks: Tracks,
    users: BTreeMap<String, User>,
}

#[test]
fn every_case_is_answered_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/permissions");
    let (mut asked, mut wrong) = (0, Vec::new());
    for path in files(&folder) {
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let Some(cases) = file["cases"].as_array() else { continue };
        let network = Network::of(&file["data"]);
        for case in cases {
            asked += 1;
            let (got, expected) = network.ask(case, case["now"].as_i64().or(file["now"].as_i64()).unwrap());
            if got != expected {
                let name = path.file_stem().unwrap().to_string_lossy();
                wrong.push(format!("{name}: {}: expected {expected}, got {got}", case["name"].as_str().unwrap()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked >= 150, "only {asked} cases were found");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

impl Network {
    fn of(data: &Value) -> Self {
        let imported = luckperms::read(data.to_string().as_bytes()).unwrap();
        Self {
            groups: imported.groups.into_iter().map(|group| (group.name().to_string(), Arc::new(group))).collect(),
            tracks: imported.tracks.into_iter().map(|track| (track.name().to_string(), Arc::new(track))).collect(),
            users: imported.users.into_iter().map(|user| (user.username.clone().unwrap(), user)).collect(),
        }
    }

    /// What comes of a case, and what should.
    fn ask(&self, case: &Value, now: i64) -> (Value, Value) {
        let expect = case["expect"].clone();
        let text = |key: &str| case[key].as_str();
        if let Some(key) = text("key") {
            (json!(kind(key)), expect)
        } else if let Some(name) = text("groupName") {
            (json!(holder::name(name).ok().as_deref()), expect)
        } else if let Some(duration) = text("duration") {
            (json!(duration::parse(duration).ok()), expect)
        } else if let Some(group) = text("groupWeight") {
            (json!(self.groups[group].weight(now)), expect)
        } else if let Some(group) = text("groupDisplayName") {
            (json!(self.groups[group].display_name(now)), expect)
        } else if let Some(track) = text("promote") {
            self.step(case, track, Direction::Promote, now)
        } else if let Some(track) = text("demote") {
            self.step(case, track, Direction::Demote, now)
        } else if let Some(permission) = text("permission") {
            (self.check(case, permission, now), expect)
        } else if let Some(key) = text("meta") {
            (json!(self.resolved(case, now).meta(key)), expect)
        } else if let Some(expected) = case.get("prefix") {
            (json!(self.resolved(case, now).prefix()), expected.clone())
        } else if let Some(expected) = case.get("suffix") {
            (json!(self.resolved(case, now).suffix()), expected.clone())
        } else if let Some(expected) = case.get("primaryGroup") {
            (json!(self.resolved(case, now).primary_group()), expected.clone())
        } else if let Some(expected) = case.get("inherits") {
            let inherited: Vec<_> = self.resolved(case, now).inherited().map(|group| group.name().to_string()).collect();
            (json!(inherited), expected.clone())
        } else {
            panic!("nothing is asked by {case}")
        }
    }

    fn user(&self, case: &Value) -> User {
        let user = case["user"].as_str().unwrap();
        self.users.get(user).cloned().unwrap_or_else(|| User::unknown(Uuid::parse_str(user).unwrap()))
    }

    fn resolved(&self, case: &Value, now: i64) -> Resolved {
        resolve(&self.user(case), &self.groups, &self.tracks, &settings(&case["settings"]), &contexts(&case["context"]), now)
    }

    fn check(&self, case: &Value, permission: &str, now: i64) -> Value {
        let answer = self.resolved(case, now).check(permission);
        let (settings, contexts) = (settings(&case["settings"]), contexts(&case["context"]));
        let explained = explain(&self.user(case), &self.groups, &self.tracks, &settings, &contexts, now, permission);
        match (show(answer), show(explained.answer)) {
            (check, explained) if check == explained => json!(check),
            (check, explained) => json!(format!("{check}, explained as {explained}")),
        }
    }

    fn step(&self, case: &Value, track: &str, direction: Direction, now: i64) -> (Value, Value) {
        let mut user = self.user(case);
        let moved = step(&mut user, &self.tracks[track], &self.groups, &contexts(&case["context"]), direction, now);
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                assert_eq!(user, self.user(case), "a step that fails changes nothing");
                return (json!({"error": show_error(&error)}), json!({"error": case["error"]}));
            }
        };
        let mut got = json!({"from": moved.from.as_deref(), "to": moved.to.as_deref()});
        let mut expected = case["expect"].clone();
        if let Some(nodes) = expected.get_mut("nodes") {
            nodes.as_array_mut().unwrap().sort_by_key(Value::to_string);
            let mut lines: Vec<_> = user.nodes.iter().map(show_node).collect();
            lines.sort_by_key(|line| json!(line).to_string());
            got["nodes"] = json!(lines);
        }
        if expected.get("primaryGroup").is_some() {
            got["primaryGroup"] = json!(user.primary_group.as_deref());
        }
        (got, expected)
    }
}

fn kind(key: &str) -> String {
    let Ok(node) = Node::new(key, true, Contexts::none(), None) else { return "error".to_owned() };
    match node.kind() {
        Kind::Inheritance(group) => format!("inheritance {group}"),
        Kind::Prefix(priority, text) => format!("prefix {priority} {text}"),
        Kind::Suffix(priority, text) => format!("suffix {priority} {text}"),
        Kind::Meta(key, value) => format!("meta {key} {value}"),
        Kind::Weight(weight) => format!("weight {weight}"),
        Kind::DisplayName(name) => format!("displayname {name}"),
        Kind::Regex(_) => "regex".to_owned(),
        Kind::Permission(_) => "permission".to_owned(),
        other => format!("{other:?}"),
    }
}

fn show(answer: Answer) -> &'static str {
    match answer {
        Answer::True => "true",
        Answer::False => "false",
        Answer::Undefined => "undefined",
    }
}

fn show_node(node: &Node) -> String {
    let mut line = node.key().to_string();
    for (key, value) in node.contexts().iter() {
        line += &format!(" {key}={value}");
    }
    if !node.value() {
        line += " false";
    }
    if let Some(expiry) = node.expiry() {
        line += &format!(" until {expiry}");
    }
    line
}

fn show_error(error: &TrackError) -> &'static str {
    match error {
        TrackError::Empty(_) => "empty",
        TrackError::Ambiguous { .. } => "ambiguous",
        TrackError::End(_) => "end",
        TrackError::NotOnTrack(_) => "not_on_track",
        TrackError::NoGroup(_) => "no_group",
        _ => "another",
    }
}

fn contexts(given: &Value) -> Contexts {
    let mut contexts = Contexts::none();
    for (key, values) in given.as_object().into_iter().flatten() {
        for value in values.as_array().map_or(std::slice::from_ref(values), |values| values) {
            contexts.add(key, value.as_str().unwrap()).unwrap();
        }
    }
    contexts
}

fn settings(given: &Value) -> Settings {
    let mut settings = Settings::default();
    for (key, value) in given.as_object().into_iter().flatten() {
        match (&**key, value.as_str()) {
            ("apply-wildcards", _) => settings.wildcards = value.as_bool().unwrap(),
            ("apply-regex", _) => settings.regex = value.as_bool().unwrap(),
            ("apply-shorthand", _) => settings.shorthand = value.as_bool().unwrap(),
            ("apply-sponge-implicit-wildcards", _) => settings.implicit_wildcards = value.as_bool().unwrap(),
            ("post-traversal-inheritance-sort", _) => settings.sort_after_traversal = value.as_bool().unwrap(),
            ("context-satisfy-mode", Some("all-values-per-key")) => settings.satisfy = Satisfy::All,
            ("inheritance-traversal-algorithm", Some("breadth-first")) => settings.traversal = Traversal::BreadthFirst,
            ("inheritance-traversal-algorithm", Some("depth-first-post-order")) => settings.traversal = Traversal::DepthFirstPostOrder,
            ("primary-group-calculation", Some("all-parents-by-weight")) => settings.primary_group = PrimaryGroup::AllParentsByWeight,
            ("primary-group-calculation", Some("stored")) => settings.primary_group = PrimaryGroup::Stored,
            ("meta-value-selection-default", Some(selection)) => settings.meta_selection = meta_selection(selection),
            ("meta-value-selection", _) => {
                let keys = value.as_object().unwrap().iter();
                settings.meta_selection_of = keys.map(|(key, value)| (key.clone(), meta_selection(value.as_str().unwrap()))).collect();
            }
            ("meta-formatting", _) => {
                stack(&mut settings.prefix, &value["prefix"]);
                stack(&mut settings.suffix, &value["suffix"]);
            }
            _ => panic!("no setting is {key}: {value}"),
        }
    }
    settings
}

fn meta_selection(name: &str) -> MetaSelection {
    match name {
        "inheritance" => MetaSelection::Inheritance,
        "highest-number" => MetaSelection::HighestNumber,
        "lowest-number" => MetaSelection::LowestNumber,
        other => panic!("no selection is {other}"),
    }
}

fn stack(stack: &mut Stack, given: &Value) {
    for (key, value) in given.as_object().into_iter().flatten() {
        match (&**key, value.as_str()) {
            ("format", _) => {
                let elements = value.as_array().unwrap().iter().map(|element| element.as_str().unwrap());
                stack.elements = elements.map(|element| element.parse().unwrap()).collect();
            }
            ("start-spacer", Some(text)) => stack.start_spacer = text.to_owned(),
            ("middle-spacer", Some(text)) => stack.middle_spacer = text.to_owned(),
            ("end-spacer", Some(text)) => stack.end_spacer = text.to_owned(),
            ("duplicates", Some("first-only")) => stack.duplicates = Duplicates::FirstOnly,
            ("duplicates", Some("last-only")) => stack.duplicates = Duplicates::LastOnly,
            ("duplicates", Some("retain-all")) => stack.duplicates = Duplicates::RetainAll,
            _ => panic!("no part of a format is {key}: {value}"),
        }
    }
}
