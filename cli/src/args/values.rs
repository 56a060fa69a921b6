//! Values of arguments: each parser says what it expected.

use std::net::SocketAddr;
use std::time::Duration;

use moonbridge_dataplane::config::{BaseUrl, UrlError};
use moonbridge_proto::snapshot::{Address, AddressError, MAX_ROUTE_HOST, Route};
use moonbridge_proto::v1;
use moonbridge_protocol::name::valid_name;
use moonbridge_protocol::version::Version;

/// The port that players' clients take when none is given.
const MINECRAFT_PORT: u16 = 25565;

/// Most characters of a host name that a handshake can carry.
const MAX_HOST: usize = 255;

/// A server to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// A name or IP address (IPv6 without brackets).
    pub(crate) host: String,
    /// The TCP port.
    pub(crate) port: u16,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

/// A backend as `up --backend` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedBackend {
    /// The backend's name.
    pub(crate) name: String,
    /// HOST:PORT.
    pub(crate) address: String,
}

/// HOST, HOST:PORT, an IPv6 address, or `[IPv6]:PORT`.
pub(super) fn host_port(text: &str) -> Result<HostPort, String> {
    let expected = "expected HOST or HOST:PORT, for example play.example.net or 127.0.0.1:25565";
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(expected)?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(expected.to_owned()),
        }
    } else if text.matches(':').count() > 1 {
        (text, None)
    } else {
        text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
    };
    let port = match port {
        None => MINECRAFT_PORT,
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or("expected a port from 1 to 65535 after the colon")?,
    };
    if host.is_empty() || host.len() > MAX_HOST || host.contains(char::is_whitespace) {
        return Err(expected.to_owned());
    }
    Ok(HostPort { host: host.to_owned(), port })
}

/// HOST:PORT, both given, as the control plane will take it.
pub(super) fn address(text: &str) -> Result<String, String> {
    let expected = match text.parse::<Address>() {
        Ok(address) => return Ok(address.to_string()),
        Err(AddressError::Form(_)) => "expected HOST:PORT, for example 10.0.0.7:25565 or [2001:db8::7]:25565",
        Err(AddressError::Port(_)) => "expected a port from 1 to 65535 after the colon",
        Err(AddressError::Host(_)) => "expected a host name (of a-z, 0-9, '.', '_', '-') or an IP address before the port",
    };
    Err(expected.to_owned())
}

/// The host of a route, as the control plane will take it.
pub(super) fn route_host(text: &str) -> Result<String, String> {
    let backends = vec!["any".to_owned()];
    let route = v1::Route { host: text.to_owned(), backends, on_kick: v1::OnKick::Fallback.into() };
    let port = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').is_some_and(|(_, port)| !port.is_empty()),
        // Several colons are an IPv6 address.
        None => text.matches(':').count() == 1,
    };
    match Route::try_from(route) {
        Ok(_) if port => Err("expected a host name without a port: players are routed by the name alone".to_owned()),
        Ok(_) => Ok(text.to_owned()),
        Err(_) => {
            Err(format!("expected a host name such as play.example.net, *.SUFFIX, or * for all; at most {MAX_ROUTE_HOST} characters"))
        }
    }
}

/// NAME=HOST:PORT.
pub(super) fn named_backend(text: &str) -> Result<NamedBackend, String> {
    let (name, at) = text.split_once('=').ok_or("expected NAME=HOST:PORT, for example lobby=127.0.0.1:25566")?;
    Ok(NamedBackend { name: backend_name(name)?, address: address(at)? })
}

/// The URL of an etcd member.
pub(super) fn etcd_url(text: &str) -> Result<String, String> {
    let server = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match server.map(|server| address(server.trim_end_matches('/'))) {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("expected http://HOST:PORT, for example http://127.0.0.1:2379".to_owned()),
    }
}

/// The URL of a session server, which `up` asks in plaintext on this machine only.
pub(super) fn session_server(text: &str) -> Result<BaseUrl, String> {
    let url: BaseUrl = text.parse().map_err(|error: UrlError| error.to_string())?;
    url.check().map_err(|error| format!("{error}; use https"))?;
    Ok(url)
}

/// The name of a backend, as the control plane will take it.
pub(super) fn backend_name(text: &str) -> Result<String, String> {
    name("backend", text)
}

/// The name of a token, as the control plane will take it.
pub(super) fn token_name(text: &str) -> Result<String, String> {
    name("token", text)
}

fn name(of: &str, text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let valid = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| good(byte) || b"._-".contains(&byte))
        && text.bytes().next().is_some_and(good);
    if valid {
        Ok(text.to_owned())
    } else {
        Err(format!("expected a {of}'s name: 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit"))
    }
}

/// A name a player can have.
pub(super) fn player_name(text: &str) -> Result<String, String> {
    valid_name(text).map(|()| text.to_owned()).map_err(|error| format!("{error}; expected 1 to 16 of A-Z, a-z, 0-9 and '_'"))
}

/// "500ms", "10s", "2m", "1h".
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a time such as 500ms, 10s, 2m or 1h";
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| expected)?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    // A month: anything longer is a mistake, and the sum with a clock must not overflow.
    millis.filter(|&millis| millis <= 31 * 24 * 3_600_000).map(Duration::from_millis).ok_or_else(|| expected.to_owned())
}

/// A protocol that we speak.
pub(super) fn protocol(text: &str) -> Result<i32, String> {
    let known = text.parse().ok().filter(|&protocol| Version::of(protocol).is_some());
    known.ok_or_else(|| {
        let all: Vec<String> = Version::ALL.iter().map(|version| format!("{} ({})", version.protocol, version.name)).collect();
        format!("expected a protocol number: {}", all.join(" or "))
    })
}

/// An address on loopback.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected IP:PORT, for example 127.0.0.1:25590".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("expected a loopback address: `up` serves its control plane to this machine only; for others run `moonbridge controlplane` with TLS".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let parse = |text: &str| host_port(text).map(|server| (server.host, server.port));
        assert_eq!(parse("play.example.net"), Ok(("play.example.net".into(), 25565)));
        assert_eq!(parse("127.0.0.1:1"), Ok(("127.0.0.1".into(), 1)));
        assert_eq!(parse("::1"), Ok(("::1".into(), 25565)));
        assert_eq!(parse("[::1]:7"), Ok(("::1".into(), 7)));
        assert_eq!(host_port("[::1]:7").unwrap().to_string(), "[::1]:7");
        for bad in ["", ":25565", "host:0", "host:65536", "host:x", "[::1", "[::1]7", "a b"] {
            assert!(host_port(bad).is_err(), "{bad:?}");
        }
        assert!(host_port(&"h".repeat(255)).is_ok());
        assert!(host_port(&"h".repeat(256)).is_err());
    }

    #[test]
    fn addresses_need_a_port() {
        assert_eq!(address("[::1]:7").unwrap(), "[::1]:7");
        assert_eq!(address("db:7").unwrap(), "db:7");
        for bad in ["", "db", "::1", "[::1]", "::1:7"] {
            assert!(address(bad).unwrap_err().contains("HOST:PORT") || bad == "[::1]", "{bad:?}: {:?}", address(bad));
        }
        for (bad, named) in
            [("db:0", "port"), ("db:", "port"), (":7", "host name"), ("a b:5", "host name"), ("\u{fc}n\u{ef}.de:5", "host name")]
        {
            assert!(address(bad).unwrap_err().contains(named), "{bad:?}: {:?}", address(bad));
        }
    }

    #[test]
    fn hosts_of_routes() {
        for good in ["*", "*.example.net", "Play.Example.net", "m\u{fc}nchen.example", "10.0.0.7", "[::1]", "a_b-c.d"] {
            assert!(route_host(good).is_ok(), "{good:?}");
        }
        for bad in ["", "--", "-a", "a-.b", "a b", "*.*", "a..b", "http://a", "a$b", "*.", "a,b", "a.b:25565", "[::1]:7"] {
            assert!(route_host(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn members_of_etcd() {
        assert!(etcd_url("http://127.0.0.1:2379").is_ok() && etcd_url("https://[::1]:2379/").is_ok());
        for bad in ["127.0.0.1:2379", "http://127.0.0.1", "http://"] {
            assert!(etcd_url(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn backends() {
        let lobby = named_backend("lobby=10.0.0.7:25566").unwrap();
        assert_eq!((lobby.name.as_str(), lobby.address.as_str()), ("lobby", "10.0.0.7:25566"));
        for bad in ["lobby", "=a:1", "Lobby=a:1", "-x=a:1", "lobby=a"] {
            assert!(named_backend(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_told_what_it_would_be_of() {
        assert_eq!(token_name("ci-2").as_deref(), Ok("ci-2"));
        assert!(token_name("../x").unwrap_err().starts_with("expected a token's name"));
        assert!(backend_name("../x").unwrap_err().starts_with("expected a backend's name"));
    }

    #[test]
    fn durations() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
        for bad in ["", "10", "s", "-1s", "1d", "1.5s", "99999999999999999999s", "99999999h"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn control_of_up_is_for_this_machine() {
        assert!(loopback("[::1]:0").is_ok());
        assert!(loopback("0.0.0.0:25590").is_err());
    }
}
