//! What players are told of what the network, or a transfer, has answered.

use moonbridge_proto::v1;
use moonbridge_protocol::text::Text;

use super::{Kind, Phrase, Scene, Texts, Then, Value, shown};
use crate::network::UNAVAILABLE;
use crate::registry::Outcome;

/// Most backends that are shown, a line each; more are counted.
const MAX_LINES: usize = 100;

/// Most names of one backend's players that are shown; more are counted.
const MAX_NAMES: usize = 200;

impl Scene<'_> {
    /// What the player is told when the network has answered.
    pub(crate) fn answered(mut self, then: &Then, answer: &v1::AskAnswer) -> Vec<Text> {
        if !answer.problem.is_empty() {
            return vec![self.problem(then, &answer.problem)];
        }
        let reached = answer.reached.into();
        match then {
            Then::Glist { names } => self.listing(&answer.backends, *names),
            Then::Found { player } => vec![self.found(player, answer.session.as_ref())],
            Then::Sent { player: Some(player), to } => {
                vec![self.say(Phrase::SentPlayer, &[("player", player.as_str().into()), ("backend", to.as_str().into())])]
            }
            Then::Sent { player: None, to } if answer.reached == 0 => {
                vec![self.say(Phrase::SentNobody, &[("backend", to.as_str().into())])]
            }
            Then::Sent { player: None, to } => {
                vec![self.say(Phrase::SentPlayers, &[("players", reached), ("backend", to.as_str().into())])]
            }
            // Whoever alerts is one of those who read it.
            Then::Alerted => Vec::new(),
            Then::Kicked { player } => vec![self.say(Phrase::Kicked, &[("player", player.as_str().into())])],
        }
    }

    fn problem(&self, then: &Then, problem: &str) -> Text {
        let (player, backend) = match then {
            Then::Glist { .. } | Then::Alerted => ("", ""),
            Then::Found { player } | Then::Kicked { player } => (player.as_str(), ""),
            Then::Sent { player, to } => (player.as_deref().unwrap_or_default(), to.as_str()),
        };
        let phrase = match problem {
            UNAVAILABLE => Phrase::Unavailable,
            "player_offline" => Phrase::PlayerOffline,
            "unknown_backend" => Phrase::UnknownBackend,
            "backend_drained" => Phrase::BackendDrained,
            "already_there" if player.is_empty() => Phrase::SentNobody,
            "already_there" => Phrase::SentAlready,
            _ => Phrase::Failed,
        };
        self.say(phrase, &[("player", player.into()), ("backend", backend.into())])
    }

    fn found(&self, player: &str, session: Option<&v1::Session>) -> Text {
        let Some(session) = session else { return self.say(Phrase::PlayerOffline, &[("player", player.into())]) };
        let (player, backend, node) = (session.player.as_str(), session.backend.as_str(), session.node_name.as_str());
        self.say(Phrase::Found, &[("player", player.into()), ("backend", backend.into()), ("node", node.into())])
    }

    /// The backends that have players, or with `names` all of them with their players' names; and the total. A click goes only where
    /// the player may go.
    fn listing(&mut self, backends: &[v1::BackendPlayers], names: bool) -> Vec<Text> {
        let open = self.open();
        let root = self.node.config.commands.table.name_of(Kind::Server);
        let listed: Vec<_> = backends.iter().filter(|backend| names || backend.players > 0).collect();
        let line = |backend: &&v1::BackendPlayers| {
            let mut phrase = Phrase::GlistBackend;
            let mut shown = String::new();
            if names && backend.players > 0 {
                phrase = Phrase::GlistNames;
                shown = backend.names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            }
            let values = [("players", backend.players.into()), ("names", Value::Plain(&shown))];
            let text = self.clickable(phrase, &values, &backend.backend, root.filter(|_| open.contains(&backend.backend)));
            let more = backend.players as usize - backend.names.len().min(MAX_NAMES).min(backend.players as usize);
            if names && more > 0 { text.append(self.more(more)) } else { text }
        };
        let mut lines: Vec<Text> = listed.iter().take(MAX_LINES).map(line).collect();
        if listed.len() > MAX_LINES {
            lines.push(self.more(listed.len() - MAX_LINES));
        }
        let total: u64 = backends.iter().map(|backend| u64::from(backend.players)).sum();
        lines.push(self.say(Phrase::GlistTotal, &[("players", Value::Number(total))]));
        lines
    }

    /// A phrase about a backend; a click goes there, by the command that players call `root`.
    pub(super) fn clickable(&self, phrase: Phrase, values: &[(&str, Value<'_>)], backend: &str, root: Option<&str>) -> Text {
        let named = ("backend", backend.into());
        let text = self.say(phrase, &[values, &[named]].concat());
        match root {
            Some(root) if self.backend != Some(backend) => {
                text.click_run(&format!("/{root} {backend}")).hover(self.say(Phrase::ServerHover, &[named]))
            }
            _ => text,
        }
    }

    /// Items of a list of so many, with what is between them and how many more there are.
    pub(super) fn listed(&self, items: Vec<Text>, of: usize) -> Text {
        let separator = self.say(Phrase::Separator, &[]);
        let shown = items.len();
        let joined = items.into_iter().reduce(|list, item| list.append(separator.clone()).append(item)).unwrap_or_default();
        if of > shown { joined.append(self.more(of - shown)) } else { joined }
    }

    fn more(&self, more: usize) -> Text {
        self.say(Phrase::More, &[("more", Value::Number(more as u64))])
    }
}

/// What a player is told who wanted to go to `to`; nothing if it got there.
pub(crate) fn moved(texts: &Texts, to: &str, outcome: &Outcome) -> Option<Text> {
    if outcome.succeeded {
        return None;
    }
    let phrase = match outcome.result.reason.as_str() {
        "already_there" => Phrase::AlreadyThere,
        "transfer_in_progress" => Phrase::MovingAlready,
        "unknown_backend" => Phrase::UnknownBackend,
        "backend_drained" => Phrase::BackendDrained,
        "not_permitted" => Phrase::BackendNotPermitted,
        _ if outcome.said.is_some() => Phrase::BackendRefused,
        reason if reason.starts_with("forge_") => Phrase::ModsDiffer,
        _ => Phrase::NotMoved,
    };
    let reason = outcome.said.as_ref().map(Text::to_legacy).unwrap_or_default();
    Some(texts.say(phrase, &[("backend", shown(to).into()), ("reason", Value::Marked(&reason))]))
}
