//! Telling a backend who the player really is, in the handshake's host.
//!
//! The legacy form is BungeeCord's (`ServerConnector.connected`, with `ip_forward`): host, address and UUID with NUL between them,
//! and if the profile has properties a NUL and their JSON array. Spigot reads it so (`settings.bungeecord`; its patch
//! "BungeeCord Support"): split at NUL, three or four parts, the fourth an array of `{name, value, signature}`; in the same patch
//! it raises the host's bound from 255 to [`MAX_HOST`]. BungeeGuard's form is that with one property more (`SpoofedLoginResult`),
//! which its other half on the backend takes out again (`BungeeCordHandshake`): exactly one, in at most 2,500 characters.

use std::net::IpAddr;

use serde_json::Value;
use uuid::Uuid;

/// The longest host that backends with forwarding read, in UTF-16 units.
pub const MAX_HOST: usize = 32_767;

/// The property that BungeeGuard's token is the value of.
pub const TOKEN_PROPERTY: &str = "bungeeguard-token";

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

/// What is to be forwarded has more than [`MAX_HOST`] characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the player's host, address, UUID and profile are {0} characters together, and backends read at most {MAX_HOST}")]
pub struct HostTooLong(pub usize);

/// The handshake's host in the legacy form. The player's own host is cut at its first NUL, so that a player cannot forge the
/// fields behind it. An IPv4 address that came through an IPv6 socket is written as IPv4; none has a scope id.
///
/// # Errors
/// If it is too long for a backend.
pub fn legacy_host(host: &str, address: IpAddr, uuid: Uuid, properties: &[Property]) -> Result<String, HostTooLong> {
    forwarded(host, address, uuid, properties.iter().map(json).collect())
}

/// The handshake's host in BungeeGuard's form: [`legacy_host`] with `token` as the last property, whether there are others or not.
/// A property of the profile's by that name is left out: two of them BungeeGuard refuses.
///
/// # Errors
/// If it is too long for a backend.
pub fn bungeeguard_host(host: &str, address: IpAddr, uuid: Uuid, properties: &[Property], token: &str) -> Result<String, HostTooLong> {
    let token = Property { name: TOKEN_PROPERTY.to_owned(), value: token.to_owned(), signature: Some(String::new()) };
    let others = properties.iter().filter(|property| property.name != TOKEN_PROPERTY);
    forwarded(host, address, uuid, others.chain([&token]).map(json).collect())
}

fn forwarded(host: &str, address: IpAddr, uuid: Uuid, properties: Vec<String>) -> Result<String, HostTooLong> {
    let host = host.split('\0').next().unwrap_or_default();
    let mut forwarded = format!("{host}\0{}\0{}", address.to_canonical(), uuid.simple());
    if !properties.is_empty() {
        forwarded.push_str(&format!("\0[{}]", properties.join(",")));
    }
    match forwarded.encode_utf16().count() {
        length if length <= MAX_HOST => Ok(forwarded),
        length => Err(HostTooLong(length)),
    }
}

/// As Gson writes it: an absent signature is left out. A NUL is escaped, so that no property can add a part to the host.
fn json(property: &Property) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let signature = property.signature.as_deref().map_or_else(String::new, |signature| format!(",\"signature\":{}", text(signature)));
    format!("{{\"name\":{},\"value\":{}{signature}}}", text(&property.name), text(&property.value))
}
