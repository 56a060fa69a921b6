//! What becomes of a player whose backend kicks or dies: the route's other backends are entered, while its frames are held.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::snapshot::{Backend, OnKick};
use moonbridge_protocol::text::Text;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::leaving::LINGER;
use super::transfer::{Cause, Moving, close_later};
use super::{End, Play};
use crate::backend::Refusal;
use crate::conn;
use crate::error::{Kind, Side};

/// A player who stays on a backend for so long has come to rest: which ones lost it before no longer matters.
const STABLE: Duration = Duration::from_secs(30);

/// Backends that have lost this player since it last came to rest, and what the first of them said.
pub(super) struct Unstable {
    names: Vec<String>,
    first: Text,
}

/// Backends that a player who has lost its own may still go to.
pub(super) struct Rest {
    backends: VecDeque<Arc<Backend>>,
    /// For all of them.
    deadline: Instant,
}

impl Play {
    /// The current backend is gone or has kicked the player: falls back as the route says.
    pub(super) fn lose_backend(&mut self, reason: &'static str, text: Text) -> Option<End> {
        if !self.may_inject() {
            let detail = "the backend went away inside a long frame: the player's stream cannot be mended";
            return Some(End::trouble("backend_died_mid_frame", Side::Backend, Kind::Closed, detail));
        }
        let name = self.current.as_ref().map(|current| current.name.clone()).unwrap_or_default();
        tracing::info!(session = %self.context.id, player = self.facts.name, backend = name, reason, said = text.plain(), "a backend was lost");
        // A frame under way to the backend has nowhere to end.
        if self.on_kick() == OnKick::Disconnect || !self.player.walker.at_boundary() {
            return Some(End::told(reason, text));
        }
        let old = self.current.take().and_then(|current| current.link.into_parts()).map(|(stream, ..)| stream);
        self.state.change_backend(&mut Vec::new());
        if self.entered.elapsed() >= STABLE {
            self.unstable = None;
        }
        let unstable = self.unstable.get_or_insert_with(|| Unstable { names: Vec::new(), first: text });
        if !unstable.names.contains(&name) {
            unstable.names.push(name);
        }
        self.lost = Some(unstable.first.clone());
        self.lost_at = Some(Instant::now());
        self.leave_handshake();
        self.set_timer(Instant::now());
        match &self.moving {
            Moving::Nowhere => self.start_fallback(old),
            // The player goes where somebody wants it.
            _ => {
                old.map(close_later);
                None
            }
        }
    }

    /// A handshake that the lost backend was in is ended, as far as that is possible without it.
    fn leave_handshake(&mut self) {
        let (version, tracker) = (self.state.version, &mut self.state.forge);
        if tracker.is_handshaking() {
            self.player.out.write(|out| {
                tracker.finish(out, version);
            });
            tracker.new_server();
        }
    }

    /// Until when a player that has lost its backend waits for the candidate of a transfer that was under way: no longer than
    /// a new one may take to connect. Then its route's others are tried.
    pub(super) fn patience_over(&self) -> Option<Instant> {
        let asked = matches!(&self.moving, Moving::Entering(entering) if matches!(entering.cause, Cause::Request(_)));
        self.lost_at.filter(|_| asked && self.current.is_none()).map(|lost| lost + self.node.config.timeouts.connect)
    }

    fn on_kick(&self) -> OnKick {
        let snapshot = self.node.snapshot.load();
        let route = snapshot.as_ref().and_then(|snapshot| snapshot.route(&self.facts.host, |_| false).route);
        route.map_or(OnKick::Fallback, |route| route.on_kick)
    }

    /// Enters the route's other backends in turn, once the connection to `old` is closed.
    pub(super) fn start_fallback(&mut self, old: Option<TcpStream>) -> Option<End> {
        let lost: &[String] = self.unstable.as_ref().map_or(&[], |unstable| &unstable.names);
        let snapshot = self.node.snapshot.load();
        let may_enter = self.registration.permissions.entry(&self.node);
        let route = snapshot.as_ref().map(|snapshot| snapshot.route(&self.facts.host, may_enter));
        let usable = route.iter().flat_map(|route| route.usable()).filter(|backend| !lost.contains(&backend.name));
        let tries = self.node.config.limits.fallback_tries.saturating_sub(lost.len().saturating_sub(1));
        let rest = Rest { backends: usable.take(tries).cloned().collect(), deadline: Instant::now() + self.node.config.timeouts.transfer };
        self.next_of(rest, async move {
            if let Some(old) = old {
                conn::close(old, LINGER).await;
            }
        })
    }

    /// A fallback has not taken the player: the next one is tried.
    pub(super) fn fall_on(&mut self, rest: Rest, refusal: Refusal) -> Option<End> {
        let Refusal { reason, detail, closing, .. } = refusal;
        tracing::info!(session = %self.context.id, player = self.facts.name, reason, detail, "a fallback did not take the player");
        self.next_of(rest, async move {
            if let Some(closing) = closing {
                let _ = closing.await;
            }
        })
    }

    fn next_of(&mut self, mut rest: Rest, before: impl Future<Output = ()> + Send + 'static) -> Option<End> {
        let now = Instant::now();
        let share = rest.deadline.saturating_duration_since(now) / rest.backends.len().max(1) as u32;
        let Some(backend) = rest.backends.pop_front() else {
            let none = Text::legacy("No other server takes you at the moment.");
            return Some(End::told("no_backend", self.lost.take().unwrap_or(none)));
        };
        self.set_out(Cause::Fallback(rest), backend, now + share, before);
        None
    }
}
