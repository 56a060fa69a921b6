//! Which backends a host name leads to.

use std::fmt;
use std::net::Ipv6Addr;

use super::backend::name_problem;
use super::mistakes::{At, Mistakes, shown};
use crate::routing::normalise_host;
use crate::v1;

/// The longest host of a route, in characters: what a handshake can carry.
pub const MAX_ROUTE_HOST: usize = 255;

/// The most backends of one route: that each exists is compared in the one transaction that sets the route, and etcd takes 128 compares.
pub const MAX_ROUTE_BACKENDS: usize = 126;

/// Which backends a host name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Lower case, without port and trailing dot: exact, `*.suffix`, or `*`.
    pub host: String,
    /// Names of backends, in the order they are tried; at least one, none twice. They need not exist.
    pub backends: Vec<String>,
    /// What becomes of a player whose backend kicks or dies.
    pub on_kick: OnKick,
}

/// What becomes of a player whose backend kicks or dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnKick {
    /// The route's other backends are tried.
    #[default]
    Fallback,
    /// The player is disconnected with the backend's reason.
    Disconnect,
}

impl fmt::Display for OnKick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fallback => "fallback",
            Self::Disconnect => "disconnect",
        })
    }
}

pub(super) fn validate(raw: v1::Route, at: &At, mistakes: &mut Mistakes) -> Route {
    let host = normalise_host(&raw.host);
    // What only looks like "*" ("*.", "*:25565") is a slip that must not catch every player; nor is a URL a host.
    let slip = raw.host.contains(['/', '\0']) || (host == "*" && raw.host != "*");
    if slip || !is_route_host(&host) {
        let expected = "expected a host name, \"*.suffix\" or \"*\"";
        mistakes.add(&at.field("host"), format!("{expected}, at most {MAX_ROUTE_HOST} characters, got {}", shown(&raw.host)));
    }
    if raw.backends.is_empty() {
        mistakes.add(&at.field("backends"), "empty; expected the name of at least one backend");
    }
    if raw.backends.len() > MAX_ROUTE_BACKENDS {
        mistakes.add(&at.field("backends"), format!("expected at most {MAX_ROUTE_BACKENDS} names, got {}", raw.backends.len()));
    }
    let mut seen = std::collections::HashSet::new();
    for (index, name) in raw.backends.iter().enumerate() {
        if let Some(problem) = name_problem(name) {
            mistakes.add(&at.item("backends", index), problem);
        } else if !seen.insert(name.as_str()) {
            mistakes.add(&at.item("backends", index), format!("the backend {name:?} is in the list twice"));
        }
    }
    let on_kick = match v1::OnKick::try_from(raw.on_kick) {
        Ok(v1::OnKick::Unspecified | v1::OnKick::Fallback) => OnKick::Fallback,
        Ok(v1::OnKick::Disconnect) => OnKick::Disconnect,
        Err(_) => {
            mistakes.add(&at.field("on_kick"), format!("expected fallback or disconnect, got the unknown kind {}", raw.on_kick));
            OnKick::Fallback
        }
    };
    Route { host, backends: raw.backends, on_kick }
}

/// Exact, `*.suffix` or `*`, or an IP address. Names in other scripts pass: a client sends what the player typed. Of ASCII only
/// what host names are made of does (RFC 1123 section 2.1, and the '_' that some have).
fn is_route_host(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let plain = |c: char| if c.is_ascii() { c.is_ascii_alphanumeric() || "-_".contains(c) } else { !c.is_control() && !c.is_whitespace() };
    let label = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.chars().all(plain);
    host == "*" || host.parse::<Ipv6Addr>().is_ok() || (host.chars().count() <= MAX_ROUTE_HOST && name.split('.').all(label))
}

impl TryFrom<v1::Route> for Route {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: v1::Route) -> Result<Self, Self::Error> {
        let mut mistakes = Mistakes::default();
        let route = validate(raw, &At::root(), &mut mistakes);
        mistakes.into_result(route)
    }
}

impl From<&Route> for v1::Route {
    fn from(route: &Route) -> Self {
        let on_kick = match route.on_kick {
            OnKick::Fallback => v1::OnKick::Fallback,
            OnKick::Disconnect => v1::OnKick::Disconnect,
        };
        Self { host: route.host.clone(), backends: route.backends.clone(), on_kick: on_kick.into() }
    }
}
