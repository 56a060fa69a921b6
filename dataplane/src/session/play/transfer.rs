//! Moving a player to another backend because somebody asked: pause, cut over, replay.
//!
//! The current backend serves on while a candidate is entered in the background ([`Moving::Entering`]). When the
//! candidate has come to its Join Game, the player's frames are held from the next frame boundary on
//! ([`Moving::Pausing`]); at a boundary of the other direction, too, the cutover is written in one piece
//! ([`super::cutover`]). Whatever fails before that costs the player nothing.
//!
//! A Forge client's handshake with the candidate is had by the node, if the client's mods are known; the client has its own,
//! led by the node, in the cutover. Otherwise the client has it with the candidate itself ([`super::talk`]).

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures::TryFutureExt;
use futures::future::{MaybeDone, maybe_done};
use moonbridge_proto::routing::Usable;
use moonbridge_proto::snapshot::Backend;
use moonbridge_protocol::forge::candidate::ClientFacts;
use moonbridge_protocol::forge::lead::Lead;
use moonbridge_protocol::forge::live::Live;
use moonbridge_protocol::forge::tracker::Unmovable;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::fallback::Rest;
use super::talk::Talk;
use super::{End, Event, FAREWELL, Play};
use crate::backend::{self, Entered, Handshake, Limits, Player, Refusal, Until};
use crate::conn;
use crate::node::Node;
use crate::registry::Outcome;
use crate::trace::Steps;

/// Where the player is going.
pub(super) enum Moving {
    /// Nowhere: it stays.
    Nowhere,
    /// Somebody asked while the player is in the midst of Forge's handshake: when that has ended.
    Waiting(Box<Request>, Arc<Backend>),
    /// A candidate is being entered. Boxed: most sessions are going nowhere.
    Entering(Box<Entering>),
    /// A candidate waits at its Join Game for a frame boundary.
    Pausing { cause: Cause, arrived: Box<Arrived>, since: SystemTime, deadline: Instant },
}

pub(super) struct Entering {
    pub(super) cause: Cause,
    pub(super) arrival: MaybeDone<Pin<Box<dyn Future<Output = Arrival> + Send>>>,
    /// What the player has to say to the candidate itself.
    pub(super) talk: Option<Talk>,
}

/// What the entering came to.
pub(super) type Arrival = Result<Box<Arrived>, Refusal>;

/// A candidate at its Join Game.
pub(super) struct Arrived {
    pub(super) backend: String,
    pub(super) entered: Entered,
    /// The handshake that the player has had with it itself.
    pub(super) live: Option<Live>,
}

/// Why the player moves.
pub(super) enum Cause {
    /// Somebody asked.
    Request(Box<Request>),
    /// Its backend was lost; these are still to be tried.
    Fallback(Rest),
}

/// Where a player is to go.
pub(super) struct Wish {
    pub(super) to: String,
    /// The player goes there itself: a restricted backend wants its permission. An admin may send anybody anywhere.
    pub(super) as_player: bool,
}

/// A transfer that was asked for.
pub(super) struct Request {
    wish: Wish,
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
            Moving::Nowhere | Moving::Waiting(..) => {}
            Moving::Entering(entering) => match entering.arrival {
                MaybeDone::Future(arrival) => backend::abandon(arrival.map_ok(|arrived| arrived.entered)).await,
                MaybeDone::Done(arrival) => backend::abandon(ready(arrival.map(|arrived| arrived.entered))).await,
                MaybeDone::Gone => {}
            },
            Moving::Pausing { arrived, .. } => backend::abandon(ready(Ok(arrived.entered))).await,
        }
    }
}

impl Play {
    /// Starts a transfer, or says why not.
    pub(super) fn start_transfer(&mut self, wish: Wish, traceparent: &str, deadline: Option<Instant>, reply: oneshot::Sender<Outcome>) {
        let began = SystemTime::now();
        let own = Instant::now() + self.node.config.timeouts.transfer;
        let deadline = deadline.map_or(own, |deadline| deadline.min(own));
        let request = Box::new(Request { wish, traceparent: traceparent.to_owned(), deadline, reply, began });
        match self.candidate_for(&request.wish) {
            Ok(backend) if self.state.forge.is_handshaking() => {
                self.moving = Moving::Waiting(request, backend);
                self.set_timer(Instant::now());
            }
            Ok(backend) => self.set_out(Cause::Request(request), backend, deadline, ready(())),
            Err((reason, detail)) => self.tell(*request, Outcome::failed(reason, detail), Steps::default()),
        }
    }

    fn candidate_for(&mut self, wish: &Wish) -> Result<Arc<Backend>, (&'static str, String)> {
        let to = wish.to.as_str();
        if !matches!(self.moving, Moving::Nowhere) || self.lost.is_some() || self.replaying.is_some() {
            return Err(("transfer_in_progress", "this player is being moved already: wait for that to end".into()));
        }
        if self.current.as_ref().is_some_and(|current| current.name == to) {
            return Err(("already_there", format!("the player is on {to} already")));
        }
        let Some(snapshot) = self.node.snapshot.load_full() else {
            return Err(("unknown_backend", "this node has no backends yet".into()));
        };
        let may_enter = self.registration.permissions.entry(&self.node);
        let candidate = snapshot.candidate(to, |backend| !wish.as_player || may_enter(backend));
        match (candidate.why, candidate.backend) {
            (Usable::Ok, Some(backend)) => Ok(backend),
            (Usable::Drained, _) => {
                Err(("backend_drained", format!("{to} is drained and takes no players: `moonbridge backend undrain {to}` first")))
            }
            (Usable::Restricted, Some(backend)) => Err(self.not_permitted(&backend)),
            _ => Err(("unknown_backend", format!("there is no backend {to}: `moonbridge backend list` shows those there are"))),
        }
    }

    fn not_permitted(&mut self, backend: &Backend) -> (&'static str, String) {
        let (to, player, permission) = (&backend.name, &self.facts.name, backend.permission());
        let detail = match self.registration.permissions.are_known(&self.node) {
            true => format!(
                "{to} is restricted and {player} does not have the permission {permission}: `moonbridge permission user {player} set {permission}` grants it"
            ),
            false => format!(
                "{to} is restricted, and this node has not been told yet whether {player} has the permission {permission}: try again once the node is attached to the control plane (`moonbridge node list`)"
            ),
        };
        ("not_permitted", detail)
    }

    /// The player's permission may have been taken away while the candidate was entered, or the backend been restricted.
    fn still_permitted(&mut self, cause: &Cause) -> Result<(), (&'static str, String)> {
        let Cause::Request(request) = cause else { return Ok(()) };
        let Wish { to, as_player: true } = &request.wish else { return Ok(()) };
        let backend = self.node.snapshot.load().as_ref().and_then(|snapshot| snapshot.backends.get(to).cloned());
        match backend {
            Some(backend) if backend.restricted && !self.registration.permissions.entry(&self.node)(&backend) => {
                Err(self.not_permitted(&backend))
            }
            _ => Ok(()),
        }
    }

    /// Enters `backend`, once `before` is over.
    pub(super) fn set_out(
        &mut self,
        cause: Cause,
        backend: Arc<Backend>,
        deadline: Instant,
        before: impl Future<Output = ()> + Send + 'static,
    ) {
        let (version, forge, channels) = (self.state.version, &self.state.forge, &self.state.channels);
        let (handshake, talk) = match ClientFacts::of(version, forge, channels, self.node.config.forge.strict_mods) {
            Some(facts) if forge.mods().is_some() => (Handshake::by_node(facts), None),
            // Whether it has Forge is not known for certain before it has met a Forge server.
            _ => {
                let (handshake, end) = Handshake::by_client(version, channels);
                (handshake, Some(Talk::new(end)))
            }
        };
        let (node, facts) = (self.node.clone(), self.facts.clone());
        let arrival = async move {
            before.await;
            enter(node, backend, facts, handshake, deadline).await
        };
        let arrival = maybe_done(Box::pin(arrival) as Pin<Box<dyn Future<Output = Arrival> + Send>>);
        self.moving = Moving::Entering(Box::new(Entering { cause, arrival, talk }));
    }

    pub(super) fn arrived(&mut self, arrival: Arrival) -> Option<End> {
        let Moving::Entering(entering) = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return None };
        let Entering { cause, talk, arrival: left } = *entering;
        let now = Instant::now();
        match arrival {
            Ok(mut arrived) => {
                arrived.live = talk.and_then(Talk::live);
                let mut deadline = now + self.node.config.timeouts.pause;
                if let Cause::Request(request) = &cause {
                    deadline = deadline.min(request.deadline);
                }
                self.moving = Moving::Pausing { cause, arrived, since: SystemTime::now(), deadline };
                self.set_timer(now);
                None
            }
            Err(mut refusal) => {
                if let Some(talk) = talk {
                    self.end_talk(talk);
                }
                if let MaybeDone::Future(left) = left {
                    // It was given up in the midst of it, and may hold a session of the player's.
                    refusal.closing = Some(tokio::spawn(backend::abandon(left.map_ok(|arrived| arrived.entered))));
                }
                self.not_taken(cause, refusal)
            }
        }
    }

    /// The candidate is given up in the midst of its login.
    pub(super) fn give_up_candidate(&mut self) -> Option<End> {
        self.arrived(Err(Refusal::new("login_stalled", "it did not take the player, whose backend was lost meanwhile, in time")))
    }

    /// A candidate has not taken the player.
    fn not_taken(&mut self, cause: Cause, refusal: Refusal) -> Option<End> {
        match cause {
            Cause::Request(request) => {
                let detail = format!("{} did not take the player: {}", request.wish.to, refusal.detail);
                let steps = Steps { began: Some(request.began), connected: refusal.connected, ..Steps::default() };
                self.tell(*request, Outcome { said: refusal.text, ..Outcome::failed(refusal.reason, detail) }, steps);
                if self.lost.is_some() { self.start_fallback(None) } else { None }
            }
            Cause::Fallback(rest) => self.fall_on(rest, refusal),
        }
    }

    /// Both directions stand at a frame boundary: cut over, unless the player turns out not to be movable.
    pub(super) fn paused(&mut self) -> Option<End> {
        let Moving::Pausing { cause, arrived, since, .. } = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return None };
        if let Err((reason, detail)) = self.still_permitted(&cause) {
            return self.stay(cause, *arrived, since, reason, detail);
        }
        match self.lead(&arrived) {
            Ok(lead) => {
                self.cut_over(cause, *arrived, since, lead);
                None
            }
            Err(unmovable) => self.stay(cause, *arrived, since, unmovable.reason(), unmovable.to_string()),
        }
    }

    /// No frame boundary came in time.
    pub(super) fn pause_failed(&mut self) -> Option<End> {
        let Moving::Pausing { cause, arrived, since, .. } = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return None };
        let (reason, detail) = match self.lead(&arrived) {
            Err(unmovable) => (unmovable.reason(), unmovable.to_string()),
            Ok(_) => {
                let detail =
                    "a long frame to or from the player did not end in time (timeouts.pause, or the command's deadline): try again";
                ("frame_stalled", detail.to_owned())
            }
        };
        self.stay(cause, *arrived, since, reason, detail)
    }

    /// What the player's client has to go through to come to the candidate's world.
    fn lead(&self, arrived: &Arrived) -> Result<Lead, Unmovable> {
        match (&arrived.entered.world, &arrived.live) {
            (_, Some(_)) => Ok(Lead::Live),
            (Some((join, Handshake::Node(candidate))), None) => {
                Lead::plan(&self.state.forge, candidate, join, self.node.config.forge.skip_equal_handshakes)
            }
            _ => self.state.forge.may_join_vanilla().map(|()| Lead::Vanilla),
        }
    }

    /// The candidate is left; with a backend, the player stays there, and everything held goes where it was meant for.
    fn stay(&mut self, cause: Cause, candidate: Arrived, paused: SystemTime, reason: &'static str, detail: String) -> Option<End> {
        let steps = Steps { paused: Some(paused), ..Steps::entered(candidate.entered.times) };
        let closing = close_later(candidate.entered.conn.into_stream());
        self.unended = candidate.live.or(self.unended.take());
        self.end_live();
        if self.current.is_some() {
            self.release();
        }
        match cause {
            Cause::Request(request) => {
                self.tell(*request, Outcome::failed(reason, detail), steps);
                if self.lost.is_some() { self.start_fallback(None) } else { None }
            }
            Cause::Fallback(rest) => self.fall_on(rest, Refusal { closing: Some(closing), ..Refusal::new(reason, detail) }),
        }
    }

    /// What was held goes to the backend that it was meant for.
    fn release(&mut self) {
        let held = self.held.take();
        if let Some(current) = &mut self.current {
            let state = &mut self.state;
            current.link.out.write(|out| super::cutover::replay(held.as_slice().to_vec(), out, |frame| state.see_serverbound(frame)));
        }
        self.holding = false;
    }

    /// Tells whoever asked how the transfer ended.
    pub(super) fn tell(&mut self, request: Request, mut outcome: Outcome, steps: Steps) {
        let Request { wish: Wish { to, .. }, traceparent, reply, began, .. } = request;
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
            Moving::Waiting(..) if self.state.forge.is_handshaking() => Poll::Pending,
            Moving::Waiting(..) => Poll::Ready(Event::Waited),
            Moving::Entering(_) => self.poll_entering(cx).map(Event::Arrived),
            Moving::Pausing { .. } => {
                self.hold_if_due();
                let may_cut = self.holding && self.may_inject() && !self.client_is_waited_for();
                if may_cut { Poll::Ready(Event::Paused) } else { Poll::Pending }
            }
        }
    }

    /// The handshake that a transfer waited for has ended, or the transfer's time has.
    pub(super) fn waited(&mut self) {
        let Moving::Waiting(request, backend) = std::mem::replace(&mut self.moving, Moving::Nowhere) else { return };
        if self.state.forge.is_handshaking() {
            let unmovable = Unmovable::Handshaking(self.state.forge.client());
            let detail = format!("{unmovable}; it waits for {}", self.state.forge.waits_for());
            return self.tell(*request, Outcome::failed(unmovable.reason(), detail), Steps::default());
        }
        let deadline = request.deadline;
        self.set_out(Cause::Request(request), backend, deadline, ready(()));
    }

    /// Holds the player's frames from the next boundary on, if there is nowhere for them to go or a cutover is due.
    pub(super) fn hold_if_due(&mut self) {
        // What a client has to send first is not held, if there is somewhere for it to go.
        let due = self.current.is_none() || matches!(self.moving, Moving::Pausing { .. }) && !self.client_is_waited_for();
        self.holding |= due && self.player.walker.at_boundary();
    }

    /// Whether the client has something to do before it can be moved to the candidate that waits for it.
    fn client_is_waited_for(&self) -> bool {
        match &self.moving {
            Moving::Pausing { arrived, .. } => self.lead(arrived).is_err_and(|unmovable| unmovable.passes()),
            _ => false,
        }
    }
}

/// Enters a backend up to its Join Game.
async fn enter(node: Arc<Node>, backend: Arc<Backend>, player: Player, handshake: Handshake, deadline: Instant) -> Arrival {
    let config = &node.config;
    let limits =
        Limits { connect: config.timeouts.connect, deadline, held: config.limits.transfer_buffer, budget: node.transfer_budget.clone() };
    let entered = backend::enter(&backend, &player, Until::JoinGame(handshake), limits).await?;
    Ok(Box::new(Arrived { backend: backend.name.clone(), entered, live: None }))
}

pub(super) fn close_later(stream: TcpStream) -> JoinHandle<()> {
    tokio::spawn(conn::close(stream, FAREWELL))
}
