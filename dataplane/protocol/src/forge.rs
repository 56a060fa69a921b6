//! Forge's handshake of 1.7 (FML protocols 1 and 2): how a modded client and a modded server agree on mods and ids, between
//! Login Success and Join Game, in plugin messages on `FML|HS`.
//!
//! [`message`] is what is said, with [`mods`] and [`ids`] for the two large messages and [`dimension`] for the one number
//! that Join Game is too small for; [`phase`] is what either side does about it. On these stand the three things a session
//! needs: [`tracker::Tracker`] follows a real client and its server, [`candidate::Candidate`] is the client towards a server
//! that a player may move to, and [`lead::Lead`] is the server towards the real client, once that is decided. Where the client's
//! mods are not known yet, it has the handshake with the candidate itself ([`live::Live`]).
//!
//! Sources: Forge 10.13.4.1614, packages `cpw.mods.fml.common.network.handshake` and `net.minecraftforge.common.network`
//! (read for facts); wiki.vg, "Minecraft Forge Handshake"; docs/protocol.md says more.

pub mod candidate;
pub mod dimension;
pub mod ids;
pub mod lead;
pub mod live;
pub mod message;
pub mod mods;
pub mod phase;
pub mod tracker;

use crate::wire::{Reader, WireError, put_varint};

/// The channel of the handshake.
pub const HANDSHAKE: &str = crate::channels::FORGE_HANDSHAKE;

/// The channel on which Forge itself speaks: which dimensions there are, fluids.
pub const FORGE: &str = "FORGE";

/// The channel of FML's own messages in play. Nobody here reads them.
pub const FML: &str = "FML";

/// The longest string in a handshake message, in bytes: its length is a varint of two bytes.
pub const MAX_STRING: usize = 16_383;

/// Reads a varint that has at most `bytes` bytes, as Forge's own reader takes it.
fn read_varint(reader: &mut Reader<'_>, bytes: usize) -> Result<i32, WireError> {
    let before = reader.rest().len();
    let value = reader.varint()?;
    if before - reader.rest().len() > bytes { Err(WireError::VarintTooLong) } else { Ok(value) }
}

/// Reads a string, behind its length in bytes as a varint of at most two bytes.
fn read_string<'a>(reader: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let length = read_varint(reader, 2)?;
    // Two bytes of varint are never negative.
    let bytes = reader.bytes(length as usize)?;
    std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8)
}

/// Appends a string of at most [`MAX_STRING`] bytes; a longer one loses its end.
fn put_string(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(MAX_STRING)];
    put_varint(out, text.len() as i32);
    out.extend_from_slice(text.as_bytes());
}
