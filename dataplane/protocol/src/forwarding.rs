//! Telling a backend who the player really is.

use std::net::IpAddr;

use uuid::Uuid;

/// A property of an account's profile as Mojang's session server gives it: `textures` holds the skin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Such as `textures`.
    pub name: String,
    /// Base64 in the case of `textures`.
    pub value: String,
    /// Mojang's signature over the value, base64; clients show skins only with it.
    pub signature: Option<String>,
}

/// The handshake host of legacy (BungeeCord) forwarding: host, address and UUID without dashes, NUL between them. A host
/// with a NUL is cut at it, so that a player cannot forge the fields behind it. An IPv4 address that came through an IPv6
/// socket is written as IPv4.
pub fn legacy_host(host: &str, address: IpAddr, uuid: Uuid) -> String {
    let host = host.split('\0').next().unwrap_or_default();
    format!("{host}\0{}\0{}", address.to_canonical(), uuid.simple())
}
