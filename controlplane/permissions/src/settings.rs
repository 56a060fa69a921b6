//! What decides how permissions are resolved: the keys of LuckPerms' `config.yml` that change results.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::context::{Contexts, Satisfy};

/// Network-wide settings of resolution; the default is LuckPerms'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The value of the context `server` on every node; `None`: it is not set.
    pub server: Option<String>,
    /// Contexts that hold on every node.
    pub static_contexts: Contexts,
    /// How many of a node's values for one context key a question must have.
    pub satisfy: Satisfy,
    /// `a.*` grants `a.b`.
    pub wildcards: bool,
    /// `r=…` is matched.
    pub regex: bool,
    /// `{a,b}` is expanded.
    pub shorthand: bool,
    /// `a.b` grants `a.b.c`.
    pub implicit_wildcards: bool,
    /// In which order holders are walked.
    pub traversal: Traversal,
    /// Holders are sorted by weight after the walk, too.
    pub sort_after_traversal: bool,
    /// What the primary group is.
    pub primary_group: PrimaryGroup,
    /// What becomes of a temporary node that is there already.
    pub temporary_add: TemporaryAdd,
    /// How a prefix is put together.
    pub prefix: Stack,
    /// How a suffix is.
    pub suffix: Stack,
    /// Which of several values of a meta key counts.
    pub meta_selection: MetaSelection,
    /// The same for single keys.
    pub meta_selection_of: BTreeMap<String, MetaSelection>,
}

/// In which order holders are walked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Traversal {
    /// A holder, then each of its parents with all theirs.
    #[default]
    DepthFirstPreOrder,
    /// Level by level.
    BreadthFirst,
    /// A holder after all its parents.
    DepthFirstPostOrder,
}

/// What a user's primary group is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrimaryGroup {
    /// The heaviest of its own parents, the first of equals.
    #[default]
    ParentsByWeight,
    /// The heaviest of all inherited.
    AllParentsByWeight,
    /// The stored one.
    Stored,
}

/// What becomes of a temporary node that is added where there is one of the same key and contexts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TemporaryAdd {
    /// It is refused.
    #[default]
    Deny,
    /// The later expiry stays.
    Replace,
    /// The times are added up.
    Accumulate,
}

/// Which of several values of a meta key counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetaSelection {
    /// The first in the order of inheritance.
    #[default]
    Inheritance,
    /// The highest number.
    HighestNumber,
    /// The lowest number.
    LowestNumber,
}

/// How a prefix or suffix is put together of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// What it is put together of; none gives no prefix.
    pub elements: Vec<Element>,
    /// Before the first.
    pub start_spacer: String,
    /// Between two.
    pub middle_spacer: String,
    /// After the last.
    pub end_spacer: String,
    /// What becomes of the same one twice.
    pub duplicates: Duplicates,
}

/// One element of a [`Stack`]: the highest or lowest of those that a filter lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The highest priority, else the lowest.
    pub highest: bool,
    /// Of which.
    pub of: Of,
}

/// Of which prefixes an [`Element`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// All.
    Any,
    /// The user's own.
    Own,
    /// Those of groups.
    Inherited,
    /// Those of groups on a track.
    OnTrack(String),
    /// Those of groups that are not.
    NotOnTrack(String),
    /// Those of a group.
    FromGroup(String),
    /// All but those of a group.
    NotFromGroup(String),
}

/// What becomes of the same prefix twice in a [`Stack`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// The first stays.
    #[default]
    FirstOnly,
    /// The last stays.
    LastOnly,
    /// All stay.
    RetainAll,
}

/// No element of a [`Stack`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected highest or lowest, alone or with _own, _inherited, _on_track_T, _not_on_track_T, _from_group_G or _not_from_group_G, got {0:?}"
)]
pub struct ElementError(pub String);

impl Default for Settings {
    fn default() -> Self {
        Self {
            server: Some("proxy".to_owned()),
            static_contexts: Contexts::none(),
            satisfy: Satisfy::One,
            wildcards: true,
            regex: true,
            shorthand: true,
            implicit_wildcards: false,
            traversal: Traversal::default(),
            sort_after_traversal: false,
            primary_group: PrimaryGroup::default(),
            temporary_add: TemporaryAdd::default(),
            prefix: Stack::default(),
            suffix: Stack::default(),
            meta_selection: MetaSelection::default(),
            meta_selection_of: BTreeMap::new(),
        }
    }
}

impl Default for Stack {
    fn default() -> Self {
        let highest = Element { highest: true, of: Of::Any };
        let none = String::new;
        Self {
            elements: vec![highest],
            start_spacer: none(),
            middle_spacer: " ".to_owned(),
            end_spacer: none(),
            duplicates: Duplicates::default(),
        }
    }
}

impl Settings {
    /// The contexts of a player on this backend (`None`: on none yet): the static ones, `server` and `world`.
    pub fn contexts(&self, backend: Option<&str>) -> Contexts {
        let mut contexts = self.static_contexts.clone();
        // Neither is empty, or it is none.
        if let Some(server) = &self.server {
            let _ = contexts.add(crate::context::SERVER, server);
        }
        if let Some(backend) = backend {
            let _ = contexts.add(crate::context::WORLD, backend);
        }
        contexts
    }
}

impl FromStr for Element {
    type Err = ElementError;

    fn from_str(text: &str) -> Result<Self, ElementError> {
        let lower = text.to_lowercase();
        let parsed = ["highest", "lowest"].into_iter().find_map(|extreme| {
            let of = Of::parse(lower.strip_prefix(extreme)?)?;
            Some(Self { highest: extreme == "highest", of })
        });
        parsed.ok_or_else(|| ElementError(text.to_owned()))
    }
}

impl Of {
    /// What follows `highest` or `lowest`.
    fn parse(text: &str) -> Option<Self> {
        let named = |prefix: &str| text.strip_prefix(prefix).filter(|name| !name.is_empty()).map(str::to_owned);
        match text {
            "" => Some(Self::Any),
            "_own" => Some(Self::Own),
            "_inherited" => Some(Self::Inherited),
            _ => named("_on_track_")
                .map(Self::OnTrack)
                .or_else(|| named("_not_on_track_").map(Self::NotOnTrack))
                .or_else(|| named("_from_group_").map(Self::FromGroup))
                .or_else(|| named("_not_from_group_").map(Self::NotFromGroup)),
        }
    }
}

/// As it is read.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.highest { "highest" } else { "lowest" })?;
        match &self.of {
            Of::Any => Ok(()),
            Of::Own => f.write_str("_own"),
            Of::Inherited => f.write_str("_inherited"),
            Of::OnTrack(track) => write!(f, "_on_track_{track}"),
            Of::NotOnTrack(track) => write!(f, "_not_on_track_{track}"),
            Of::FromGroup(group) => write!(f, "_from_group_{group}"),
            Of::NotFromGroup(group) => write!(f, "_not_from_group_{group}"),
        }
    }
}
