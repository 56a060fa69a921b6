//! `moonbridge permission settings`: by the names that the settings have in LuckPerms' `config.yml`.

use moonbridge_permissions::Settings;
use moonbridge_proto::v1::{self, MetaSelection, PermissionTraversal, PrimaryGroupCalculation, TemporaryAddBehaviour};
use serde_json::{Map, Value};

use super::super::Session;
use crate::args::Format;
use crate::args::permission::SettingsVerb;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};

/// Runs a verb.
pub(super) async fn run(mut session: Session, verb: SettingsVerb) -> Outcome {
    let settings = session.permissions.get_permission_settings(v1::GetPermissionSettingsRequest {}).await.map_err(refused)?.into_inner();
    let settings = match verb {
        SettingsVerb::Show => settings,
        SettingsVerb::Set { settings: changes } => {
            let settings = Some(changed(settings, &changes).map_err(Failure::usage)?);
            session.permissions.set_permission_settings(v1::SetPermissionSettingsRequest { settings }).await.map_err(refused)?.into_inner()
        }
    };
    print(&settings, session.output)
}

fn print(settings: &v1::PermissionSettings, format: Format) -> Outcome {
    let pairs = pairs(settings);
    if format != Format::Table {
        let object: Map<String, Value> = pairs.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
        return output::document(format, &object);
    }
    let mut listing = Listing::new(&["key", "value"]);
    for (key, value) in pairs {
        // Spaces are to be seen.
        let value = if value != value.trim() { format!("{value:?}") } else { value };
        listing.push([Value::String(key), Value::String(value)]);
    }
    listing.print(format, "")
}

/// The settings with changes, checked whole.
fn changed(mut settings: v1::PermissionSettings, changes: &[(String, String)]) -> Result<v1::PermissionSettings, String> {
    let mut mistakes = Vec::new();
    for (key, value) in changes {
        if let Err(problem) = set(&mut settings, key, value) {
            mistakes.push(format!("{key}: {problem}"));
        }
    }
    if mistakes.is_empty()
        && let Err(invalid) = Settings::try_from(&settings)
    {
        mistakes.extend(invalid.into_iter().map(|mistake| format!("{}: {}", mistake.path, mistake.problem)));
    }
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes.join("\n")) }
}

/// Every setting that there is, with its value as it is set.
fn pairs(settings: &v1::PermissionSettings) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = FIELDS.iter().map(|(key, field)| ((*key).to_owned(), field.get(settings))).collect();
    for (of, stack) in [(PREFIX, settings.prefix.clone()), (SUFFIX, settings.suffix.clone())] {
        let stack = stack.unwrap_or_default();
        pairs.extend(STACK.iter().map(|(key, part)| (format!("{of}{key}"), part.get(&stack))));
    }
    pairs.push((SELECTION.to_owned(), word(&SELECTIONS, settings.meta_selection)));
    let mut of: Vec<_> = settings.meta_selection_of.iter().collect();
    of.sort();
    pairs.extend(of.into_iter().map(|(key, value)| (format!("{SELECTION_OF}{key}"), word(&SELECTIONS, *value))));
    for context in settings.static_contexts.chunk_by(|a, b| a.key == b.key) {
        let values: Vec<&str> = context.iter().map(|context| context.value.as_str()).collect();
        pairs.push((format!("{STATIC}{}", context[0].key), values.join(",")));
    }
    pairs
}

fn set(settings: &mut v1::PermissionSettings, key: &str, value: &str) -> Result<(), String> {
    if let Some((_, field)) = FIELDS.iter().find(|(name, _)| *name == key) {
        return field.set(settings, value);
    }
    if let Some(part) = key.strip_prefix(PREFIX) {
        return set_part(settings.prefix.get_or_insert_default(), part, value);
    }
    if let Some(part) = key.strip_prefix(SUFFIX) {
        return set_part(settings.suffix.get_or_insert_default(), part, value);
    }
    if key == SELECTION {
        settings.meta_selection = number(&SELECTIONS, value)?;
        return Ok(());
    }
    if let Some(of) = key.strip_prefix(SELECTION_OF).filter(|of| !of.is_empty()).map(str::to_lowercase) {
        match value {
            "" => settings.meta_selection_of.remove(&of),
            value => settings.meta_selection_of.insert(of, number(&SELECTIONS, value)?),
        };
        return Ok(());
    }
    if let Some(of) = key.strip_prefix(STATIC).filter(|of| !of.is_empty()).map(str::to_lowercase) {
        let contexts = &mut settings.static_contexts;
        contexts.retain(|context| context.key != of);
        contexts.extend(list(value).map(|value| v1::PermissionContext { key: of.clone(), value: value.to_lowercase() }));
        contexts.sort_by(|a, b| (&a.key, &a.value).cmp(&(&b.key, &b.value)));
        return Ok(());
    }
    Err(unknown())
}

fn set_part(stack: &mut v1::MetaStack, part: &str, value: &str) -> Result<(), String> {
    let found = STACK.iter().find(|(name, _)| *name == part);
    found.map_or_else(|| Err(unknown()), |(_, part)| part.set(stack, value))
}

fn unknown() -> String {
    "there is no such setting; `moonbridge permission settings show` lists them (and meta-value-selection.KEY, static-contexts.KEY)"
        .to_owned()
}

/// What of a message a key stands for.
struct Field<M> {
    get: fn(&M) -> String,
    set: fn(&mut M, &str) -> Result<(), String>,
}

impl<M> Field<M> {
    fn get(&self, message: &M) -> String {
        (self.get)(message)
    }

    fn set(&self, message: &mut M, value: &str) -> Result<(), String> {
        (self.set)(message, value)
    }
}

macro_rules! field {
    (text $name:ident) => {
        Field { get: |message| message.$name.clone(), set: |message, value| put(&mut message.$name, value.to_owned()) }
    };
    (truth $name:ident) => {
        Field { get: |message| message.$name.to_string(), set: |message, value| put(&mut message.$name, truth(value)?) }
    };
    ($words:ident $name:ident) => {
        Field { get: |message| word(&$words, message.$name), set: |message, value| put(&mut message.$name, number(&$words, value)?) }
    };
}

const PREFIX: &str = "meta-formatting.prefix.";
const SUFFIX: &str = "meta-formatting.suffix.";
const SELECTION: &str = "meta-value-selection-default";
const SELECTION_OF: &str = "meta-value-selection.";
const STATIC: &str = "static-contexts.";

const FIELDS: [(&str, Field<v1::PermissionSettings>); 10] = [
    ("server", field!(text server)),
    ("context-satisfy-mode", SATISFY),
    ("inheritance-traversal-algorithm", field!(TRAVERSALS traversal)),
    ("post-traversal-inheritance-sort", field!(truth sort_after_traversal)),
    ("primary-group-calculation", field!(PRIMARY_GROUPS primary_group)),
    ("temporary-add-behaviour", field!(TEMPORARY_ADDS temporary_add)),
    ("apply-wildcards", field!(truth apply_wildcards)),
    ("apply-regex", field!(truth apply_regex)),
    ("apply-shorthand", field!(truth apply_shorthand)),
    ("apply-sponge-implicit-wildcards", field!(truth apply_implicit_wildcards)),
];

const STACK: [(&str, Field<v1::MetaStack>); 5] = [
    ("format", ELEMENTS),
    ("start-spacer", field!(text start_spacer)),
    ("middle-spacer", field!(text middle_spacer)),
    ("end-spacer", field!(text end_spacer)),
    ("duplicates", field!(text duplicates)),
];

/// The names of an enumeration's values; the first is also what unspecified means.
type Words = [(&'static str, i32); 3];

const TRAVERSALS: Words = [
    ("depth-first-pre-order", PermissionTraversal::DepthFirstPreOrder as i32),
    ("breadth-first", PermissionTraversal::BreadthFirst as i32),
    ("depth-first-post-order", PermissionTraversal::DepthFirstPostOrder as i32),
];
const PRIMARY_GROUPS: Words = [
    ("parents-by-weight", PrimaryGroupCalculation::ParentsByWeight as i32),
    ("all-parents-by-weight", PrimaryGroupCalculation::AllParentsByWeight as i32),
    ("stored", PrimaryGroupCalculation::Stored as i32),
];
const TEMPORARY_ADDS: Words = [
    ("deny", TemporaryAddBehaviour::Deny as i32),
    ("replace", TemporaryAddBehaviour::Replace as i32),
    ("accumulate", TemporaryAddBehaviour::Accumulate as i32),
];
const SELECTIONS: Words = [
    ("inheritance", MetaSelection::Inheritance as i32),
    ("highest-number", MetaSelection::HighestNumber as i32),
    ("lowest-number", MetaSelection::LowestNumber as i32),
];

const SATISFY: Field<v1::PermissionSettings> = Field {
    get: |settings| if settings.contexts_want_all_values { "all-values-per-key" } else { "at-least-one-value-per-key" }.to_owned(),
    set: |settings, value| {
        let all = match value {
            "all-values-per-key" => true,
            "at-least-one-value-per-key" => false,
            _ => return Err(format!("expected at-least-one-value-per-key or all-values-per-key, got {value:?}")),
        };
        put(&mut settings.contexts_want_all_values, all)
    },
};

const ELEMENTS: Field<v1::MetaStack> = Field {
    get: |stack| if stack.elements.is_empty() { "highest".to_owned() } else { stack.elements.join(",") },
    set: |stack, value| put(&mut stack.elements, list(value).map(str::to_owned).collect()),
};

fn put<T>(place: &mut T, value: T) -> Result<(), String> {
    *place = value;
    Ok(())
}

fn truth(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("expected true or false, got {value:?}"))
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn word(words: &Words, number: i32) -> String {
    let found = words.iter().find(|(_, value)| *value == number);
    found.map_or_else(|| if number == 0 { words[0].0.to_owned() } else { number.to_string() }, |(word, _)| (*word).to_owned())
}

fn number(words: &Words, word: &str) -> Result<i32, String> {
    let found = words.iter().find(|(name, _)| *name == word);
    let [(a, _), (b, _), (c, _)] = words;
    found.map(|(_, value)| *value).ok_or_else(|| format!("expected {a}, {b} or {c}, got {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default() -> v1::PermissionSettings {
        (&Settings::default()).into()
    }

    fn with(changes: &[(&str, &str)]) -> Result<v1::PermissionSettings, String> {
        let changes: Vec<(String, String)> = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        changed(default(), &changes)
    }

    #[test]
    fn the_defaults_are_those_of_luckperms() {
        let pairs = pairs(&default());
        let expected = [
            ("server", "proxy"),
            ("context-satisfy-mode", "at-least-one-value-per-key"),
            ("inheritance-traversal-algorithm", "depth-first-pre-order"),
            ("post-traversal-inheritance-sort", "false"),
            ("primary-group-calculation", "parents-by-weight"),
            ("temporary-add-behaviour", "deny"),
            ("apply-wildcards", "true"),
            ("apply-regex", "true"),
            ("apply-shorthand", "true"),
            ("apply-sponge-implicit-wildcards", "false"),
            ("meta-formatting.prefix.format", "highest"),
            ("meta-formatting.prefix.start-spacer", ""),
            ("meta-formatting.prefix.middle-spacer", " "),
            ("meta-formatting.prefix.end-spacer", ""),
            ("meta-formatting.prefix.duplicates", "first-only"),
            ("meta-formatting.suffix.format", "highest"),
            ("meta-formatting.suffix.start-spacer", ""),
            ("meta-formatting.suffix.middle-spacer", " "),
            ("meta-formatting.suffix.end-spacer", ""),
            ("meta-formatting.suffix.duplicates", "first-only"),
            ("meta-value-selection-default", "inheritance"),
        ];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    /// What is shown can be set: every setting, to something else than its default.
    #[test]
    fn what_is_shown_can_be_set() {
        let settings = with(&[
            ("server", "hub"),
            ("context-satisfy-mode", "all-values-per-key"),
            ("inheritance-traversal-algorithm", "breadth-first"),
            ("post-traversal-inheritance-sort", "true"),
            ("primary-group-calculation", "stored"),
            ("temporary-add-behaviour", "accumulate"),
            ("apply-wildcards", "false"),
            ("apply-regex", "false"),
            ("apply-shorthand", "false"),
            ("apply-sponge-implicit-wildcards", "true"),
            ("meta-formatting.prefix.format", "highest_on_track_staff, lowest_own"),
            ("meta-formatting.prefix.start-spacer", "["),
            ("meta-formatting.prefix.middle-spacer", "="),
            ("meta-formatting.prefix.end-spacer", "] "),
            ("meta-formatting.prefix.duplicates", "last-only"),
            ("meta-formatting.suffix.duplicates", "retain-all"),
            ("meta-value-selection-default", "highest-number"),
            ("meta-value-selection.Home-Limit", "lowest-number"),
            ("static-contexts.Region", "EU,Us"),
        ])
        .unwrap();
        let shown = pairs(&settings);
        let of = |key: &str| shown.iter().find(|(shown, _)| shown == key).map(|(_, value)| value.as_str());
        assert_eq!(of("static-contexts.region"), Some("eu,us"));
        assert_eq!(of("meta-value-selection.home-limit"), Some("lowest-number"));
        assert_eq!(of("meta-formatting.prefix.format"), Some("highest_on_track_staff,lowest_own"));
        let same = FIELDS.iter().filter(|(key, field)| of(key) == Some(field.get(&default()).as_str())).count();
        assert_eq!(same, 0, "{shown:?}");
        assert_eq!(changed(default(), &shown).unwrap(), settings);
    }

    #[test]
    fn an_empty_value_takes_away() {
        let settings = with(&[("static-contexts.a", "b"), ("meta-value-selection.k", "lowest-number"), ("server", "")]).unwrap();
        assert_eq!(settings.server, "");
        let gone = [("static-contexts.a".to_owned(), String::new()), ("meta-value-selection.k".to_owned(), String::new())];
        let settings = changed(settings, &gone).unwrap();
        assert!(settings.static_contexts.is_empty() && settings.meta_selection_of.is_empty());
    }

    #[test]
    fn every_mistake_is_named() {
        for (key, value, expected) in [
            ("apply-regex", "yes", "true or false"),
            ("applyregex", "true", "settings show"),
            ("meta-formatting.prefix.color", "red", "settings show"),
            ("temporary-add-behaviour", "ask", "deny, replace or accumulate"),
            ("context-satisfy-mode", "all", "all-values-per-key"),
            ("meta-formatting.prefix.format", "highest,middle", "middle"),
            ("meta-formatting.suffix.duplicates", "some", "retain-all"),
            ("static-contexts.", "x", "settings show"),
            ("meta-value-selection.k", "average", "highest-number"),
        ] {
            let problem = with(&[(key, value)]).unwrap_err();
            assert!(problem.contains(expected), "{key}={value}: {problem}");
        }
        let both = with(&[("apply-regex", "yes"), ("nonsense", "1")]).unwrap_err();
        assert!(both.contains("apply-regex:") && both.contains("nonsense:"), "{both}");
    }
}
