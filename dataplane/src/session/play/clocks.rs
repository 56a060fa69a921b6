//! A session's clocks: who has fallen silent, what has waited too long. Looked at every few seconds, or when one is due.

use std::time::Duration;

use moonbridge_protocol::forge::tracker::Unmovable;
use moonbridge_protocol::keep_alive::Asker;
use moonbridge_protocol::play as packets;
use moonbridge_protocol::text::Text;
use tokio::time::Instant;

use super::transfer::Moving;
use super::{End, Play};
use crate::error::{Kind, Side};
use crate::relay::link::Link;

/// How often a session looks at its clocks while nothing special goes on.
pub(super) const TICK: Duration = Duration::from_secs(5);

/// How often the node asks a player that no backend serves.
const FEED: Duration = Duration::from_secs(2);

/// How often a session looks at its clocks before the first world.
const FIRST_TICK: Duration = Duration::from_secs(1);

/// When a session looks again at the earliest.
const SOONEST: Duration = Duration::from_millis(50);

/// How long a peer has shown no sign of life.
#[derive(Default, Clone, Copy)]
pub(super) struct Quiet {
    /// Sent nothing, though it was read.
    pub(super) read: Duration,
    /// Took nothing, though something waited.
    pub(super) write: Duration,
}

impl Play {
    /// Looks at every clock there is.
    pub(super) fn clocks(&mut self) -> Option<End> {
        let now = Instant::now();
        self.retire_leaving(now);
        if self.fence.is_some_and(|deadline| deadline <= now) && self.player.walker.at_boundary() {
            self.fence = None;
            match &mut self.current {
                Some(current) if self.state.fenced => current.link.out.write(|out| self.state.lift_fence(out)),
                // The next backend has a fence of its own, and is told then.
                None if self.state.fenced => self.state.forget_fence(),
                _ => {}
            }
        }
        if self.entering_over().is_some_and(|over| over <= now) {
            // Scripted clients never say so.
            self.state.forge.entered();
        }
        let over = match &self.moving {
            Moving::Pausing { deadline, .. } if *deadline <= now => self.pause_failed(),
            Moving::Waiting(request, _) if request.deadline <= now => {
                self.waited();
                None
            }
            Moving::Entering(_) if self.patience_over().is_some_and(|over| over <= now) => self.give_up_candidate(),
            _ => None,
        };
        if over.is_some() {
            return over;
        }
        if self.replay_deadline().is_some_and(|deadline| deadline <= now) {
            self.replayed();
        }
        let end = self.signs_of_life(now);
        self.set_timer(now);
        end
    }

    /// Looks whether both peers are alive. A player that its backend sends nothing is asked by the node: clients give up after
    /// 20 s of silence, and its answers tell whether it is the player that is gone.
    fn signs_of_life(&mut self, now: Instant) -> Option<End> {
        let node = self.node.clone();
        let timeouts = &node.config.timeouts;
        let waited = now.saturating_duration_since(self.looked);
        self.looked = now;
        let player_full = !self.player.out.is_empty();
        let backend_full = self.current.as_ref().is_some_and(|current| !current.link.out.is_empty());
        if backend_full && self.player.has_hung_up() {
            return Some(End::quiet("player_left"));
        }
        let mut dead = None;
        if let Some(current) = &mut self.current {
            current.quiet.note(&mut current.link, waited, !player_full);
            // Before the first world the client shows "Logging in" and gives up after 20 s: what the login has left must do
            // for the next backend, too.
            let patience = match self.state.awaits_first_world() {
                true => timeouts.backend_read.min(timeouts.login / 2),
                false => timeouts.backend_read,
            };
            if self.state.forge.is_handshaking() && self.entered + timeouts.forge <= now {
                let (phase, waits_for) = (self.state.forge.client().name(), self.state.forge.waits_for());
                dead = Some(format!("Forge's handshake with {} has stopped ({phase}): it waits for {waits_for}", current.name));
            }
            if current.quiet.read >= patience || current.quiet.write >= timeouts.write_stall {
                dead = Some(format!("{} does not answer", current.name));
            }
        }
        if let Some(reason) = dead {
            return self.lose_backend("backend_timed_out", Text::legacy(&reason));
        }
        let silent = self.current.as_ref().is_none_or(|current| current.quiet.read >= FEED);
        if silent && self.may_inject() {
            let version = self.state.version;
            let id = self.state.ledger.ask(Asker::Node, 0);
            self.player.out.write(|out| packets::put_keep_alive_clientbound(out, version, id));
        }
        let read_from_player = !backend_full && self.held.len() < node.config.limits.transfer_buffer;
        self.quiet.note(&mut self.player, waited, read_from_player);
        if self.quiet.read >= timeouts.player_read {
            let detail = format!("the player sent nothing for {:?}", timeouts.player_read);
            return Some(End::trouble("player_timed_out", Side::Player, Kind::TimedOut, detail).saying("Timed out"));
        }
        if self.quiet.write >= timeouts.write_stall {
            let detail = format!("the player took nothing for {:?}", timeouts.write_stall);
            return Some(End::trouble("player_stalled", Side::Player, Kind::TimedOut, detail));
        }
        None
    }

    /// Closes connections whose time to say their last is over.
    fn retire_leaving(&mut self, now: Instant) {
        let patience = self.node.config.timeouts.write_stall;
        let dropped = &mut self.state.dropped;
        self.leaving.retain(|leaving| {
            let stays = leaving.deadline(patience) > now;
            if !stays {
                *dropped += leaving.dropped;
            }
            stays
        });
    }

    /// Until when a Forge client that does not say so is taken to process its last Join Game, or the end of a handshake whose
    /// server is gone.
    fn entering_over(&self) -> Option<Instant> {
        let entering = !self.state.fenced
            && (self.state.in_world || self.current.is_none())
            && self.state.forge.may_reset() == Err(Unmovable::Entering);
        entering.then(|| self.entered + self.node.config.timeouts.fence)
    }

    /// Sets the timer to the next clock that can be due.
    pub(super) fn set_timer(&mut self, now: Instant) {
        let timeouts = &self.node.config.timeouts;
        let shortest = timeouts.backend_read.min(timeouts.player_read).min(timeouts.write_stall).min(timeouts.login);
        let tick = if self.state.awaits_first_world() { FIRST_TICK } else { TICK };
        let tick = tick.min(shortest / 4).max(SOONEST);
        let pause = match &self.moving {
            Moving::Pausing { deadline, .. } => Some(*deadline),
            Moving::Waiting(request, _) => Some(request.deadline),
            Moving::Entering(_) => self.patience_over(),
            _ => None,
        };
        let entered = self.entering_over();
        let feed = self.current.is_none().then(|| now + FEED);
        let patience = timeouts.write_stall;
        let leaving = self.leaving.iter().map(|leaving| leaving.deadline(patience)).min();
        let clocks = [pause, feed, entered, leaving, self.fence, self.replay_deadline(), self.connect_deadline()];
        match clocks.into_iter().flatten().min() {
            // A fence that waits for a frame boundary is due already: look again soon.
            Some(clock) if clock < now + tick => self.alarm.set(clock.max(now + SOONEST)),
            _ => self.alarm.set_roughly(now, tick),
        }
    }
}

impl Quiet {
    /// Counts `waited` for or against the peer; silence counts only if it was being read.
    fn note(&mut self, link: &mut Link, waited: Duration, being_read: bool) {
        let signs = link.take_signs();
        self.read = if signs.heard || !being_read { Duration::ZERO } else { self.read + waited };
        self.write = if signs.taking { Duration::ZERO } else { self.write + waited };
    }
}
