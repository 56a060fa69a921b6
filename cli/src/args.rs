//! The command line: nouns, then verbs. Every help text stands here.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use moonbridge_dataplane::config::BaseUrl;

mod access;
pub(crate) mod admin;
pub(crate) mod permission;
mod values;

pub(crate) use access::{AuditArgs, RoleArg, TokenVerb};
pub(crate) use admin::{
    AdminArgs, BackendVerb, ForwardingArg, ForwardingArgs, NodeVerb, OnKickArg, PlayerVerb, RouteVerb, SessionVerb, StateArg, Switch,
    TransferVerb,
};
pub(crate) use values::{HostPort, NamedBackend};

/// A Minecraft network's front door: carries players to backend servers and moves them between backends without a disconnect.
#[derive(Debug, Parser)]
#[command(name = "moonbridge", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = "Exit codes: 0 done, 1 refused or failed, 2 usage or configuration, 3 control plane unreachable.")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The nouns (and the verbs that need none).
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a control plane and one node in this process: the whole of MoonBridge on one machine.
    Up(UpArgs),
    /// Run a node alone: it takes players and asks a control plane what to do with them.
    Dataplane(PlaneArgs),
    /// Run a control-plane replica alone.
    Controlplane(PlaneArgs),
    /// Check configuration files.
    Config {
        /// What to do.
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// The nodes that take players.
    Node {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: NodeVerb,
    },
    /// The Minecraft servers that players are sent to.
    Backend {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: BackendVerb,
    },
    /// Which backends a host name leads to.
    Route {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: RouteVerb,
    },
    /// The players online, on every node.
    Player {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: PlayerVerb,
    },
    /// What goes through a player's session.
    Session {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: SessionVerb,
    },
    /// Move players between backends.
    Transfer {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: TransferVerb,
    },
    /// What players may: users, groups, tracks.
    Permission {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: permission::PermissionVerb,
    },
    /// The tokens that callers of the control plane show, and their roles.
    Token {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// What to do.
        #[command(subcommand)]
        verb: TokenVerb,
    },
    /// Who has changed what, and when: the newest first.
    Audit {
        /// How to reach the control plane, how to print.
        #[command(flatten)]
        admin: AdminArgs,
        /// Which changes.
        #[command(flatten)]
        audit: AuditArgs,
    },
    /// Log in as a scripted 1.7.10 player and report each phase with its time.
    Probe(ProbeArgs),
    /// Ask a server for its server-list entry and measure the latency.
    Status(StatusArgs),
    /// Print the completion script for a shell.
    ///
    /// For bash: moonbridge completions bash > ~/.local/share/bash-completion/completions/moonbridge
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Options of `up`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  moonbridge up --demo\n  moonbridge up --backend lobby=127.0.0.1:25566 --backend survival=10.0.0.7:25565\n  \
                        moonbridge up --listen 0.0.0.0:25565 --online --backend lobby=127.0.0.1:25566\n\n\
                        Ctrl-C disconnects the players with a reason and ends; a second Ctrl-C ends at once."
)]
pub(crate) struct UpArgs {
    /// Add two built-in limbo backends, demo-1 and demo-2, to try MoonBridge without a server (temporary store unless --data-dir).
    #[arg(long)]
    pub(crate) demo: bool,
    /// Where players connect. Beyond this machine only with --online (or --allow-offline-public).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:25565")]
    pub(crate) listen: SocketAddr,
    /// Online mode: players prove who they are, and their connections are encrypted.
    #[arg(long)]
    pub(crate) online: bool,
    /// Whom to ask who a player is, if not Mojang: the URL below which there is /session/minecraft/hasJoined.
    #[arg(long, value_name = "URL", requires = "online", value_parser = values::session_server)]
    pub(crate) session_server: Option<BaseUrl>,
    /// Let players of other machines in without a proof, so that each may take any name: only where something else keeps strangers out.
    #[arg(long)]
    pub(crate) allow_offline_public: bool,
    /// Where the control plane listens; loopback only (port 0: any free one).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:25590", value_parser = values::loopback)]
    pub(crate) control: SocketAddr,
    /// Add a backend, or update its address; may be given several times. The route `*` then lists them in this order.
    #[arg(long = "backend", value_name = "NAME=HOST:PORT", value_parser = values::named_backend)]
    pub(crate) backends: Vec<NamedBackend>,
    #[command(flatten)]
    pub(crate) forwarding: ForwardingArgs,
    /// What becomes of a login of a player who is connected already, on whatever node [default: what the store has; newest in a fresh
    /// one].
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) duplicate_login: Option<DuplicateLoginArg>,
    /// Where the embedded store lives [default: `up` in the user's state directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A folder that is there, for `session record` [default: no session can be recorded].
    #[arg(long, value_name = "DIR")]
    pub(crate) recordings: Option<PathBuf>,
    /// Keep everything in this etcd instead of the embedded store.
    #[arg(long, value_name = "URL,...", value_delimiter = ',', conflicts_with = "data_dir", value_parser = values::etcd_url)]
    pub(crate) etcd: Vec<String>,
    /// Prefix of all keys in etcd [default: the control plane's own].
    #[arg(long, value_name = "PREFIX", requires = "etcd")]
    pub(crate) etcd_prefix: Option<String>,
    /// Log as text or as one JSON object a line.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log: LogFormat,
}

/// The policies of `up --duplicate-login`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuplicateLoginArg {
    /// The older session is closed, then the login goes on.
    Newest,
    /// The login is refused.
    Refuse,
}

/// Options of `dataplane` and `controlplane`.
#[derive(Debug, Args)]
pub(crate) struct PlaneArgs {
    /// The configuration file (TOML); `moonbridge config check F` reports all its mistakes.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Log as text or as one JSON object a line.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Verbs of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Read a configuration file as the process would, and report every mistake with its field.
    Check {
        /// The file.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Of which process; by default the file's content tells.
        #[arg(long, value_enum)]
        kind: Option<PlaneKind>,
    },
}

/// The two kinds of configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaneKind {
    /// Of a node.
    Dataplane,
    /// Of a control-plane replica.
    Controlplane,
}

/// Options of `probe`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code 0 only if the player got into the world and stayed for the whole hold.")]
pub(crate) struct ProbeArgs {
    /// The server, as a player would type it (port 25565 unless given).
    #[arg(value_name = "HOST[:PORT]", value_parser = values::host_port)]
    pub(crate) server: HostPort,
    /// The player's name [default: a random one such as probe_1234].
    #[arg(long, value_parser = values::player_name)]
    pub(crate) name: Option<String>,
    /// Stay this long once in the world (10s, 2m), answer keep-alives, and report each world change and chat line.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration)]
    pub(crate) hold: std::time::Duration,
    /// The protocol to speak: 5 is 1.7.6 to 1.7.10, 4 is 1.7.2 to 1.7.5.
    #[arg(long, default_value_t = 5, value_parser = values::protocol)]
    pub(crate) protocol: i32,
    /// The host name to send in the handshake, if it is to differ from the one connected to (to try a route).
    #[arg(long, value_name = "HOST")]
    pub(crate) virtual_host: Option<String>,
    /// How to print: json and yaml give one object an event.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The server, as a player would type it (port 25565 unless given).
    #[arg(value_name = "HOST[:PORT]", value_parser = values::host_port)]
    pub(crate) server: HostPort,
    /// The protocol to speak: 5 is 1.7.6 to 1.7.10, 4 is 1.7.2 to 1.7.5.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true)]
    pub(crate) protocol: i32,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// JSON, with the table's column names as keys.
    Json,
    /// YAML, with the table's column names as keys.
    Yaml,
}
