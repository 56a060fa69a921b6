//! What the node suggests when a player presses the tab key.

use std::collections::BTreeSet;

use moonbridge_proto::routing::Usable;
use moonbridge_proto::v1;
use moonbridge_protocol::command::Command;
use moonbridge_protocol::play::MAX_OWN_WORDS;

use super::{Kind, Scene, Table};

/// What the node suggests for a line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Suggestions {
    words: Vec<String>,
    /// Names of players on the network are suggested, too: those that begin so.
    players: Option<String>,
}

/// Something that an argument can be.
#[derive(Debug, Clone, Copy)]
enum Argument {
    Word(&'static str),
    /// A backend that the player may go to.
    Enterable,
    Backend,
    Player,
}

impl Scene<'_> {
    /// What the node suggests for what a player has typed: its commands, or an argument of one. Only what the player may use.
    pub(crate) fn suggest(&mut self, typed: &str) -> Suggestions {
        let table = &self.node.config.commands.table;
        if let Some(root) = root(typed) {
            let names = table.names().filter(|(name, _)| begins_with(name, root));
            let names: Vec<_> = names.filter(|(_, kind)| self.may_use(*kind).is_ok()).map(|(name, _)| format!("/{name}")).collect();
            return Suggestions { words: bounded(names.into_iter()), players: None };
        }
        let Some(command) = Command::of(typed) else { return Suggestions::default() };
        match table.get(&command) {
            Some(kind) if self.may_use(kind).is_ok() => self.suggest_argument(kind, &command),
            _ => Suggestions::default(),
        }
    }

    fn suggest_argument(&mut self, kind: Kind, command: &Command<'_>) -> Suggestions {
        let typed = command.words().next_back().unwrap_or_default();
        let before = command.words().count().saturating_sub(1);
        let may_be = arguments(kind, before);
        let words: Vec<String> = may_be.iter().flat_map(|argument| self.words(*argument)).collect();
        let words = bounded(words.into_iter().filter(|word| begins_with(word, typed)));
        let players = may_be.iter().any(|argument| matches!(argument, Argument::Player)).then(|| typed.to_owned());
        Suggestions { words, players }
    }

    fn words(&mut self, argument: Argument) -> Vec<String> {
        let snapshot = self.node.snapshot.load_full();
        let backends = snapshot.iter().flat_map(|snapshot| snapshot.backends.keys().map(move |name| (snapshot, name)));
        match argument {
            Argument::Word(word) => vec![word.to_owned()],
            Argument::Backend => backends.map(|(_, name)| name.clone()).collect(),
            Argument::Enterable => {
                let may_enter = self.permissions.entry(self.node);
                let usable = backends.filter(|(snapshot, name)| snapshot.candidate(name, &may_enter).why == Usable::Ok);
                usable.map(|(_, name)| name.clone()).collect()
            }
            Argument::Player => Vec::new(),
        }
    }
}

impl Suggestions {
    /// What the network has to be asked before all of it is known.
    pub(crate) fn question(&self) -> Option<v1::AskPlayers> {
        let prefix = self.players.clone()?;
        Some(v1::AskPlayers { prefix: Some(prefix), limit: MAX_OWN_WORDS as u32, ..v1::AskPlayers::default() })
    }

    /// All of it, with the names that the network has answered.
    pub(crate) fn with(self, names: Vec<String>) -> Vec<String> {
        let prefix = self.players.unwrap_or_default();
        bounded(self.words.into_iter().chain(names.into_iter().filter(|name| begins_with(name, &prefix))))
    }
}

/// What an argument can be that comes behind so many others.
fn arguments(kind: Kind, before: usize) -> &'static [Argument] {
    use Argument::{Backend, Enterable, Player, Word};
    match (kind, before) {
        (Kind::Server, 0) => &[Enterable],
        (Kind::Glist, 0) => &[Word("all")],
        (Kind::Find | Kind::Kick, 0) => &[Player],
        (Kind::Send, 0) => &[Word("all"), Word("current"), Backend, Player],
        (Kind::Send, 1) => &[Backend],
        (Kind::MoonBridge, 0) => &[Word("info"), Word("permission"), Word("version")],
        _ => &[],
    }
}

/// What has been typed of a command's name, if that is what is being typed.
pub(crate) fn root(typed: &str) -> Option<&str> {
    typed.strip_prefix('/').filter(|root| !root.contains(' '))
}

impl Table {
    /// Whether some command's name begins so.
    pub(crate) fn has_beginning(&self, root: &str) -> bool {
        self.names().any(|(name, _)| begins_with(name, root))
    }
}

fn begins_with(word: &str, beginning: &str) -> bool {
    let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
    lower(word).starts_with(&lower(beginning))
}

/// Each once, in their order, and not too many.
fn bounded(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    words.filter(|word| seen.insert(word.clone())).take(MAX_OWN_WORDS).collect()
}
