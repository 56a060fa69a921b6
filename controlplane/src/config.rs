//! How a replica is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use moonbridge_proto::config::{ConfigErrors, Fields, read_file};
use moonbridge_proto::connect::listen_allowed;
use moonbridge_proto::snapshot::Settings;
use moonbridge_proto::tls::{ClientTls, ServerTls};
use moonbridge_proto::{telemetry, v1};

use crate::store::etcd::DEFAULT_PREFIX;

/// The longest name of a replica, in bytes.
const MAX_NAME: usize = 128;
/// Members of etcd that a configuration may name.
const MAX_ENDPOINTS: usize = 64;

/// A replica's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The operator's name for this replica. Default: the host's name.
    pub name: String,
    /// Where nodes and admins connect. Default 127.0.0.1:25590.
    pub listen: SocketAddr,
    /// TLS of the listener; needed on anything but loopback, unless `allow_insecure_control`.
    pub tls: Option<ServerTls>,
    /// Serve plaintext on an address that is not loopback.
    pub allow_insecure_control: bool,
    /// A file with the token that every call must carry.
    pub token_file: Option<PathBuf>,
    /// The token itself; goes before `token_file`. Never read from a file: `moonbridge up` sets it.
    pub token: Option<String>,
    /// Where the replica keeps what it knows. Default: embedded, in /var/lib/moonbridge.
    pub store: StoreConfig,
    /// How etcd is to let the replica in, if the store is there.
    pub etcd: EtcdAccess,
    /// Written to the store at start, when given.
    pub settings: Option<SettingsConfig>,
    /// How long a node's presence outlives its last sign of life. Default 10 s.
    pub lease: Duration,
    /// Where telemetry goes.
    pub telemetry: TelemetryConfig,
}

/// Which store a replica uses.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// How etcd is to let a replica in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdAccess {
    /// For `https://` endpoints: the authority to trust and, if etcd wants one, a client certificate.
    pub tls: Option<ClientTls>,
    /// The user to log in as, if etcd has authentication enabled. Needs `password_file`.
    pub user: Option<String>,
    /// A file with the user's password.
    pub password_file: Option<PathBuf>,
}

/// Settings of the network, as a configuration gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsConfig {
    /// Shown in the server list; unset leaves what the store has.
    pub motd: Option<String>,
    /// Shown in the server list; unset leaves what the store has.
    pub max_players: Option<u32>,
    /// A PNG of 64 x 64; unset leaves what the store has.
    pub favicon: Option<PathBuf>,
}

/// Where telemetry goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// OTLP/gRPC endpoint; `OTEL_EXPORTER_OTLP_ENDPOINT` is honoured where unset.
    pub otlp_endpoint: Option<String>,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// As [`Config::parse`], or that it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        Self::parse(&read_file(path)?)
    }

    /// Reads a configuration; what it does not mention has its default. Files that it names are not opened.
    ///
    /// # Errors
    /// Every mistake in it, with the path of its field and what was expected.
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        let mut fields = Fields::parse(text)?;
        let mut config = Self::default();
        if let Some(name) = fields.string("name") {
            if name.len() > MAX_NAME || name.chars().any(char::is_control) {
                fields.wrong("name", format!("expected at most {MAX_NAME} bytes, none of them control characters"));
            }
            config.name = name;
        }
        let listen = fields.socket_address("listen");
        config.listen = listen.unwrap_or(config.listen);
        // A table that is there is meant to be used, whatever is wrong in it.
        let has_tls = fields.has("tls");
        config.tls = fields.table("tls", ServerTls::read);
        config.allow_insecure_control = fields.bool("allow_insecure_control").unwrap_or(false);
        config.token_file = fields.path("token_file");
        if let Some((store, etcd)) = fields.table("store", read_store) {
            (config.store, config.etcd) = (store, etcd);
        }
        config.settings = fields.table("settings", read_settings);
        let lease = fields.duration("lease", Duration::from_secs(2)..=Duration::from_secs(300));
        config.lease = lease.unwrap_or(config.lease);
        config.telemetry.otlp_endpoint = fields.table("telemetry", telemetry::read).flatten();
        if let Err(problem) = listen_allowed(config.listen, has_tls, config.allow_insecure_control) {
            fields.wrong("listen", problem);
        }
        fields.finish()?;
        Ok(config)
    }
}

/// `[store]`: `embedded = { data_dir }` or `etcd = { endpoints, prefix, tls, user, password_file }`.
fn read_store(fields: &mut Fields) -> (StoreConfig, EtcdAccess) {
    let embedded = fields.table("embedded", |fields| {
        fields.require("data_dir", "the folder that is to hold the store");
        StoreConfig::Embedded { data_dir: fields.path("data_dir").unwrap_or_default() }
    });
    let etcd = fields.table("etcd", read_etcd);
    match (embedded, etcd) {
        (Some(_), Some(_)) => fields.wrong("etcd", "expected either embedded or etcd, got both"),
        (Some(embedded), None) => return (embedded, EtcdAccess::default()),
        (None, Some(etcd)) => return etcd,
        (None, None) if !fields.has("embedded") && !fields.has("etcd") => {
            fields.wrong("embedded", "missing; expected embedded = { data_dir = \"FOLDER\" } or etcd = { endpoints = [\"URL\"] }");
        }
        (None, None) => {}
    }
    let default = Config::default();
    (default.store, default.etcd)
}

fn read_etcd(fields: &mut Fields) -> (StoreConfig, EtcdAccess) {
    fields.require("endpoints", "URLs of etcd's members, such as [\"http://127.0.0.1:2379\"]");
    let endpoints = fields.strings("endpoints");
    let tls = fields.table("tls", ClientTls::read);
    if let Some(endpoints) = &endpoints {
        if endpoints.is_empty() || endpoints.len() > MAX_ENDPOINTS {
            fields.wrong("endpoints", format!("expected 1 to {MAX_ENDPOINTS} URLs, got {}", endpoints.len()));
        }
        for (index, url) in endpoints.iter().enumerate() {
            let (https, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
                (Some(rest), _) => (false, rest),
                (_, Some(rest)) => (true, rest),
                _ => (false, ""),
            };
            if rest.is_empty() {
                fields.wrong(&format!("endpoints[{index}]"), format!("expected a URL, such as \"http://127.0.0.1:2379\", got {url:?}"));
            } else if https && !fields.has("tls") {
                fields.wrong(
                    &format!("endpoints[{index}]"),
                    format!("{url} needs the authority of its certificate: give tls = {{ ca = \"FILE\" }}"),
                );
            }
        }
    }
    let prefix = fields.string("prefix").unwrap_or_else(|| DEFAULT_PREFIX.to_owned());
    let (user, password_file) = (fields.string("user"), fields.path("password_file"));
    match (fields.has("user"), fields.has("password_file")) {
        (true, false) => fields.wrong("password_file", "missing; a user needs one"),
        (false, true) => fields.wrong("user", "missing; a password_file needs one"),
        _ => {}
    }
    (StoreConfig::Etcd { endpoints: endpoints.unwrap_or_default(), prefix }, EtcdAccess { tls, user, password_file })
}

fn read_settings(fields: &mut Fields) -> SettingsConfig {
    let settings = SettingsConfig {
        motd: fields.text("motd"),
        max_players: fields.integer("max_players", 0..=u32::try_from(i32::MAX).unwrap_or(u32::MAX)),
        favicon: fields.path("favicon"),
    };
    if let Some(motd) = settings.motd.clone() {
        let all = v1::Settings { motd, ..v1::Settings::from(&Settings::default()) };
        for mistake in Settings::try_from(all).err().unwrap_or_default() {
            fields.wrong(&mistake.path, mistake.problem);
        }
    }
    settings
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: host_name(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 25590)),
            tls: None,
            allow_insecure_control: false,
            token_file: None,
            token: None,
            store: StoreConfig::Embedded { data_dir: PathBuf::from("/var/lib/moonbridge") },
            etcd: EtcdAccess::default(),
            settings: None,
            lease: Duration::from_secs(10),
            telemetry: TelemetryConfig::default(),
        }
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "replica".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
