//! Permission groups, tracks, users and settings: from the wire to the types that resolve them, and back.

use std::sync::Arc;

use moonbridge_permissions::context::Satisfy;
use moonbridge_permissions::settings::{Duplicates, MetaSelection, PrimaryGroup, Settings, Stack, TemporaryAdd, Traversal};
use moonbridge_permissions::{Budget, Contexts, Group, Node, Track, User, holder};
use uuid::Uuid;

use super::mistakes::{At, Mistakes, shown};
use crate::v1;

/// The longest spacer, context key or context value in the settings, in bytes.
const MAX_WORD: usize = 256;

pub(super) fn contexts(raw: &[v1::PermissionContext], list: &str, at: &At, mistakes: &mut Mistakes) -> Contexts {
    let mut contexts = Contexts::none();
    for (index, context) in raw.iter().enumerate() {
        if let Err(error) = contexts.add(&context.key, &context.value) {
            mistakes.add(&at.item(list, index), error.to_string());
        }
    }
    contexts
}

fn nodes(raw: &[v1::PermissionNode], at: &At, mistakes: &mut Mistakes) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(raw.len());
    let mut budget = Budget::of_holder();
    for (index, raw) in raw.iter().enumerate() {
        let at = at.item("nodes", index);
        let Some(node) = node(raw, &at, mistakes) else { continue };
        if let Err(exhausted) = budget.take(&node) {
            // What follows is not even looked at: that is what would take so long.
            mistakes.add(&at.field("key"), exhausted.to_string());
            break;
        }
        nodes.push(node);
    }
    nodes
}

fn node(raw: &v1::PermissionNode, at: &At, mistakes: &mut Mistakes) -> Option<Node> {
    let contexts = contexts(&raw.contexts, "contexts", at, mistakes);
    if raw.expiry < 0 {
        // Not taken for "never": that would make something for good of what is long over.
        mistakes.add(&at.field("expiry"), format!("expected seconds since 1970, or 0 for never, got {}", raw.expiry));
    }
    let node = Node::new(&raw.key, raw.value, contexts, (raw.expiry > 0).then_some(raw.expiry));
    node.map_err(|error| mistakes.add(&at.field("key"), error.to_string())).ok()
}

pub(super) fn group(raw: &v1::PermissionGroup, at: &At, mistakes: &mut Mistakes) -> Option<Group> {
    let nodes = nodes(&raw.nodes, at, mistakes);
    Group::new(&raw.name, nodes).map_err(|error| mistakes.add(&at.field("name"), error.to_string())).ok()
}

pub(super) fn track(raw: &v1::PermissionTrack, at: &At, mistakes: &mut Mistakes) -> Option<Track> {
    let track = Track::new(&raw.name, raw.groups.iter().map(String::as_str));
    track.map_err(|error| mistakes.add(&at.field("groups"), error.to_string())).ok()
}

fn user(raw: &v1::PermissionUser, at: &At, mistakes: &mut Mistakes) -> User {
    let uuid = Uuid::try_parse(&raw.uuid).unwrap_or_else(|_| {
        mistakes.add(&at.field("uuid"), format!("expected a UUID, got {}", shown(&raw.uuid)));
        Uuid::nil()
    });
    let primary_group = match raw.primary_group.as_str() {
        "" => None,
        group => holder::name(group).map_err(|error| mistakes.add(&at.field("primary_group"), error.to_string())).ok(),
    };
    let username = (!raw.username.is_empty()).then(|| raw.username.clone());
    User { uuid, username, primary_group, nodes: nodes(&raw.nodes, at, mistakes) }
}

pub(super) fn settings(raw: &v1::PermissionSettings, at: &At, mistakes: &mut Mistakes) -> Settings {
    let unknown = |field: &str, value: i32, mistakes: &mut Mistakes| {
        mistakes.add(&at.field(field), format!("expected a value that is known here, got {value}"));
    };
    if raw.server.len() > MAX_WORD {
        mistakes.add(&at.field("server"), format!("expected at most {MAX_WORD} bytes, got {}", raw.server.len()));
    }
    let traversal = match v1::PermissionTraversal::try_from(raw.traversal) {
        Ok(v1::PermissionTraversal::Unspecified | v1::PermissionTraversal::DepthFirstPreOrder) => Traversal::DepthFirstPreOrder,
        Ok(v1::PermissionTraversal::BreadthFirst) => Traversal::BreadthFirst,
        Ok(v1::PermissionTraversal::DepthFirstPostOrder) => Traversal::DepthFirstPostOrder,
        Err(_) => {
            unknown("traversal", raw.traversal, mistakes);
            Traversal::default()
        }
    };
    let primary_group = match v1::PrimaryGroupCalculation::try_from(raw.primary_group) {
        Ok(v1::PrimaryGroupCalculation::Unspecified | v1::PrimaryGroupCalculation::ParentsByWeight) => PrimaryGroup::ParentsByWeight,
        Ok(v1::PrimaryGroupCalculation::AllParentsByWeight) => PrimaryGroup::AllParentsByWeight,
        Ok(v1::PrimaryGroupCalculation::Stored) => PrimaryGroup::Stored,
        Err(_) => {
            unknown("primary_group", raw.primary_group, mistakes);
            PrimaryGroup::default()
        }
    };
    let temporary_add = v1::TemporaryAddBehaviour::try_from(raw.temporary_add).map(temporary_add).unwrap_or_else(|_| {
        unknown("temporary_add", raw.temporary_add, mistakes);
        None
    });
    let mut selection = |field: &str, value: i32| match v1::MetaSelection::try_from(value) {
        Ok(v1::MetaSelection::Unspecified | v1::MetaSelection::Inheritance) => MetaSelection::Inheritance,
        Ok(v1::MetaSelection::HighestNumber) => MetaSelection::HighestNumber,
        Ok(v1::MetaSelection::LowestNumber) => MetaSelection::LowestNumber,
        Err(_) => {
            unknown(field, value, mistakes);
            MetaSelection::Inheritance
        }
    };
    let meta_selection = selection("meta_selection", raw.meta_selection);
    let meta_selection_of =
        raw.meta_selection_of.iter().map(|(key, value)| (key.to_lowercase(), selection("meta_selection_of", *value))).collect();
    let default = Settings::default();
    Settings {
        server: (!raw.server.is_empty()).then(|| raw.server.clone()),
        static_contexts: static_contexts(&raw.static_contexts, at, mistakes),
        satisfy: if raw.contexts_want_all_values { Satisfy::All } else { Satisfy::One },
        wildcards: raw.apply_wildcards.unwrap_or(default.wildcards),
        regex: raw.apply_regex.unwrap_or(default.regex),
        shorthand: raw.apply_shorthand.unwrap_or(default.shorthand),
        implicit_wildcards: raw.apply_implicit_wildcards,
        traversal,
        sort_after_traversal: raw.sort_after_traversal,
        primary_group,
        temporary_add: temporary_add.unwrap_or_default(),
        prefix: raw.prefix.as_ref().map(|raw| stack(raw, &at.field("prefix"), mistakes)).unwrap_or_default(),
        suffix: raw.suffix.as_ref().map(|raw| stack(raw, &at.field("suffix"), mistakes)).unwrap_or_default(),
        meta_selection,
        meta_selection_of,
    }
}

fn static_contexts(raw: &[v1::PermissionContext], at: &At, mistakes: &mut Mistakes) -> Contexts {
    for (index, context) in raw.iter().enumerate() {
        for (field, word) in [("key", &context.key), ("value", &context.value)] {
            if word.len() > MAX_WORD {
                mistakes
                    .add(&at.item("static_contexts", index).field(field), format!("expected at most {MAX_WORD} bytes, got {}", word.len()));
            }
        }
    }
    contexts(raw, "static_contexts", at, mistakes)
}

fn stack(raw: &v1::MetaStack, at: &At, mistakes: &mut Mistakes) -> Stack {
    let mut elements = Vec::new();
    for (index, element) in raw.elements.iter().enumerate() {
        match element.parse() {
            Ok(element) => elements.push(element),
            Err(error) => mistakes.add(&at.item("elements", index), format!("{error}")),
        }
    }
    for (field, spacer) in [("start_spacer", &raw.start_spacer), ("middle_spacer", &raw.middle_spacer), ("end_spacer", &raw.end_spacer)] {
        if spacer.len() > MAX_WORD {
            mistakes.add(&at.field(field), format!("expected at most {MAX_WORD} bytes, got {}", spacer.len()));
        }
    }
    let duplicates = match raw.duplicates.as_str() {
        "" | "first-only" => Duplicates::FirstOnly,
        "last-only" => Duplicates::LastOnly,
        "retain-all" => Duplicates::RetainAll,
        other => {
            mistakes.add(&at.field("duplicates"), format!("expected first-only, last-only or retain-all, got {}", shown(other)));
            Duplicates::FirstOnly
        }
    };
    let default = Stack::default();
    Stack {
        elements: if raw.elements.is_empty() { default.elements } else { elements },
        start_spacer: raw.start_spacer.clone(),
        middle_spacer: raw.middle_spacer.clone(),
        end_spacer: raw.end_spacer.clone(),
        duplicates,
    }
}

/// `None`: as the settings say.
pub fn temporary_add(raw: v1::TemporaryAddBehaviour) -> Option<TemporaryAdd> {
    match raw {
        v1::TemporaryAddBehaviour::Unspecified => None,
        v1::TemporaryAddBehaviour::Deny => Some(TemporaryAdd::Deny),
        v1::TemporaryAddBehaviour::Replace => Some(TemporaryAdd::Replace),
        v1::TemporaryAddBehaviour::Accumulate => Some(TemporaryAdd::Accumulate),
    }
}

/// What a validated part of a message is.
fn valid<T>(validate: impl FnOnce(&At, &mut Mistakes) -> Option<T>) -> Result<T, Vec<v1::FieldError>> {
    let mut mistakes = Mistakes::default();
    let value = validate(&At::root(), &mut mistakes);
    match (value, mistakes.into_result(())) {
        (Some(value), Ok(())) => Ok(value),
        (_, Err(mistakes)) => Err(mistakes),
        (None, Ok(())) => Err(Vec::new()),
    }
}

impl TryFrom<&v1::PermissionNode> for Node {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: &v1::PermissionNode) -> Result<Self, Self::Error> {
        valid(|at, mistakes| node(raw, at, mistakes))
    }
}

impl TryFrom<&v1::PermissionGroup> for Group {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: &v1::PermissionGroup) -> Result<Self, Self::Error> {
        valid(|at, mistakes| group(raw, at, mistakes))
    }
}

impl TryFrom<&v1::PermissionTrack> for Track {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: &v1::PermissionTrack) -> Result<Self, Self::Error> {
        valid(|at, mistakes| track(raw, at, mistakes))
    }
}

impl TryFrom<&v1::PermissionUser> for User {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: &v1::PermissionUser) -> Result<Self, Self::Error> {
        valid(|at, mistakes| Some(user(raw, at, mistakes)))
    }
}

impl TryFrom<&v1::PermissionSettings> for Settings {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: &v1::PermissionSettings) -> Result<Self, Self::Error> {
        valid(|at, mistakes| Some(settings(raw, at, mistakes)))
    }
}

/// Contexts as a call gives them.
///
/// # Errors
/// Every one that is none, by its place.
pub fn read_contexts(raw: &[v1::PermissionContext]) -> Result<Contexts, Vec<v1::FieldError>> {
    valid(|at, mistakes| Some(contexts(raw, "contexts", at, mistakes)))
}

/// Contexts as they are sent.
pub fn write_contexts(contexts: &Contexts) -> Vec<v1::PermissionContext> {
    contexts.iter().map(|(key, value)| v1::PermissionContext { key: key.to_owned(), value: value.to_owned() }).collect()
}

impl From<&Node> for v1::PermissionNode {
    fn from(node: &Node) -> Self {
        Self {
            key: node.key().to_string(),
            value: node.value(),
            contexts: write_contexts(node.contexts()),
            expiry: node.expiry().unwrap_or_default(),
        }
    }
}

impl From<&Group> for v1::PermissionGroup {
    fn from(group: &Group) -> Self {
        Self { name: group.name().to_string(), nodes: group.nodes().iter().map(Into::into).collect() }
    }
}

impl From<&Track> for v1::PermissionTrack {
    fn from(track: &Track) -> Self {
        Self { name: track.name().to_string(), groups: track.groups().iter().map(ToString::to_string).collect() }
    }
}

impl From<&User> for v1::PermissionUser {
    fn from(user: &User) -> Self {
        Self {
            uuid: user.uuid.to_string(),
            username: user.username.clone().unwrap_or_default(),
            primary_group: user.primary_group.as_ref().map(Arc::to_string).unwrap_or_default(),
            nodes: user.nodes.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Settings> for v1::PermissionSettings {
    fn from(settings: &Settings) -> Self {
        let selection = |selection: MetaSelection| match selection {
            MetaSelection::Inheritance => v1::MetaSelection::Inheritance,
            MetaSelection::HighestNumber => v1::MetaSelection::HighestNumber,
            MetaSelection::LowestNumber => v1::MetaSelection::LowestNumber,
        };
        Self {
            server: settings.server.clone().unwrap_or_default(),
            static_contexts: write_contexts(&settings.static_contexts),
            apply_wildcards: Some(settings.wildcards),
            apply_regex: Some(settings.regex),
            apply_shorthand: Some(settings.shorthand),
            apply_implicit_wildcards: settings.implicit_wildcards,
            traversal: match settings.traversal {
                Traversal::DepthFirstPreOrder => v1::PermissionTraversal::DepthFirstPreOrder,
                Traversal::BreadthFirst => v1::PermissionTraversal::BreadthFirst,
                Traversal::DepthFirstPostOrder => v1::PermissionTraversal::DepthFirstPostOrder,
            }
            .into(),
            sort_after_traversal: settings.sort_after_traversal,
            contexts_want_all_values: settings.satisfy == Satisfy::All,
            primary_group: match settings.primary_group {
                PrimaryGroup::ParentsByWeight => v1::PrimaryGroupCalculation::ParentsByWeight,
                PrimaryGroup::AllParentsByWeight => v1::PrimaryGroupCalculation::AllParentsByWeight,
                PrimaryGroup::Stored => v1::PrimaryGroupCalculation::Stored,
            }
            .into(),
            temporary_add: match settings.temporary_add {
                TemporaryAdd::Deny => v1::TemporaryAddBehaviour::Deny,
                TemporaryAdd::Replace => v1::TemporaryAddBehaviour::Replace,
                TemporaryAdd::Accumulate => v1::TemporaryAddBehaviour::Accumulate,
            }
            .into(),
            prefix: Some(write_stack(&settings.prefix)),
            suffix: Some(write_stack(&settings.suffix)),
            meta_selection: selection(settings.meta_selection).into(),
            meta_selection_of: settings.meta_selection_of.iter().map(|(key, value)| (key.clone(), selection(*value).into())).collect(),
        }
    }
}

fn write_stack(stack: &Stack) -> v1::MetaStack {
    v1::MetaStack {
        elements: stack.elements.iter().map(ToString::to_string).collect(),
        start_spacer: stack.start_spacer.clone(),
        middle_spacer: stack.middle_spacer.clone(),
        end_spacer: stack.end_spacer.clone(),
        duplicates: match stack.duplicates {
            Duplicates::FirstOnly => "first-only",
            Duplicates::LastOnly => "last-only",
            Duplicates::RetainAll => "retain-all",
        }
        .to_owned(),
    }
}
