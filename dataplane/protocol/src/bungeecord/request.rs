//! What a backend asks for.

use std::borrow::Cow;

use super::java::{put_text, read_text};
use super::{ALL, ONLINE, whole_or_nothing};
use crate::wire::{Reader, WireError};

/// The longest name of an unknown message that an error keeps, in bytes.
const MAX_SHOWN: usize = 64;

/// Why something is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A field is missing, or is not what it should be.
    #[error("a message on the BungeeCord channel cannot be read: {0}")]
    Field(#[from] WireError),
    /// No message that is known here has this name (which may have been cut). BungeeCord ignores such, too.
    #[error("no message on the BungeeCord channel is called {0:?}")]
    Unknown(String),
}

/// A request. Where it has no name in it, it is about the player over whose connection it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// Moves the player.
    Connect {
        /// Where to.
        backend: Cow<'a, str>,
    },
    /// Moves another player.
    ConnectOther {
        /// Whom.
        player: Cow<'a, str>,
        /// Where to.
        backend: Cow<'a, str>,
    },
    /// The player's address.
    Ip,
    /// Another player's address.
    IpOther {
        /// Whose.
        player: Cow<'a, str>,
    },
    /// How many players there are.
    PlayerCount {
        /// Where.
        on: Servers<'a>,
    },
    /// Who the players are.
    PlayerList {
        /// Where.
        on: Servers<'a>,
    },
    /// What backends there are.
    GetServers,
    /// What the backend that asks is called.
    GetServer,
    /// On which backend a player is.
    GetPlayerServer {
        /// Who.
        player: Cow<'a, str>,
    },
    /// Says something to players.
    Message {
        /// To whom.
        to: Players<'a>,
        /// With `§` codes.
        text: Cow<'a, str>,
    },
    /// Says something to players.
    MessageRaw {
        /// To whom.
        to: Players<'a>,
        /// A text component.
        json: Cow<'a, str>,
    },
    /// Hands a message on to backends: never back to the one that it comes from, unless that one is named.
    Forward {
        /// Which ones.
        to: Target<'a>,
        /// The message.
        message: Forwarded<'a>,
    },
    /// Hands a message on to the backend on which a player is, over that player's connection.
    ForwardToPlayer {
        /// Who.
        player: Cow<'a, str>,
        /// The message.
        message: Forwarded<'a>,
    },
    /// The player's UUID.
    Uuid,
    /// Another player's UUID.
    UuidOther {
        /// Whose.
        player: Cow<'a, str>,
    },
    /// A backend's address.
    ServerIp {
        /// Which one's.
        backend: Cow<'a, str>,
    },
    /// Disconnects a player.
    KickPlayer {
        /// Whom.
        player: Cow<'a, str>,
        /// With `§` codes.
        reason: Cow<'a, str>,
    },
    /// Disconnects a player.
    KickPlayerRaw {
        /// Whom.
        player: Cow<'a, str>,
        /// A text component.
        json: Cow<'a, str>,
    },
}

/// What a count or a list is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Servers<'a> {
    /// The whole network.
    All,
    /// This backend.
    One(Cow<'a, str>),
}

/// Whom a message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Players<'a> {
    /// Everybody on the network.
    All,
    /// This player.
    One(Cow<'a, str>),
}

/// Which backends a message is forwarded to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target<'a> {
    /// All of them. BungeeCord keeps the message for those on which nobody plays until somebody does.
    All,
    /// Those on which somebody plays.
    Online,
    /// This backend; kept for it as with `All`.
    One(Cow<'a, str>),
}

/// A message from one backend's plugin to another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded<'a> {
    /// What the plugins call it.
    pub channel: Cow<'a, str>,
    /// At most 32,767 bytes.
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads what a plugin message on the channel says; bytes after the last field are ignored.
    ///
    /// # Errors
    /// If a field is missing or malformed, or the message unknown.
    pub fn read(data: &'a [u8]) -> Result<Request<'a>, RequestError> {
        let mut reader = Reader::new(data);
        let reader = &mut reader;
        let name = read_text(reader)?;
        Ok(match &*name {
            "Connect" => Request::Connect { backend: read_text(reader)? },
            "ConnectOther" => Request::ConnectOther { player: read_text(reader)?, backend: read_text(reader)? },
            "IP" => Request::Ip,
            "IPOther" => Request::IpOther { player: read_text(reader)? },
            "PlayerCount" => Request::PlayerCount { on: Servers::read(reader)? },
            "PlayerList" => Request::PlayerList { on: Servers::read(reader)? },
            "GetServers" => Request::GetServers,
            "GetServer" => Request::GetServer,
            "GetPlayerServer" => Request::GetPlayerServer { player: read_text(reader)? },
            "Message" => Request::Message { to: Players::read(reader)?, text: read_text(reader)? },
            "MessageRaw" => Request::MessageRaw { to: Players::read(reader)?, json: read_text(reader)? },
            "Forward" => Request::Forward { to: Target::read(reader)?, message: Forwarded::read(reader)? },
            "ForwardToPlayer" => Request::ForwardToPlayer { player: read_text(reader)?, message: Forwarded::read(reader)? },
            "UUID" => Request::Uuid,
            "UUIDOther" => Request::UuidOther { player: read_text(reader)? },
            "ServerIP" => Request::ServerIp { backend: read_text(reader)? },
            "KickPlayer" => Request::KickPlayer { player: read_text(reader)?, reason: read_text(reader)? },
            "KickPlayerRaw" => Request::KickPlayerRaw { player: read_text(reader)?, json: read_text(reader)? },
            unknown => return Err(RequestError::Unknown(unknown[..unknown.floor_char_boundary(MAX_SHOWN)].to_owned())),
        })
    }
}

impl<'a> Servers<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let name = read_text(reader)?;
        Ok(if name == ALL { Servers::All } else { Servers::One(name) })
    }
}

impl<'a> Players<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let name = read_text(reader)?;
        Ok(if name == ALL { Players::All } else { Players::One(name) })
    }
}

impl<'a> Target<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let name = read_text(reader)?;
        Ok(match &*name {
            ALL => Target::All,
            ONLINE => Target::Online,
            _ => Target::One(name),
        })
    }
}

impl<'a> Forwarded<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let channel = read_text(reader)?;
        let length = reader.i16()?;
        let bad = WireError::BadLength { length: length.into(), limit: i16::MAX as usize };
        let data = reader.bytes(usize::try_from(length).map_err(|_| bad)?)?;
        Ok(Forwarded { channel, data })
    }

    /// Appends what a plugin message to the other backend carries; says whether it could be said.
    pub fn write(&self, data: &mut Vec<u8>) -> bool {
        whole_or_nothing(data, |data| {
            let Ok(length) = i16::try_from(self.data.len()) else { return false };
            let named = put_text(data, &self.channel);
            data.extend_from_slice(&length.to_be_bytes());
            data.extend_from_slice(self.data);
            named
        })
    }
}
