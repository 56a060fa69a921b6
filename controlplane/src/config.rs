//! How a replica is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A replica's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The operator's name for this replica. Default: the host's name.
    pub name: String,
    /// Where nodes and admins connect. Default 127.0.0.1:25590.
    pub listen: SocketAddr,
    /// Serve plaintext on an address that is not loopback.
    pub allow_insecure_control: bool,
    /// A file with the token that every call must carry.
    pub token_file: Option<PathBuf>,
    /// The token itself; not from a file (set by `moonbridge up`).
    pub token: Option<String>,
    /// Where the replica keeps what it knows.
    pub store: StoreConfig,
    /// Written to the store at start, when given.
    pub settings: Option<SettingsConfig>,
    /// How long a node's presence outlives its last sign of life. Default 10 s.
    pub lease: Duration,
    /// Where telemetry goes.
    pub telemetry: TelemetryConfig,
}

/// Which store a replica uses.
#[derive(Debug, Clone)]
pub enum StoreConfig {
    /// A file of its own, for one replica on one machine.
    Embedded {
        /// The folder that holds it.
        data_dir: PathBuf,
    },
    /// An etcd cluster, for any number of replicas.
    Etcd {
        /// URLs of its members.
        endpoints: Vec<String>,
        /// All keys lie below this. Default `/moonbridge/`.
        prefix: String,
    },
}

/// Settings of the network, as a configuration gives them.
#[derive(Debug, Clone, Default)]
pub struct SettingsConfig {
    /// Shown in the server list; unset leaves what the store has.
    pub motd: Option<String>,
    /// Shown in the server list; unset leaves what the store has.
    pub max_players: Option<u32>,
    /// A PNG of 64 x 64; unset leaves what the store has.
    pub favicon: Option<PathBuf>,
}

/// Where telemetry goes.
#[derive(Debug, Clone, Default)]
pub struct TelemetryConfig {
    /// OTLP/gRPC endpoint; `OTEL_EXPORTER_OTLP_ENDPOINT` is honoured where unset.
    pub otlp_endpoint: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: host_name(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 25590)),
            allow_insecure_control: false,
            token_file: None,
            token: None,
            store: StoreConfig::Embedded { data_dir: PathBuf::from("/var/lib/moonbridge") },
            settings: None,
            lease: Duration::from_secs(10),
            telemetry: TelemetryConfig::default(),
        }
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "replica".to_owned())
}
