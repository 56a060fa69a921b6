//! The cutover: the moment the player's world switches.

use std::time::SystemTime;

use moonbridge_protocol::forge::dimension::needs_override;
use moonbridge_protocol::forge::lead::Lead;
use moonbridge_protocol::frame::{MAX_FRAME, MAX_HEADER};
use moonbridge_protocol::play::JoinGame;
use moonbridge_protocol::switch;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::walk::{Empty, Verdict, Walker, WatchSet, Watched};
use tokio::time::Instant;

use super::leaving::Leaving;
use super::plugin_channel;
use super::state::State;
use super::transfer::{Arrived, Cause};
use super::{Current, Play, Quiet};
use crate::backend::{Entered, Handshake, Held};
use crate::recording::Direction;
use crate::registry::Outcome;
use crate::relay::link::Link;
use crate::trace::Steps;

/// Connections on their way out at a time; the oldest is cut short for one more.
const MAX_LEAVING: usize = 16;

/// A cutover that the player's socket has not wholly taken yet.
pub(super) struct Replaying {
    cause: Cause,
    steps: Steps,
    /// Its frames wait in the player's buffer now; what is reserved for them is given back when they have gone.
    _reserved: Held,
}

impl Play {
    /// Writes the cutover: both directions stand at a frame boundary.
    pub(super) fn cut_over(&mut self, cause: Cause, arrived: Arrived, paused: SystemTime, lead: Lead) {
        // An earlier cutover that a slow player is still taking was written; that is what its asker wants to know.
        self.replayed();
        let Arrived { backend, entered: Entered { conn, mut held, world, times }, live } = arrived;
        let version = self.state.version;
        let state = &mut self.state;
        let now = Instant::now();
        let mut link = conn.into_link();
        if let Some(recording) = self.player.recording() {
            link.record(recording.tap(Direction::Clientbound));
        }

        let mut answers = Vec::new();
        state.change_backend(&mut answers);
        state.plugin_channel.begin(plugin_channel::is_on(&self.node, &backend));
        let was_in_world = state.in_world;
        let world = world.as_ref().map(|(join, handshake)| {
            let dimension = match (handshake, live) {
                (Handshake::Node(candidate), _) => candidate.dimension(join),
                (Handshake::Client(_), Some(live)) => live.dimension(join),
                (Handshake::Client(_), None) => join.dimension,
            };
            (join, dimension)
        });
        self.player.out.write(|out| put_cutover(out, state, lead, std::mem::take(&mut held.frames), world));
        let mine = self.held.take();
        link.out.write(|out| {
            state.channels.put_register(out, version);
            state.plugin_channel.announce(out, version);
            replay(mine.as_slice().to_vec(), out, |frame| state.see_released(frame));
        });
        self.holding = false;
        if was_in_world {
            state.fenced = true;
            self.fence = Some(now + self.node.config.timeouts.fence);
        }
        if let Some(mut old) = self.current.replace(Current { name: backend.clone(), link, quiet: Quiet::default() }) {
            old.link.out.write(|out| out.extend_from_slice(&answers));
            self.leave(old.link, now);
        }
        self.registration.moved(&backend);
        self.entered = now;
        if let Some(reason) = self.lost.take() {
            tracing::info!(session = %self.context.id, backend, reason = reason.plain(), "the player fell back to another backend");
            self.say(&Text::legacy(&format!("§eYou were moved to {backend}: §r{}", reason.to_legacy())));
        }
        let steps = Steps { paused: Some(paused), cut: Some(SystemTime::now()), ..Steps::entered(times) };
        self.replaying = Some(Box::new(Replaying { cause, steps, _reserved: held }));
        self.set_timer(now);
    }

    /// Until when whoever asked may be kept waiting for the player's socket: the player has been moved all the same.
    pub(super) fn replay_deadline(&self) -> Option<Instant> {
        match &self.replaying.as_ref()?.cause {
            Cause::Request(request) => Some(request.deadline),
            Cause::Fallback(_) => None,
        }
    }

    /// The player's socket has taken the cutover, or does not for too long.
    pub(super) fn replayed(&mut self) {
        let Some(replaying) = self.replaying.take() else { return };
        let Replaying { cause, steps, .. } = *replaying;
        if let Cause::Request(request) = cause {
            self.tell(*request, Outcome::ok(), Steps { replayed: Some(SystemTime::now()), ..steps });
        }
    }

    fn leave(&mut self, link: Link, now: Instant) {
        if self.leaving.len() == MAX_LEAVING {
            self.state.dropped += self.leaving.remove(0).dropped;
        }
        self.leaving.extend(Leaving::new(link, now));
    }
}

/// Appends what brings the player to a candidate's world: the clean-up, what Forge has to say, the frames that the candidate
/// sent before its Join Game, then that and the dimension that it means.
pub(super) fn put_cutover(out: &mut Vec<u8>, state: &mut State, lead: Lead, held: Vec<u8>, world: Option<(&JoinGame, i32)>) {
    let version = state.version;
    switch::put_cleanup(out, version, &state.tab);
    state.tab.clear();
    lead.begin(out, version, &mut state.forge);
    replay(held, out, |frame| state.see_held_back(frame, lead));
    lead.end(out, version, &mut state.forge);
    if let Some((join, dimension)) = world {
        if state.forge.is_forge() && (state.in_world || needs_override(dimension)) {
            switch::put_enter_forge(out, version, join, dimension, state.forge.override_dimension());
        } else {
            switch::put_enter(out, version, join, state.in_world);
        }
        state.joined();
    }
}

/// Appends to `out` what `visit` lets through of frames that were held. They were walked when they came, so nothing in them
/// is malformed; the last may be the beginning of one that is cut through, whose rest follows from the socket.
pub(super) fn replay(mut frames: Vec<u8>, out: &mut Vec<u8>, visit: impl FnMut(Watched<'_>) -> Verdict) {
    let mut walker = Walker::default();
    // All of it is here: even the longest is seen whole.
    walker.set_hold(MAX_FRAME + MAX_HEADER);
    if let Ok(walked) = walker.walk(&mut frames, WatchSet::ALL, Empty::Drop, visit) {
        out.extend_from_slice(&frames[..walked.forward]);
    }
}
