//! Who is online where: a view of the store's presence that every replica keeps, for look-ups by player, counts, and to notice
//! nodes that are gone.

mod attachment;
mod claims;
mod index;
mod sessions;
#[cfg(test)]
mod simulation;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moonbridge_proto::v1;
use prost::Message;
use tokio::sync::{Notify, watch};

pub(crate) use attachment::{AttachError, Attachment};
pub(crate) use claims::Claimed;

use crate::follow::{self, View};
use crate::keys::{self, PresenceKey};
use crate::store::{Batch, Entry, Event, LeaseId, Store, StoreError, StoreRevision};
use index::Index;

/// Presence as this replica knows it: a little behind the store.
pub(crate) struct Presence {
    state: Mutex<State>,
    /// Sent when sessions have come or gone.
    players: watch::Sender<()>,
    synced: watch::Sender<bool>,
    /// Told when a node's presence has gone.
    pub(crate) node_gone: Notify,
}

#[derive(Default)]
struct State {
    nodes: HashMap<String, v1::Node>,
    /// The revision that the newest stream of each node began at.
    streams: HashMap<String, StoreRevision>,
    /// By session id; those that log in and those that are displaced, too.
    sessions: HashMap<String, Arc<v1::Session>>,
    /// Those of them that are shown.
    shown: Index,
    /// The displaced ones of each node.
    displaced: BTreeMap<String, BTreeSet<String>>,
    /// The newest revision that this is as of.
    seen: StoreRevision,
    /// Nodes that this replica has seen going.
    gone: HashSet<String>,
}

impl Presence {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::of(State::default()))
    }

    fn of(state: State) -> Self {
        let (players, synced) = (watch::Sender::new(()), watch::Sender::new(false));
        Self { state: Mutex::new(state), players, synced, node_gone: Notify::new() }
    }

    /// Told when sessions have come or gone.
    pub(crate) fn players_changed(&self) -> watch::Receiver<()> {
        self.players.subscribe()
    }

    /// How many sessions there are on nodes other than this one.
    pub(crate) fn players_elsewhere(&self, node: &str) -> u32 {
        let state = self.lock();
        state.shown.len() - state.shown.on_node(node)
    }

    /// The sessions of this node that are to end, because their players logged in elsewhere.
    pub(crate) fn displaced_on(&self, node: &str) -> BTreeSet<String> {
        self.lock().displaced.get(node).cloned().unwrap_or_default()
    }

    /// Waits until this view has come to a revision and these sessions (`NODE/SESSION`) have ended.
    pub(crate) async fn ended(&self, revision: StoreRevision, sessions: &[String]) {
        let mut changes = self.players.subscribe();
        loop {
            changes.mark_unchanged();
            // The sender lives as long as this.
            if self.has_seen_ended(revision, sessions) || changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Turns true when the first listing is in.
    pub(crate) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    fn has_seen_ended(&self, revision: StoreRevision, sessions: &[String]) -> bool {
        let state = self.lock();
        let is_there = |session: &String| session.split_once('/').is_some_and(|(_, id)| state.sessions.contains_key(id));
        state.seen >= revision && !sessions.iter().any(is_there)
    }

    /// How many sessions are on this backend.
    pub(crate) fn players_on(&self, backend: &str) -> u32 {
        self.lock().shown.on_backend(backend)
    }

    /// How many sessions there are.
    pub(crate) fn players(&self) -> u32 {
        self.lock().shown.len()
    }

    /// Every session.
    pub(crate) fn all(&self) -> Vec<Arc<v1::Session>> {
        self.lock().shown.all().cloned().collect()
    }

    /// Every session on this backend.
    pub(crate) fn sessions_on(&self, backend: &str) -> Vec<Arc<v1::Session>> {
        self.lock().shown.sessions_on(backend).cloned().collect()
    }

    /// The names of the players on this backend, in the order of the alphabet.
    pub(crate) fn names_on(&self, backend: &str) -> Vec<String> {
        self.lock().shown.sessions_on(backend).map(|session| session.player.clone()).collect()
    }

    /// The first of the players' names that begin with this, in any case.
    pub(crate) fn names_beginning(&self, prefix: &str, most: usize) -> Vec<String> {
        self.lock().shown.names_beginning(prefix, most)
    }

    /// The backends that have players.
    pub(crate) fn backends(&self) -> BTreeSet<String> {
        self.lock().shown.backends().cloned().collect()
    }

    /// The nodes that have players on this backend.
    pub(crate) fn nodes_on(&self, backend: &str) -> Vec<String> {
        self.lock().shown.nodes_on(backend).cloned().collect()
    }

    /// The ids of all nodes.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.lock().nodes.keys().cloned().collect()
    }

    /// The lease that a node and all that is its own is kept under.
    pub(crate) fn lease_of(&self, node: &str) -> Option<LeaseId> {
        self.lock().nodes.get(node).map(|node| node.lease_id)
    }

    pub(crate) fn has_node(&self, id: &str) -> bool {
        self.lock().nodes.contains_key(id)
    }

    /// Whether this replica has seen the node go.
    pub(crate) fn saw_going(&self, id: &str) -> bool {
        self.lock().gone.contains(id)
    }

    /// Forgets which nodes went.
    pub(crate) fn forget_gone(&self) {
        self.lock().gone.clear();
    }

    /// The revision that the newest stream of a node began at, as far as known.
    pub(crate) fn stream_of(&self, node: &str) -> Option<StoreRevision> {
        self.lock().streams.get(node).copied()
    }

    /// The player's session, by name (any case) or UUID, as this replica knows it.
    pub(crate) fn find(&self, player: &str) -> Option<Arc<v1::Session>> {
        self.lock().shown.find(player)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session of each of these players (names in any case, or UUIDs): looked up in the view, and in the store if the view
/// lacks one, since a player may have joined a moment ago through another replica.
pub(crate) async fn find_players(
    presence: &Presence,
    store: &dyn Store,
    players: &[String],
) -> Result<Vec<Option<Arc<v1::Session>>>, StoreError> {
    let known: Vec<_> = players.iter().map(|player| presence.find(player)).collect();
    if known.iter().all(Option::is_some) {
        return Ok(known);
    }
    let mut fresh = State::default();
    for entry in follow::list_all(store, keys::SESSIONS).await?.0 {
        fresh.put(&entry);
    }
    let fresh = Presence::of(fresh);
    Ok(known.into_iter().zip(players).map(|(known, player)| known.or_else(|| fresh.find(player))).collect())
}

/// Whether others are to see a session: it is in play, and its player is not another's.
pub(crate) fn is_shown(session: &v1::Session) -> bool {
    !session.backend.is_empty() && !session.displaced
}

/// Whether a session is this player's: name (any case) or UUID.
pub(crate) fn is_player(session: &v1::Session, player: &str) -> bool {
    let wanted = keys::player(player);
    wanted == keys::player(&session.player) || wanted == keys::player(&session.player_uuid)
}

impl State {
    fn put(&mut self, entry: &Entry) {
        match keys::presence(&entry.key) {
            Some(PresenceKey::Node(id)) => match v1::Node::decode(&*entry.value) {
                Ok(node) => {
                    self.gone.remove(id);
                    self.nodes.insert(id.to_owned(), node);
                }
                Err(error) => tracing::error!(key = entry.key, %error, "this node's record cannot be read"),
            },
            Some(PresenceKey::Stream(node)) => {
                self.streams.insert(node.to_owned(), entry.modified);
            }
            Some(PresenceKey::Session { session }) => match v1::Session::decode(&*entry.value) {
                Ok(value) => {
                    self.remove_session(session);
                    self.add_session(session, value);
                }
                Err(error) => tracing::error!(key = entry.key, %error, "this session's record cannot be read"),
            },
            None => {}
        }
    }

    /// True if a node has gone by it.
    fn remove(&mut self, key: &str) -> bool {
        match keys::presence(key) {
            Some(PresenceKey::Node(id)) => {
                let known = self.nodes.remove(id).is_some();
                if known {
                    self.gone.insert(id.to_owned());
                }
                return known;
            }
            Some(PresenceKey::Stream(node)) => {
                self.streams.remove(node);
            }
            Some(PresenceKey::Session { session }) => self.remove_session(session),
            None => {}
        }
        false
    }

    fn add_session(&mut self, id: &str, session: v1::Session) {
        if session.displaced {
            self.displaced.entry(session.node_id.clone()).or_default().insert(id.to_owned());
        }
        let session = Arc::new(session);
        if is_shown(&session) {
            self.shown.add(id, &session);
        }
        self.sessions.insert(id.to_owned(), session);
    }

    fn remove_session(&mut self, id: &str) {
        let Some(session) = self.sessions.remove(id) else { return };
        if let Some(displaced) = self.displaced.get_mut(&session.node_id) {
            displaced.remove(id);
            if displaced.is_empty() {
                self.displaced.remove(&session.node_id);
            }
        }
        if is_shown(&session) {
            self.shown.remove(id, &session);
        }
    }
}

/// Keeps a [`Presence`] equal to the store.
pub(crate) struct Follower(pub(crate) Arc<Presence>);

impl Follower {
    fn publish(&self, state: MutexGuard<'_, State>, gone: bool) {
        drop(state);
        self.0.players.send_replace(());
        if gone {
            self.0.node_gone.notify_one();
        }
    }
}

impl View for Follower {
    fn reset(&mut self, entries: Vec<Entry>, revision: StoreRevision) {
        let mut fresh = State { seen: revision, ..State::default() };
        for entry in &entries {
            fresh.put(entry);
        }
        let mut state = self.0.lock();
        let gone: HashSet<String> = state.nodes.keys().chain(&state.gone).filter(|id| !fresh.nodes.contains_key(*id)).cloned().collect();
        let any = !gone.is_empty();
        fresh.gone = gone;
        *state = fresh;
        self.publish(state, any);
        self.0.synced.send_replace(true);
    }

    fn apply(&mut self, batch: Batch) {
        let mut state = self.0.lock();
        state.seen = state.seen.max(batch.revision);
        let mut gone = false;
        for event in batch.events {
            match event {
                Event::Put(entry) => state.put(&entry),
                Event::Delete { key, .. } => gone |= state.remove(&key),
            }
        }
        self.publish(state, gone);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn session(id: &str, player: &str, backend: &str, started: i64) -> Entry {
        let session = v1::Session {
            id: id.to_owned(),
            node_id: "n".to_owned(),
            player: player.to_owned(),
            player_uuid: Uuid::new_v3(&Uuid::NAMESPACE_DNS, player.as_bytes()).to_string(),
            backend: backend.to_owned(),
            started_unix_ms: started,
            ..v1::Session::default()
        };
        Entry { key: keys::session("n", id), value: session.encode_to_vec(), modified: 1, lease: 1 }
    }

    fn node(id: &str) -> Entry {
        let node = v1::Node { id: id.to_owned(), ..v1::Node::default() };
        Entry { key: keys::node(id), value: node.encode_to_vec(), modified: 1, lease: 1 }
    }

    #[test]
    fn counts_follow_joins_moves_and_leaves_exactly() {
        let presence = Presence::new();
        let mut view = Follower(presence.clone());
        view.reset(vec![session("a", "Ann", "one", 1)], 1);
        assert_eq!((presence.players_elsewhere("other"), presence.players_on("one")), (1, 1));
        // The same session again, now elsewhere, and one more.
        let events = vec![Event::Put(session("a", "Ann", "two", 1)), Event::Put(session("b", "Bob", "two", 1))];
        view.apply(Batch { revision: 2, events });
        assert_eq!((presence.players_elsewhere("other"), presence.players_on("one"), presence.players_on("two")), (2, 0, 2));
        // Twice gone counts once.
        let gone = || Event::Delete { key: keys::session("n", "a"), modified: 3 };
        view.apply(Batch { revision: 3, events: vec![gone(), gone()] });
        assert_eq!((presence.players_elsewhere("other"), presence.players_on("two")), (1, 1));
        assert!(presence.find("ann").is_none());
        assert_eq!(presence.players_elsewhere("n"), 0, "its own are the node's to count");
    }

    #[test]
    fn players_are_found_by_name_in_any_case_and_by_uuid_in_any_form() {
        let presence = Presence::new();
        Follower(presence.clone()).reset(vec![session("old", "Ann", "one", 1), session("new", "Ann", "two", 2)], 1);
        let uuid = Uuid::new_v3(&Uuid::NAMESPACE_DNS, b"Ann");
        for player in ["Ann", "ANN", "ann", &uuid.to_string(), &uuid.simple().to_string().to_uppercase()] {
            assert_eq!(presence.find(player).map(|session| session.id.clone()).as_deref(), Some("new"), "{player}");
        }
        assert!(presence.find("an").is_none());
    }

    #[test]
    fn a_node_that_goes_is_noticed_also_when_it_went_unseen() {
        let presence = Presence::new();
        let mut view = Follower(presence.clone());
        view.reset(vec![node("x"), node("y")], 1);
        view.apply(Batch { revision: 2, events: vec![Event::Delete { key: keys::node("x"), modified: 2 }] });
        assert!(presence.saw_going("x") && !presence.saw_going("y"));
        // The watch was lost; the next listing lacks y.
        view.reset(vec![node("x")], 9);
        assert!(!presence.saw_going("x") && presence.saw_going("y"));
        assert!(presence.has_node("x") && !presence.has_node("y"));
    }
}
