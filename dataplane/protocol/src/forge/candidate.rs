//! The node as the client: takes a server that a player may move to through its side of the handshake, up to its Join Game,
//! with what the real client has said before. The real client notices nothing of it.

use std::sync::Arc;

use crate::channels::Channels;
use crate::text::Text;
use crate::version::Version;
use crate::wire::WireError;

use super::dimension;
use super::ids::Fingerprint;
use super::message::{Message, ServerHello};
use super::mods::{ModList, ModListDifference};
use super::phase::{ClientPhase, Reply, ServerPhase};
use super::tracker::Tracker;
use crate::play::JoinGame;

/// Why a server is not for this client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It has disconnected the client during the handshake.
    #[error("it refused the player in its handshake ({}): {}", .phase.name(), .said.plain())]
    Refused {
        /// Where it was.
        phase: ServerPhase,
        /// What it said.
        said: Text,
    },
    /// Its mods are not those that the client would take.
    #[error("its mods are not the client's: {0}")]
    Mods(ModListDifference),
    /// It said something that makes a client throw.
    #[error("it sent {message} where the client is in {}", .phase.name())]
    OutOfOrder {
        /// What it said.
        message: &'static str,
        /// Where the client would be.
        phase: ClientPhase,
    },
    /// It said something that cannot be read.
    #[error("its {message} cannot be read: {error}")]
    Unreadable {
        /// What it said.
        message: &'static str,
        /// What is wrong with it.
        error: WireError,
    },
    /// It sent Join Game in the middle of the handshake.
    #[error("it sent Join Game where the client is in {}", .0.name())]
    Incomplete(ClientPhase),
    /// It wants Forge's handshake, and the player's client is no Forge client.
    #[error("it is a Forge server, and the player's client has no Forge")]
    NoForge,
}

impl Rejection {
    /// For outcomes: one of a bounded set.
    pub fn reason(&self) -> &'static str {
        match self {
            Rejection::Refused { .. } => "forge_refused",
            Rejection::Mods(_) => "forge_mods_differ",
            Rejection::OutOfOrder { .. } | Rejection::Unreadable { .. } | Rejection::Incomplete(_) => "forge_garbage",
            Rejection::NoForge => "forge_missing",
        }
    }
}

/// What is known of the client that a candidate is asked to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFacts {
    version: &'static Version,
    /// The protocol and the mods that it has said; `None`: it is no Forge client.
    forge: Option<(u8, Arc<ModList>)>,
    /// What it has taken of other servers' mods; `None`: it is not asked.
    accepted: Option<ModListDifference>,
    /// REGISTER messages that name its channels, framed.
    register: Vec<u8>,
}

impl ClientFacts {
    /// The facts that a candidate is tried with. `None`: it is a Forge client that has never said its mods (or may be one), so
    /// that it has to answer for itself ([`super::live`]).
    ///
    /// `strict`: a server is refused whose mods differ from the client's in a way that the client has not taken from another
    /// server before; otherwise the client is left to judge, and disconnects if it does not like them.
    pub fn of(version: &'static Version, tracker: &Tracker, channels: &Channels, strict: bool) -> Option<ClientFacts> {
        let forge = match tracker.mods() {
            Some(mods) => Some((tracker.protocol(), mods.clone())),
            None if tracker.is_vanilla() => None,
            None => return None,
        };
        let mut register = Vec::new();
        channels.put_register(&mut register, version);
        Some(ClientFacts {
            version,
            forge,
            accepted: tracker.accepted().filter(|_| strict).map(|accepted| accepted.mods.clone()),
            register,
        })
    }
}

/// A candidate between Login Success and Join Game. All that it sends is to be held; what it says on the handshake's channel
/// is to be shown here as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    facts: ClientFacts,
    client: ClientPhase,
    server: ServerPhase,
    hello: Option<ServerHello>,
    ids: Option<Fingerprint>,
    difference: ModListDifference,
}

impl Candidate {
    /// A candidate that has just sent Login Success.
    pub fn new(facts: ClientFacts) -> Candidate {
        Candidate {
            facts,
            client: ClientPhase::Hello,
            server: ServerPhase::Start,
            hello: None,
            ids: None,
            difference: ModListDifference::default(),
        }
    }

    /// Takes a message on the handshake's channel, and appends to `out` the frames that answer it.
    ///
    /// # Errors
    /// If this server is not for the client: it is to be left.
    pub fn see(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Rejection> {
        let message = Message::read(data).map_err(|error| Rejection::Unreadable { message: "message on FML|HS", error })?;
        let Some((protocol, mods)) = &self.facts.forge else { return Err(Rejection::NoForge) };
        let unreadable = |error| Rejection::Unreadable { message: message.name(), error };
        let (next, reply) = self.client.told(&message);
        if next == ClientPhase::Error {
            return Err(Rejection::OutOfOrder { message: message.name(), phase: self.client });
        }
        match message {
            Message::ServerHello(hello) if self.client == ClientPhase::Hello => self.hello = Some(hello),
            Message::ModList(fields) if self.client == ClientPhase::WaitingServerData => {
                self.difference = ModListDifference::between(mods, &ModList::read(fields).map_err(unreadable)?);
                if let Some(accepted) = &self.facts.accepted {
                    let beyond = self.difference.beyond(accepted);
                    if !beyond.is_empty() {
                        return Err(Rejection::Mods(beyond));
                    }
                }
            }
            Message::ModIdData(fields) if self.client == ClientPhase::WaitingServerComplete => {
                self.ids = Some(Fingerprint::of(fields).map_err(unreadable)?);
            }
            _ => message.check().map_err(unreadable)?,
        }
        let version = self.facts.version;
        match reply {
            Reply::Nothing => {}
            Reply::Introduction => {
                out.extend_from_slice(&self.facts.register);
                Message::ClientHello { protocol: *protocol }.put_serverbound(out, version);
                Message::ModList(mods.fields()).put_serverbound(out, version);
            }
            Reply::Ack(phase) => {
                Message::Ack { phase }.put_serverbound(out, version);
            }
        }
        self.server = self.server.said(&message);
        self.client = next;
        Ok(())
    }

    /// Why it was, if the server disconnects.
    pub fn refused(&self, said: Text) -> Rejection {
        Rejection::Refused { phase: self.server, said }
    }

    /// The server has sent Join Game.
    ///
    /// # Errors
    /// If it did so before it was far enough for a client to be led to the end.
    pub fn joined(&self) -> Result<(), Rejection> {
        match self.client {
            phase @ (ClientPhase::WaitingServerData | ClientPhase::WaitingServerComplete) => Err(Rejection::Incomplete(phase)),
            _ => Ok(()),
        }
    }

    /// Whether it is a Forge server: it has begun a handshake. A vanilla one never does.
    pub fn is_forge(&self) -> bool {
        self.hello.is_some()
    }

    /// Where the server is: the phase that a handshake stopped in.
    pub fn server(&self) -> ServerPhase {
        self.server
    }

    /// The ids that it said.
    pub fn ids(&self) -> Option<&Fingerprint> {
        self.ids.as_ref()
    }

    /// How its mods differ from the client's.
    pub fn difference(&self) -> &ModListDifference {
        &self.difference
    }

    /// The dimension that its Join Game means.
    pub fn dimension(&self, join: &JoinGame) -> i32 {
        dimension::real(join, self.hello.map_or(0, |hello| hello.dimension))
    }
}
