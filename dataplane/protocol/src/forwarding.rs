//! Telling a backend who the player really is.

use std::net::IpAddr;

use uuid::Uuid;

/// The handshake host of legacy (BungeeCord) forwarding: host, address and UUID without dashes, NUL between them. A host
/// with a NUL is cut at it, so that a player cannot forge the fields behind it. An IPv4 address that came through an IPv6
/// socket is written as IPv4.
pub fn legacy_host(host: &str, address: IpAddr, uuid: Uuid) -> String {
    let host = host.split('\0').next().unwrap_or_default();
    format!("{host}\0{}\0{}", address.to_canonical(), uuid.simple())
}
