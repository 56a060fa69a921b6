//! Plugin Message and Client Settings.

use crate::frame;
use crate::version::{Clientbound, Serverbound, Version};
use crate::wire::{Reader, WireError, put_string};

/// Most bytes of a serverbound message: its length is an i16, of which a 1.7 server does not take the largest.
pub const MAX_SERVERBOUND_DATA: usize = 32_766;

/// Most bytes of a clientbound message: Forge's own limit, with which it still fits a frame.
pub const MAX_CLIENTBOUND_DATA: usize = 2_097_050;

/// The longest channel name that is read, in UTF-16 units. (1.7 itself allows 20.)
const MAX_CHANNEL: usize = 256;

/// A Plugin Message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginMessage<'a> {
    /// The channel.
    pub channel: &'a str,
    /// What was said on it.
    pub data: &'a [u8],
}

impl<'a> PluginMessage<'a> {
    /// Reads a message from the player. Its length may be Forge's "extended short", too: clients with mods that allow it send
    /// such to servers that take it.
    pub fn read_serverbound(payload: &'a [u8]) -> Result<PluginMessage<'a>, WireError> {
        read(payload)
    }

    /// Reads a message from a backend, whose length may be Forge's "extended short": with bit 15 set, one more byte follows
    /// with the bits from 15 on.
    pub fn read_clientbound(payload: &'a [u8]) -> Result<PluginMessage<'a>, WireError> {
        read(payload)
    }
}

fn read(payload: &[u8]) -> Result<PluginMessage<'_>, WireError> {
    let mut reader = Reader::new(payload);
    let channel = reader.string(MAX_CHANNEL)?;
    let short = reader.u16()?;
    let mut length = usize::from(short & 0x7fff);
    if short & 0x8000 != 0 {
        length |= usize::from(reader.u8()?) << 15;
    }
    let data = reader.bytes(length)?;
    reader.finish()?;
    Ok(PluginMessage { channel, data })
}

/// Appends a message from the player; says whether it could be said: not with more than [`MAX_SERVERBOUND_DATA`] bytes.
pub fn put_plugin_message_serverbound(out: &mut Vec<u8>, version: &Version, channel: &str, data: &[u8]) -> bool {
    data.len() <= MAX_SERVERBOUND_DATA && put_extended(out, version.serverbound_id(Serverbound::PluginMessage), channel, data)
}

/// Appends a message from the player to a Forge server that takes long ones, with Forge's "extended short" where it takes more
/// than 32,767 bytes; says whether it could be said: not with more than [`MAX_CLIENTBOUND_DATA`].
pub fn put_long_plugin_message_serverbound(out: &mut Vec<u8>, version: &Version, channel: &str, data: &[u8]) -> bool {
    put_extended(out, version.serverbound_id(Serverbound::PluginMessage), channel, data)
}

/// Appends a message from a backend, with Forge's "extended short" where it takes more than 32,767 bytes; says whether it
/// could be said: not with more than [`MAX_CLIENTBOUND_DATA`].
pub fn put_plugin_message_clientbound(out: &mut Vec<u8>, version: &Version, channel: &str, data: &[u8]) -> bool {
    put_extended(out, version.clientbound_id(Clientbound::PluginMessage), channel, data)
}

fn put_extended(out: &mut Vec<u8>, id: u8, channel: &str, data: &[u8]) -> bool {
    if data.len() > MAX_CLIENTBOUND_DATA {
        return false;
    }
    frame::put(out, id.into(), |out| {
        put_string(out, channel);
        let low = (data.len() & 0x7fff) as u16;
        let high = (data.len() >> 15) as u8;
        if high == 0 {
            out.extend_from_slice(&low.to_be_bytes());
        } else {
            out.extend_from_slice(&(low | 0x8000).to_be_bytes());
            out.push(high);
        }
        out.extend_from_slice(data);
    });
    true
}

/// Client Settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSettings<'a> {
    /// `en_US`, …
    pub locale: &'a str,
    /// In chunks.
    pub view_distance: i8,
    /// 0 all chat, 1 commands only, 2 none.
    pub chat: i8,
    /// Whether chat is shown in colours.
    pub chat_colours: bool,
    /// The client's own difficulty.
    pub difficulty: u8,
    /// Whether the cape is shown.
    pub cape: bool,
}

impl<'a> ClientSettings<'a> {
    /// Reads Client Settings.
    pub fn read(_version: &Version, payload: &'a [u8]) -> Result<ClientSettings<'a>, WireError> {
        let mut reader = Reader::new(payload);
        let settings = ClientSettings {
            locale: reader.string(16)?,
            view_distance: reader.i8()?,
            chat: reader.i8()?,
            chat_colours: reader.bool()?,
            difficulty: reader.u8()?,
            cape: reader.bool()?,
        };
        reader.finish()?;
        Ok(settings)
    }

    /// Appends Client Settings.
    pub fn put(&self, out: &mut Vec<u8>, version: &Version) {
        frame::put(out, version.serverbound_id(Serverbound::ClientSettings).into(), |out| {
            put_string(out, self.locale);
            out.extend_from_slice(&[
                self.view_distance as u8,
                self.chat as u8,
                self.chat_colours.into(),
                self.difficulty,
                self.cape.into(),
            ]);
        });
    }
}

/// Appends Client Settings whose payload was kept as it came.
pub fn put_client_settings(out: &mut Vec<u8>, version: &Version, payload: &[u8]) {
    frame::put(out, version.serverbound_id(Serverbound::ClientSettings).into(), |out| out.extend_from_slice(payload));
}
