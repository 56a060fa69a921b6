//! The node's live sessions: how the control plane's commands find them, and how their comings and goings get out.

mod deliver;
mod live;
mod mailbox;
mod players;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moonbridge_proto::v1;
use moonbridge_protocol::text::Text;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::permissions::{Known, Permissions};
use crate::recording::Recording;
use deliver::OnBackends;
use live::{Home, Live};
use mailbox::{Refused, mailbox};
use players::Players;

pub use deliver::Delivered;
pub use live::Playing;
pub use mailbox::Mailbox;

/// Commands and deliveries that wait for one session; one command more is refused as `session_busy`.
const QUEUE: usize = 256;

/// What can be asked of a session.
#[derive(Debug)]
pub enum SessionCommand {
    /// Move the player to another backend.
    Transfer {
        /// The backend's name.
        to: String,
        /// As if the player had asked itself: a restricted backend wants its permission.
        as_player: bool,
        /// W3C traceparent of the span that asked, or empty.
        traceparent: String,
        /// The cutover is written by then or not at all.
        deadline: Option<Instant>,
        /// Gets the one outcome. Dropped unanswered only when the session has ended.
        reply: oneshot::Sender<Outcome>,
    },
    /// Disconnect the player.
    Kick {
        /// What it is shown.
        reason: Text,
        /// Gets the one outcome.
        reply: oneshot::Sender<Outcome>,
    },
    /// Answer whether the player has a permission, as a check in the game would come out now.
    Check {
        /// The permission.
        permission: String,
        /// Gets the answer.
        reply: oneshot::Sender<Outcome>,
    },
    /// Tell sizes and times of its frames.
    Record {
        /// To whom.
        recording: Recording,
        /// Gets whether it does.
        reply: oneshot::Sender<Outcome>,
    },
    /// Take what a session elsewhere has for the player or its backend.
    Deliver(Delivered),
    /// Show text in the player's chat.
    Message {
        /// Legacy text.
        text: String,
        /// Gets the one outcome.
        reply: oneshot::Sender<Outcome>,
    },
}

/// How a command ended: whether it succeeded, and the reason and detail of `v1::CommandResult`.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Whether it did what was asked.
    pub succeeded: bool,
    /// Reason, detail and phases.
    pub result: v1::CommandResult,
    /// What a backend that refuses the player says to it itself.
    pub said: Option<Text>,
}

impl Outcome {
    /// It was done.
    pub fn ok() -> Outcome {
        Outcome { succeeded: true, ..Outcome::failed("ok", "") }
    }

    /// It was not, for one of a bounded set of reasons and with a detail for people.
    pub fn failed(reason: &str, detail: impl Into<String>) -> Outcome {
        let result = v1::CommandResult { reason: reason.to_owned(), detail: detail.into(), ..v1::CommandResult::default() };
        Outcome { succeeded: false, result, said: None }
    }
}

/// Why a command did not get to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undeliverable {
    /// No such session here, or none in play any more.
    Gone,
    /// Too many commands wait for it.
    Busy,
}

/// What changed since the last [`Registry::take_changes`], newest state only. Bounded by the sessions that are live or
/// were told of, however long nobody comes for them: one that begins and ends meanwhile leaves nothing.
#[derive(Default)]
struct Changes {
    /// Began or moved, and live.
    set: HashSet<Uuid>,
    ended: HashMap<Uuid, String>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) live: HashMap<Uuid, Box<Live>>,
    pub(crate) players: Players,
    /// Those in play.
    on_backends: OnBackends,
    /// Sessions in play that are not displaced.
    counted: usize,
    pub(crate) closed: bool,
    /// Kept only while somebody takes them.
    changes: Option<Changes>,
    /// Claims that the control plane is to be asked about.
    pub(crate) asks: Vec<Uuid>,
    /// When the newest claim was made, in milliseconds since 1970: of two claims the later one has the larger number.
    pub(crate) newest_claim: i64,
}

impl State {
    /// The session is to end, its player is another's. What nobody has taken from it stays its own until then, so that whoever
    /// takes that waits for it as well.
    pub(crate) fn displace(&mut self, id: &Uuid) {
        let Some(live) = self.live.get_mut(id) else { return };
        self.counted -= usize::from(live.is_counted());
        live.displaced = true;
        live.commands = None;
    }
}

/// The live sessions of a node. Touched when a session logs in, begins, changes backend or ends, never for a frame.
///
/// That a player has only one is in [`crate::claims`].
#[derive(Default)]
pub struct Registry {
    home: Home,
    state: Mutex<State>,
    changed: Notify,
    pub(crate) asked: Notify,
    attached: AtomicBool,
}

/// A session's entry in the registry, removed when dropped: only then another session of its player may go to a backend.
pub struct Registration {
    pub(crate) registry: Arc<Registry>,
    pub(crate) id: Uuid,
    reason: &'static str,
    /// The commands for this session; their end means that it is to end: the node shuts down ([`Registry::close`]), or it is
    /// displaced ([`Registration::is_displaced`]).
    pub commands: Mailbox<SessionCommand>,
    /// What its player may do.
    pub permissions: Permissions,
}

impl Registry {
    /// That of the node with this id and name.
    pub(crate) fn of(id: Uuid, name: &str) -> Registry {
        Registry { home: Home { id: id.to_string(), name: name.to_owned() }, ..Registry::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session that has claimed its player, and waits for the end of those in `after`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        state: &mut State,
        id: Uuid,
        (player, player_uuid): (&str, Uuid),
        started_unix_ms: i64,
        after: Vec<Uuid>,
    ) -> Registration {
        let (sender, commands) = mailbox(QUEUE);
        state.players.take(player, player_uuid, id);
        let permissions = Permissions::default();
        let live = Live {
            player: player.into(),
            player_uuid,
            started_unix_ms,
            playing: None,
            commands: (!state.closed).then_some(sender),
            displaced: false,
            told: false,
            after,
            waiters: Vec::new(),
            permissions: permissions.slot().clone(),
            answer: None,
        };
        state.live.insert(id, Box::new(live));
        Registration { registry: self.clone(), id, reason: "not_admitted", commands, permissions }
    }

    /// Ends the stream of commands of every session there is or will be: to a session, its end means that the node shuts down.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.live.values_mut().for_each(|live| live.commands = None);
    }

    /// How many sessions are in play, one a player.
    pub fn len(&self) -> usize {
        self.lock().counted
    }

    /// Whether there are none, not even one that logs in.
    pub fn is_empty(&self) -> bool {
        self.lock().live.is_empty()
    }

    /// Every live session as it is now, and the claims of those that still log in; from here on changes are kept for
    /// [`Registry::take_changes`].
    pub fn subscribe(&self) -> (Vec<v1::Session>, Vec<v1::Claim>) {
        let mut state = self.lock();
        state.changes = Some(Changes::default());
        let (mut sessions, mut claims) = (Vec::new(), Vec::new());
        for (id, live) in &mut state.live {
            live.told = true;
            Known::forget_revision(&live.permissions);
            match live.session(id, &self.home) {
                Some(session) => sessions.push(session),
                None => claims.push(live.claim(id)),
            }
        }
        (sessions, claims)
    }

    /// Nobody takes changes any more, nor answers claims: forget them.
    pub fn unsubscribe(&self) {
        let mut state = self.lock();
        state.changes = None;
        state.asks.clear();
        state.live.values_mut().for_each(|live| live.answer = None);
    }

    /// What changed since the last call (or [`Registry::subscribe`]); at most one event a session.
    pub fn take_changes(&self) -> Vec<v1::SessionEvent> {
        use v1::session_event::Event;
        let mut state = self.lock();
        let Some(changes) = state.changes.as_mut().map(std::mem::take) else { return Vec::new() };
        let mut set = Vec::with_capacity(changes.set.len());
        for id in changes.set {
            if let Some(live) = state.live.get_mut(&id)
                && let Some(session) = live.session(&id, &self.home)
            {
                live.told = true;
                set.push(Event::Set(session));
            }
        }
        let ended = changes.ended.into_iter().map(|(id, reason)| Event::Ended(v1::SessionEnded { id: id.to_string(), reason }));
        set.into_iter().chain(ended).map(|event| v1::SessionEvent { event: Some(event) }).collect()
    }

    /// The control plane tells what a player has. A session of it that has been displaced needs it no more.
    pub(crate) fn set_permissions(&self, permissions: v1::UserPermissions) {
        let Some((uuid, known)) = Known::read(permissions) else { return };
        let state = self.lock();
        let session = state.players.holder(&uuid).and_then(|id| state.live.get(id));
        let slot = session.map(|session| session.permissions.clone());
        drop(state);
        if let Some(slot) = slot {
            known.put_into(&slot);
        }
    }

    /// Whether a control-plane replica hears of these sessions now: it has answered this node's Hello, and the stream stands.
    pub fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Relaxed)
    }

    /// Set by the control client only.
    pub(crate) fn set_attached(&self, attached: bool) {
        self.attached.store(attached, Ordering::Relaxed);
    }

    /// Waits until there may be changes to take. One caller at a time: a change wakes only one.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Hands a command to a session.
    pub fn command(&self, id: &Uuid, command: SessionCommand) -> Result<(), (Undeliverable, SessionCommand)> {
        let state = self.lock();
        let in_play = state.live.get(id).filter(|live| live.playing.is_some());
        let Some(commands) = in_play.and_then(|live| live.commands.as_ref()) else { return Err((Undeliverable::Gone, command)) };
        commands.try_send(command).map_err(|(refused, command)| match refused {
            Refused::Full => (Undeliverable::Busy, command),
            Refused::Closed => (Undeliverable::Gone, command),
        })
    }
}

impl Registration {
    /// The session comes into play.
    pub fn begin(&mut self, playing: Playing) {
        self.permissions.moved(playing.backend.clone());
        let mut guard = self.registry.lock();
        let state = &mut *guard;
        if let Some(live) = state.live.get_mut(&self.id) {
            live.after = Vec::new();
            state.on_backends.enter(&playing.backend, self.id);
            live.playing = Some(playing);
            state.counted += usize::from(live.is_counted());
        }
        self.reason = "ended";
        self.has_changed(guard);
    }

    /// The player is on this backend now.
    pub fn moved(&mut self, backend: &str) {
        let backend: Arc<str> = backend.into();
        self.permissions.moved(backend.clone());
        let mut guard = self.registry.lock();
        let state = &mut *guard;
        if let Some(playing) = state.live.get_mut(&self.id).and_then(|live| live.playing.as_mut()) {
            state.on_backends.leave(&playing.backend, &self.id);
            state.on_backends.enter(&backend, self.id);
            playing.backend = backend;
        }
        self.has_changed(guard);
    }

    fn has_changed(&self, mut state: MutexGuard<'_, State>) {
        if let Some(changes) = &mut state.changes {
            changes.set.insert(self.id);
        }
        drop(state);
        self.registry.changed.notify_one();
    }

    /// The session ends: it takes no more commands. Says why, for the event that the drop makes.
    pub fn ending(&mut self, reason: &'static str) {
        self.reason = reason;
        self.commands.close();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut guard = self.registry.lock();
        let state = &mut *guard;
        let Some(live) = state.live.remove(&self.id) else { return };
        if let Some(playing) = &live.playing {
            state.on_backends.leave(&playing.backend, &self.id);
        }
        state.counted -= usize::from(live.is_counted());
        state.players.leave(&live.player, &live.player_uuid, &self.id);
        if let Some(changes) = &mut state.changes {
            changes.set.remove(&self.id);
            if live.told {
                changes.ended.insert(self.id, self.reason.to_owned());
            }
        }
        drop(guard);
        // Whoever waits for this end is told by the drop of `live`.
        self.registry.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;
    use v1::session_event::Event;

    use super::*;

    fn begin(registry: &Arc<Registry>) -> (Uuid, Registration) {
        let id = Uuid::now_v7();
        (id, registry.register(id, "lobby"))
    }

    fn session(id: Uuid) -> v1::Session {
        let (player, player_uuid) = (id.to_string(), id.to_string());
        let (address, trace_id) = ("0.0.0.0:0".into(), "0".repeat(32));
        v1::Session { id: id.to_string(), player, player_uuid, backend: "lobby".into(), address, trace_id, ..Default::default() }
    }

    fn taken(registry: &Registry) -> Vec<Event> {
        registry.take_changes().into_iter().filter_map(|event| event.event).collect()
    }

    #[test]
    fn changes_are_coalesced_to_the_newest_state_of_each_session() {
        let registry = Arc::new(Registry::default());
        let (old, mut leaver) = begin(&registry);
        assert_eq!(registry.subscribe().0, [session(old)]);
        assert!(taken(&registry).is_empty(), "what subscribe gave is no change");

        let (id, mut mover) = begin(&registry);
        mover.moved("arena");
        mover.moved("survival");
        leaver.ending("kicked");
        drop(leaver);
        drop(begin(&registry));
        let moved = v1::Session { backend: "survival".into(), ..session(id) };
        let left = v1::SessionEnded { id: old.to_string(), reason: "kicked".into() };
        assert_eq!(taken(&registry), [Event::Set(moved), Event::Ended(left)], "and nothing of the one that came and went");
        assert!(taken(&registry).is_empty());
        assert_eq!(registry.len(), 1);
        drop(mover);
        assert!(matches!(taken(&registry).as_slice(), [Event::Ended(_)]), "what was taken is told of");
    }

    #[test]
    fn nothing_is_kept_while_nobody_takes_it() {
        let registry = Arc::new(Registry::default());
        drop(begin(&registry));
        assert!(taken(&registry).is_empty());
        registry.subscribe();
        drop(begin(&registry));
        registry.unsubscribe();
        let _live = begin(&registry);
        assert!(taken(&registry).is_empty());
        assert_eq!(registry.subscribe().0.len(), 1);
    }

    #[test]
    fn a_change_wakes_whoever_waits_even_if_it_came_first() {
        let registry = Arc::new(Registry::default());
        assert_eq!(registry.changed().now_or_never(), None);
        let (_, registration) = begin(&registry);
        assert_eq!(registry.changed().now_or_never(), Some(()));
        assert_eq!(registry.changed().now_or_never(), None);
        drop(registration);
        assert_eq!(registry.changed().now_or_never(), Some(()));
    }

    #[test]
    fn commands_reach_their_session_or_come_back() {
        let registry = Arc::new(Registry::default());
        let (id, mut registration) = begin(&registry);
        let message = |text: &str| SessionCommand::Message { text: text.into(), reply: oneshot::channel().0 };
        for number in 0..QUEUE {
            assert!(registry.command(&id, message(&number.to_string())).is_ok());
        }
        let refused = registry.command(&id, message("one more")).expect_err("full");
        assert!(matches!(refused, (Undeliverable::Busy, SessionCommand::Message { text, .. }) if text == "one more"));
        let first = registration.commands.try_recv().expect("a command");
        assert!(matches!(first, SessionCommand::Message { text, .. } if text == "0"));
        drop(registration);
        assert!(matches!(registry.command(&id, message("late")), Err((Undeliverable::Gone, _))));
    }

    #[test]
    fn a_closed_registry_takes_no_more_commands_and_ends_each_session_s_stream_of_them() {
        let registry = Arc::new(Registry::default());
        let (id, mut registration) = begin(&registry);
        let message = || SessionCommand::Message { text: String::new(), reply: oneshot::channel().0 };
        assert!(registry.command(&id, message()).is_ok());
        registry.close();
        assert!(matches!(registry.command(&id, message()), Err((Undeliverable::Gone, _))));
        assert!(registration.commands.try_recv().is_some(), "what was queued still comes");
        assert!(block_on(registration.commands.recv()).is_none());
        let (_, mut late) = begin(&registry);
        assert!(block_on(late.commands.recv()).is_none());
        assert_eq!(registry.len(), 2, "they are live until they end");
    }
}
