//! Moving a player to another backend because somebody asked: pause, cut over, replay.
//!
//! The current backend serves on while a candidate is entered in the background ([`Moving::Entering`]). When the
//! candidate has come to its Join Game, the player's frames are held from the next frame boundary on
//! ([`Moving::Pausing`]); at a boundary of the other direction, too, the cutover is written in one piece
//! ([`super::cutover`]). Whatever fails before that costs the player nothing.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures::TryFutureExt;
use moonbridge_proto::routing::Usable;
use moonbridge_proto::snapshot::Backend;
use moonbridge_protocol::text::Text;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{End, Event, FAREWELL, Play, failed};
use crate::backend::{self, Entered, Limits, Player, Refusal, Until};
use crate::conn;
use crate::node::Node;
use crate::registry::Outcome;
use crate::trace::Steps;

/// Where the player is going.
pub(super) enum Moving {
    /// Nowhere: it stays.
    Nowhere,
    /// A candidate is being entered.
    Entering(Entering),
    /// A candidate waits at its Join Game for a frame boundary.
    Pausing { cause: Cause, arrived: Box<Arrived>, since: SystemTime, deadline: Instant },
}

pub(super) struct Entering {
    pub(super) cause: Cause,
    pub(super) arrival: Pin<Box<dyn Future<Output = Arrival> + Send>>,
}

/// What the entering came to.
pub(super) type Arrival = Result<Box<Arrived>, Refusal>;

/// A candidate at its Join Game.
pub(super) struct Arrived {
    pub(super) backend: String,
    pub(super) entered: Entered,
}

/// Why the player moves.
pub(super) enum Cause {
    /// Somebody asked.
    Request(Request),
    /// Its backend was lost.
    Fallback,
}

/// A transfer that was asked for.
pub(super) struct Request {
    to: String,
    traceparent: String,
    /// The cutover is written by then or not at all.
    pub(super) deadline: Instant,
    reply: oneshot::Sender<Outcome>,
    began: SystemTime,
}

impl Moving {
    /// The session ends: lets go of the candidate, and waits until the candidate has let go of the player.
    pub(super) async fn abandon(self) {
        match self {
            Moving::Nowhere => {}
            Moving::Entering(Entering { arrival, .. }) => backend::abandon(arrival.map_ok(|arrived| arrived.entered)).await,
            Moving::Pausing { arrived, .. } => backend::abandon(ready(Ok(arrived.entered))).await,
        }
    }
}

impl Play {
    /// Starts a transfer, or says why not.
    pub(super) fn start_transfer(&mut self, to: String, traceparent: &str, deadline: Option<Instant>, reply: oneshot::Sender<Outcome>) {
        let began = SystemTime::now();
        let own = Instant::now() + self.node.config.timeouts.transfer;
        let deadline = deadline.map_or(own, |deadline| deadline.min(own));
        let request = Request { to, traceparent: traceparent.to_owned(), deadline, reply, began };
        match self.candidate_for(&request.to) {
            Ok(backend) => {
                let arrival = enter(self.node.clone(), backend, self.facts.clone(), deadline);
                self.moving = Moving::Entering(Entering { cause: Cause::Request(request), arrival: Box::pin(arrival) });
            }
            Err((reason, detail)) => self.tell(request, failed(reason, detail), Steps::default()),
        }
    }

    fn candidate_for(&self, to: &str) -> Result<Arc<Backend>, (&'static str, String)> {
        if self.state.forge {
            return Err(forge());
        }
        if !matches!(self.moving, Moving::Nowhere) || self.lost.is_some() || self.replaying.is_some() {
            return Err(("transfer_in_progress", "this player is being moved already: wait for that to end".into()));
        }
        if self.current.as_ref().is_some_and(|current| current.name == to) {
            return Err(("already_there", format!("the player is on {to} already")));
        }
        let Some(snapshot) = self.node.snapshot.load_full() else {
            return Err(("unknown_backend", "this node has no backends yet".into()));
        };
        let candidate = snapshot.candidate(to);
        match (candidate.why, candidate.backend) {
            (Usable::Ok, Some(backend)) => Ok(backend),
            (Usable::Drained, _) => {
                Err(("backend_drained", format!("{to} is drained and takes no players: `moonbridge backend undrain {to}` first")))
            }
            _ => Err(("unknown_backend", format!("there is no backend {to}: `moonbridge backend list` shows those there are"))),
        }
    }

    pub(super) fn arrived(&mut self, arrival: Arrival) -> Option<End> {
        let Moving::Entering(Entering { cause, .. }) = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return None };
        let now = Instant::now();
        match (arrival, cause) {
            (Ok(arrived), cause) => {
                let mut deadline = now + self.node.config.timeouts.pause;
                if let Cause::Request(request) = &cause {
                    deadline = deadline.min(request.deadline);
                }
                self.moving = Moving::Pausing { cause, arrived, since: SystemTime::now(), deadline };
                self.set_timer(now);
                None
            }
            (Err(refusal), Cause::Request(request)) => {
                let detail = format!("{} did not take the player: {}", request.to, refusal.detail);
                let steps = Steps { began: Some(request.began), connected: refusal.connected, ..Steps::default() };
                self.tell(request, failed(refusal.reason, detail), steps);
                if self.lost.is_some() {
                    self.start_fallback(None);
                }
                None
            }
            (Err(refusal), Cause::Fallback) => {
                tracing::info!(session = %self.context.id, reason = refusal.reason, detail = refusal.detail, "no backend is left for the player");
                Some(End::told("no_backend", self.lost.take().unwrap_or_else(|| Text::legacy(&refusal.detail))))
            }
        }
    }

    /// Both directions stand at a frame boundary: cut over, unless the player turns out not to be movable.
    pub(super) fn paused(&mut self) {
        let Moving::Pausing { cause, arrived, since, .. } = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return };
        match cause {
            // It may have said so after the transfer was asked for.
            Cause::Request(request) if self.state.forge => {
                let steps = Steps { paused: Some(since), ..Steps::entered(arrived.entered.times) };
                self.stay(*arrived);
                let (reason, detail) = forge();
                self.tell(request, failed(reason, detail), steps);
            }
            cause => self.cut_over(cause, *arrived, since),
        }
    }

    /// No frame boundary came in time.
    pub(super) fn pause_failed(&mut self) {
        let Moving::Pausing { cause, arrived, since, .. } = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return };
        let steps = Steps { paused: Some(since), ..Steps::entered(arrived.entered.times) };
        self.stay(*arrived);
        if let Cause::Request(request) = cause {
            let detail = "a long frame to or from the player did not end in time (timeouts.pause, or the command's deadline): try again";
            self.tell(request, failed("frame_stalled", detail), steps);
        }
    }

    /// The player stays, and everything held goes where it was meant for.
    fn stay(&mut self, candidate: Arrived) {
        close_later(candidate.entered.conn.into_stream());
        let held = self.held.take();
        if let Some(current) = &mut self.current {
            let state = &mut self.state;
            current.link.out.write(|out| super::cutover::replay(held.as_slice().to_vec(), out, |frame| state.see_serverbound(frame)));
        }
        self.holding = false;
    }

    /// Tells whoever asked how the transfer ended.
    pub(super) fn tell(&mut self, request: Request, mut outcome: Outcome, steps: Steps) {
        let Request { to, traceparent, reply, began, .. } = request;
        let on = self.current.as_ref().map(|current| current.name.as_str()).unwrap_or_default();
        let (reason, detail) = (&outcome.result.reason, &outcome.result.detail);
        tracing::info!(session = %self.context.id, player = self.facts.name, to, on, reason, detail, "transfer ended");
        outcome.result.phases = self.context.transfer(&to, &traceparent, began, steps, &outcome);
        // Whoever asked may be gone; the transfer is done all the same.
        let _ = reply.send(outcome);
    }

    pub(super) fn poll_moving(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        match &mut self.moving {
            Moving::Nowhere => Poll::Pending,
            Moving::Entering(entering) => entering.arrival.as_mut().poll(cx).map(Event::Arrived),
            Moving::Pausing { .. } => {
                self.hold_if_due();
                if self.holding && self.may_inject() { Poll::Ready(Event::Paused) } else { Poll::Pending }
            }
        }
    }

    /// Holds the player's frames from the next boundary on, if there is nowhere for them to go or a cutover is due.
    pub(super) fn hold_if_due(&mut self) {
        let due = self.current.is_none() || matches!(self.moving, Moving::Pausing { .. });
        self.holding |= due && self.player.walker.at_boundary();
    }
}

/// Enters a backend up to its Join Game.
pub(super) async fn enter(node: Arc<Node>, backend: Arc<Backend>, player: Player, deadline: Instant) -> Arrival {
    let config = &node.config;
    let limits =
        Limits { connect: config.timeouts.connect, deadline, held: config.limits.transfer_buffer, budget: node.transfer_budget.clone() };
    let entered = backend::enter(&backend, &player, Until::JoinGame, limits).await?;
    Ok(Box::new(Arrived { backend: backend.name.clone(), entered }))
}

/// What a session that spoke FML|HS is told.
fn forge() -> (&'static str, String) {
    ("forge_unsupported", "this player speaks Forge's handshake (FML|HS), and moving such players is not supported yet".into())
}

pub(super) fn close_later(stream: TcpStream) {
    tokio::spawn(conn::close(stream, FAREWELL));
}
