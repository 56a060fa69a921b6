//! A node's configuration: what it is, whom it talks to, and its limits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How a node is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// The operator's name for this node; the machine's host name unless given.
    pub name: String,
    /// Where players connect.
    pub listen: SocketAddr,
    /// URLs of the control-plane replicas, tried in turn.
    pub control: Vec<String>,
    /// A file that holds the token to show to the control plane.
    pub token_file: Option<PathBuf>,
    /// The token itself; goes before `token_file`. Never read from a configuration file: `moonbridge up` sets it.
    pub token: Option<String>,
    /// Whether plaintext may be spoken to a control plane that is not on this machine.
    pub allow_insecure_control: bool,
    /// Worker threads; 0 means one a core.
    pub workers: usize,
    /// Whether new players are let in, by the last snapshot, while the control plane is away.
    pub admit_without_control: bool,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How much of things there may be.
    pub limits: Limits,
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
    /// One TCP connect to a backend.
    pub connect: Duration,
    /// A player that sends nothing for so long is gone.
    pub player_read: Duration,
    /// A backend that sends nothing for so long is gone.
    pub backend_read: Duration,
    /// A peer that takes none of the bytes waiting for it for so long is gone.
    pub write_stall: Duration,
    /// A whole transfer, unless its command has an earlier deadline.
    pub transfer: Duration,
    /// The wait for the Client Settings that end the player's old world.
    pub fence: Duration,
    /// The wait for a frame boundary at which a transfer may pause.
    pub pause: Duration,
    /// The wait for the sessions to end when the node is shut down.
    pub drain: Duration,
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
}

/// Where traces go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// An OTLP/gRPC endpoint; `OTEL_EXPORTER_OTLP_ENDPOINT` is the fallback, and without either nothing is exported.
    pub otlp_endpoint: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 25565),
            control: vec!["http://127.0.0.1:25590".to_owned()],
            token_file: None,
            token: None,
            allow_insecure_control: false,
            workers: 0,
            admit_without_control: true,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
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
        }
    }
}
