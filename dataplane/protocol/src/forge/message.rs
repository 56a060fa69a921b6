//! The messages on `FML|HS`: the first byte says which one it is.

use crate::play::{put_long_plugin_message_serverbound, put_plugin_message_clientbound};
use crate::version::Version;
use crate::wire::{Reader, WireError};

use super::HANDSHAKE;
use super::ids::ModIds;
use super::mods::ModList;

/// The FML protocol that 1.7.10 speaks. From 2 on, Server Hello has a dimension.
pub const PROTOCOL: u8 = 2;

const SERVER_HELLO: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const MOD_LIST: u8 = 2;
const MOD_ID_DATA: u8 = 3;
const ACK: u8 = 0xff;
const RESET: u8 = 0xfe;

/// A message. The two large ones are not read further here: see [`super::mods::ModList::read`] and
/// [`super::ids::ModIds::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// The server's first.
    ServerHello(ServerHello),
    /// The client's first.
    ClientHello {
        /// The FML protocol that the client speaks.
        protocol: u8,
    },
    /// The mods of whoever says it; its fields.
    ModList(&'a [u8]),
    /// The server's ids of blocks and items; its fields. (From 1.8 on this is Registry Data, of another form.)
    ModIdData(&'a [u8]),
    /// Goes on to the next phase.
    Ack {
        /// The number of the phase that the sender is in: one of its own side's, see [`super::phase`].
        phase: u8,
    },
    /// Back to the start: only to a client that is done.
    Reset,
    /// Something else, by its first byte.
    Unknown(u8),
}

/// Server Hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerHello {
    /// The FML protocol that the server speaks.
    pub protocol: u8,
    /// The dimension in which the player's saved data puts it, if that is not 0; 0 with protocol 1, which does not say.
    pub dimension: i32,
}

impl<'a> Message<'a> {
    /// Reads a message. What follows after the last field is ignored, as Forge does; proxies write a reset with a zero byte
    /// after it.
    ///
    /// # Errors
    /// If there is no first byte, or a field is missing.
    pub fn read(data: &'a [u8]) -> Result<Message<'a>, WireError> {
        let mut reader = Reader::new(data);
        Ok(match reader.u8()? {
            SERVER_HELLO => {
                let protocol = reader.u8()?;
                // A signed byte, to Forge.
                let dimension = if protocol as i8 > 1 { reader.i32()? } else { 0 };
                Message::ServerHello(ServerHello { protocol, dimension })
            }
            CLIENT_HELLO => Message::ClientHello { protocol: reader.u8()? },
            MOD_LIST => Message::ModList(reader.rest()),
            MOD_ID_DATA => Message::ModIdData(reader.rest()),
            ACK => Message::Ack { phase: reader.u8()? },
            RESET => Message::Reset,
            other => Message::Unknown(other),
        })
    }

    /// Reads on what [`Message::read`] leaves unread: a client does so with every message, also where it then looks at nothing
    /// but that there is one.
    ///
    /// # Errors
    /// If a client would throw at it.
    pub fn check(&self) -> Result<(), WireError> {
        match self {
            Message::ModList(fields) => ModList::read(fields).map(|_| ()),
            Message::ModIdData(fields) => ModIds::read(fields).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Appends the message: what a plugin message on [`HANDSHAKE`] carries.
    pub fn write(&self, data: &mut Vec<u8>) {
        match *self {
            Message::ServerHello(ServerHello { protocol, dimension }) => {
                data.extend_from_slice(&[SERVER_HELLO, protocol]);
                if protocol as i8 > 1 {
                    data.extend_from_slice(&dimension.to_be_bytes());
                }
            }
            Message::ClientHello { protocol } => data.extend_from_slice(&[CLIENT_HELLO, protocol]),
            Message::ModList(fields) => {
                data.push(MOD_LIST);
                data.extend_from_slice(fields);
            }
            Message::ModIdData(fields) => {
                data.push(MOD_ID_DATA);
                data.extend_from_slice(fields);
            }
            Message::Ack { phase } => data.extend_from_slice(&[ACK, phase]),
            Message::Reset => data.extend_from_slice(&[RESET, 0]),
            Message::Unknown(first) => data.push(first),
        }
    }

    /// Appends the message in a frame for the client; says whether it could be said (it is not longer than a frame).
    pub fn put_clientbound(&self, out: &mut Vec<u8>, version: &Version) -> bool {
        let mut data = Vec::new();
        self.write(&mut data);
        put_plugin_message_clientbound(out, version, HANDSHAKE, &data)
    }

    /// Appends the message in a frame for the server; says whether it could be said.
    pub fn put_serverbound(&self, out: &mut Vec<u8>, version: &Version) -> bool {
        let mut data = Vec::new();
        self.write(&mut data);
        put_long_plugin_message_serverbound(out, version, HANDSHAKE, &data)
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Message::ServerHello(_) => "ServerHello",
            Message::ClientHello { .. } => "ClientHello",
            Message::ModList(_) => "ModList",
            Message::ModIdData(_) => "ModIdData",
            Message::Ack { .. } => "HandshakeAck",
            Message::Reset => "HandshakeReset",
            Message::Unknown(_) => "an unknown message",
        }
    }
}
