//! MoonBridge's control protocol: .proto files, generated types, the validated snapshot, telemetry and TLS set-up.

pub mod config;
pub mod connect;
pub mod routing;
pub mod snapshot;
pub mod telemetry;
pub mod tls;
pub mod token;

/// The generated types and services of package `moonbridge.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("moonbridge.v1");
}
