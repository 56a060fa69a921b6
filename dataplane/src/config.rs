//! A node's configuration: what it is, whom it talks to, and its limits.

mod commands;
mod listener;
mod session_server;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::config::{ConfigError, ConfigErrors, Fields, read_file};
use moonbridge_proto::connect::{self, ConnectError};
use moonbridge_proto::telemetry;
use moonbridge_proto::tls::ClientTls;
use moonbridge_proto::token::check_token_file;
use moonbridge_protocol::channels;
use moonbridge_protocol::status::ModInfo;

use crate::commands::Languages;
pub use commands::Commands;
pub use listener::{Authentication, Listener, OpenToAll};
pub use session_server::{BaseUrl, HAS_JOINED, SessionServer, UrlError};

/// How a node is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// The operator's name for this node; the machine's host name unless given.
    pub name: String,
    /// Where players connect, and whether they must prove who they are. The address by which the control plane shows the node.
    pub listener: Listener,
    /// More such addresses.
    pub more_listeners: Vec<Listener>,
    /// Whom online listeners ask who a player is.
    pub session_server: SessionServer,
    /// URLs of the control-plane replicas, tried in turn.
    pub control: Vec<String>,
    /// How to recognise the replicas, and how to show them who this node is; needed for `https://` URLs.
    pub control_tls: Option<ClientTls>,
    /// A file that holds the token to show to the control plane.
    pub token_file: Option<PathBuf>,
    /// The token itself; goes before `token_file`. Never read from a configuration file: `moonbridge up` sets it.
    pub token: Option<String>,
    /// Whether plaintext may be spoken to a control plane that is not on this machine.
    pub allow_insecure_control: bool,
    /// Worker threads; 0 means one a core.
    pub workers: usize,
    /// Whether the kernel lets whoever is running finish before a worker goes on (`SCHED_BATCH`; Linux): more is read and written at a time.
    pub batch_scheduling: bool,
    /// Whether a worker encrypts the bytes of its sessions together, which costs a fraction. Off only to compare.
    pub encrypt_together: bool,
    /// Whether new players are let in, by the last snapshot, while the control plane is away.
    pub admit_without_control: bool,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How much of things there may be.
    pub limits: Limits,
    /// How Forge's players are moved.
    pub forge: Forge,
    /// What players can ask of the node in the game.
    pub commands: Commands,
    /// A folder for recordings of sessions; without one none are made.
    pub recordings: Option<PathBuf>,
    /// Where traces go.
    pub telemetry: Telemetry,
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// From the accept to the end of the handshake packet.
    pub handshake: Duration,
    /// From the handshake to the player's Login Success, all candidates together. A client gives up at 20 s.
    pub login: Duration,
    /// One TCP connect to a backend; and how long a player whose backend is lost waits for a transfer that is under way.
    pub connect: Duration,
    /// A player that sends nothing for so long is gone.
    pub player_read: Duration,
    /// A backend that sends nothing for so long is gone.
    pub backend_read: Duration,
    /// A peer that takes none of the bytes waiting for it for so long is gone.
    pub write_stall: Duration,
    /// A whole transfer, or a whole fallback with all its candidates.
    pub transfer: Duration,
    /// The wait for the Client Settings that end the player's old world.
    pub fence: Duration,
    /// The wait for a frame boundary at which a transfer may pause.
    pub pause: Duration,
    /// A player's Forge handshake with its backend, up to Join Game.
    pub forge: Duration,
    /// The wait for the sessions to end when the node is shut down.
    pub drain: Duration,
}

/// How Forge's players are moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forge {
    /// Whether a handshake is left out that would tell the client nothing new: the same ids as it has taken last.
    pub skip_equal_handshakes: bool,
    /// Whether a candidate's mods must be of the client's versions. If not, the client judges, and it disconnects from what it
    /// does not like.
    pub strict_mods: bool,
    /// The mods in the answers to server-list pings.
    pub shown_mods: ShownMods,
}

/// Which mods the answers to server-list pings name, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownMods {
    /// Those of the route's first backend, if it is a Forge server.
    Backends,
    /// None.
    None,
    /// These.
    These(Arc<ModInfo>),
}

impl FromStr for ShownMods {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "backends" => Ok(ShownMods::Backends),
            "none" => Ok(ShownMods::None),
            json if json.trim_start().starts_with('{') => ModInfo::from_json(json)
                .map(|mods| ShownMods::These(Arc::new(mods)))
                .map_err(|error| format!("expected the modinfo of a Forge server's status answer: {error}")),
            _ => Err("expected \"backends\", \"none\", or JSON such as {\"type\": \"FML\", \"modList\": []}".to_owned()),
        }
    }
}

/// How much of things there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections that have not logged in yet, at a time.
    pub connections_before_login: usize,
    /// Bytes that one transfer may hold.
    pub transfer_buffer: usize,
    /// Bytes that all sessions together may hold.
    pub node_buffers: usize,
    /// Backends tried for a player whose backend kicked or died.
    pub fallback_tries: usize,
    /// Empty frames that a player may send in a second.
    pub empty_frames_per_second: u32,
    /// Plugin channels of a player's that are remembered, to be told to its next backend.
    pub channels: usize,
}

/// Where traces go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// An OTLP/gRPC endpoint; `OTEL_EXPORTER_OTLP_ENDPOINT` is the fallback, and without either nothing is exported.
    pub otlp_endpoint: Option<String>,
}

/// The longest of all times: an hour.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The longest name of a node, in bytes.
const MAX_NAME: usize = 64;

/// The most replicas that may be named.
const MAX_CONTROL: usize = 64;

impl Config {
    /// Reads a configuration file, and looks at the files that it names.
    ///
    /// # Errors
    /// The file cannot be read, or every mistake in it, or of those files.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let mut config = Self::parse(&read_file(path)?)?;
        config.commands.languages = Arc::new(config.read_files()?);
        Ok(config)
    }

    /// Looks at the files that the configuration names.
    ///
    /// # Errors
    /// Every one that cannot be used, with the path of its field.
    pub fn check_files(&self) -> Result<(), ConfigErrors> {
        self.read_files().map(drop)
    }

    fn read_files(&self) -> Result<Languages, ConfigErrors> {
        let mut mistakes = Vec::new();
        if let Some(problem) = self.token_file.as_deref().and_then(check_token_file) {
            mistakes.push(ConfigError { field: "token_file".to_owned(), problem });
        }
        if let Some(tls) = &self.control_tls {
            mistakes.extend(tls.check_files("control_tls"));
        }
        if let Some(folder) = self.recordings.as_ref().filter(|folder| !folder.is_dir()) {
            let problem = format!("{} is no folder: make it, so that the node's user may write there", folder.display());
            mistakes.push(ConfigError { field: "recordings".to_owned(), problem });
        }
        let languages = self.commands.read_languages().unwrap_or_else(|found| {
            mistakes.extend(found);
            Languages::built_in(&self.commands.language)
        });
        ConfigErrors::check(mistakes)?;
        Ok(languages)
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
        config.listener = Listener::read(&mut fields);
        config.more_listeners = Listener::read_more(&mut fields, &config.listener);
        fields.table("session_server", |fields| config.session_server.read(fields));
        set(&mut config.control, fields.strings("control"));
        config.control_tls = fields.table("control_tls", ClientTls::read);
        config.token_file = fields.path("token_file");
        set(&mut config.allow_insecure_control, fields.bool("allow_insecure_control"));
        set(&mut config.workers, fields.integer("workers", 0..=1_024));
        set(&mut config.batch_scheduling, fields.bool("batch_scheduling"));
        set(&mut config.encrypt_together, fields.bool("encrypt_together"));
        set(&mut config.admit_without_control, fields.bool("admit_without_control"));
        fields.table("timeouts", |fields| config.timeouts.read(fields));
        fields.table("limits", |fields| config.limits.read(fields));
        fields.table("forge", |fields| {
            set(&mut config.forge.skip_equal_handshakes, fields.bool("skip_equal_handshakes"));
            set(&mut config.forge.strict_mods, fields.bool("strict_mods"));
            set(&mut config.forge.shown_mods, fields.parsed("shown_mods"));
        });
        fields.table("commands", |fields| config.commands.read(fields));
        config.recordings = fields.path("recordings");
        config.telemetry.otlp_endpoint = fields.table("telemetry", telemetry::read).flatten();
        config.check_control(&mut fields);
        fields.finish()?;
        Ok(config)
    }

    /// Every address that players connect to, the first one first.
    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        std::iter::once(&self.listener).chain(&self.more_listeners)
    }

    fn check_control(&self, fields: &mut Fields) {
        if self.control.is_empty() || self.control.len() > MAX_CONTROL {
            fields.wrong(
                "control",
                format!("expected 1 to {MAX_CONTROL} URLs of control-plane replicas, such as [\"http://127.0.0.1:25590\"]"),
            );
        }
        for (index, url) in self.control.iter().enumerate() {
            match connect::check(url, self.control_tls.is_some(), self.allow_insecure_control) {
                Ok(_) => {}
                Err(ConnectError::NoTls(_)) => fields.wrong(
                    &format!("control[{index}]"),
                    format!("{url} needs the authority of the replica's certificate: give control_tls = {{ ca = \"FILE\" }}"),
                ),
                Err(ConnectError::Plaintext(_)) => fields.wrong(
                    &format!("control[{index}]"),
                    format!("{url} is plaintext to another machine: use https and control_tls, or set allow_insecure_control = true"),
                ),
                Err(error) => fields.wrong(&format!("control[{index}]"), error.to_string()),
            }
        }
    }
}

impl Timeouts {
    fn read(&mut self, fields: &mut Fields) {
        let times = [
            ("handshake", &mut self.handshake),
            ("login", &mut self.login),
            ("connect", &mut self.connect),
            ("player_read", &mut self.player_read),
            ("backend_read", &mut self.backend_read),
            ("write_stall", &mut self.write_stall),
            ("transfer", &mut self.transfer),
            ("fence", &mut self.fence),
            ("pause", &mut self.pause),
            ("forge", &mut self.forge),
        ];
        for (name, time) in times {
            set(time, fields.duration(name, Duration::from_millis(100)..=LONGEST));
        }
        set(&mut self.drain, fields.duration("drain", Duration::ZERO..=LONGEST));
    }
}

impl Limits {
    fn read(&mut self, fields: &mut Fields) {
        set(&mut self.connections_before_login, fields.integer("connections_before_login", 1..=1_000_000));
        // A transfer must be able to hold at least one frame of the largest size and what came with it.
        set(&mut self.transfer_buffer, fields.size("transfer_buffer", 4 << 20..=1 << 30));
        set(&mut self.node_buffers, fields.size("node_buffers", 16 << 20..=1 << 40));
        set(&mut self.fallback_tries, fields.integer("fallback_tries", 0..=100));
        set(&mut self.empty_frames_per_second, fields.integer("empty_frames_per_second", 1..=1_000_000));
        set(&mut self.channels, fields.integer("channels", 1..=100_000));
        if self.node_buffers < self.transfer_buffer {
            fields.wrong("node_buffers", "expected at least transfer_buffer: no transfer could begin");
        }
    }
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            listener: Listener::default(),
            more_listeners: Vec::new(),
            session_server: SessionServer::default(),
            control: vec!["http://127.0.0.1:25590".to_owned()],
            control_tls: None,
            token_file: None,
            token: None,
            allow_insecure_control: false,
            workers: 0,
            batch_scheduling: true,
            encrypt_together: true,
            admit_without_control: true,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            forge: Forge { skip_equal_handshakes: true, strict_mods: true, shown_mods: ShownMods::Backends },
            commands: Commands::default(),
            recordings: None,
            telemetry: Telemetry::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            login: Duration::from_secs(15),
            connect: Duration::from_secs(3),
            player_read: Duration::from_secs(30),
            backend_read: Duration::from_secs(30),
            write_stall: Duration::from_secs(30),
            transfer: Duration::from_secs(30),
            fence: Duration::from_secs(2),
            pause: Duration::from_secs(5),
            forge: Duration::from_secs(120),
            drain: Duration::from_secs(10),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_before_login: 10_000,
            transfer_buffer: 16 << 20,
            node_buffers: 512 << 20,
            fallback_tries: 5,
            empty_frames_per_second: 100,
            channels: channels::MAX_CHANNELS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        Config::parse(text).map_err(|errors| errors.0.iter().map(ToString::to_string).collect()).expect_err("a mistake")
    }

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("").expect("valid");
        assert_eq!(config.listener.listen.to_string(), "127.0.0.1:25565");
        assert_eq!(config.control, ["http://127.0.0.1:25590"]);
        assert!(!config.name.is_empty() && config.admit_without_control && !config.allow_insecure_control);
        assert_eq!((config.timeouts, config.limits, config.telemetry), Default::default());
    }

    #[test]
    fn every_field_is_read() {
        let config = Config::parse(
            r#"
            name = "edge-1"
            listen = "[::]:25565"
            authentication = "online"
            allow_offline_public = false
            control = ["https://cp-1.example.net:25590", "http://[::1]:25590"]
            control_tls = { ca = "ca.pem", cert = "node.pem", key = "node.key", domain = "cp" }
            token_file = "/etc/moonbridge/token"
            allow_insecure_control = false
            workers = 3
            batch_scheduling = false
            encrypt_together = false
            admit_without_control = false
            recordings = "/var/lib/moonbridge/recordings"
            [timeouts]
            handshake = "1s"
            login = "2s"
            connect = "500ms"
            player_read = "4s"
            backend_read = "5s"
            write_stall = "6s"
            transfer = "7s"
            fence = "8s"
            pause = "9s"
            forge = "10s"
            drain = "0s"
            [limits]
            connections_before_login = 11
            transfer_buffer = "4 MiB"
            node_buffers = "1 GiB"
            fallback_tries = 0
            empty_frames_per_second = 13
            channels = 14
            [forge]
            skip_equal_handshakes = false
            strict_mods = false
            shown_mods = "none"
            [session_server]
            url = "http://127.0.0.1:8080/yggdrasil/sessionserver/"
            timeout = "5s"
            concurrency = 7
            send_client_address = true
            allow_insecure = true
            [[listeners]]
            listen = "0.0.0.0:25566"
            allow_offline_public = true
            [[listeners]]
            listen = "127.0.0.1:25567"
            authentication = "online"
            [telemetry]
            otlp_endpoint = "http://127.0.0.1:4317"
            "#,
        )
        .expect("valid");
        let seconds = Duration::from_secs;
        let timeouts = Timeouts {
            handshake: seconds(1),
            login: seconds(2),
            connect: Duration::from_millis(500),
            player_read: seconds(4),
            backend_read: seconds(5),
            write_stall: seconds(6),
            transfer: seconds(7),
            fence: seconds(8),
            pause: seconds(9),
            forge: seconds(10),
            drain: seconds(0),
        };
        let limits = Limits {
            connections_before_login: 11,
            transfer_buffer: 4 << 20,
            node_buffers: 1 << 30,
            fallback_tries: 0,
            empty_frames_per_second: 13,
            channels: 14,
        };
        assert_eq!((config.name.as_str(), config.workers, config.admit_without_control), ("edge-1", 3, false));
        assert!(!config.batch_scheduling && !config.encrypt_together);
        assert_eq!(config.listener.listen.to_string(), "[::]:25565");
        assert_eq!(config.listener.authentication, Authentication::Online);
        let more: Vec<_> = config.listeners().skip(1).map(|more| (more.listen.to_string(), more.authentication)).collect();
        let offline = ("0.0.0.0:25566".to_owned(), Authentication::Offline);
        assert_eq!(more, [offline, ("127.0.0.1:25567".to_owned(), Authentication::Online)]);
        let server = &config.session_server;
        assert_eq!(server.url.as_str(), "http://127.0.0.1:8080/yggdrasil/sessionserver");
        assert_eq!((server.timeout, server.concurrency), (seconds(5), 7));
        assert!(server.send_client_address && server.allow_insecure);
        assert_eq!(config.control.len(), 2);
        assert_eq!(config.control_tls.and_then(|tls| tls.domain).as_deref(), Some("cp"));
        assert_eq!(config.token_file, Some(PathBuf::from("/etc/moonbridge/token")));
        assert_eq!(config.recordings, Some(PathBuf::from("/var/lib/moonbridge/recordings")));
        assert_eq!((config.timeouts, config.limits), (timeouts, limits));
        assert_eq!(config.forge, Forge { skip_equal_handshakes: false, strict_mods: false, shown_mods: ShownMods::None });
        assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some("http://127.0.0.1:4317"));
    }

    #[test]
    fn every_mistake_is_reported_at_once_with_its_field() {
        let found = mistakes(
            "listen = \"localhost\"\ncontrol = [\"http://10.0.0.1:25590\", \"https://cp:25590\", \"cp\"]\ntoken = \"x\"\nworkers = -1\n\
             [timeouts]\nlogin = 15\nlogn = \"15s\"\n[limits]\ntransfer_buffer = \"64 MiB\"\nnode_buffers = \"32 MiB\"",
        );
        let fields: Vec<&str> = found.iter().filter_map(|mistake| mistake.split(": ").next()).collect();
        let expected = [
            "listen",
            "workers",
            "timeouts.login",
            "timeouts.logn",
            "limits.node_buffers",
            "control[0]",
            "control[1]",
            "control[2]",
            "token",
        ];
        assert_eq!(fields, expected, "{found:#?}");
        assert!(found[3].contains("\"login\""), "{found:#?}");
        assert!(found[5].contains("allow_insecure_control"), "{found:#?}");
        assert!(found[8].contains("token_file"), "{found:#?}");
    }

    #[test]
    fn plaintext_to_another_machine_is_by_permission_only_and_no_control_is_a_mistake() {
        let text = "control = [\"http://10.0.0.1:25590\"]";
        assert_eq!(mistakes(text).len(), 1);
        assert!(Config::parse(&format!("allow_insecure_control = true\n{text}")).is_ok());
        assert!(mistakes("control = []")[0].starts_with("control: expected 1 to 64 URLs"));
    }

    #[test]
    fn names_that_anybody_may_take_are_by_permission_only() {
        for address in ["0.0.0.0:25565", "[::]:25565", "192.0.2.1:25565", "[::ffff:192.0.2.1]:25565"] {
            let [mistake] = &mistakes(&format!("listen = \"{address}\""))[..] else { panic!("{address}: one mistake") };
            assert!(mistake.starts_with("authentication: \"offline\" on ") && mistake.contains("allow_offline_public = true"), "{mistake}");
            for remedy in ["authentication = \"online\"", "allow_offline_public = true"] {
                assert!(Config::parse(&format!("listen = \"{address}\"\n{remedy}")).is_ok(), "{address}, {remedy}");
            }
        }
        for address in ["127.0.0.1:0", "127.8.9.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            assert!(Config::parse(&format!("listen = \"{address}\"")).is_ok(), "{address}");
        }
        // A mode that is none is one mistake, not two.
        assert_eq!(mistakes("listen = \"0.0.0.0:1\"\nauthentication = \"maybe\"").len(), 1);
    }

    #[test]
    fn more_listeners_are_checked_each() {
        let found = mistakes(
            "[[listeners]]\nlisten = \"0.0.0.0:1\"\n[[listeners]]\nauthentication = \"online\"\n[[listeners]]\nlisten = \"127.0.0.1:25565\"\n\
             [[listeners]]\nlisten = \"127.0.0.1:0\"\n[[listeners]]\nlisten = \"127.0.0.1:0\"\nallow_ofline_public = true",
        );
        let fields: Vec<&str> = found.iter().filter_map(|mistake| mistake.split(": ").next()).collect();
        let expected = ["listeners[0].authentication", "listeners[1].listen", "listeners[4].allow_ofline_public", "listeners[2].listen"];
        assert_eq!(fields, expected, "{found:#?}");
    }

    #[test]
    fn a_session_server_is_a_base_url_and_plaintext_is_for_this_machine() {
        let of = |url: &str| format!("[session_server]\nurl = \"{url}\"");
        for url in [
            "https://sessionserver.mojang.com",
            "https://auth.example.net:8443/api/",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(Config::parse(&of(url)).is_ok(), "{url}");
        }
        for url in [
            "sessionserver.mojang.com",
            "ftp://a",
            "https://",
            "https://a:0",
            "https://a/?b",
            "https://a/#b",
            "https://me:pw@a",
            "https://a b",
        ] {
            assert!(
                mistakes(&of(url))[0].starts_with("session_server.url: expected http://HOST or https://HOST"),
                "{url}: {:?}",
                mistakes(&of(url))
            );
        }
        assert!(mistakes(&of("https://a/session/minecraft/hasJoined"))[0].contains("is below"));
        for url in ["http://192.0.2.1", "http://auth.example.net", "http://localhost.example.net"] {
            assert!(mistakes(&of(url))[0].starts_with("session_server.url: plaintext to another machine"), "{url}");
            assert!(Config::parse(&format!("{}\nallow_insecure = true", of(url))).is_ok(), "{url}");
        }
        let found = mistakes("[session_server]\ntimeout = \"2m\"\nconcurrency = 0");
        assert!(found[0].starts_with("session_server.timeout: ") && found[1].starts_with("session_server.concurrency: "), "{found:?}");
    }

    #[test]
    fn syntax_errors_have_a_place_and_missing_files_a_reason() {
        assert!(mistakes("a = \n")[0].starts_with("line 1, column "), "{:?}", mistakes("a = \n"));
        let missing = Config::load(Path::new("/nonexistent/node.toml")).expect_err("no such file");
        // Whoever shows it names the file.
        assert_eq!(missing.0[0].field, "");
        assert!(missing.0[0].problem.starts_with("cannot be read: "), "{missing}");
    }
}
