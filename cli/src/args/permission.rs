//! `moonbridge permission` on the command line.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

mod change;
mod values;

pub(crate) use change::{AddAffix, Change, ChangeVerb, ClearArg, IfExistsArg, MetaVerb, ParentVerb, RemoveAffix, Temporary, Until, Which};

/// Verbs of `permission`.
#[derive(Debug, Subcommand)]
pub(crate) enum PermissionVerb {
    /// What a player has of its own.
    User {
        /// Name (any case) or UUID. A player called like a verb: in capitals.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        player: String,
        /// What to do.
        #[command(subcommand)]
        verb: UserVerb,
    },
    /// Groups, which players and other groups inherit.
    Group {
        /// What to do.
        #[command(subcommand)]
        verb: GroupVerb,
    },
    /// Tracks: orders of groups that players are promoted and demoted along.
    Track {
        /// What to do.
        #[command(subcommand)]
        verb: TrackVerb,
    },
    /// Say whether a player has a permission; exit code 0 only if it is true.
    Check(CheckArgs),
    /// List the players and groups that have a node of their own that decides on a permission.
    Search {
        /// The permission.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        node: String,
    },
    /// Take over what another system has exported: everything at once, or nothing.
    Import(ImportArgs),
    /// Write everything as LuckPerms exports it.
    Export {
        /// The file: compressed if its name ends in .gz; - is stdout.
        file: PathBuf,
    },
    /// How permissions are resolved, network-wide.
    Settings {
        /// What to do.
        #[command(subcommand)]
        verb: SettingsVerb,
    },
}

/// Verbs of `permission user PLAYER`.
#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// Show all that is stored of it.
    Info,
    #[command(flatten)]
    Change(ChangeVerb<ThePlayer>),
    /// Move it one step up a track.
    Promote(StepArgs),
    /// Move it one step down a track.
    Demote(StepArgs),
    /// Set the stored primary group, which must be one of its parents.
    Primary {
        /// The group.
        #[arg(value_parser = values::name)]
        group: String,
        #[command(flatten)]
        at: At,
    },
}

/// The player that stands before the verb.
#[derive(Debug, Args)]
pub(crate) struct ThePlayer {}

/// Options of `promote` and `demote`.
#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    /// The track.
    #[arg(value_parser = values::name)]
    pub(crate) track: String,
    /// The step is made in exactly these contexts; may be given several times.
    #[arg(long = "context", value_name = "KEY=VALUE", value_parser = values::context)]
    pub(crate) contexts: Vec<(String, String)>,
}

/// On which condition a change is made.
#[derive(Debug, Args)]
pub(crate) struct At {
    /// Only if it is at this revision, as `info` shows it; else the change is refused.
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<u64>,
}

/// Verbs of `permission group`.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// List the groups.
    List,
    /// Add a group.
    Create {
        #[command(flatten)]
        group: TheGroup,
    },
    /// Remove a group, from the tracks too; who inherits it keeps a node that means nothing.
    Delete {
        #[command(flatten)]
        group: TheGroup,
        #[command(flatten)]
        at: At,
    },
    /// Show all that a group has.
    Info {
        #[command(flatten)]
        group: TheGroup,
    },
    #[command(flatten)]
    Change(ChangeVerb<TheGroup>),
    /// Set a group's weight: of several parents the heavier decides.
    Weight {
        #[command(flatten)]
        group: TheGroup,
        /// The weight.
        #[arg(value_name = "NUMBER", allow_negative_numbers = true)]
        weight: i32,
        #[command(flatten)]
        at: At,
    },
    /// Set a group's display name.
    #[command(name = "displayname")]
    DisplayName {
        #[command(flatten)]
        group: TheGroup,
        /// The name; empty takes it away.
        text: String,
        #[command(flatten)]
        at: At,
    },
    /// List the players and groups that have a group as their own parent.
    Members {
        #[command(flatten)]
        group: TheGroup,
    },
}

/// The group behind the verb.
#[derive(Debug, Args)]
pub(crate) struct TheGroup {
    /// The group's name.
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
}

/// Verbs of `permission track`.
#[derive(Debug, Subcommand)]
pub(crate) enum TrackVerb {
    /// List the tracks.
    List,
    /// Add a track.
    Create {
        /// Its name.
        #[arg(value_parser = values::name)]
        name: String,
        /// Its groups from the lowest up.
        #[arg(value_name = "GROUP", value_parser = values::name)]
        groups: Vec<String>,
    },
    /// Remove a track; nobody's groups change.
    Delete {
        /// Its name.
        #[arg(value_parser = values::name)]
        name: String,
        #[command(flatten)]
        at: At,
    },
    /// Show a track.
    Info {
        /// Its name.
        #[arg(value_parser = values::name)]
        name: String,
    },
    /// Put a group at a track's upper end.
    Append {
        /// The track.
        #[arg(value_parser = values::name)]
        name: String,
        /// The group.
        #[arg(value_parser = values::name)]
        group: String,
        #[command(flatten)]
        at: At,
    },
    /// Put a group into a track.
    Insert {
        /// The track.
        #[arg(value_parser = values::name)]
        name: String,
        /// The group.
        #[arg(value_parser = values::name)]
        group: String,
        /// Its place: 1 is the lowest.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        position: u32,
        #[command(flatten)]
        at: At,
    },
    /// Take a group out of a track.
    Remove {
        /// The track.
        #[arg(value_parser = values::name)]
        name: String,
        /// The group.
        #[arg(value_parser = values::name)]
        group: String,
        #[command(flatten)]
        at: At,
    },
}

/// Options of `permission check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Name (any case) or UUID.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) player: String,
    /// The permission.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) node: String,
    /// Ask in these contexts instead of those that the player is in; may be given several times.
    #[arg(long = "context", value_name = "KEY=VALUE", value_parser = values::context)]
    pub(crate) contexts: Vec<(String, String)>,
    /// Ask in the given contexts alone (none: in no context), without the settings' static ones.
    #[arg(long)]
    pub(crate) exact: bool,
    /// Show how the answer comes about.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Ask the player's session on its node, where the permission will be asked in the game.
    #[arg(long, conflicts_with_all = ["contexts", "exact", "explain"])]
    pub(crate) live: bool,
}

/// Options of `permission import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A LuckPerms export (compressed or not), a file of its web editor, or BungeeCord's config.yml; - is stdin.
    pub(crate) file: PathBuf,
    /// Change nothing; show what would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove what is there and not in the file; else the file's nodes are added.
    #[arg(long)]
    pub(crate) replace: bool,
    /// What wrote the file [default: its content tells].
    #[arg(long, value_enum)]
    pub(crate) format: Option<ImportFormat>,
}

/// Systems whose files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// LuckPerms' JSON.
    #[value(name = "luckperms")]
    LuckPerms,
    /// BungeeCord's config.yml.
    #[value(name = "bungeecord")]
    BungeeCord,
}

/// Verbs of `permission settings`.
#[derive(Debug, Subcommand)]
pub(crate) enum SettingsVerb {
    /// Show the settings, by the names that they have in LuckPerms' config.yml.
    Show,
    /// Change settings; the others stay.
    Set {
        /// A setting as `show` names it, and its value; no value takes it away.
        #[arg(value_name = "KEY=VALUE", required = true, value_parser = values::setting)]
        settings: Vec<(String, String)>,
    },
}

#[cfg(test)]
mod tests;
