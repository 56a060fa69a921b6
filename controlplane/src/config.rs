//! How a replica is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use moonbridge_proto::config::{ConfigError, ConfigErrors, Fields, read_file};
use moonbridge_proto::connect::{self, ConnectError, listen_allowed};
use moonbridge_proto::snapshot::{DuplicateLogin, Settings};
use moonbridge_proto::tls::{ClientTls, ServerTls};
use moonbridge_proto::token::check_token_file;
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
    /// Serve plaintext on an address that is not loopback, and speak plaintext to an etcd that is not on this machine.
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
    /// What becomes of a login of a player who has a session already; unset leaves what the store has.
    pub duplicate_login: Option<DuplicateLogin>,
}

/// Where telemetry goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// OTLP/gRPC endpoint; `OTEL_EXPORTER_OTLP_ENDPOINT` is honoured where unset.
    pub otlp_endpoint: Option<String>,
}

impl Config {
    /// Reads a configuration file, and looks at the files that it names.
    ///
    /// # Errors
    /// As [`Config::parse`] and [`Config::check_files`], or that it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let config = Self::parse(&read_file(path)?)?;
        config.check_files()?;
        Ok(config)
    }

    /// Looks at the files that the configuration names.
    ///
    /// # Errors
    /// Every one that cannot be used, with the path of its field.
    pub fn check_files(&self) -> Result<(), ConfigErrors> {
        let mut mistakes = Vec::new();
        let mut wrong = |field: &str, problem: Option<String>| {
            mistakes.extend(problem.map(|problem| ConfigError { field: field.to_owned(), problem }));
        };
        wrong("token_file", self.token_file.as_deref().and_then(check_token_file));
        wrong("store.etcd.password_file", self.etcd.password_file.as_deref().and_then(check_token_file));
        let favicon = self.settings.as_ref().and_then(|settings| settings.favicon.as_deref());
        wrong("settings.favicon", favicon.and_then(|path| read_favicon(path).err()));
        if let StoreConfig::Embedded { data_dir } = &self.store {
            wrong("store.embedded.data_dir", check_folder(data_dir).err());
        }
        mistakes.extend(self.tls.iter().flat_map(|tls| tls.check_files("tls")));
        mistakes.extend(self.etcd.tls.iter().flat_map(|tls| tls.check_files("store.etcd.tls")));
        ConfigErrors::check(mistakes)
    }

    /// What is wrong with the URLs of etcd, each mistake by its place in the list.
    pub(crate) fn check_etcd(endpoints: &[String], has_tls: bool, allow_insecure: bool) -> Vec<(usize, String)> {
        let problem = |url: &String| match connect::check(url, has_tls, allow_insecure) {
            Ok(_) => None,
            Err(ConnectError::Plaintext(_)) => Some(format!(
                "{url} is plaintext to another machine: use https and tls = {{ ca = \"FILE\" }}, or set allow_insecure_control = true"
            )),
            Err(ConnectError::NoTls(_)) => Some(format!("{url} needs the authority of its certificate: give tls = {{ ca = \"FILE\" }}")),
            Err(_) => Some(format!("expected a URL, such as \"http://127.0.0.1:2379\", got {url:?}")),
        };
        endpoints.iter().enumerate().filter_map(|(index, url)| Some((index, problem(url)?))).collect()
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
        if let Some((store, etcd)) = fields.table("store", |fields| read_store(fields, config.allow_insecure_control)) {
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
fn read_store(fields: &mut Fields, allow_insecure: bool) -> (StoreConfig, EtcdAccess) {
    let embedded = fields.table("embedded", |fields| {
        fields.require("data_dir", "the folder that is to hold the store");
        StoreConfig::Embedded { data_dir: fields.path("data_dir").unwrap_or_default() }
    });
    let etcd = fields.table("etcd", |fields| read_etcd(fields, allow_insecure));
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

fn read_etcd(fields: &mut Fields, allow_insecure: bool) -> (StoreConfig, EtcdAccess) {
    fields.require("endpoints", "URLs of etcd's members, such as [\"http://127.0.0.1:2379\"]");
    let endpoints = fields.strings("endpoints");
    let tls = fields.table("tls", ClientTls::read);
    if let Some(endpoints) = &endpoints {
        if endpoints.is_empty() || endpoints.len() > MAX_ENDPOINTS {
            fields.wrong("endpoints", format!("expected 1 to {MAX_ENDPOINTS} URLs, got {}", endpoints.len()));
        }
        for (index, problem) in Config::check_etcd(endpoints, fields.has("tls"), allow_insecure) {
            fields.wrong(&format!("endpoints[{index}]"), problem);
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
        duplicate_login: fields.one_of("duplicate_login", &DuplicateLogin::NAMES),
    };
    if let Some(motd) = settings.motd.clone() {
        let all = v1::Settings { motd, ..v1::Settings::from(&Settings::default()) };
        for mistake in Settings::try_from(all).err().unwrap_or_default() {
            fields.wrong(&mistake.path, mistake.problem);
        }
    }
    settings
}

/// The icon in this file.
pub(crate) fn read_favicon(path: &Path) -> Result<Vec<u8>, String> {
    let unread = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let size = std::fs::metadata(path).map_err(unread)?.len();
    if size > 1 << 20 {
        return Err(format!("{} has {size} bytes, far too many for an icon", path.display()));
    }
    let favicon = std::fs::read(path).map_err(unread)?;
    if favicon.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    match Settings::try_from(v1::Settings { favicon: favicon.clone(), ..v1::Settings::from(&Settings::default()) }) {
        Ok(_) => Ok(favicon),
        Err(mistakes) => {
            let problems: Vec<_> = mistakes.into_iter().map(|mistake| mistake.problem).collect();
            Err(format!("{}: {}", path.display(), problems.join("; ")))
        }
    }
}

/// That this is a folder, or can become one.
fn check_folder(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("expected a folder, {} is a file", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{} cannot be used: {error}", path.display())),
    }
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
