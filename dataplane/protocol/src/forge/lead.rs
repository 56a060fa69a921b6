//! The node as the server: leads the real client through its own handshake from what a candidate has said, right before the
//! candidate's Join Game.
//!
//! A client takes all of it in one go, for it advances with what it is sent: so the reset, the handshake, Join Game and
//! Respawns leave in one piece, and it makes no difference whether the candidate still lives by then.

use crate::play::JoinGame;
use crate::version::Version;

use super::candidate::Candidate;
use super::dimension::needs_override;
use super::message::Message;
use super::phase::ClientPhase;
use super::tracker::{Tracker, Unmovable};

/// What a client has to go through to come to a candidate's world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// Nothing: the candidate is a vanilla server.
    Vanilla,
    /// Nothing: it has taken the same ids last, and Join Game's byte can say the dimension. What the candidate said on the
    /// handshake's channel is left out.
    Skip,
    /// The whole handshake, after a reset.
    Reset,
    /// The whole handshake; it waits for one.
    Onward,
    /// Nothing more: it has had the handshake with the candidate itself ([`super::live`]).
    Live,
}

impl Lead {
    /// What the client has to go through, if the candidate's Join Game is `join`. `skip_equal`: whether a handshake may be left
    /// out that would tell it nothing new.
    ///
    /// # Errors
    /// If the client cannot go there. Nothing has happened then.
    pub fn plan(tracker: &Tracker, candidate: &Candidate, join: &JoinGame, skip_equal: bool) -> Result<Lead, Unmovable> {
        if !candidate.is_forge() {
            return tracker.may_join_vanilla().map(|()| Lead::Vanilla);
        }
        let real = candidate.dimension(join);
        let same = tracker.accepted().and_then(|accepted| accepted.ids.as_ref()).is_some_and(|ids| candidate.ids() == Some(ids));
        let dimension = !needs_override(real) || tracker.override_dimension() == real;
        match tracker.client() {
            ClientPhase::Done if skip_equal && same && dimension => Ok(Lead::Skip),
            ClientPhase::Hello => Ok(Lead::Onward),
            _ => tracker.may_reset().map(|()| Lead::Reset),
        }
    }

    /// Appends what precedes the candidate's frames.
    pub fn begin(self, out: &mut Vec<u8>, version: &Version, tracker: &mut Tracker) {
        if self != Lead::Live {
            tracker.new_server();
        }
        if self == Lead::Reset {
            Message::Reset.put_clientbound(out, version);
            tracker.tell(&Message::Reset);
        }
    }

    /// Looks at one of the candidate's messages on the handshake's channel, in the order in which they came; says whether it
    /// goes to the client.
    pub fn see(self, data: &[u8], tracker: &mut Tracker) -> bool {
        let goes = matches!(self, Lead::Reset | Lead::Onward);
        if goes {
            tracker.clientbound(data);
        }
        goes
    }

    /// Appends what follows the candidate's frames and precedes its Join Game.
    pub fn end(self, out: &mut Vec<u8>, version: &Version, tracker: &mut Tracker) {
        match self {
            Lead::Vanilla | Lead::Skip => {}
            Lead::Live => {
                tracker.finish(out, version);
            }
            Lead::Reset | Lead::Onward => {
                tracker.finish(out, version);
                tracker.owes();
            }
        }
    }
}
