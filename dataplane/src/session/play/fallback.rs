//! What becomes of a player whose backend kicks or dies: the route's other backends are entered, while its frames are held.

use std::time::Duration;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_protocol::text::Text;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::leaving::LINGER;
use super::transfer::{Cause, Entering, Moving, close_later, enter};
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

impl Play {
    /// The current backend is gone or has kicked the player: falls back as the route says.
    pub(super) fn lose_backend(&mut self, reason: &'static str, text: Text) -> Option<End> {
        if !self.may_inject() {
            let detail = "the backend went away inside a long frame: the player's stream cannot be mended";
            return Some(End::trouble("backend_died_mid_frame", Side::Backend, Kind::Closed, detail));
        }
        let name = self.current.as_ref().map(|current| current.name.clone()).unwrap_or_default();
        tracing::info!(session = %self.context.id, player = self.facts.name, backend = name, reason, said = text.plain(), "a backend was lost");
        // A Forge client cannot be moved yet, and a frame under way to the backend has nowhere to end.
        if self.on_kick() == OnKick::Disconnect || self.state.forge || !self.player.walker.at_boundary() {
            return Some(End::told(reason, text));
        }
        let old = self.current.take().and_then(|current| current.link.into_parts()).map(|(stream, ..)| stream);
        self.state.change_backend(&mut Vec::new());
        if self.entered.elapsed() >= STABLE {
            self.unstable = None;
        }
        let unstable = self.unstable.get_or_insert_with(|| Unstable { names: Vec::new(), first: text });
        unstable.names.push(name);
        self.lost = Some(unstable.first.clone());
        if matches!(self.moving, Moving::Nowhere) {
            self.start_fallback(old);
        } else if let Some(old) = old {
            close_later(old);
        }
        self.set_timer(Instant::now());
        None
    }

    fn on_kick(&self) -> OnKick {
        let snapshot = self.node.snapshot.load();
        let route = snapshot.as_ref().and_then(|snapshot| snapshot.route(&self.facts.host).route);
        route.map_or(OnKick::Fallback, |route| route.on_kick)
    }

    /// Enters the route's other backends in turn, once the connection to `old` is closed.
    pub(super) fn start_fallback(&mut self, old: Option<TcpStream>) {
        let (node, facts) = (self.node.clone(), self.facts.clone());
        let lost: &[String] = self.unstable.as_ref().map_or(&[], |unstable| &unstable.names);
        let candidates: Vec<_> = match node.snapshot.load().as_ref() {
            Some(snapshot) => snapshot.route(&facts.host).usable().filter(|backend| !lost.contains(&backend.name)).cloned().collect(),
            None => Vec::new(),
        };
        let tries = node.config.limits.fallback_tries.saturating_sub(lost.len().saturating_sub(1)).min(candidates.len());
        let arrival = async move {
            if let Some(old) = old {
                conn::close(old, LINGER).await;
            }
            let deadline = Instant::now() + node.config.timeouts.transfer;
            for (index, backend) in candidates.into_iter().take(tries).enumerate() {
                let share = deadline.saturating_duration_since(Instant::now()) / (tries - index) as u32;
                match enter(node.clone(), backend.clone(), facts.clone(), Instant::now() + share).await {
                    Ok(arrived) => return Ok(arrived),
                    Err(Refusal { reason, detail, closing, .. }) => {
                        if let Some(closing) = closing {
                            let _ = closing.await;
                        }
                        tracing::info!(player = facts.name, backend = backend.name, reason, detail, "a fallback did not take the player");
                    }
                }
            }
            Err(Refusal::new("no_backend", "no other backend took the player"))
        };
        self.moving = Moving::Entering(Entering { cause: Cause::Fallback, arrival: Box::pin(arrival) });
    }
}
