//! A handshake that the real client has with a candidate itself: the first that a Forge client has at all, if it has been on
//! vanilla servers only. Its mods are known afterwards.
//!
//! What either says on the handshake's channel goes to the other at once; all else that the candidate sends is held, and all
//! else that the client sends goes to the server that it is on.

use crate::play::{JoinGame, put_plugin_message_clientbound};
use crate::version::Version;

use super::HANDSHAKE;
use super::candidate::Rejection;
use super::dimension::{self, is_vanilla};
use super::message::{Message, ServerHello};
use super::mods::{ModList, ModListDifference};
use super::phase::ClientPhase;
use super::tracker::{Tracker, Unmovable};

/// A live handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    begun: bool,
    strict: bool,
    /// What the candidate's Server Hello said.
    dimension: i32,
}

impl Live {
    /// A live handshake, if the client can have one. `strict`: the server's mods have to be of the client's versions; otherwise
    /// the client is left to judge, and disconnects if it does not like them.
    ///
    /// # Errors
    /// If it cannot be reset now, and does not wait for a handshake either.
    pub fn new(tracker: &Tracker, strict: bool) -> Result<Live, Unmovable> {
        if tracker.client() != ClientPhase::Hello {
            tracker.may_reset()?;
        }
        Ok(Live { begun: false, strict, dimension: 0 })
    }

    /// Passes a message of the candidate's on: appends it to `out`, after a reset if it is the first, for the client takes a
    /// vanilla server for the end of a handshake.
    ///
    /// The client keeps a dimension that Server Hello says for every Join Game to come, and learns only later, from other
    /// messages, what it is. If the candidate failed in between, no Join Game could bring the client anywhere: so it is told
    /// only of dimensions that it knows; [`crate::switch::put_enter_forge`] makes up for it.
    ///
    /// # Errors
    /// If the client would throw at it or refuse the server's mods: it has not gone on, and the candidate is to be left
    /// ([`Live::failed`]).
    pub fn from_candidate(&mut self, data: &[u8], out: &mut Vec<u8>, version: &Version, tracker: &mut Tracker) -> Result<(), Rejection> {
        let message = Message::read(data).map_err(|error| Rejection::Unreadable { message: "message on FML|HS", error })?;
        message.check().map_err(|error| Rejection::Unreadable { message: message.name(), error })?;
        let begins = !self.begun && tracker.client() == ClientPhase::Done && matches!(message, Message::ServerHello(_));
        let phase = if begins { ClientPhase::Hello } else { tracker.client() };
        if phase.told(&message).0 == ClientPhase::Error || (!self.begun && phase != ClientPhase::Hello) {
            return Err(Rejection::OutOfOrder { message: message.name(), phase });
        }
        match (&message, tracker.mods()) {
            (Message::ModList(fields), Some(client)) if self.strict && phase == ClientPhase::WaitingServerData => {
                let unreadable = |error| Rejection::Unreadable { message: message.name(), error };
                let server = ModList::read(fields).map_err(unreadable)?;
                // Nobody has asked the client yet. As a rule it takes a server that lacks a mod, but not one in another version.
                let difference =
                    ModListDifference { missing: Vec::new(), extra: Vec::new(), ..ModListDifference::between(client, &server) };
                if !difference.is_empty() {
                    return Err(Rejection::Mods(difference));
                }
            }
            _ => {}
        }
        if !self.begun {
            tracker.live();
        }
        if begins {
            Message::Reset.put_clientbound(out, version);
            tracker.tell(&Message::Reset);
        }
        self.begun = true;
        match message {
            Message::ServerHello(hello) if !is_vanilla(hello.dimension) => {
                self.dimension = hello.dimension;
                let message = Message::ServerHello(ServerHello { dimension: 0, ..hello });
                message.put_clientbound(out, version);
                tracker.tell(&message);
            }
            _ => {
                put_plugin_message_clientbound(out, version, HANDSHAKE, data);
                tracker.tell(&message);
                self.dimension = if let Message::ServerHello(hello) = message { hello.dimension } else { self.dimension };
            }
        }
        Ok(())
    }

    /// The dimension that the candidate's Join Game means.
    pub fn dimension(&self, join: &JoinGame) -> i32 {
        dimension::real(join, self.dimension)
    }

    /// The candidate is gone, or not for this client: the handshake is ended, if it has come to where that takes acks alone.
    /// Says whether the client is done (or has not begun): otherwise it is stuck, and can go to vanilla servers only.
    pub fn failed(self, out: &mut Vec<u8>, version: &Version, tracker: &mut Tracker) -> bool {
        if !self.begun {
            return true;
        }
        let done = tracker.finish(out, version);
        tracker.not_live();
        // Whatever it still answers is for nobody.
        tracker.owes_acks();
        done
    }
}
