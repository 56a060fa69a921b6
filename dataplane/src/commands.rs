//! The commands that a node answers itself: players type them into the chat line, and they never get to a backend.
//!
//! Pure: a line goes in, and what is to be done comes out ([`Scene::run`]). What has to be asked of the network comes back
//! with the answer ([`Scene::answered`]). The session does it (`session/play/commands.rs`).

mod answer;
mod complete;
mod languages;
pub(crate) mod pace;
mod run;
mod table;

use moonbridge_proto::v1::ask::Question;
use moonbridge_protocol::text::Text;

use crate::backend::Player;
use crate::node::Node;
use crate::permissions::{Answer, Permissions};
pub(crate) use answer::moved;
pub(crate) use complete::root;
pub use languages::{Languages, Phrase, Texts, Value};
pub use table::{Kind, Table};

/// Who types a command, and where.
pub(crate) struct Scene<'a> {
    pub(crate) node: &'a Node,
    pub(crate) permissions: &'a mut Permissions,
    /// What the player is told.
    pub(crate) texts: &'a Texts,
    pub(crate) player: &'a Player,
    /// The backend that it is on; none while it has lost one.
    pub(crate) backend: Option<&'a str>,
    /// The session's id.
    pub(crate) session: &'a str,
}

/// What a command comes to.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// The player is told this.
    Say(Text),
    /// The player goes to a backend, as its own wish.
    Go(String),
    /// The network is asked; the answer and this go to [`Scene::answered`].
    Ask(Question, Then),
    /// The player's client is asked for a sign of life.
    Ping,
}

/// What a command makes of the network's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Then {
    /// Who is where.
    Glist { names: bool },
    /// Where this player is.
    Found { player: String },
    /// This player, or several, are sent there.
    Sent { player: Option<String>, to: String },
    /// Everybody is told.
    Alerted,
    /// This player is disconnected.
    Kicked { player: String },
}

impl Scene<'_> {
    /// Whether the player may use a command; if not, what it is told.
    pub(crate) fn may_use(&mut self, kind: Kind) -> Result<(), Phrase> {
        self.may(kind.permission(), kind.is_for_everybody())
    }

    fn may(&mut self, permission: &str, by_default: bool) -> Result<(), Phrase> {
        match self.permissions.check(self.node, permission) {
            answer if answer.is_allowed_or(by_default) => Ok(()),
            Answer::Unavailable => Err(Phrase::PermissionsUnknown),
            _ => Err(Phrase::NotPermitted),
        }
    }

    fn say(&self, phrase: Phrase, values: &[(&str, Value<'_>)]) -> Text {
        self.texts.say(phrase, values)
    }
}

/// What a player has typed, short enough to be shown.
fn shown(text: &str) -> &str {
    const LONGEST: usize = 64;
    text.char_indices().nth(LONGEST).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;
