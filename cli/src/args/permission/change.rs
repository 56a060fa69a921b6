//! The changes that players and groups have in common. `H` says whose nodes: a group's name follows the verb, a player's stands
//! before it.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

use super::{At, values};

/// Verbs of `permission user PLAYER` and `permission group`.
#[derive(Debug, Subcommand)]
pub(crate) enum ChangeVerb<H: Args> {
    /// Set a node: grant a permission, or take it away.
    Set {
        #[command(flatten)]
        change: Change<H>,
        /// The permission or other node; one that begins with - comes after --.
        #[arg(value_parser = values::node)]
        node: String,
        /// False takes away what is granted elsewhere.
        #[arg(default_value_t = true, action = clap::ArgAction::Set)]
        value: bool,
        #[command(flatten)]
        temporary: Temporary,
    },
    /// Take away a node, permanent and temporary.
    Unset {
        #[command(flatten)]
        change: Change<H>,
        /// The node; one that begins with - comes after --.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        node: String,
        #[command(flatten)]
        which: Which,
    },
    /// Inherit from groups.
    Parent {
        /// What to do.
        #[command(subcommand)]
        verb: ParentVerb<H>,
    },
    /// Prefixes, suffixes and other meta.
    Meta {
        /// What to do.
        #[command(subcommand)]
        verb: MetaVerb<H>,
    },
    /// Take away all nodes, or all of a kind.
    Clear {
        #[command(flatten)]
        change: Change<H>,
        /// Only these.
        #[arg(value_enum)]
        what: Option<ClearArg>,
    },
}

/// Whose nodes are changed, where, and on which condition.
#[derive(Debug, Args)]
pub(crate) struct Change<H: Args> {
    #[command(flatten)]
    pub(crate) holder: H,
    /// Only in this context, such as world=lobby; may be given several times.
    #[arg(long = "context", value_name = "KEY=VALUE", value_parser = values::context)]
    pub(crate) contexts: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) at: At,
}

/// Until when a node holds.
#[derive(Debug, Args)]
#[group(id = "until-when", multiple = false)]
pub(crate) struct Until {
    /// Only for so long: 30m, 1d12h, 2w (y, mo, w, d, h, m, s).
    #[arg(long = "for", value_name = "TIME", value_parser = values::duration)]
    pub(crate) lasting: Option<u64>,
    /// Only until then: 2026-12-31 (UTC), or RFC 3339.
    #[arg(long, value_name = "DATE", value_parser = crate::time::unix_seconds)]
    pub(crate) until: Option<i64>,
}

/// Until when a node holds, and what becomes of one that is there.
#[derive(Debug, Args)]
pub(crate) struct Temporary {
    #[command(flatten)]
    pub(crate) until: Until,
    /// What becomes of a temporary one that is there already [default: what the settings say; deny in fresh ones].
    #[arg(long, value_enum, value_name = "HOW", requires = "until-when")]
    pub(crate) if_exists: Option<IfExistsArg>,
}

/// What becomes of a temporary node that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfExistsArg {
    /// The change is refused.
    Deny,
    /// The later end stays.
    Replace,
    /// The times are added up.
    Accumulate,
}

/// Which of a permanent and a temporary one is taken away.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Which {
    /// Only the temporary one: the permanent one, if there is one, is in force again.
    #[arg(long = "temporary")]
    pub(crate) only_temporary: bool,
}

/// What `clear` takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClearArg {
    /// Permissions, by regular expression too.
    Permissions,
    /// Parents.
    Parents,
    /// Prefixes, suffixes and meta.
    Meta,
}

/// Verbs of `parent`.
#[derive(Debug, Subcommand)]
pub(crate) enum ParentVerb<H: Args> {
    /// Inherit a group.
    Add {
        #[command(flatten)]
        change: Change<H>,
        /// The group to inherit.
        #[arg(value_parser = values::name)]
        group: String,
        #[command(flatten)]
        temporary: Temporary,
    },
    /// Inherit a group no longer.
    Remove {
        #[command(flatten)]
        change: Change<H>,
        /// The group not to inherit.
        #[arg(value_parser = values::name)]
        group: String,
        #[command(flatten)]
        which: Which,
    },
    /// Inherit a group, and no other in these contexts.
    Set {
        #[command(flatten)]
        change: Change<H>,
        /// The group to inherit.
        #[arg(value_parser = values::name)]
        group: String,
        #[command(flatten)]
        until: Until,
    },
}

/// Verbs of `meta`.
#[derive(Debug, Subcommand)]
pub(crate) enum MetaVerb<H: Args> {
    /// Set the value of a meta key.
    Set {
        #[command(flatten)]
        change: Change<H>,
        /// The key.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        key: String,
        /// Its value.
        value: String,
        #[command(flatten)]
        until: Until,
    },
    /// Take away the value of a meta key.
    Unset {
        #[command(flatten)]
        change: Change<H>,
        /// The key.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        key: String,
        #[command(flatten)]
        which: Which,
    },
    /// Add a prefix; that of the highest priority is shown.
    AddPrefix(AddAffix<H>),
    /// Take away a prefix.
    RemovePrefix(RemoveAffix<H>),
    /// Add a suffix; that of the highest priority is shown.
    AddSuffix(AddAffix<H>),
    /// Take away a suffix.
    RemoveSuffix(RemoveAffix<H>),
}

/// A prefix or suffix to add.
#[derive(Debug, Args)]
pub(crate) struct AddAffix<H: Args> {
    #[command(flatten)]
    pub(crate) affix: Affix<H>,
    #[command(flatten)]
    pub(crate) temporary: Temporary,
}

/// A prefix or suffix to take away.
#[derive(Debug, Args)]
pub(crate) struct RemoveAffix<H: Args> {
    #[command(flatten)]
    pub(crate) affix: Affix<H>,
    #[command(flatten)]
    pub(crate) which: Which,
}

/// A prefix or suffix.
#[derive(Debug, Args)]
pub(crate) struct Affix<H: Args> {
    #[command(flatten)]
    pub(crate) change: Change<H>,
    /// Its priority.
    #[arg(allow_negative_numbers = true)]
    pub(crate) priority: i32,
    /// Its text; colour codes with & or § are allowed.
    pub(crate) text: String,
}
