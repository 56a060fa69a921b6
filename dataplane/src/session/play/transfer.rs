//! Moving a player to another backend: pause, cut over, replay; and the same when its backend is lost.
//!
//! The current backend serves on while a candidate is entered in the background ([`Moving::Entering`]). When the
//! candidate has come to its Join Game, the player's frames are held from the next frame boundary on
//! ([`Moving::Pausing`]); at a boundary of the other direction, too, the cutover is written in one piece. Whatever fails
//! before that costs the player nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use moonbridge_proto::routing::Usable;
use moonbridge_proto::snapshot::{Backend, OnKick};
use moonbridge_protocol::switch;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::walk::{Empty, Walker, WatchSet};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout_at};

use super::leaving::Leaving;
use super::{Current, End, Event, FAREWELL, Play, Quiet, failed};
use crate::backend::{self, Entered, Limits, Player, Refusal, Until};
use crate::conn;
use crate::error::{Kind, Side};
use crate::node::Node;
use crate::registry::Outcome;
use crate::relay::link::Link;
use crate::trace::TransferTimes;

/// How long the backend that was left may go on saying what was under way.
const LINGER: Duration = Duration::from_secs(2);

/// A backend that kicks a player who has been there for less than this is not tried again for that player.
const STABLE: Duration = Duration::from_secs(30);

/// Connections on their way out at a time; the oldest is cut short for one more.
const MAX_LEAVING: usize = 4;

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
    cause: Cause,
    arrival: Pin<Box<dyn Future<Output = Arrival> + Send>>,
}

/// What the entering came to.
pub(super) type Arrival = Result<Box<Arrived>, Refusal>;

/// A candidate at its Join Game.
pub(super) struct Arrived {
    backend: String,
    entered: Entered,
    /// What it may hold of the node's memory.
    budget: OwnedSemaphorePermit,
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
    deadline: Instant,
    reply: oneshot::Sender<Outcome>,
    began: SystemTime,
}

/// A cutover that the player's socket has not wholly taken yet.
pub(super) struct Replaying {
    cause: Cause,
    times: TransferTimes,
    _budget: OwnedSemaphorePermit,
}

/// Backends that have lost this player lately, and what the first of them said.
pub(super) struct Unstable {
    names: Vec<String>,
    first: Text,
}

impl Entering {
    pub(super) fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<Arrival> {
        self.arrival.as_mut().poll(cx)
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
            Err((reason, detail)) => self.tell(request, failed(reason, detail), None),
        }
    }

    fn candidate_for(&self, to: &str) -> Result<Arc<Backend>, (&'static str, String)> {
        if self.state.forge {
            let detail = "this player speaks Forge's handshake (FML|HS), and moving such players is not supported yet";
            return Err(("forge_unsupported", detail.into()));
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
                self.tell(request, failed(refusal.reason, detail), None);
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

    /// Writes the cutover: both directions stand at a frame boundary.
    pub(super) fn cut_over(&mut self) {
        let Moving::Pausing { cause, arrived, since, .. } = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return };
        let Arrived { backend, entered: Entered { conn, held, join, times }, budget } = *arrived;
        let version = self.state.version;
        let state = &mut self.state;
        let now = Instant::now();
        let (stream, rest) = conn.into_parts();
        let mut link = Link::new(stream, &rest);

        let mut farewell = Vec::new();
        state.change_backend(&mut farewell);
        let was_in_world = state.in_world;
        self.player.out.write(|out| {
            if was_in_world {
                switch::put_cleanup(out, version, &state.tab);
            }
            state.tab.clear();
            replay(held, WatchSet::ALL, out, |frame| state.see_clientbound(frame));
            if let Some(join) = &join {
                switch::put_enter(out, version, join, was_in_world);
            }
        });
        state.in_world = true;
        link.out.write(|out| {
            state.channels.put_register(out, version);
            replay(self.held.take().as_slice().to_vec(), WatchSet::ALL, out, |frame| state.see_released(frame));
        });
        self.holding = false;
        if was_in_world {
            state.fenced = true;
            self.fence = Some(now + self.node.config.timeouts.fence);
        }
        if let Some(mut old) = self.current.replace(Current { name: backend.clone(), link, quiet: Quiet::default() }) {
            old.link.out.write(|out| out.extend_from_slice(&farewell));
            if self.leaving.len() == MAX_LEAVING {
                self.leaving.remove(0);
            }
            self.leaving.push(Leaving::new(old.link, now + LINGER));
        }
        self.registration.moved(&backend);
        self.entered = now;
        if let Some(reason) = self.lost.take() {
            tracing::info!(session = %self.context.id, backend, reason = reason.plain(), "the player fell back to another backend");
            self.say(&Text::legacy(&format!("§eYou were moved to {backend}: §r{}", reason.to_legacy())));
        }
        let times = TransferTimes { enter: times, paused: since, cut: SystemTime::now() };
        self.replaying = Some(Replaying { cause, times, _budget: budget });
        self.set_timer(now);
    }

    /// The player's socket has taken the cutover.
    pub(super) fn replayed(&mut self) {
        let Some(Replaying { cause, times, .. }) = self.replaying.take() else { return };
        if let Cause::Request(request) = cause {
            self.tell(request, super::ok(), Some(times));
        }
    }

    /// No frame boundary came in time: the player stays, and everything held goes where it was meant for.
    pub(super) fn pause_failed(&mut self) {
        let Moving::Pausing { cause, arrived, .. } = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return };
        close_later(arrived.entered.conn.into_parts().0);
        let held = self.held.take();
        if let Some(current) = &mut self.current {
            current.link.out.write(|out| out.extend_from_slice(held.as_slice()));
        }
        self.holding = false;
        if let Cause::Request(request) = cause {
            let detail =
                format!("a frame to or from the player did not end within {:?}; it stays where it is", self.node.config.timeouts.pause);
            self.tell(request, failed("frame_stalled", detail), None);
        }
    }

    /// The current backend is gone or has kicked the player: falls back as the route says.
    pub(super) fn lose_backend(&mut self, reason: &'static str, text: Text) -> Option<End> {
        if !self.may_inject() {
            let detail = "the backend went away inside a long frame: the player's stream cannot be mended";
            return Some(End::trouble("backend_died_mid_frame", Side::Backend, Kind::Closed, detail));
        }
        let name = self.current.as_ref().map(|current| current.name.clone()).unwrap_or_default();
        tracing::info!(session = %self.context.id, player = self.facts.name, backend = name, reason, said = text.plain(), "a backend was lost");
        if !self.player.walker.at_boundary() || self.on_kick() == OnKick::Disconnect {
            return Some(End::told(reason, text));
        }
        let old = self.current.take().map(|current| current.link.into_parts().0);
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
    fn start_fallback(&mut self, old: Option<TcpStream>) {
        let (node, facts) = (self.node.clone(), self.facts.clone());
        let lost: &[String] = self.unstable.as_ref().map_or(&[], |unstable| &unstable.names);
        let candidates: Vec<_> = match node.snapshot.load().as_ref() {
            Some(snapshot) => snapshot.route(&facts.host).usable().filter(|backend| !lost.contains(&backend.name)).cloned().collect(),
            None => Vec::new(),
        };
        let tries = node.config.limits.fallback_tries.saturating_sub(lost.len().saturating_sub(1));
        let arrival = async move {
            if let Some(old) = old {
                conn::close(old, LINGER).await;
            }
            let deadline = Instant::now() + node.config.timeouts.transfer;
            let tried = candidates.len().min(tries);
            for (index, backend) in candidates.into_iter().take(tried).enumerate() {
                let share = deadline.saturating_duration_since(Instant::now()) / (tried - index) as u32;
                match enter(node.clone(), backend.clone(), facts.clone(), Instant::now() + share).await {
                    Ok(arrived) => return Ok(arrived),
                    Err(refusal) => {
                        tracing::info!(
                            player = facts.name,
                            backend = backend.name,
                            reason = refusal.reason,
                            detail = refusal.detail,
                            "a fallback did not take the player"
                        );
                    }
                }
            }
            Err(Refusal { reason: "no_backend", detail: "no other backend took the player".into(), text: None })
        };
        self.moving = Moving::Entering(Entering { cause: Cause::Fallback, arrival: Box::pin(arrival) });
    }

    /// Tells whoever asked how the transfer ended.
    fn tell(&mut self, request: Request, mut outcome: Outcome, times: Option<TransferTimes>) {
        let Request { to, traceparent, reply, began, .. } = request;
        let from = self.current.as_ref().map(|current| current.name.as_str()).unwrap_or_default();
        tracing::info!(session = %self.context.id, player = self.facts.name, to, now_on = from, reason = outcome.result.reason, detail = outcome.result.detail, "transfer ended");
        outcome.result.phases = self.context.transfer(&to, &traceparent, began, times, &outcome);
        // Whoever asked may be gone; the transfer is done all the same.
        let _ = reply.send(outcome);
    }

    pub(super) fn poll_moving(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        match &mut self.moving {
            Moving::Nowhere => Poll::Pending,
            Moving::Entering(entering) => Poll::Ready(Event::Arrived(ready!(entering.poll_arrival(cx)))),
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

/// Reserves the memory a candidate may hold, waiting for it if need be, and enters it up to its Join Game.
async fn enter(node: Arc<Node>, backend: Arc<Backend>, player: Player, deadline: Instant) -> Arrival {
    let limits = &node.config.limits;
    let budget = match timeout_at(deadline, node.transfer_budget.clone().acquire_many_owned(node.transfer_share)).await {
        Ok(Ok(budget)) => budget,
        _ => {
            let detail = "the node's memory for transfers is in use: fewer at a time, or a larger limits.node_buffers".into();
            return Err(Refusal { reason: "no_buffer", detail, text: None });
        }
    };
    let limits = Limits { connect: node.config.timeouts.connect, deadline, held: limits.transfer_buffer };
    let entered = backend::enter(&backend, &player, Until::JoinGame, limits).await?;
    Ok(Box::new(Arrived { backend: backend.name.clone(), entered, budget }))
}

/// Appends to `out` what `visit` lets through of these whole frames.
fn replay(
    mut frames: Vec<u8>,
    watch: WatchSet,
    out: &mut Vec<u8>,
    visit: impl FnMut(moonbridge_protocol::walk::Watched<'_>) -> moonbridge_protocol::walk::Verdict,
) {
    // They were whole frames when they were held; nothing in them can be malformed.
    if let Ok(walked) = Walker::default().walk(&mut frames, watch, Empty::Drop, visit) {
        out.extend_from_slice(&frames[..walked.forward]);
    }
}

fn close_later(stream: TcpStream) {
    tokio::spawn(conn::close(stream, FAREWELL));
}
