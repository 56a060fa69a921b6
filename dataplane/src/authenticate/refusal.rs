//! Why nobody vouches for a player, as the player is told and as the log has it. The session server's own words are in neither.

use std::time::Duration;

use hyper::StatusCode;

use crate::error::Kind;

/// Why nobody vouches for a player.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The session server does not know of the login.
    #[error("not authenticated: the session server answered {}", .0.as_u16())]
    NotAuthenticated(StatusCode),
    /// The account has another name.
    #[error("name mismatch: the session server knows this login as {0}'s")]
    OtherName(String),
    /// It has too much to do.
    #[error("the session server is busy: it answered {}", .0.as_u16())]
    Busy(StatusCode),
    /// It answered that it cannot answer, or something that is no answer.
    #[error("the session server failed: it answered {}", .0.as_u16())]
    Failed(StatusCode),
    /// It cannot be reached, or hung up.
    #[error("the session server cannot be reached: {0}")]
    Unreachable(String),
    /// It did not answer in time, or those before this login did not get theirs in time.
    #[error("the session server did not answer within {0:.1?}")]
    Slow(Duration),
    /// Its answer does not end.
    #[error("the session server's answer is longer than {0} bytes")]
    TooLong(usize),
    /// Its answer is no profile.
    #[error("the session server's answer is no profile: {0}")]
    Garbage(String),
}

impl Refusal {
    /// As a label.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Refusal::NotAuthenticated(_) | Refusal::OtherName(_) => Kind::Refused,
            Refusal::Busy(_) | Refusal::Failed(_) => Kind::Unavailable,
            Refusal::Unreachable(_) => Kind::Network,
            Refusal::Slow(_) => Kind::TimedOut,
            Refusal::TooLong(_) => Kind::TooLong,
            Refusal::Garbage(_) => Kind::Malformed,
        }
    }

    /// What the player who came as `name` is told.
    pub(crate) fn told(&self, name: &str) -> String {
        match self {
            Refusal::NotAuthenticated(_) => {
                "You are not authenticated: your login could not be verified. Please restart Minecraft, log in again, and then join again."
                    .to_owned()
            }
            Refusal::OtherName(other) => {
                format!(
                    "Name mismatch: you joined as {name}, but your account's name is {other}. Please restart Minecraft and log in again."
                )
            }
            Refusal::Busy(_) => "The authentication servers are busy. Please try again in a minute.".to_owned(),
            Refusal::Slow(_) => "The authentication servers are down or very slow. Please try again in a few minutes.".to_owned(),
            Refusal::Failed(_) | Refusal::Unreachable(_) | Refusal::TooLong(_) | Refusal::Garbage(_) => {
                "The authentication servers are down. Please try again in a few minutes.".to_owned()
            }
        }
    }

    /// Whether asking again at once may help: it did not get to the session server, or something before it was at fault.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Refusal::Unreachable(_) => true,
            Refusal::Failed(status) => {
                matches!(*status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
            }
            _ => false,
        }
    }
}
