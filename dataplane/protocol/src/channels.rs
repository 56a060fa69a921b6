//! The plugin channels a client has registered. It says so once, to its first backend; the next one must hear it from us.

use std::collections::BTreeSet;

use crate::play::{MAX_SERVERBOUND_DATA, put_plugin_message_serverbound};
use crate::version::Version;

/// The channel on which channels are registered.
pub const REGISTER: &str = "REGISTER";
/// The channel on which they are given up.
pub const UNREGISTER: &str = "UNREGISTER";
/// The channel of Forge's handshake (FML 1).
pub const FORGE_HANDSHAKE: &str = "FML|HS";

/// Most channels that are remembered, unless [`Channels::bounded`] says another number.
pub const MAX_CHANNELS: usize = 1_024;
/// The longest name that is remembered, in bytes.
pub const MAX_CHANNEL_NAME: usize = 256;

/// The channels that the client has registered. Names are bytes: nobody promises that they are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channels {
    names: BTreeSet<Box<[u8]>>,
    most: usize,
    left_out: u64,
}

impl Default for Channels {
    fn default() -> Self {
        Channels::bounded(MAX_CHANNELS)
    }
}

impl Channels {
    /// No channels, with room for `most`.
    pub fn bounded(most: usize) -> Channels {
        Channels { names: BTreeSet::new(), most, left_out: 0 }
    }

    /// Notes a REGISTER: names with NUL between them. What is too long or too many is left out and counted.
    pub fn register(&mut self, data: &[u8]) {
        for name in names(data) {
            if self.names.contains(name) {
                continue;
            }
            if name.len() > MAX_CHANNEL_NAME || self.names.len() >= self.most {
                self.left_out += 1;
            } else {
                self.names.insert(name.into());
            }
        }
    }

    /// Notes an UNREGISTER.
    pub fn unregister(&mut self, data: &[u8]) {
        for name in names(data) {
            self.names.remove(name);
        }
    }

    /// Appends serverbound REGISTER messages that name all channels: one, or as many as it takes for none to carry more than
    /// 32,766 bytes; nothing if there are no channels.
    pub fn put_register(&self, out: &mut Vec<u8>, version: &Version) {
        let mut data = Vec::new();
        for name in &self.names {
            if !data.is_empty() {
                if data.len() + 1 + name.len() > MAX_SERVERBOUND_DATA {
                    put_plugin_message_serverbound(out, version, REGISTER, &data);
                    data.clear();
                } else {
                    data.push(0);
                }
            }
            data.extend_from_slice(name);
        }
        if !data.is_empty() {
            put_plugin_message_serverbound(out, version, REGISTER, &data);
        }
    }

    /// Whether this one is among them.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name.as_bytes())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// How many names were left out, since the start.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The names that a REGISTER or an UNREGISTER has.
pub fn names(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|&byte| byte == 0).filter(|name| !name.is_empty())
}
