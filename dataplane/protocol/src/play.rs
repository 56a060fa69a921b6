//! The packets of the play phase that a session reads or sends. Source: minecraft.wiki, "Protocol version 5", Play; the
//! numbers are in [`crate::version`].

mod plugin;
mod tab_complete;
mod world;

pub use plugin::{
    ClientSettings, MAX_CLIENTBOUND_DATA, MAX_SERVERBOUND_DATA, PluginMessage, put_client_settings, put_long_plugin_message_serverbound,
    put_plugin_message_clientbound, put_plugin_message_serverbound,
};
pub use tab_complete::{
    MAX_COMPLETED, MAX_OWN_WORDS, TabComplete, put_merged_tab_complete, put_tab_complete, put_tab_complete_serverbound,
    read_tab_complete_serverbound,
};
pub use world::{
    Position, put_abilities, put_map_chunk, put_platform_chunk, put_position_and_look, put_position_and_look_serverbound,
    put_spawn_position, read_position_and_look, read_position_and_look_serverbound,
};

use crate::frame;
use crate::text::{MAX_JSON, Text};
use crate::version::{Clientbound, Serverbound, Version};
use crate::wire::{Reader, WireError, put_string};

/// The longest level type taken, in UTF-16 units; vanilla's have at most 16.
const MAX_LEVEL_TYPE: usize = 256;

/// The longest line of serverbound chat that is read, in UTF-16 units: the longest string of the game. (A 1.7 client lets its
/// player type 100, and a server kicks for more; but a command that is not for the server may have more.)
pub const MAX_CHAT: usize = 32_767;

/// Shown when a backend's reason cannot be read.
const NO_REASON: &str = "Disconnected by the server";

/// Reads a Keep Alive's id, of either direction: four bytes on 1.7.
pub fn read_keep_alive(_version: &Version, payload: &[u8]) -> Result<i64, WireError> {
    let mut reader = Reader::new(payload);
    let id = reader.i32()?;
    reader.finish()?;
    Ok(id.into())
}

/// Replaces a Keep Alive's id in place. `id` must fit the version's field, as [`crate::keep_alive::Ledger`]'s do and as one
/// read from the same version does; a payload that is no Keep Alive is left alone.
pub fn write_keep_alive(_version: &Version, payload: &mut [u8], id: i64) {
    if let Ok(field) = <&mut [u8; 4]>::try_from(payload) {
        *field = (id as i32).to_be_bytes();
    }
}

/// Appends a clientbound Keep Alive.
pub fn put_keep_alive_clientbound(out: &mut Vec<u8>, version: &Version, id: i64) {
    frame::put(out, version.clientbound_id(Clientbound::KeepAlive).into(), |out| out.extend_from_slice(&(id as i32).to_be_bytes()));
}

/// Appends a serverbound Keep Alive.
pub fn put_keep_alive_serverbound(out: &mut Vec<u8>, version: &Version, id: i64) {
    frame::put(out, version.serverbound_id(Serverbound::KeepAlive).into(), |out| out.extend_from_slice(&(id as i32).to_be_bytes()));
}

/// Join Game.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGame {
    /// The player's entity id with this backend.
    pub entity_id: i32,
    /// 0 survival, 1 creative, 2 adventure; bit 3 is "hardcore".
    pub gamemode: u8,
    /// −1 Nether, 0 Overworld, 1 End, others by mods. A byte on the wire of 1.7.
    pub dimension: i32,
    /// 0 peaceful to 3 hard.
    pub difficulty: u8,
    /// How many lines the client's tab list is laid out for.
    pub max_players: u8,
    /// `default`, `flat`, …
    pub level_type: String,
}

impl JoinGame {
    /// Reads Join Game. Whatever mods append to it, and a level type longer than vanilla's, are no reason to refuse a world.
    pub fn read(_version: &Version, payload: &[u8]) -> Result<JoinGame, WireError> {
        let mut reader = Reader::new(payload);
        Ok(JoinGame {
            entity_id: reader.i32()?,
            gamemode: reader.u8()?,
            dimension: reader.i8()?.into(),
            difficulty: reader.u8()?,
            max_players: reader.u8()?,
            level_type: reader.string(MAX_LEVEL_TYPE)?.to_owned(),
        })
    }

    /// Appends Join Game. Of the dimension goes the low byte, as a Forge server sends it.
    pub fn put(&self, out: &mut Vec<u8>, version: &Version) {
        frame::put(out, version.clientbound_id(Clientbound::JoinGame).into(), |out| {
            out.extend_from_slice(&self.entity_id.to_be_bytes());
            out.extend_from_slice(&[self.gamemode, self.dimension as u8, self.difficulty, self.max_players]);
            put_string(out, &self.level_type);
        });
    }
}

/// Respawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respawn {
    /// As in [`JoinGame`], but whole.
    pub dimension: i32,
    /// 0 peaceful to 3 hard.
    pub difficulty: u8,
    /// 0 survival, 1 creative, 2 adventure.
    pub gamemode: u8,
    /// `default`, `flat`, …
    pub level_type: String,
}

impl Respawn {
    /// Reads Respawn.
    pub fn read(_version: &Version, payload: &[u8]) -> Result<Respawn, WireError> {
        let mut reader = Reader::new(payload);
        let respawn = Respawn {
            dimension: reader.i32()?,
            difficulty: reader.u8()?,
            gamemode: reader.u8()?,
            level_type: reader.string(MAX_LEVEL_TYPE)?.to_owned(),
        };
        reader.finish()?;
        Ok(respawn)
    }
}

/// Appends Respawn.
pub fn put_respawn(out: &mut Vec<u8>, version: &Version, dimension: i32, difficulty: u8, gamemode: u8, level_type: &str) {
    frame::put(out, version.clientbound_id(Clientbound::Respawn).into(), |out| {
        out.extend_from_slice(&dimension.to_be_bytes());
        out.extend_from_slice(&[difficulty, gamemode]);
        put_string(out, level_type);
    });
}

/// Appends a line of chat for the player.
pub fn put_chat(out: &mut Vec<u8>, version: &Version, line: &Text) {
    frame::put(out, version.clientbound_id(Clientbound::Chat).into(), |out| put_string(out, &line.to_json()));
}

/// Reads a line of chat for the player; one that is not JSON is taken as it stands.
pub fn read_chat(payload: &[u8]) -> Result<Text, WireError> {
    let mut reader = Reader::new(payload);
    let line = reader.string(MAX_JSON)?;
    reader.finish()?;
    Ok(Text::from_json(line).unwrap_or_else(|_| Text::legacy(line)))
}

/// Appends a line of chat from the player: at most 100 characters, or a 1.7 server kicks.
pub fn put_chat_serverbound(out: &mut Vec<u8>, version: &Version, line: &str) {
    frame::put(out, version.serverbound_id(Serverbound::Chat).into(), |out| put_string(out, line));
}

/// Reads a line of chat from the player.
pub fn read_chat_serverbound(payload: &[u8]) -> Result<&str, WireError> {
    let mut reader = Reader::new(payload);
    let line = reader.string(MAX_CHAT)?;
    reader.finish()?;
    Ok(line)
}

/// Appends Disconnect.
pub fn put_disconnect(out: &mut Vec<u8>, version: &Version, reason: &Text) {
    frame::put(out, version.clientbound_id(Clientbound::Disconnect).into(), |out| put_string(out, &reason.to_json()));
}

/// Reads a Disconnect's reason. Never fails, for the connection ends anyway: what is not JSON is taken as it stands, and
/// what cannot be read or is empty becomes a stock text.
pub fn read_disconnect(payload: &[u8]) -> Text {
    let Ok(reason) = Reader::new(payload).string(MAX_JSON) else { return Text::legacy(NO_REASON) };
    let text = Text::from_json(reason).unwrap_or_else(|_| Text::legacy(reason));
    if text.is_empty() { Text::legacy(NO_REASON) } else { text }
}
