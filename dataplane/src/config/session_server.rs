//! Whom an online listener asks who a player is.

use std::str::FromStr;
use std::time::Duration;

use hyper::Uri;
use moonbridge_proto::config::Fields;
use moonbridge_proto::connect::is_loopback;

use super::set;

/// Mojang's own. Source: minecraft.wiki, "Protocol encryption", "Server" of "Authentication".
const MOJANG: &str = "https://sessionserver.mojang.com";

/// What is asked below the base URL.
pub const HAS_JOINED: &str = "/session/minecraft/hasJoined";

/// The session server, and how it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionServer {
    /// Where it is.
    pub url: BaseUrl,
    /// How long one login may wait for its answer, a second try included.
    pub timeout: Duration,
    /// Requests at a time, which is about how many connections it sees.
    pub concurrency: usize,
    /// Whether it is told the player's address, so that it can refuse a login that began at another one.
    pub send_client_address: bool,
    /// Whether it may be asked in plaintext on another machine.
    pub allow_insecure: bool,
}

/// The URL below which a session server has its `/session/minecraft/hasJoined`, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    is_plain: bool,
    is_local: bool,
}

/// Why a URL is not one of a session server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is no such URL at all.
    #[error("expected http://HOST or https://HOST, with a port and a path if need be, such as \"{MOJANG}\"")]
    Form,
    /// It goes on to what is asked there.
    #[error("expected the URL that \"{HAS_JOINED}\" is below, such as \"{MOJANG}\"")]
    Whole,
    /// Plaintext to another machine.
    #[error("plaintext to another machine: whoever is on the way could say who anybody is")]
    Plaintext,
}

impl BaseUrl {
    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it may be used.
    ///
    /// # Errors
    /// [`UrlError::Plaintext`] if it is plaintext to another machine.
    pub fn check(&self) -> Result<(), UrlError> {
        if self.is_plain && !self.is_local { Err(UrlError::Plaintext) } else { Ok(()) }
    }
}

impl FromStr for BaseUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let text = text.trim_end_matches('/');
        if text.ends_with(HAS_JOINED) {
            return Err(UrlError::Whole);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Form)?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(UrlError::Form) };
        // A query or fragment would swallow what is put behind it, a password would stand in the open.
        if authority.host().is_empty() || uri.port_u16() == Some(0) || text.contains(['?', '#', '@']) {
            return Err(UrlError::Form);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(BaseUrl { is_plain: scheme == "http", is_local: is_loopback(host), text: text.to_owned() })
    }
}

impl SessionServer {
    pub(super) fn read(&mut self, fields: &mut Fields) {
        let has_url = fields.has("url");
        set(&mut self.url, fields.parsed("url"));
        set(&mut self.timeout, fields.duration("timeout", Duration::from_millis(100)..=Duration::from_secs(60)));
        set(&mut self.concurrency, fields.integer("concurrency", 1..=1_024));
        set(&mut self.send_client_address, fields.bool("send_client_address"));
        set(&mut self.allow_insecure, fields.bool("allow_insecure"));
        if has_url
            && !self.allow_insecure
            && let Err(error) = self.url.check()
        {
            fields.wrong("url", format!("{error}; use https, or set allow_insecure = true"));
        }
    }
}

impl Default for SessionServer {
    fn default() -> Self {
        Self {
            url: BaseUrl { text: MOJANG.to_owned(), is_plain: false, is_local: false },
            timeout: Duration::from_secs(10),
            concurrency: 64,
            send_client_address: false,
            allow_insecure: false,
        }
    }
}
