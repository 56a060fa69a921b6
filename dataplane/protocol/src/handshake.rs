//! The handshake: a client's first packet. Source: minecraft.wiki, "Protocol version 5", Handshaking.

use crate::frame;
use crate::version;
use crate::wire::{Reader, WireError, put_string, put_varint};

/// The packet id.
pub const ID: i32 = version::HANDSHAKE;

/// The longest host a client may send, in UTF-16 units.
pub const MAX_HOST: usize = 255;

/// What [`Next::Status`] is on the wire.
pub const NEXT_STATUS: i32 = 1;
/// What [`Next::Login`] is on the wire.
pub const NEXT_LOGIN: i32 = 2;

/// What the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The server list's line.
    Status,
    /// To play.
    Login,
}

/// A handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake<'a> {
    /// The client's protocol version; in a server-list ping it may be anything, −1 too.
    pub protocol: i32,
    /// The host as the client was told it, with whatever mods append behind a NUL ([`crate::host`]).
    pub host: &'a str,
    /// The port as the client was told it.
    pub port: u16,
    /// What comes next.
    pub next: Next,
}

/// Reads a handshake.
///
/// # Errors
/// If it is cut short, goes on too long, the host has more than [`MAX_HOST`] characters, or the next state is unknown.
pub fn read(payload: &[u8]) -> Result<Handshake<'_>, WireError> {
    let mut reader = Reader::new(payload);
    let protocol = reader.varint()?;
    let host = reader.string(MAX_HOST)?;
    let port = reader.u16()?;
    let next = match reader.varint()? {
        NEXT_STATUS => Next::Status,
        NEXT_LOGIN => Next::Login,
        other => return Err(WireError::BadValue { field: "the handshake's next state", value: other.into() }),
    };
    reader.finish()?;
    Ok(Handshake { protocol, host, port, next })
}

/// Appends a handshake. The host may be longer than a player's may: to a backend it can carry forwarding data.
pub fn put(out: &mut Vec<u8>, handshake: &Handshake<'_>) {
    frame::put(out, ID, |out| {
        put_varint(out, handshake.protocol);
        put_string(out, handshake.host);
        out.extend_from_slice(&handshake.port.to_be_bytes());
        put_varint(
            out,
            match handshake.next {
                Next::Status => NEXT_STATUS,
                Next::Login => NEXT_LOGIN,
            },
        );
    });
}
