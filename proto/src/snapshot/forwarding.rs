//! How a backend is told who the player is.

use std::fmt;
use std::sync::Arc;

use super::mistakes::{At, Mistakes};
use crate::v1;

/// How a backend is told who the player is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Not at all: it sees the node's address.
    #[default]
    None,
    /// BungeeCord's legacy form in the handshake's host. The backend must not be reachable but through nodes.
    Legacy,
    /// The legacy form with a token: the backend's BungeeGuard takes nobody without it.
    BungeeGuard(ForwardingToken),
}

/// What a backend's BungeeGuard knows the network by: whoever has it can be any player there. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ForwardingToken(Arc<str>);

/// Not 8 to 256 bytes of visible ASCII. Does not hold the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a token of 8 to 256 visible ASCII characters, got {bytes} bytes{}", if *.visible { "" } else { ", some of them other" })]
pub struct ForwardingTokenError {
    bytes: usize,
    visible: bool,
}

impl ForwardingToken {
    /// The shortest and the longest token, in bytes. BungeeGuard's own have 64 characters; it refuses handshakes of more than 2,500.
    const LENGTH: std::ops::RangeInclusive<usize> = 8..=256;

    /// A token.
    ///
    /// # Errors
    /// If it is too short, too long, or has anything but visible ASCII.
    pub fn new(token: &str) -> Result<Self, ForwardingTokenError> {
        let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && Self::LENGTH.contains(&token.len()) {
            return Ok(Self(token.into()));
        }
        Err(ForwardingTokenError { bytes: token.len(), visible })
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ForwardingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForwardingToken(set)")
    }
}

impl fmt::Display for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Legacy => "legacy",
            Self::BungeeGuard(_) => "bungeeguard",
        })
    }
}

/// The kind, and the token as it is on the wire: empty if there is none.
pub(super) fn validate(kind: i32, token: &str, at: &At, mistakes: &mut Mistakes) -> Forwarding {
    let forwarding = match v1::Forwarding::try_from(kind) {
        Ok(v1::Forwarding::Unspecified | v1::Forwarding::None) => Forwarding::None,
        Ok(v1::Forwarding::Legacy) => Forwarding::Legacy,
        Ok(v1::Forwarding::Bungeeguard) if token.is_empty() => {
            let problem = "missing; bungeeguard needs one of the tokens that the backend's BungeeGuard allows (its allowed-tokens): give it \
                           with --forwarding-token-file FILE";
            mistakes.add(&at.field("forwarding_token"), problem);
            return Forwarding::None;
        }
        Ok(v1::Forwarding::Bungeeguard) => {
            return match ForwardingToken::new(token) {
                Ok(token) => Forwarding::BungeeGuard(token),
                Err(error) => {
                    mistakes.add(&at.field("forwarding_token"), error.to_string());
                    Forwarding::None
                }
            };
        }
        Err(_) => {
            mistakes.add(&at.field("forwarding"), format!("expected none, legacy or bungeeguard, got the unknown kind {kind}"));
            return Forwarding::None;
        }
    };
    if !token.is_empty() {
        mistakes.add(&at.field("forwarding_token"), format!("only bungeeguard has a token, the forwarding is {forwarding}"));
    }
    forwarding
}

/// The kind and the token as they are on the wire.
pub(super) fn to_wire(forwarding: &Forwarding) -> (i32, String) {
    match forwarding {
        Forwarding::None => (v1::Forwarding::None.into(), String::new()),
        Forwarding::Legacy => (v1::Forwarding::Legacy.into(), String::new()),
        Forwarding::BungeeGuard(token) => (v1::Forwarding::Bungeeguard.into(), token.reveal().to_owned()),
    }
}

/// As derived, except that the token is not shown.
impl fmt::Debug for v1::Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, address, forwarding: _, drained, forwarding_token, restricted, plugin_channel_off } = self;
        f.debug_struct("Backend")
            .field("name", name)
            .field("address", address)
            .field("forwarding", &self.forwarding())
            .field("drained", drained)
            .field("restricted", restricted)
            .field("plugin_channel_off", plugin_channel_off)
            .field("forwarding_token", &if forwarding_token.is_empty() { "" } else { "(set)" })
            .finish()
    }
}
