//! The admin verbs' part of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, values};

/// Options that every admin verb takes.
#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// How to reach the control plane.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    /// How to print.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// How to reach the control plane. All replicas are equal: any of them will do. [`ControlArgs::or_environment`] adds the
/// variables.
#[derive(Debug, Args)]
#[command(next_help_heading = "Control plane")]
pub(crate) struct ControlArgs {
    /// The control plane's URL (several: tried in turn) [default: that of the `moonbridge up` running here] [env: MOONBRIDGE_CONTROL].
    #[arg(long, global = true, value_name = "URL", value_delimiter = ',')]
    pub(crate) control: Vec<String>,
    /// A file with the admin token [default: that of the `moonbridge up` running here] [env: MOONBRIDGE_TOKEN_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The CA that the control plane's certificate must be from (PEM); needed for https URLs [env: MOONBRIDGE_CONTROL_CA].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) control_ca: Option<PathBuf>,
    /// The certificate to show the control plane (PEM) [env: MOONBRIDGE_CONTROL_CERT].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) control_cert: Option<PathBuf>,
    /// That certificate's key (PEM) [env: MOONBRIDGE_CONTROL_KEY].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) control_key: Option<PathBuf>,
    /// The name in the control plane's certificate, if it is not the URL's host [env: MOONBRIDGE_CONTROL_DOMAIN].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) control_domain: Option<String>,
    /// Allow an http URL that is not on loopback: token and commands then cross the network in the clear.
    #[arg(long, global = true)]
    pub(crate) allow_insecure_control: bool,
}

/// Verbs of `node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeVerb {
    /// List the nodes.
    List {
        /// Only those that are drained.
        #[arg(long)]
        drained: bool,
    },
    /// Let a node take no new players; those it has stay.
    Drain {
        /// Its name or id.
        node: String,
    },
    /// Let a drained node take players again.
    Undrain {
        /// Its name or id.
        node: String,
    },
}

/// Verbs of `backend`.
#[derive(Debug, Subcommand)]
pub(crate) enum BackendVerb {
    /// List the backends.
    List {
        /// Only those that are drained.
        #[arg(long)]
        drained: bool,
    },
    /// Add a backend, or change it; it stays drained and restricted, and its plugin channel on or off, as it is.
    Set {
        /// Its name: 1 to 64 of a-z, 0-9, '.', '_', '-'.
        #[arg(value_parser = values::backend_name)]
        name: String,
        /// Where it listens; the host is resolved anew at every connect.
        #[arg(long, value_name = "HOST:PORT", value_parser = values::address)]
        address: String,
        #[command(flatten)]
        forwarding: ForwardingArgs,
    },
    /// Remove a backend; refused while a route names it.
    Remove {
        /// Its name.
        name: String,
        /// Take it out of the routes too.
        #[arg(long)]
        force: bool,
    },
    /// Let a backend take no new players, by login, transfer or fallback; those it has stay.
    Drain {
        /// Its name.
        name: String,
    },
    /// Let a drained backend take players again.
    Undrain {
        /// Its name.
        name: String,
    },
    /// Let only players in who have the permission moonbridge.server.NAME; `transfer start` still sends anybody.
    Restrict {
        /// Its name.
        name: String,
    },
    /// Let everybody into a restricted backend again.
    Unrestrict {
        /// Its name.
        name: String,
    },
    /// Say whether what a backend's plugins ask on the channel BungeeCord is done; a new backend's is.
    PluginChannel {
        /// Its name.
        name: String,
        /// Whether it is.
        switch: Switch,
    },
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// It is done.
    On,
    /// It is passed on to the player, like anything else.
    Off,
}

/// How a backend is told who the player is.
#[derive(Debug, Args)]
pub(crate) struct ForwardingArgs {
    /// How the given backend (of `up`: each one given with --backend) is told who the player is.
    #[arg(long, value_enum, default_value_t = ForwardingArg::None)]
    pub(crate) forwarding: ForwardingArg,
    /// With bungeeguard: a file with one of the tokens that the backend's BungeeGuard allows, 8 to 256 visible ASCII characters;
    /// without it a backend keeps the token it has.
    #[arg(long, value_name = "FILE")]
    pub(crate) forwarding_token_file: Option<PathBuf>,
}

/// The kinds of forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForwardingArg {
    /// Not at all: it sees the node's address.
    None,
    /// BungeeCord's legacy form (set `bungeecord: true` in the backend's spigot.yml).
    Legacy,
    /// The same with a token that the backend's BungeeGuard plugin asks for.
    #[value(name = "bungeeguard")]
    BungeeGuard,
}

/// Verbs of `route`.
#[derive(Debug, Subcommand)]
pub(crate) enum RouteVerb {
    /// List the routes.
    List {
        /// Only those that name this backend.
        #[arg(long)]
        backend: Option<String>,
    },
    /// Add a route, or replace it.
    Set {
        /// The host players type: exact (play.example.net), a suffix (*.example.net), or * for all.
        #[arg(value_parser = values::route_host)]
        host: String,
        /// The backends to try, in this order.
        #[arg(long, value_name = "A,B,...", value_delimiter = ',', required = true, value_parser = values::backend_name)]
        backends: Vec<String>,
        /// What becomes of a player whose backend kicks or dies.
        #[arg(long, value_enum, default_value_t = OnKickArg::Fallback)]
        on_kick: OnKickArg,
    },
    /// Remove a route.
    Remove {
        /// The route's host, as `route list` shows it.
        host: String,
    },
    /// Say which route and backends a host leads to, and why.
    Test {
        /// The host as a player would type it.
        host: String,
        /// As this player (name or UUID), whose permissions say which restricted backends it may enter [default: it may enter none].
        #[arg(long)]
        player: Option<String>,
    },
}

/// What becomes of a player whose backend kicks or dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnKickArg {
    /// The route's other backends are tried.
    Fallback,
    /// The player is disconnected with the backend's reason.
    Disconnect,
}

/// Verbs of `player`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlayerVerb {
    /// List the players online.
    List {
        /// Only those on this backend.
        #[arg(long)]
        backend: Option<String>,
        /// Only those on this node (name or id).
        #[arg(long)]
        node: Option<String>,
    },
    /// Show all that is known of a player.
    Show {
        /// Name (any case) or UUID.
        player: String,
    },
    /// Disconnect a player.
    Kick {
        /// Name (any case) or UUID.
        player: String,
        /// What the player is shown; colour codes with § are allowed.
        #[arg(default_value = "Kicked by an operator")]
        reason: String,
    },
    /// Show a line in a player's chat.
    Message {
        /// Name (any case) or UUID.
        player: String,
        /// The line; colour codes with § are allowed.
        text: String,
    },
}

/// Verbs of `session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionVerb {
    /// Write sizes and times of its frames (nothing of what is in them) to a file on its node, wait, and say where that is.
    Record {
        /// Its id, or its player's name (any case) or UUID.
        session: String,
        /// For so long, in whole seconds (60s, 10m at most); shorter if the session ends, or the file has 64 MiB.
        #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = values::duration)]
        time: Duration,
    },
}

/// Verbs of `transfer`.
#[derive(Debug, Subcommand)]
pub(crate) enum TransferVerb {
    /// Move players to a backend, wait, and show the outcome of each.
    Start {
        /// Names (any case) or UUIDs.
        #[arg(required_unless_present = "from", conflicts_with = "from")]
        players: Vec<String>,
        /// Instead of players: everybody on this backend.
        #[arg(long, value_name = "BACKEND")]
        from: Option<String>,
        /// Where to.
        #[arg(long, value_name = "BACKEND")]
        to: String,
        /// As if the players went themselves: a restricted backend wants their permission.
        #[arg(long)]
        as_player: bool,
        /// Print the ids of the transfers at once and do not wait (`transfer watch` does).
        #[arg(long)]
        no_wait: bool,
        /// Time that each transfer may take, in whole seconds (30s, 2m).
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
        deadline: Duration,
    },
    /// List the transfers of the last hour.
    List {
        /// Only those in this state.
        #[arg(long, value_enum)]
        state: Option<StateArg>,
        /// Only those of this player (name, any case).
        #[arg(long)]
        player: Option<String>,
    },
    /// Show all that is known of a transfer, with its phases.
    Show {
        /// Its id.
        id: String,
    },
    /// Follow transfers until they have ended.
    Watch {
        /// Their ids; none: all that are under way.
        ids: Vec<String>,
    },
}

/// States of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArg {
    /// Not yet sent to its node.
    Pending,
    /// Sent to its node.
    Dispatched,
    /// The node is at it.
    Running,
    /// Done.
    Succeeded,
    /// Ended without effect; the reason says why.
    Failed,
    /// Its time ran out.
    Expired,
}
