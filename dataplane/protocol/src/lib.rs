//! The Minecraft wire format as a session proxy needs it. Pure: bytes and values in, bytes and values out; no I/O, no clock.
//!
//! Two layers. [`frame`], [`walk`] and [`wire`] know how bytes are cut into frames and fields; the other modules know what a
//! few packets mean. A proxy forwards what it does not know, so nothing here tries to be complete: [`version`] names the
//! packet kinds a session cares about and is the one place where packet numbers stand.
//!
//! By phase: [`legacy_ping`] and [`handshake`] (with [`host`]), [`status`], [`login`] (with [`name`] and [`forwarding`]), and
//! [`play`] (with [`keep_alive`], [`tab_list`], [`channels`] and, for moving a player, [`switch`]). In play, [`command`] and
//! [`tab_complete`] are about what the player types, and [`bungeecord`] about what plugins on a backend ask the proxy for.
//! [`text`] is what is shown to people in all of them.
//!
//! Functions named `read…` take a payload (what follows the packet id) and check it to its end; functions named `put…` append
//! one or more whole frames, length prefix included.

pub mod bungeecord;
pub mod channels;
pub mod command;
pub mod forge;
pub mod forwarding;
pub mod frame;
pub mod handshake;
pub mod host;
pub mod keep_alive;
pub mod legacy_ping;
pub mod login;
pub mod name;
pub mod play;
pub mod status;
pub mod switch;
pub mod tab_complete;
pub mod tab_list;
pub mod text;
pub mod version;
pub mod walk;
pub mod wire;
