//! Permission settings by the names that they have in LuckPerms' `config.yml`: as people see and set them, and as the audit keeps them.

use crate::v1::{self, MetaSelection, PermissionTraversal, PrimaryGroupCalculation, TemporaryAddBehaviour};

/// Every setting that there is, with its value as it is set.
pub fn pairs(settings: &v1::PermissionSettings) -> Vec<(String, String)> {
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
        let values = context.iter().map(|context| context.value.as_str());
        pairs.push((format!("{STATIC}{}", context[0].key), joined(values)));
    }
    pairs
}

/// Sets one of them.
///
/// # Errors
/// If there is no such setting, or it has no such value.
pub fn set(settings: &mut v1::PermissionSettings, key: &str, value: &str) -> Result<(), SettingError> {
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
    Err(SettingError::Unknown)
}

fn set_part(stack: &mut v1::MetaStack, part: &str, value: &str) -> Result<(), SettingError> {
    let found = STACK.iter().find(|(name, _)| *name == part);
    found.map_or(Err(SettingError::Unknown), |(_, part)| part.set(stack, value))
}

/// Why a setting cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Nothing has this name.
    #[error(
        "there is no such setting; `moonbridge permission settings show` lists them (and meta-value-selection.KEY, static-contexts.KEY)"
    )]
    Unknown,
    /// It takes other values.
    #[error("expected {expected}, got {got:?}")]
    Value {
        /// Those that it takes.
        expected: String,
        /// The one that was given.
        got: String,
    },
}

impl SettingError {
    fn value(expected: impl Into<String>, got: &str) -> Self {
        Self::Value { expected: expected.into(), got: got.to_owned() }
    }
}

/// What of a message a key stands for.
struct Field<M> {
    get: fn(&M) -> String,
    set: fn(&mut M, &str) -> Result<(), SettingError>,
}

impl<M> Field<M> {
    fn get(&self, message: &M) -> String {
        (self.get)(message)
    }

    fn set(&self, message: &mut M, value: &str) -> Result<(), SettingError> {
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
    (on $name:ident) => {
        Field {
            get: |message| message.$name.unwrap_or(true).to_string(),
            set: |message, value| put(&mut message.$name, Some(truth(value)?)),
        }
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
    ("apply-wildcards", field!(on apply_wildcards)),
    ("apply-regex", field!(on apply_regex)),
    ("apply-shorthand", field!(on apply_shorthand)),
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
            _ => return Err(SettingError::value("at-least-one-value-per-key or all-values-per-key", value)),
        };
        put(&mut settings.contexts_want_all_values, all)
    },
};

const ELEMENTS: Field<v1::MetaStack> = Field {
    get: |stack| if stack.elements.is_empty() { "highest".to_owned() } else { joined(stack.elements.iter().map(String::as_str)) },
    set: |stack, value| put(&mut stack.elements, list(value).map(str::to_owned).collect()),
};

fn put<T>(place: &mut T, value: T) -> Result<(), SettingError> {
    *place = value;
    Ok(())
}

fn truth(value: &str) -> Result<bool, SettingError> {
    value.parse().map_err(|_| SettingError::value("true or false", value))
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// What [`list`] takes apart. An item with a comma, which it cannot give, is to look like one.
fn joined<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.map(|item| if item.contains(',') { format!("{item:?}") } else { item.to_owned() }).collect();
    items.join(",")
}

fn word(words: &Words, number: i32) -> String {
    let found = words.iter().find(|(_, value)| *value == number);
    found.map_or_else(|| if number == 0 { words[0].0.to_owned() } else { number.to_string() }, |(word, _)| (*word).to_owned())
}

fn number(words: &Words, word: &str) -> Result<i32, SettingError> {
    let found = words.iter().find(|(name, _)| *name == word);
    let [(a, _), (b, _), (c, _)] = words;
    found.map(|(_, value)| *value).ok_or_else(|| SettingError::value(format!("{a}, {b} or {c}"), word))
}
