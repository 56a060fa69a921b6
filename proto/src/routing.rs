//! Where a host name leads: exact before `*.suffix` (the longest first) before `*`.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use crate::snapshot::{Backend, Route, Snapshot};
use crate::v1;

/// Where a host leads, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The host as it was looked up.
    pub host: String,
    /// The route that matched.
    pub route: Option<Arc<Route>>,
    /// What about the route matched.
    pub matched_by: MatchedBy,
    /// The route's backends in the order they are tried, unusable ones included.
    pub candidates: Vec<Candidate>,
}

/// What about a route matched a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedBy {
    /// Its host is this host.
    Exact,
    /// Its `*.suffix`; no longer one matched.
    Suffix,
    /// It is `*`.
    Any,
    /// No route matched.
    None,
}

/// A backend of the route that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The backend's name.
    pub name: String,
    /// The backend, unless it is missing.
    pub backend: Option<Arc<Backend>>,
    /// Whether it may be given a new player, and if not, why.
    pub why: Usable,
}

/// Whether a backend may be given a new player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usable {
    /// It may.
    Ok,
    /// It takes no new players.
    Drained,
    /// There is no such backend.
    Missing,
    /// It is restricted, and the player has not the permission.
    Restricted,
}

/// A host as routes know it: cut at the first NUL, without port and trailing dots, ASCII letters in lower case.
/// An IPv6 address loses its brackets. Normalising twice changes nothing.
pub fn normalise_host(host: &str) -> String {
    let host = host.split('\0').next().unwrap_or_default();
    if let Some((inside, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_address = inside.parse::<Ipv6Addr>().is_ok();
        return if is_address { inside.to_ascii_lowercase() } else { format!("[{}]", inside.to_ascii_lowercase()) };
    }
    // Several colons without brackets are an IPv6 address without port.
    let name = match host.split_once(':') {
        Some((name, rest)) if !rest.contains(':') => name,
        _ => host,
    };
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl Snapshot {
    /// Where a host name leads. The host may be as a player sent it: it is normalised here. `may_enter` says whether the player has the
    /// permission of a restricted backend.
    pub fn route(&self, host: &str, may_enter: impl Fn(&Backend) -> bool) -> Decision {
        let host = normalise_host(host);
        let (matched_by, route) = self.matching(&host);
        let names = route.iter().flat_map(|route| &route.backends);
        let candidates = names.map(|name| self.candidate(name, &may_enter)).collect();
        Decision { host, route: route.cloned(), matched_by, candidates }
    }

    fn matching(&self, host: &str) -> (MatchedBy, Option<&Arc<Route>>) {
        // A player who types "*.example.net" gets no further with it than anybody else.
        if !host.starts_with('*')
            && let Some(route) = self.routes.get(host)
        {
            return (MatchedBy::Exact, Some(route));
        }
        // From the left: the first suffix that matches is the longest.
        for (dot, _) in host.match_indices('.').filter(|(dot, _)| *dot > 0) {
            if let Some(route) = self.routes.get(&format!("*{}", &host[dot..])) {
                return (MatchedBy::Suffix, Some(route));
            }
        }
        match self.routes.get("*") {
            Some(route) => (MatchedBy::Any, Some(route)),
            None => (MatchedBy::None, None),
        }
    }

    /// A backend as a candidate for a new player; `may_enter` is as for [`Snapshot::route`].
    pub fn candidate(&self, name: &str, may_enter: impl Fn(&Backend) -> bool) -> Candidate {
        let backend = self.backends.get(name).cloned();
        let why = match &backend {
            None => Usable::Missing,
            Some(backend) if backend.drained => Usable::Drained,
            Some(backend) if backend.restricted && !may_enter(backend) => Usable::Restricted,
            Some(_) => Usable::Ok,
        };
        Candidate { name: name.to_owned(), backend, why }
    }
}

impl Decision {
    /// The backends that may be given the player, in order.
    pub fn usable(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.candidates.iter().filter(|candidate| candidate.why == Usable::Ok).filter_map(|candidate| candidate.backend.as_ref())
    }
}

impl From<&Decision> for v1::TestRouteResponse {
    fn from(decision: &Decision) -> Self {
        let candidates = decision.candidates.iter().map(|candidate| v1::RouteCandidate {
            backend: candidate.name.clone(),
            address: candidate.backend.as_ref().map(|backend| backend.address.to_string()).unwrap_or_default(),
            usable: candidate.why == Usable::Ok,
            why: candidate.why.to_string(),
        });
        Self {
            host: decision.host.clone(),
            route: decision.route.as_deref().map(Into::into),
            matched_by: decision.matched_by.to_string(),
            candidates: candidates.collect(),
        }
    }
}

impl fmt::Display for MatchedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Suffix => "suffix",
            Self::Any => "any",
            Self::None => "none",
        })
    }
}

impl fmt::Display for Usable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Drained => "drained",
            Self::Missing => "missing",
            Self::Restricted => "restricted",
        })
    }
}
