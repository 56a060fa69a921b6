//! One turn of a session in play: everything that is ready is moved, until something else happens.

use std::task::{Context, Poll};

use tokio::time::Instant;

use super::state::State;
use super::transfer::Moving;
use super::{Event, Play};
use crate::relay::{Halt, Rules, Sink, pump};
use moonbridge_protocol::play as packets;
use moonbridge_protocol::walk::WatchSet;

impl Play {
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        self.follow_plugin_channel();
        if let Poll::Ready(halt) = self.poll_clientbound(cx) {
            return Poll::Ready(Event::Backend(halt));
        }
        if let Poll::Ready(event) = self.poll_serverbound(cx) {
            return Poll::Ready(event);
        }
        if !self.is_only_relaying() {
            self.poll_leaving(cx);
            self.poll_plugin_channel(cx);
            self.poll_taken(cx);
            self.poll_completion(cx);
        }
        if let Poll::Ready(event) = self.poll_flush(cx) {
            return Poll::Ready(event);
        }
        self.end_live();
        if let Poll::Ready(event) = self.poll_moving(cx) {
            return Poll::Ready(event);
        }
        if let Poll::Ready(command) = self.registration.commands.poll_recv(cx) {
            return Poll::Ready(command.map_or(Event::Over, Event::Command));
        }
        self.alarm.poll(cx).map(|()| Event::Timer)
    }

    /// Whether there is nothing of what few turns have to do: no backend that was left, nothing for or from the channel's plugins, no
    /// command, answer or delivery, no completion.
    fn is_only_relaying(&self) -> bool {
        let State { taken, commands, completion, plugin_channel, number, in_world, .. } = &self.state;
        self.leaving.is_empty()
            && taken.is_empty()
            && self.command_asks.is_empty()
            && !commands.dropped
            && completion.is_none()
            && self.plugin_answers.are_of(*number)
            && plugin_channel.is_silent(*in_world)
    }

    fn poll_clientbound(&mut self, cx: &mut Context<'_>) -> Poll<Halt> {
        let Some(current) = &mut self.current else { return Poll::Pending };
        // What waits to be written does not need the pump: every turn that ends pending goes through `poll_flush`.
        if !current.link.may_fill() {
            return Poll::Pending;
        }
        let state = &mut self.state;
        let rules = state.clientbound_rules();
        let mut sink = Sink::Link(&mut self.player);
        pump(cx, &mut current.link, &mut sink, rules, &mut 0, |frame| state.see_clientbound(frame))
    }

    fn poll_serverbound(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        self.hold_if_due();
        let mut empty = 0;
        let state = &mut self.state;
        let talk = match &self.moving {
            Moving::Entering(entering) => entering.talk.as_ref(),
            _ => None,
        };
        let halted = if !self.player.may_fill() {
            Poll::Pending
        } else if self.holding {
            let rules = Rules { watch: WatchSet::ALL, ..state.serverbound_rules() };
            let mut sink = Sink::Hold(&mut self.held, self.node.config.limits.transfer_buffer);
            let mut current = self.current.as_mut();
            pump(cx, &mut self.player, &mut sink, rules, &mut empty, |frame| {
                if let Some(verdict) = talk.and_then(|talk| talk.see(&frame, state)) {
                    return verdict;
                }
                let version = state.version;
                state.see_held(frame, |id| {
                    if let Some(current) = &mut current {
                        current.link.out.write(|out| packets::put_keep_alive_serverbound(out, version, id));
                    }
                })
            })
        } else if let Some(current) = &mut self.current {
            let rules = state.serverbound_rules();
            let mut sink = Sink::Link(&mut current.link);
            pump(cx, &mut self.player, &mut sink, rules, &mut empty, |frame| {
                talk.and_then(|talk| talk.see(&frame, state)).unwrap_or_else(|| state.see_serverbound(frame))
            })
        } else {
            Poll::Pending
        };
        if self.fence.is_some() && !self.state.fenced {
            self.fence = None;
        }
        if empty > 0 && self.floods(empty) {
            return Poll::Ready(Event::Flood);
        }
        halted.map(Event::Player)
    }

    fn floods(&mut self, empty: u32) -> bool {
        let now = Instant::now();
        if now.duration_since(self.empty.since).as_secs() >= 1 {
            self.empty.since = now;
            self.empty.count = 0;
        }
        self.empty.total += u64::from(empty);
        self.empty.count = self.empty.count.saturating_add(empty);
        self.empty.count > self.node.config.limits.empty_frames_per_second
    }

    fn poll_leaving(&mut self, cx: &mut Context<'_>) {
        let may_deliver = self.may_inject();
        let (state, player) = (&mut self.state, &mut self.player.out);
        self.leaving.retain_mut(|leaving| {
            let over = leaving.poll(cx, state.version, may_deliver.then_some(&mut *player)).is_ready();
            if over {
                state.dropped += leaving.dropped;
            }
            !over
        });
    }

    /// Sends what was put outside of a read in the same turn.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(current) = &mut self.current {
            current.link.out.push(cx);
        }
        if self.replaying.is_some() {
            return self.player.out.poll_flush(cx).map(|()| Event::Replayed);
        }
        self.player.out.push(cx);
        Poll::Pending
    }
}
