//! The names a backend has put on the player's tab list. A 1.7 client keeps them when it changes worlds, so that whoever
//! moves it must take them off.

use crate::frame;
use crate::version::{Clientbound, Version};
use crate::wire::{Reader, WireError, put_string};

/// Most names that are remembered; further ones stay on the list after a transfer.
pub const MAX_NAMES: usize = 4_096;

/// The longest name, in UTF-16 units (a 1.7 client disconnects on a longer one).
const MAX_NAME: usize = 16;

/// The lines on the player's tab list. The key is the raw name as shown, colour codes and all, for that is the client's key
/// too: it need not be any player's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TabNames {
    /// In order. A list: it is kept for each of thousands of players, and most of them see few names.
    names: Vec<Box<str>>,
    left_out: u64,
}

impl TabNames {
    /// Notes what a Player List Item does. Allocates only for a name that is new; a payload that cannot be read changes
    /// nothing.
    pub fn note(&mut self, payload: &[u8]) {
        let Ok((name, online)) = read(payload) else { return };
        match self.names.binary_search_by(|known| (**known).cmp(name)) {
            Ok(place) if !online => {
                self.names.remove(place);
            }
            Err(place) if online && self.names.len() < MAX_NAMES => self.names.insert(place, name.into()),
            Err(_) if online => self.left_out += 1,
            Ok(_) | Err(_) => {}
        }
    }

    /// Appends one Player List Item for each name, which takes it off the list.
    pub fn put_removals(&self, out: &mut Vec<u8>, version: &Version) {
        for name in &self.names {
            put_player_list_item(out, version, name, false, 0);
        }
    }

    /// Forgets all names (after their removals were sent).
    pub fn clear(&mut self) {
        self.names = Vec::new();
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many names did not fit, since the start.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Appends a Player List Item: `ping` in milliseconds.
pub fn put_player_list_item(out: &mut Vec<u8>, version: &Version, name: &str, online: bool, ping: i16) {
    frame::put(out, version.clientbound_id(Clientbound::PlayerListItem).into(), |out| {
        put_string(out, name);
        out.push(online.into());
        out.extend_from_slice(&ping.to_be_bytes());
    });
}

fn read(payload: &[u8]) -> Result<(&str, bool), WireError> {
    let mut reader = Reader::new(payload);
    let name = reader.string(MAX_NAME)?;
    let online = reader.bool()?;
    reader.i16()?;
    reader.finish()?;
    Ok((name, online))
}
