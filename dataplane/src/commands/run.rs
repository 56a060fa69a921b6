//! What each command does.

use std::collections::BTreeSet;
use std::sync::Arc;

use moonbridge_proto::routing::Usable;
use moonbridge_proto::snapshot::Snapshot;
use moonbridge_proto::v1::ask::Question;
use moonbridge_proto::v1::{self, ask_transfer::Who, player_text};
use moonbridge_protocol::command::Command;
use moonbridge_protocol::name::valid_name;
use moonbridge_protocol::text::Text;

use super::{Action, Kind, Phrase, Scene, Then, Value, shown};
use crate::permissions::Answer;

/// Most backends in a list; more are counted. Each takes four of the components that a text may have.
const MAX_BACKENDS: usize = 50;

/// Most characters of a text that is for others. A client lets its player type 100.
const MAX_TEXT: usize = 256;

impl Scene<'_> {
    /// Runs a line that is one of the node's commands.
    pub(crate) fn run(&mut self, kind: Kind, line: &str) -> Vec<Action> {
        let Some(command) = Command::of(line) else { return Vec::new() };
        if let Err(why_not) = self.may_use(kind) {
            let values = [("command", command.root.into()), ("permission", kind.permission().into())];
            return vec![Action::Say(self.say(why_not, &values))];
        }
        match kind {
            Kind::Server => self.server(&command),
            Kind::Hub => vec![self.hub()],
            Kind::Glist => vec![glist(&command)],
            Kind::Find => vec![self.find(&command)],
            Kind::Send => vec![self.send(&command)],
            Kind::Alert => vec![self.alert(&command)],
            Kind::Kick => vec![self.kick(&command)],
            Kind::Ping => vec![Action::Ping],
            Kind::MoonBridge => self.moonbridge(&command),
        }
    }

    fn server(&mut self, command: &Command<'_>) -> Vec<Action> {
        if let Some(to) = command.arguments().next() {
            return vec![self.enterable(to).map_or_else(Action::Say, Action::Go)];
        }
        let here = self.backend.map(|backend| self.say(Phrase::ServerCurrent, &[("backend", backend.into())]));
        here.into_iter().chain([self.servers(command.root)]).map(Action::Say).collect()
    }

    /// The list of where the player may go, each with a click that goes there.
    fn servers(&mut self, root: &str) -> Text {
        let names = self.open();
        if names.iter().all(|name| Some(name.as_str()) == self.backend) {
            return self.say(Phrase::ServerNone, &[]);
        }
        let items = names.iter().take(MAX_BACKENDS).map(|name| self.clickable(Phrase::ServerItem, &[], name, Some(root)));
        let list = self.listed(items.collect(), names.len());
        self.say(Phrase::ServerList, &[]).append(list)
    }

    /// The backends that the player may go to.
    pub(super) fn open(&mut self) -> BTreeSet<String> {
        let Some(snapshot) = self.snapshot() else { return BTreeSet::new() };
        let may_enter = self.permissions.entry(self.node);
        snapshot.backends.keys().filter(|name| snapshot.candidate(name, &may_enter).why == Usable::Ok).cloned().collect()
    }

    fn hub(&mut self) -> Action {
        if let Some(hub) = &self.node.config.commands.hub {
            return self.backend(hub).map_or_else(Action::Say, Action::Go);
        }
        let may_enter = self.permissions.entry(self.node);
        let route = self.snapshot().map(|snapshot| snapshot.route(&self.player.host, may_enter));
        match route.as_ref().and_then(|route| route.usable().next()) {
            Some(backend) => Action::Go(backend.name.clone()),
            None => Action::Say(self.say(Phrase::HubNone, &[])),
        }
    }

    fn find(&self, command: &Command<'_>) -> Action {
        let Some(player) = command.arguments().next() else { return self.usage(Phrase::FindUsage, command) };
        self.of_player(player, |player| {
            let question = Question::Find(v1::AskFind { player: player.clone() });
            Action::Ask(question, Then::Found { player })
        })
    }

    /// As in BungeeCord, a backend goes before a player of the same name.
    fn send(&self, command: &Command<'_>) -> Action {
        let mut arguments = command.arguments();
        let (Some(who), Some(to)) = (arguments.next(), arguments.next()) else { return self.usage(Phrase::SendUsage, command) };
        let to = match self.backend(to) {
            Ok(to) => to,
            Err(unknown) => return Action::Say(unknown),
        };
        let ask = |who: Who, player: Option<String>| {
            let question = Question::Transfer(v1::AskTransfer { who: Some(who), to: to.clone(), as_player: false });
            Action::Ask(question, Then::Sent { player, to: to.clone() })
        };
        match (who.to_lowercase().as_str(), self.backend) {
            ("all", _) => ask(Who::Everybody(true), None),
            ("current", Some(backend)) => ask(Who::Backend(backend.to_owned()), None),
            ("current", None) => Action::Say(self.say(Phrase::SentNobody, &[("backend", to.as_str().into())])),
            _ => match self.backend(who) {
                Ok(from) => ask(Who::Backend(from), None),
                Err(_) => self.of_player(who, |player| ask(Who::Player(player.clone()), Some(player))),
            },
        }
    }

    fn alert(&self, command: &Command<'_>) -> Action {
        let Some(message) = rest(command.rest) else { return self.usage(Phrase::AlertUsage, command) };
        let values = [("message", Value::Marked(message)), ("player", self.player.name.as_str().into())];
        let text = self.for_others(Phrase::Alert, &values);
        Action::Ask(Question::Tell(v1::AskTell { player: String::new(), text: Some(text) }), Then::Alerted)
    }

    fn kick(&self, command: &Command<'_>) -> Action {
        let given = command.rest.unwrap_or_default().trim_start();
        let (player, reason) = given.split_once(' ').map_or((given, None), |(player, reason)| (player, rest(Some(reason))));
        if player.is_empty() {
            return self.usage(Phrase::KickUsage, command);
        }
        self.of_player(player, |player| {
            let named = ("player", player.as_str().into());
            let text = match reason {
                Some(reason) => self.for_others(Phrase::KickReason, &[named, ("reason", Value::Marked(reason))]),
                None => self.for_others(Phrase::KickNoReason, &[named]),
            };
            let question = Question::Kick(v1::AskKick { player: player.clone(), text: Some(text) });
            Action::Ask(question, Then::Kicked { player })
        })
    }

    fn moonbridge(&mut self, command: &Command<'_>) -> Vec<Action> {
        let arguments: Vec<&str> = command.arguments().take(4).collect();
        let verb = arguments.first().map(|verb| verb.to_lowercase());
        match (verb.as_deref(), arguments.get(1..).unwrap_or_default()) {
            (None | Some("version"), _) => {
                vec![Action::Say(self.say(Phrase::MoonBridgeVersion, &[("version", env!("CARGO_PKG_VERSION").into())]))]
            }
            (Some("info"), _) => self.info().into_iter().map(Action::Say).collect(),
            (Some("permission"), [permission]) => vec![Action::Say(self.permission(command, permission))],
            (Some("permission"), [player, permission]) if self.player.name.eq_ignore_ascii_case(player) => {
                vec![Action::Say(self.permission(command, permission))]
            }
            _ => vec![self.usage(Phrase::MoonBridgeUsage, command)],
        }
    }

    fn info(&self) -> [Text; 3] {
        let players = u32::try_from(self.node.registry.len()).unwrap_or(u32::MAX);
        let attached = self.node.registry.is_attached();
        let session = [
            ("player", self.player.name.as_str().into()),
            ("backend", self.backend.unwrap_or("-").into()),
            ("session", self.session.into()),
        ];
        [
            self.say(Phrase::MoonBridgeNode, &[("node", self.node.config.name.as_str().into()), ("players", players.into())]),
            self.say(Phrase::MoonBridgeSession, &session),
            self.say(if attached { Phrase::MoonBridgeAttached } else { Phrase::MoonBridgeDetached }, &[]),
        ]
    }

    /// What the player itself may do where it is; a permission of its own.
    fn permission(&mut self, command: &Command<'_>, permission: &str) -> Text {
        const WANTED: &str = "moonbridge.command.moonbridge.permission";
        if let Err(why_not) = self.may(WANTED, false) {
            return self.say(why_not, &[("command", command.root.into()), ("permission", WANTED.into())]);
        }
        let answer = match self.permissions.check(self.node, permission) {
            Answer::True => Phrase::AnswerTrue,
            Answer::False => Phrase::AnswerFalse,
            Answer::Undefined => Phrase::AnswerUndefined,
            Answer::Unavailable => Phrase::AnswerUnavailable,
        };
        let answer = self.say(answer, &[]).to_legacy();
        let contexts = self.permissions.contexts(self.node);
        let contexts = contexts.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
        let values = [("permission", shown(permission).into()), ("answer", Value::Marked(&answer)), ("contexts", contexts.as_str().into())];
        self.say(Phrase::MoonBridgePermission, &values)
    }

    /// The backend that a player means to go to. Of one that is not for it, it does not hear that there is such.
    fn enterable(&mut self, name: &str) -> Result<String, Text> {
        let to = self.backend(name)?;
        let backend = self.snapshot().and_then(|snapshot| snapshot.backends.get(&to).cloned());
        let is_for_others = backend.is_some_and(|backend| backend.restricted && !self.permissions.entry(self.node)(&backend));
        if is_for_others && self.backend != Some(&*to) { Err(self.unknown(name)) } else { Ok(to) }
    }

    /// The backend that a player means, in any case of its letters; or that there is none such.
    fn backend(&self, name: &str) -> Result<String, Text> {
        let lower = name.to_ascii_lowercase();
        match self.snapshot().is_some_and(|snapshot| snapshot.backends.contains_key(&lower)) {
            true => Ok(lower),
            false => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, backend: &str) -> Text {
        self.say(Phrase::UnknownBackend, &[("backend", shown(backend).into())])
    }

    /// What is to be done about a player, if it can be one at all.
    fn of_player(&self, name: &str, action: impl FnOnce(String) -> Action) -> Action {
        match valid_name(name) {
            Ok(()) => action(name.to_owned()),
            Err(_) => Action::Say(self.say(Phrase::PlayerOffline, &[("player", shown(name).into())])),
        }
    }

    fn usage(&self, phrase: Phrase, command: &Command<'_>) -> Action {
        Action::Say(self.say(phrase, &[("command", command.root.into())]))
    }

    /// A text for players whose languages are not known here.
    fn for_others(&self, phrase: Phrase, values: &[(&str, Value<'_>)]) -> v1::PlayerText {
        let text = self.node.config.commands.languages.default_texts().say(phrase, values);
        v1::PlayerText { text: Some(player_text::Text::Legacy(text.to_legacy())) }
    }

    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.node.snapshot.load_full()
    }
}

fn glist(command: &Command<'_>) -> Action {
    let names = command.arguments().next().is_some_and(|argument| argument.eq_ignore_ascii_case("all"));
    let question = Question::Players(v1::AskPlayers { names, ..v1::AskPlayers::default() });
    Action::Ask(question, Then::Glist { names })
}

/// The text at the end of a line, cut to what anybody may have to read.
fn rest(text: Option<&str>) -> Option<&str> {
    let text = text.unwrap_or_default().trim();
    let end = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(end, _)| end);
    (!text.is_empty()).then(|| &text[..end])
}
