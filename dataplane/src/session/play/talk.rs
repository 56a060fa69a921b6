//! A handshake of Forge's that the player's client has with a candidate itself: what either says on `FML|HS` goes to the other,
//! while the player goes on playing where it is.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use moonbridge_protocol::forge::HANDSHAKE;
use moonbridge_protocol::forge::candidate::Rejection;
use moonbridge_protocol::forge::live::Live;
use moonbridge_protocol::play::PluginMessage;
use moonbridge_protocol::version::Serverbound;
use moonbridge_protocol::walk::{Verdict, Watched};

use super::Play;
use super::state::State;
use super::transfer::{Arrival, Moving};
use crate::backend::{ClientEnd, Refusal};

/// Bytes waiting for the player beyond which the candidate waits. Its longest message is 2 MiB.
const HIGH_WATER: usize = 4 << 20;

/// The player's side of the handshake.
pub(super) struct Talk {
    end: ClientEnd,
    /// Once the candidate has begun.
    live: Option<Live>,
    /// What the candidate has said and the player was not told yet.
    next: Option<Vec<u8>>,
}

impl Talk {
    pub(super) fn new(end: ClientEnd) -> Talk {
        Talk { end, live: None, next: None }
    }

    /// The handshake, if there was one.
    pub(super) fn live(self) -> Option<Live> {
        self.live
    }

    /// Whether the player has not been told yet all that the candidate has said.
    fn is_owed(&self) -> bool {
        self.next.is_some() || !self.end.from_backend.is_empty()
    }

    /// Looks at a frame of the player's: what it says on the handshake's channel goes to the candidate alone.
    pub(super) fn see(&self, frame: &Watched<'_>, state: &mut State) -> Option<Verdict> {
        if self.live.is_none() || state.version.serverbound(frame.id) != Serverbound::PluginMessage {
            return None;
        }
        let message = PluginMessage::read_serverbound(frame.payload).ok().filter(|message| message.channel == HANDSHAKE)?;
        state.forge.serverbound(message.data);
        // A client that says more than a handshake has is not waited for: the candidate will miss something and refuse.
        let _ = self.end.to_backend.try_send(message.data.to_vec());
        Some(Verdict::Drop)
    }
}

impl Play {
    /// Goes on with the candidate that is being entered.
    pub(super) fn poll_entering(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        if let Poll::Ready(refusal) = self.poll_talk(cx) {
            return Poll::Ready(Err(refusal));
        }
        let Moving::Entering(entering) = &mut self.moving else { return Poll::Pending };
        ready!(Pin::new(&mut entering.arrival).poll(cx));
        // The player hears the last that the candidate has said, before what comes of it.
        if let Poll::Ready(refusal) = self.poll_talk(cx) {
            return Poll::Ready(Err(refusal));
        }
        let Moving::Entering(entering) = &mut self.moving else { return Poll::Pending };
        if entering.talk.as_ref().is_some_and(Talk::is_owed) {
            return Poll::Pending;
        }
        Pin::new(&mut entering.arrival).take_output().map_or(Poll::Pending, Poll::Ready)
    }

    /// Passes on what the candidate says. Ready if the candidate is not for this player.
    fn poll_talk(&mut self, cx: &mut Context<'_>) -> Poll<Refusal> {
        while self.may_inject() {
            if self.player.out.len() > HIGH_WATER {
                ready!(self.player.out.poll_flush(cx));
            }
            let Moving::Entering(entering) = &mut self.moving else { return Poll::Pending };
            let Some(talk) = &mut entering.talk else { return Poll::Pending };
            if talk.next.is_none() {
                let Poll::Ready(Some(message)) = talk.end.from_backend.poll_recv(cx) else { return Poll::Pending };
                talk.next = Some(message);
            }
            let tracker = &mut self.state.forge;
            let live = match &mut talk.live {
                Some(live) => live,
                none => match Live::new(tracker, self.node.config.forge.strict_mods) {
                    Ok(live) => none.insert(live),
                    Err(unmovable) if unmovable.passes() => return Poll::Pending,
                    Err(_) if !tracker.is_forge() => return Poll::Ready(Rejection::NoForge.into()),
                    Err(unmovable) => return Poll::Ready(Refusal::new(unmovable.reason(), unmovable.to_string())),
                },
            };
            let (message, version) = (talk.next.take().unwrap_or_default(), self.state.version);
            let mut told = Ok(());
            self.player.out.write(|out| told = live.from_candidate(&message, out, version, tracker));
            self.player.out.push(cx);
            if let Err(rejection) = told {
                return Poll::Ready(rejection.into());
            }
        }
        Poll::Pending
    }

    /// A candidate that the player had a handshake with is left: ends the handshake at the next boundary.
    pub(super) fn end_talk(&mut self, talk: Talk) {
        self.unended = talk.live.or(self.unended.take());
        self.end_live();
    }

    /// Ends a handshake whose candidate is gone, if the player's stream stands at a boundary.
    pub(super) fn end_live(&mut self) {
        if !self.may_inject() {
            return;
        }
        let Some(live) = self.unended.take() else { return };
        let (version, tracker) = (self.state.version, &mut self.state.forge);
        let mut whole = true;
        self.player.out.write(|out| whole = live.failed(out, version, tracker));
        if !whole {
            let phase = tracker.client().name();
            tracing::info!(session = %self.context.id, player = self.facts.name, phase, "a Forge handshake has stopped half-way");
        }
    }
}
