//! MoonBridge's control protocol: .proto files, generated types, the validated snapshot, telemetry and TLS set-up.

pub mod config;
pub mod connect;
pub mod permission_settings;
pub mod routing;
pub mod snapshot;
pub mod telemetry;
pub mod tls;
pub mod token;

/// The longest text for a player that a command may carry, in bytes: a kick's reason, a message. With its JSON and its styles it still
/// fits a packet, and a batch of commands a transaction of the store.
pub const MAX_TEXT: usize = 4_096;

/// The longest time that a session's frames are recorded, in seconds.
pub const MAX_RECORDING_SECONDS: u32 = 600;

/// The generated types and services of package `moonbridge.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("moonbridge.v1");
}
