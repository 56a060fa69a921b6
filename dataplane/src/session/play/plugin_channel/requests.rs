//! What each request comes to. A plugin is trusted as an admin is: BungeeCord asks for no permission either.
//!
//! What the node knows itself it answers itself; what is network-wide it asks the control plane for, and says nothing if that is
//! away. Names of backends and players count in any case of their letters, as in BungeeCord.

use std::future::ready;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::MAX_TEXT;
use moonbridge_proto::snapshot::Backend;
use moonbridge_proto::v1::ask::Question;
use moonbridge_proto::v1::{self, ask_forward::Where, ask_transfer::Who, player_text};
use moonbridge_protocol::bungeecord::{Answer, Forwarded, Players, Request, Servers, Target};
use moonbridge_protocol::name::valid_name;
use moonbridge_protocol::text::Text;
use tokio::net::lookup_host;

use super::super::Play;
use super::Answering;
use crate::timer::timeout;

/// How long the address of a backend may be looked for.
const LOOK_UP: Duration = Duration::from_secs(5);

/// The problem of an answer about a player who is not there.
const OFFLINE: &str = "player_offline";

impl Play {
    /// Does what a plugin asks for; gives the answer, if there may be one.
    pub(super) fn request(&mut self, request: Request<'_>) -> Option<Answering> {
        match request {
            Request::Ip => say(&Answer::Ip { address: self.facts.address.ip(), port: self.facts.address.port() }),
            Request::Uuid => say(&Answer::Uuid { uuid: self.facts.uuid }),
            Request::GetServer => say(&Answer::GetServer { backend: &self.current.as_ref()?.name }),
            Request::GetServers => self.get_servers(),
            Request::ServerIp { backend } => Some(server_ip(self.backend(&backend)?)),
            Request::PlayerCount { on } => self.player_count(&on),
            Request::PlayerList { on } => self.player_list(&on),
            Request::GetPlayerServer { player } => self.get_player_server(&player),
            Request::IpOther { player } => self.find(&player, |session| {
                let address: SocketAddr = session.address.parse().ok()?;
                written(&Answer::IpOther { player: &session.player, address: address.ip(), port: address.port() })
            }),
            Request::UuidOther { player } => self
                .find(&player, |session| written(&Answer::UuidOther { player: &session.player, uuid: session.player_uuid.parse().ok()? })),
            order => {
                self.order(order);
                None
            }
        }
    }

    /// Does what is answered nothing.
    fn order(&mut self, order: Request<'_>) -> Option<()> {
        let question = match order {
            Request::Connect { backend } => {
                let to = self.backend(&backend)?.name.clone();
                self.connect(to);
                return None;
            }
            Request::ConnectOther { player, backend } => {
                let to = self.backend(&backend)?.name.clone();
                Question::Transfer(v1::AskTransfer { who: Some(Who::Player(name(&player)?)), to, as_player: false })
            }
            Request::Message { to, text } => tell(&to, player_text::Text::Legacy(text.into_owned()))?,
            Request::MessageRaw { to, json } => tell(&to, player_text::Text::Json(json.into_owned()))?,
            Request::KickPlayer { player, reason } => kick(&player, player_text::Text::Legacy(cut(reason.into_owned())))?,
            Request::KickPlayerRaw { player, json } => kick(&player, reason(json.into_owned()))?,
            Request::Forward { to, message } => {
                let to = match to {
                    // Nobody can be told over a connection that there is not: BungeeCord keeps what it is for `ALL`.
                    Target::All | Target::Online => Where::Everywhere(true),
                    Target::One(backend) => Where::Backend(self.backend(&backend)?.name.clone()),
                };
                self.forward(to, &message)?
            }
            Request::ForwardToPlayer { player, message } => self.forward(Where::Player(name(&player)?), &message)?,
            _ => return None,
        };
        // It is asked whether or not somebody waits.
        drop(self.node.network.ask(self.origin(), question));
        Some(())
    }

    fn forward(&self, to: Where, message: &Forwarded<'_>) -> Option<Question> {
        let mut data = Vec::new();
        let from = self.current.as_ref()?.name.clone();
        message.write(&mut data).then_some(Question::Forward(v1::AskForward { r#where: Some(to), from, data }))
    }

    fn get_servers(&self) -> Option<Answering> {
        let snapshot = self.node.snapshot.load();
        let backends: Vec<&str> = snapshot.as_ref()?.backends.keys().map(String::as_str).collect();
        say(&Answer::GetServers { backends: &backends })
    }

    fn player_count(&self, on: &Servers<'_>) -> Option<Answering> {
        let on = self.scope(on)?;
        let question = v1::AskPlayers { backend: on.clone().unwrap_or_default(), ..v1::AskPlayers::default() };
        Some(self.ask(Question::Players(question), move |answer| {
            let count = answer.backends.iter().filter(|backend| is_of(backend, &on)).map(|backend| backend.players).sum::<u32>();
            let count = i32::try_from(count).unwrap_or(i32::MAX);
            answer.problem.is_empty().then(|| written(&Answer::PlayerCount { on: on.as_deref(), count }))?
        }))
    }

    fn player_list(&self, on: &Servers<'_>) -> Option<Answering> {
        let on = self.scope(on)?;
        let question = v1::AskPlayers { backend: on.clone().unwrap_or_default(), names: true, ..v1::AskPlayers::default() };
        Some(self.ask(Question::Players(question), move |answer| {
            let of_scope = answer.backends.iter().filter(|backend| is_of(backend, &on));
            let players: Vec<&str> = of_scope.flat_map(|backend| backend.names.iter().map(String::as_str)).collect();
            answer.problem.is_empty().then(|| written(&Answer::PlayerList { on: on.as_deref(), players: &players }))?
        }))
    }

    fn get_player_server(&self, player: &str) -> Option<Answering> {
        let asked = player.to_owned();
        let Some(player) = name(player) else { return say(&Answer::GetPlayerServer { player, backend: None }) };
        Some(self.ask(Question::Find(v1::AskFind { player }), move |answer| {
            let backend = answer.session.as_ref().map(|session| session.backend.as_str()).filter(|backend| !backend.is_empty());
            let known = answer.problem.is_empty() || answer.problem == OFFLINE;
            known.then(|| written(&Answer::GetPlayerServer { player: &asked, backend }))?
        }))
    }

    /// Answers of a player what `tell` says of its session.
    fn find(&self, player: &str, tell: impl FnOnce(v1::Session) -> Option<Vec<u8>> + Send + 'static) -> Option<Answering> {
        let question = Question::Find(v1::AskFind { player: name(player)? });
        Some(self.ask(question, |answer| tell(answer.session.filter(|_| answer.problem.is_empty())?)))
    }

    fn ask(&self, question: Question, tell: impl FnOnce(v1::AskAnswer) -> Option<Vec<u8>> + Send + 'static) -> Answering {
        let answer = self.node.network.ask(self.origin(), question);
        Box::pin(async move { tell(answer.await) })
    }

    fn origin(&self) -> String {
        format!("backend {}", self.current.as_ref().map(|current| current.name.as_str()).unwrap_or_default())
    }

    /// The backend of this name.
    fn backend(&self, name: &str) -> Option<Arc<Backend>> {
        let snapshot = self.node.snapshot.load();
        snapshot.as_ref()?.backends.get(name).or_else(|| snapshot.as_ref()?.backends.get(&name.to_lowercase())).cloned()
    }

    /// The name of the backend that a count or a list is about; `None` within is all of them.
    fn scope(&self, on: &Servers<'_>) -> Option<Option<String>> {
        match on {
            Servers::All => Some(None),
            Servers::One(backend) => Some(Some(self.backend(backend)?.name.clone())),
        }
    }
}

fn is_of(players: &v1::BackendPlayers, on: &Option<String>) -> bool {
    on.as_ref().is_none_or(|on| *on == players.backend)
}

/// A name that somebody may have.
fn name(player: &str) -> Option<String> {
    valid_name(player).is_ok().then(|| player.to_owned())
}

fn tell(to: &Players<'_>, text: player_text::Text) -> Option<Question> {
    let player = match to {
        Players::All => String::new(),
        Players::One(player) => name(player)?,
    };
    Some(Question::Tell(v1::AskTell { player, text: Some(v1::PlayerText { text: Some(text) }) }))
}

fn kick(player: &str, text: player_text::Text) -> Option<Question> {
    Some(Question::Kick(v1::AskKick { player: name(player)?, text: Some(v1::PlayerText { text: Some(text) }) }))
}

/// The reason of a kick; too long to be one, what it says is cut.
fn reason(json: String) -> player_text::Text {
    if json.len() <= MAX_TEXT {
        return player_text::Text::Json(json);
    }
    player_text::Text::Legacy(Text::from_json(&json).map(|text| cut(text.plain())).unwrap_or_default())
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

fn server_ip(backend: Arc<Backend>) -> Answering {
    let port = backend.address.port;
    let said = move |backend: &Backend, address: IpAddr| written(&Answer::ServerIp { backend: &backend.name, address, port });
    if let Ok(address) = backend.address.host.parse() {
        return Box::pin(ready(said(&backend, address)));
    }
    Box::pin(async move {
        let found = timeout(LOOK_UP, lookup_host((backend.address.host.as_str(), port))).await.ok()?.ok()?.next()?;
        said(&backend, found.ip())
    })
}

fn say(answer: &Answer<'_>) -> Option<Answering> {
    let answer = written(answer)?;
    Some(Box::pin(ready(Some(answer))))
}

fn written(answer: &Answer<'_>) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    answer.write(&mut data).then_some(data)
}
