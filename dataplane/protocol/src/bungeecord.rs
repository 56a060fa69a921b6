//! BungeeCord's plugin channel: what plugins on a backend ask the proxy for, and what they are answered.
//!
//! A plugin writes a [`Request`] into a plugin message on [`CHANNEL`] to the player (a proxy takes it off the way there), and
//! reads the [`Answer`] out of one from the player; what another backend's plugin had forwarded to it comes the same way
//! ([`Forwarded`]). The form is that of Java's `DataOutputStream` ([`java`]), the first text says which message it is.
//!
//! As in BungeeCord (its `DownstreamBridge`, read for facts): bytes after the last field are ignored, a list is one text with
//! `, ` between its names, UUIDs have no dashes, the name of an answer's backend is spelt as it is configured. Unlike there:
//! - What cannot be read is an error and nothing else, where BungeeCord throws and moves or kicks the player.
//! - It answers a count or a list of a backend that it does not know with the message's name alone, at which plugins throw as
//!   they read on. There is no such [`Answer`]; whoever answers says nothing then, as Velocity does.
//! - A list that does not fit in a message is cut after a name, where BungeeCord throws: plugins get players that are there,
//!   and the true number from `PlayerCount`.
//!
//! Whatever is written has at most [`MAX_SERVERBOUND_DATA`] bytes, or is not written at all.

mod answer;
pub mod java;
mod request;

pub use answer::Answer;
pub use request::{Forwarded, Players, Request, RequestError, Servers, Target};

use crate::play::MAX_SERVERBOUND_DATA;

/// The channel's name.
pub const CHANNEL: &str = "BungeeCord";

/// The name that means every player or every backend.
pub const ALL: &str = "ALL";

/// The name that means every backend on which somebody plays.
pub const ONLINE: &str = "ONLINE";

/// Appends what `write` appends, if it can say it in at most [`MAX_SERVERBOUND_DATA`] bytes; says whether it could.
fn whole_or_nothing(data: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let before = data.len();
    let written = write(data) && data.len() - before <= MAX_SERVERBOUND_DATA;
    if !written {
        data.truncate(before);
    }
    written
}
