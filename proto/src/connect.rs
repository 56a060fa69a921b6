//! gRPC connections between nodes, replicas and admins: where plaintext is allowed, and how fast a dead peer is noticed.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tonic::transport::{Endpoint, Uri};

use crate::tls::{ClientTls, TlsError};

/// How long a connect may take, TLS included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How often a connection is asked for a sign of life (HTTP/2 PING), and how long the answer may take.
pub const PING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));

/// Why a control-plane URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not an `http://` or `https://` URL with a host and a port.
    #[error("expected http://HOST:PORT or https://HOST:PORT, got {0:?}")]
    Url(String),
    /// Plaintext to another machine.
    #[error("{0} is plaintext to another machine: use https and give its authority (ca), or allow_insecure_control")]
    Plaintext(String),
    /// `https://` without TLS files.
    #[error("{0} needs the authority of the server's certificate: give ca, a PEM file")]
    NoTls(String),
    /// The TLS files cannot be used.
    #[error("{url}: {error}")]
    Tls {
        /// The URL.
        url: String,
        /// Why not.
        #[source]
        error: TlsError,
    },
}

/// An endpoint for a control-plane URL. Nothing is connected yet.
///
/// `http://` is for loopback only unless `allow_insecure`; `https://` needs `tls` with an authority.
///
/// # Errors
/// The URL or the TLS files cannot be used, or plaintext is not allowed there.
pub fn channel(url: &str, tls: Option<&ClientTls>, allow_insecure: bool) -> Result<Endpoint, ConnectError> {
    let (uri, host) = check(url, tls.is_some(), allow_insecure)?;
    let is_https = uri.scheme_str() == Some("https");
    let endpoint = Endpoint::from(uri)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    let Some(tls) = tls.filter(|_| is_https) else { return Ok(endpoint) };
    let wrong = |error| ConnectError::Tls { url: url.to_owned(), error };
    let mut config = tls.load().map_err(wrong)?;
    if tls.domain.is_none() {
        // tonic would take the host of the URL with the brackets of an IPv6 address.
        config = config.domain_name(host);
    }
    endpoint.tls_config(config).map_err(|_| ConnectError::Url(url.to_owned()))
}

/// Whether a URL of a control plane (or of etcd) can be used; gives it with its host, without brackets. No file is read.
///
/// # Errors
/// As for [`channel`], apart from the TLS files.
pub fn check(url: &str, has_tls: bool, allow_insecure: bool) -> Result<(Uri, String), ConnectError> {
    let uri: Uri = url.parse().map_err(|_| ConnectError::Url(url.to_owned()))?;
    let (Some(scheme), Some(host), Some(port)) = (uri.scheme_str(), uri.host(), uri.port_u16()) else {
        return Err(ConnectError::Url(url.to_owned()));
    };
    if host.is_empty() || port == 0 || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(ConnectError::Url(url.to_owned()));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    match (scheme, has_tls) {
        ("http", _) if allow_insecure || is_loopback(&host) => Ok((uri, host)),
        ("http", _) => Err(ConnectError::Plaintext(url.to_owned())),
        ("https", false) => Err(ConnectError::NoTls(url.to_owned())),
        ("https", true) => Ok((uri, host)),
        _ => Err(ConnectError::Url(url.to_owned())),
    }
}

/// Whether a gRPC listener may listen there: anything but loopback needs TLS, or `allow_insecure_control`.
///
/// # Errors
/// Says what to give.
pub fn listen_allowed(address: SocketAddr, has_tls: bool, allow_insecure: bool) -> Result<(), String> {
    if has_tls || allow_insecure || address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let give = "give tls = { cert, key, client_ca }, listen on 127.0.0.1, or set allow_insecure_control = true";
    Err(format!("{address} can be reached from other machines and has no TLS: {give}"))
}

/// Whether a host, without brackets, is this machine by name or address.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}
