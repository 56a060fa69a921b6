//! A handshake that the real client has with a candidate itself: the first that a Forge client has at all, if it has been on
//! vanilla servers only. Its mods are known afterwards.
//!
//! What either says on the handshake's channel goes to the other at once; all else that the candidate sends is held, and all
//! else that the client sends goes to the server that it is on.

use crate::play::put_plugin_message_clientbound;
use crate::version::Version;

use super::HANDSHAKE;
use super::message::Message;
use super::phase::ClientPhase;
use super::tracker::{Tracker, Unmovable};

/// A live handshake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    begun: bool,
}

impl Live {
    /// A live handshake, if the client can have one.
    ///
    /// # Errors
    /// If it cannot be reset now, and does not wait for a handshake either.
    pub fn new(tracker: &Tracker) -> Result<Live, Unmovable> {
        if tracker.client() != ClientPhase::Hello {
            tracker.may_reset()?;
        }
        Ok(Live::default())
    }

    /// Passes a message of the candidate's on: appends it to `out`, after a reset if it is the first, for the client takes a
    /// vanilla server for the end of a handshake. Says whether it went: not if it would make the client throw, which ends the
    /// candidate ([`Live::failed`]).
    pub fn from_candidate(&mut self, data: &[u8], out: &mut Vec<u8>, version: &Version, tracker: &mut Tracker) -> bool {
        let Ok(message) = Message::read(data) else { return false };
        if !self.begun {
            let Message::ServerHello(_) = message else { return false };
            if tracker.client() == ClientPhase::Done {
                tracker.new_server();
                Message::Reset.put_clientbound(out, version);
                tracker.tell(&Message::Reset);
            }
            self.begun = true;
        }
        if tracker.client().told(&message).0 == ClientPhase::Error || !put_plugin_message_clientbound(out, version, HANDSHAKE, data) {
            return false;
        }
        tracker.tell(&message);
        true
    }

    /// The candidate is gone, or not for this client: the handshake is ended, if it has come to where that takes acks alone.
    /// Says whether the client is done (or has not begun): otherwise it is stuck, and can go to vanilla servers only.
    pub fn failed(self, out: &mut Vec<u8>, version: &Version, tracker: &mut Tracker) -> bool {
        let whole = !self.begun || tracker.finish(out, version);
        // The server that it is on has sent its Join Game long since.
        tracker.back();
        whole
    }
}
