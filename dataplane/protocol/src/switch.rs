//! Moving a client from one backend's world into another's.
//!
//! For 1.7 this is algorithm A of Velocity: a Join Game gives the client a fresh world and scoreboard but leaves it on
//! "Downloading terrain" (it does not reset its "terrain loaded" flag); a Respawn into *another* dimension resets that. So the
//! client first joins a dimension that is not the real one, and then respawns in the real one. The new backend's entity id
//! arrives with the Join Game, so no id is ever rewritten. The tab list is the one thing that outlives both. A Forge client is
//! sent one Respawn more ([`put_enter_forge`]).

use crate::forge::dimension::needs_override;
use crate::play::{JoinGame, put_respawn};
use crate::tab_list::TabNames;
use crate::version::Version;

/// Game mode's bit for "hardcore", which Join Game has and Respawn has not.
const HARDCORE: u8 = 0x08;

/// Appends what takes away the old backend's things that a client would keep: its lines of the tab list.
pub fn put_cleanup(out: &mut Vec<u8>, version: &Version, tab_names: &TabNames) {
    tab_names.put_removals(out, version);
}

/// Appends what puts the client into the world that `join` speaks of: `join` itself for a client that is in no world yet
/// (`in_world == false`), otherwise a Join Game with another dimension and a Respawn into the real one.
pub fn put_enter(out: &mut Vec<u8>, version: &Version, join: &JoinGame, in_world: bool) {
    if !in_world {
        join.put(out, version);
        return;
    }
    JoinGame { dimension: other_dimension(join.dimension), ..join.clone() }.put(out, version);
    put_respawn(out, version, join.dimension, join.difficulty, join.gamemode & !HARDCORE, &join.level_type);
}

/// Appends what puts a Forge client that is in a world already into the world that `join` speaks of: Join Game as it is, a
/// Respawn elsewhere, and a Respawn into `dimension`, the real one, which may be too large for Join Game's byte
/// ([`crate::forge::dimension::real`]). This is Velocity's algorithm for Forge 1.7: a Join Game that says another dimension than
/// the server's handshake did is not for such a client.
///
/// `override_dimension` is what the last Server Hello told the client ([`crate::forge::tracker::Tracker::override_dimension`]):
/// it goes there first, whatever Join Game says. If that was nothing, and Join Game's byte is not the real dimension, Join Game
/// says one that the client knows.
pub fn put_enter_forge(out: &mut Vec<u8>, version: &Version, join: &JoinGame, dimension: i32, override_dimension: i32) {
    let other = other_dimension(dimension);
    if override_dimension == 0 && needs_override(dimension) {
        JoinGame { dimension: other, ..join.clone() }.put(out, version);
    } else {
        join.put(out, version);
    }
    for dimension in [other, dimension] {
        put_respawn(out, version, dimension, join.difficulty, join.gamemode & !HARDCORE, &join.level_type);
    }
}

/// A dimension that every client knows and that is not this one.
fn other_dimension(dimension: i32) -> i32 {
    if dimension == 0 { -1 } else { 0 }
}
