//! A Minecraft server that players can be sent to.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::forwarding::{self, Forwarding};
use super::mistakes::{At, Mistakes, shown};
use crate::v1;

/// The longest name of a backend, in bytes.
pub const MAX_NAME: usize = 64;

/// The longest host name (RFC 1035), in bytes.
const MAX_HOST: usize = 253;

/// A Minecraft server that players can be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// 1 to 64 of `[a-z0-9._-]`, beginning with a letter or digit.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// How it is told who the player is.
    pub forwarding: Forwarding,
    /// Takes no new players.
    pub drained: bool,
    /// Takes only players who have the permission [`Backend::permission`] says.
    pub restricted: bool,
    /// Its plugins are not obeyed on the channel `BungeeCord`.
    pub plugin_channel_off: bool,
}

impl Backend {
    /// The permission that a restricted backend wants.
    pub fn permission(&self) -> String {
        format!("moonbridge.server.{}", self.name)
    }
}

/// HOST:PORT. The host is a name, an IPv4 address, or (in brackets when written) an IPv6 address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Without brackets.
    pub host: String,
    /// Never 0.
    pub port: u16,
}

/// What is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No port, or more than one colon without brackets.
    #[error("expected HOST:PORT (an IPv6 address in brackets), got {0}")]
    Form(String),
    /// The port is not a number from 1 to 65535.
    #[error("expected a port from 1 to 65535, got {0}")]
    Port(String),
    /// The host is neither a host name nor an address.
    #[error("expected a host name or IP address before the port, got {0}")]
    Host(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = text.rsplit_once(':').ok_or_else(|| AddressError::Form(shown(text)))?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inside) if inside.parse::<Ipv6Addr>().is_ok() => inside,
            Some(_) => return Err(AddressError::Host(shown(host))),
            None if host.contains(':') => return Err(AddressError::Form(shown(text))),
            None if is_host_name(host) => host,
            None => return Err(AddressError::Host(shown(host))),
        };
        // u16::from_str alone would take "+25565".
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if digits && port != 0 => Ok(Self { host: host.to_owned(), port }),
            _ => Err(AddressError::Port(shown(port))),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

fn is_host_name(host: &str) -> bool {
    !host.is_empty() && host.len() <= MAX_HOST && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// What is wrong with the name of a backend (or of something else that is named like one), if anything.
pub fn name_problem(name: &str) -> Option<String> {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = name.len() <= MAX_NAME
        && name.bytes().next().is_some_and(letters)
        && name.bytes().all(|byte| letters(byte) || b"._-".contains(&byte));
    (!good).then(|| format!("expected 1 to {MAX_NAME} of a-z, 0-9, '.', '_', '-', beginning with a letter or digit, got {}", shown(name)))
}

pub(super) fn validate(raw: v1::Backend, at: &At, mistakes: &mut Mistakes) -> Backend {
    if let Some(problem) = name_problem(&raw.name) {
        mistakes.add(&at.field("name"), problem);
    }
    let address = raw.address.parse().unwrap_or_else(|error: AddressError| {
        mistakes.add(&at.field("address"), error.to_string());
        Address { host: String::new(), port: 0 }
    });
    let forwarding = forwarding::validate(raw.forwarding, &raw.forwarding_token, at, mistakes);
    Backend {
        name: raw.name,
        address,
        forwarding,
        drained: raw.drained,
        restricted: raw.restricted,
        plugin_channel_off: raw.plugin_channel_off,
    }
}

impl TryFrom<v1::Backend> for Backend {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: v1::Backend) -> Result<Self, Self::Error> {
        let mut mistakes = Mistakes::default();
        let backend = validate(raw, &At::root(), &mut mistakes);
        mistakes.into_result(backend)
    }
}

impl From<&Backend> for v1::Backend {
    fn from(backend: &Backend) -> Self {
        let (forwarding, forwarding_token) = forwarding::to_wire(&backend.forwarding);
        Self {
            name: backend.name.clone(),
            address: backend.address.to_string(),
            forwarding,
            drained: backend.drained,
            forwarding_token,
            restricted: backend.restricted,
            plugin_channel_off: backend.plugin_channel_off,
        }
    }
}
