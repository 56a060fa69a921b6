//! Claims under everything that happens to them, by seed: logins of the same players on several nodes at once, moves, ends, streams
//! that move to another replica, leases that are lost, nodes that die, transactions of which nobody knows whether they were made.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use moonbridge_proto::snapshot::DuplicateLogin;
use moonbridge_proto::v1::{self, session_event::Event};
use prost::Message;
use uuid::Uuid;

use super::attachment::{AttachError, Attachment};
use super::claims::Claimed;
use super::is_shown;
use crate::keys;
use crate::store::{Change, Committed, Compare, Entry, LeaseId, List, Page, Store, StoreError, StoreRevision, Txn, Watch};

/// Names and accounts that get in each other's way; the last one has a name and an account of its own.
const PLAYERS: [(&str, u128); 5] = [("Ann", 1), ("ann", 2), ("Bob", 2), ("BOB", 3), ("Cid", 4)];
const ALONE: usize = 4;
const NODES: usize = 4;
const STEPS: usize = 60;
const SEEDS: u64 = 200;

/// A store in memory that lets others in between any two calls, and fails now and then.
struct Shelf {
    state: Mutex<State>,
    rng: Mutex<Rng>,
    /// One in so many transactions fails; half of those are made all the same.
    fails: u32,
}

#[derive(Default)]
struct State {
    revision: StoreRevision,
    entries: BTreeMap<String, Entry>,
    leases: BTreeSet<LeaseId>,
    granted: LeaseId,
}

impl Shelf {
    async fn pause(&self) {
        let turns = self.rng.lock().expect("whole").u8(0..4);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    fn sessions(&self) -> Vec<(Entry, v1::Session)> {
        let state = self.state.lock().expect("whole");
        let below = state.entries.range(keys::SESSIONS.to_owned()..).take_while(|(key, _)| key.starts_with(keys::SESSIONS));
        below.map(|(_, entry)| (entry.clone(), v1::Session::decode(&*entry.value).expect("a session"))).collect()
    }
}

impl State {
    fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::Absent(key) => !self.entries.contains_key(key),
            Compare::Present(key) => self.entries.contains_key(key),
            Compare::Modified(key, revision) => self.entries.get(key).is_some_and(|entry| entry.modified == *revision),
        }
    }

    fn commit(&mut self, txn: Txn) -> Result<Committed, StoreError> {
        if !txn.compares.iter().all(|compare| self.holds(compare)) {
            return Ok(Committed::Conflict);
        }
        for change in &txn.changes {
            if let Change::Put { lease, .. } = change
                && *lease != 0
                && !self.leases.contains(lease)
            {
                return Err(StoreError::NoLease(*lease));
            }
        }
        self.revision += 1;
        for change in txn.changes {
            match change {
                Change::Put { key, value, lease } => {
                    self.entries.insert(key.clone(), Entry { key, value, modified: self.revision, lease });
                }
                Change::Delete(key) => {
                    self.entries.remove(&key);
                }
            }
        }
        Ok(Committed::Yes(self.revision))
    }
}

#[tonic::async_trait]
impl Store for Shelf {
    fn id(&self) -> &str {
        "shelf"
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.pause().await;
        Ok(self.state.lock().expect("whole").entries.get(key).cloned())
    }

    async fn list(&self, list: List) -> Result<Page, StoreError> {
        self.pause().await;
        let state = self.state.lock().expect("whole");
        let entries = state.entries.values().filter(|entry| entry.key.starts_with(&list.prefix)).cloned().collect();
        Ok(Page { entries, revision: state.revision, more: false })
    }

    async fn txn(&self, txn: Txn) -> Result<Committed, StoreError> {
        txn.check()?;
        self.pause().await;
        let (fails, is_made) = {
            let mut rng = self.rng.lock().expect("whole");
            (self.fails > 0 && rng.u32(0..self.fails) == 0, rng.bool())
        };
        let committed = if fails && !is_made { Ok(Committed::Conflict) } else { self.state.lock().expect("whole").commit(txn) };
        if fails { Err(StoreError::Unavailable("nobody knows".to_owned())) } else { committed }
    }

    async fn watch(&self, _: &str, _: StoreRevision) -> Result<Watch, StoreError> {
        Ok(Box::pin(futures::stream::pending()))
    }

    async fn lease_grant(&self, _: Duration) -> Result<LeaseId, StoreError> {
        let mut state = self.state.lock().expect("whole");
        state.granted += 1;
        let lease = state.granted;
        state.leases.insert(lease);
        Ok(lease)
    }

    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        match self.state.lock().expect("whole").leases.contains(&lease) {
            true => Ok(()),
            false => Err(StoreError::NoLease(lease)),
        }
    }

    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let mut state = self.state.lock().expect("whole");
        state.leases.remove(&lease);
        state.revision += 1;
        state.entries.retain(|_, entry| entry.lease != lease);
        Ok(())
    }
}

/// A node, and the replica that has its stream.
struct Node {
    id: String,
    lease: LeaseId,
    attachment: Attachment,
    /// What lives on it, by session id: the session as it would be told, without a backend as long as it logs in.
    sessions: BTreeMap<String, v1::Session>,
    /// Whom each one waits for that still logs in.
    after: BTreeMap<String, Vec<String>>,
    /// Logins of [`ALONE`] that were let in at this step.
    let_in: Vec<String>,
    rng: Rng,
}

/// Does something until the store says whether it was done.
async fn surely<T>(mut attempt: impl AsyncFnMut() -> Result<T, AttachError>) -> Result<T, AttachError> {
    loop {
        match attempt().await {
            Err(AttachError::Store(StoreError::Unavailable(_))) => {}
            outcome => return outcome,
        }
    }
}

impl Node {
    async fn begin(store: &Shelf, rng: Rng) -> Node {
        let id = Uuid::from_u128(rng.clone().u128(..)).to_string();
        let attachment = attach(store, &id, 0, &BTreeMap::new()).await;
        Node { lease: attachment.lease(), id, attachment, sessions: BTreeMap::new(), after: BTreeMap::new(), let_in: Vec::new(), rng }
    }

    async fn step(&mut self, store: &Shelf, step: i64, calm: bool) {
        self.let_in.clear();
        // One that logs in goes on, or goes, when those have ended whom it waits for.
        let there: BTreeSet<_> = store.sessions().into_iter().map(|(entry, _)| entry.key[keys::SESSIONS.len()..].to_owned()).collect();
        self.after.retain(|_, after| after.iter().any(|after| there.contains(after)));
        let free: Vec<_> = self.sessions.keys().filter(|id| !self.after.contains_key(*id)).cloned().collect();
        let some = self.rng.choice(free.iter().cloned());
        match (self.rng.u8(0..if calm { 10 } else { 13 }), some) {
            (0..=3, _) => self.log_in(store, step).await,
            (4..=6, Some(id)) => {
                let session = self.sessions.get_mut(&id).expect("there");
                session.backend = self.rng.choice(["lobby", "arena"]).expect("one").to_owned();
                let set = Event::Set(session.clone());
                self.tell(store, vec![set]).await;
            }
            (7, Some(id)) => self.end(store, vec![id]).await,
            (8, _) => {
                let told = self.displaced(store).into_iter().filter(|id| free.contains(id)).collect();
                self.end(store, told).await;
            }
            // The stream moves; the older one can do nothing any more.
            (9, _) => {
                let fresh = attach(store, &self.id, self.lease, &self.sessions).await;
                assert!(fresh.resumed);
                let mut stale = std::mem::replace(&mut self.attachment, fresh);
                let ended = Event::Ended(v1::SessionEnded { id: Uuid::from_u128(1).to_string(), reason: String::new() });
                let event = [v1::SessionEvent { event: Some(ended) }];
                let late = surely(async || stale.set_sessions(store, &event).await).await;
                assert!(matches!(late, Err(AttachError::Superseded)), "{late:?}");
            }
            // The lease is lost, the node is not: it comes back a little later, or much later.
            (10, _) => {
                store.lease_revoke(self.lease).await.expect("in memory");
                store.pause().await;
                self.attachment = attach(store, &self.id, self.lease, &self.sessions).await;
                self.lease = self.attachment.lease();
            }
            (11, _) => {
                store.lease_revoke(self.lease).await.expect("in memory");
                store.pause().await;
                *self = Node::begin(store, self.rng.fork()).await;
            }
            _ => {}
        }
    }

    async fn log_in(&mut self, store: &Shelf, step: i64) {
        let count = self.rng.usize(1..4);
        let players: Vec<usize> = (0..count).map(|_| self.rng.usize(0..PLAYERS.len())).collect();
        // A node has one session a player itself: of several at once the last goes on, and what it had ends.
        let mut claims = Vec::new();
        for player in players {
            let (name, account) = PLAYERS[player];
            let (player, player_uuid) = (name.to_owned(), Uuid::from_u128(account).to_string());
            let session_id = Uuid::from_u128((step as u128) << 64 | u128::from(self.rng.u64(..))).to_string();
            let claim = v1::Claim { session_id, player, player_uuid, started_unix_ms: step };
            let own = keys::claims(&session_of(&claim));
            let there = |session: &v1::Session| keys::claims(session).iter().any(|key| own.contains(key));
            claims.retain(|claim| !there(&session_of(claim)));
            // Those wait for others, and so would this one.
            if self.sessions.values().any(|session| there(session) && self.after.contains_key(&session.id)) {
                continue;
            }
            let ended: Vec<_> = self.sessions.values().filter(|session| there(session)).map(|session| session.id.clone()).collect();
            self.end(store, ended).await;
            claims.push(claim);
        }
        let outcomes = surely(async || self.attachment.claim(store, &claims, DuplicateLogin::Newest).await).await.expect("claimed");
        assert_eq!(outcomes.len(), claims.len());
        for (claim, (id, claimed)) in claims.iter().zip(outcomes) {
            assert_eq!(claim.session_id, id);
            match claimed {
                Claimed::Held { after, .. } => {
                    self.after.insert(id.clone(), after);
                    self.sessions.insert(id.clone(), session_of(claim));
                    if claim.player == PLAYERS[ALONE].0 {
                        self.let_in.push(id);
                    }
                }
                // Somebody else came after it, before it was known that it had the player.
                Claimed::Displaced => self.end(store, vec![id]).await,
                Claimed::Refused => panic!("the newest is never refused"),
            }
        }
    }

    async fn end(&mut self, store: &Shelf, ids: Vec<String>) {
        self.sessions.retain(|id, _| !ids.contains(id));
        let ended = ids.into_iter().map(|id| Event::Ended(v1::SessionEnded { id, reason: String::new() }));
        self.tell(store, ended.collect()).await;
    }

    async fn tell(&mut self, store: &Shelf, events: Vec<Event>) {
        let events: Vec<_> = events.into_iter().map(|event| v1::SessionEvent { event: Some(event) }).collect();
        surely(async || self.attachment.set_sessions(store, &events).await).await.expect("told");
    }

    /// Its sessions that are to end.
    fn displaced(&self, store: &Shelf) -> Vec<String> {
        let displaced = store.sessions().into_iter().filter(|(_, session)| session.displaced && session.node_id == self.id);
        displaced.map(|(_, session)| session.id).collect()
    }
}

async fn attach(store: &Shelf, id: &str, lease: LeaseId, sessions: &BTreeMap<String, v1::Session>) -> Attachment {
    let attach = async || {
        // A lease of an attempt that failed is nobody's: it ends by itself.
        let granted = store.state.lock().expect("whole").entries.get(&keys::stream(id)).map(|fence| fence.lease);
        if let Some(granted) = granted.filter(|granted| *granted != lease) {
            store.lease_revoke(granted).await?;
        }
        let node = v1::Node { id: id.to_owned(), lease_id: lease, ..v1::Node::default() };
        let (playing, logging_in): (Vec<_>, Vec<_>) = sessions.values().cloned().partition(|session| !session.backend.is_empty());
        let claims = logging_in.into_iter().map(|session| v1::Claim {
            session_id: session.id,
            player: session.player,
            player_uuid: session.player_uuid,
            started_unix_ms: session.started_unix_ms,
        });
        Attachment::begin(store, node, playing, claims.collect(), Duration::from_secs(1)).await
    };
    surely(attach).await.expect("attached")
}

fn session_of(claim: &v1::Claim) -> v1::Session {
    super::sessions::logging_in(claim.clone())
}

/// What always holds while nothing is under way.
fn check(store: &Shelf, nodes: &[Node], calm: bool) {
    let sessions = store.sessions();
    let mut owners = BTreeMap::new();
    let mut shown = HashSet::new();
    for (entry, session) in &sessions {
        let name = entry.key.strip_prefix(keys::SESSIONS).expect("below it");
        if session.displaced {
            continue;
        }
        // Whoever is not displaced holds both claims, by the revision that fences its reports, under its node's lease.
        let claimed = if session.claim == 0 { entry.modified } else { session.claim };
        for key in keys::claims(session) {
            let claim = store.state.lock().expect("whole").entries.get(&key).cloned();
            let claim = claim.unwrap_or_else(|| panic!("{name} lacks {key}"));
            assert_eq!((claim.value, claim.modified, claim.lease), (name.as_bytes().to_vec(), claimed, entry.lease), "{name} {key}");
            assert_eq!(owners.insert(key.clone(), name), None, "two have {key}");
            if is_shown(session) {
                assert!(shown.insert(key), "shown twice: {sessions:#?}");
            }
        }
        // Whoever logs in waits for everybody who was there before.
        let is_rival = |other: &v1::Session| other.displaced && keys::claims(other).iter().any(|key| keys::claims(session).contains(key));
        for (rival, _) in sessions.iter().filter(|(_, other)| calm && session.backend.is_empty() && is_rival(other)) {
            let rival = rival.key.strip_prefix(keys::SESSIONS).expect("below it");
            let before = rival.rsplit('/').next() < name.rsplit('/').next();
            assert!(!before || session.after.iter().any(|after| after == rival), "{name} does not wait for {rival}");
        }
    }
    let state = store.state.lock().expect("whole");
    for entry in state.entries.values().filter(|entry| entry.key.starts_with("claims/")) {
        let owner = format!("{}{}", keys::SESSIONS, String::from_utf8_lossy(&entry.value));
        assert!(state.entries.contains_key(&owner), "a claim of nobody: {entry:?}");
    }
    // What lives on a node is in the store, and nothing else is.
    let stored: BTreeSet<_> = sessions.iter().map(|(_, session)| session.id.clone()).collect();
    let living: BTreeSet<_> = nodes.iter().flat_map(|node| node.sessions.keys().cloned()).collect();
    assert_eq!(stored, living);
}

/// Who has the player that has nothing in common with others.
fn winner(store: &Shelf) -> Option<String> {
    let alone = |session: &v1::Session| session.player == PLAYERS[ALONE].0 && !session.displaced;
    store.sessions().into_iter().find(|(_, session)| alone(session)).map(|(_, session)| session.id)
}

async fn simulate(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let calm = seed.is_multiple_of(2);
    let fails = if calm { 0 } else { 12 };
    let store = Shelf { state: Mutex::default(), rng: Mutex::new(rng.fork()), fails };
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(Node::begin(&store, rng.fork()).await);
    }
    let mut before = None;
    for step in 0..STEPS {
        join_all(nodes.iter_mut().map(|node| node.step(&store, step as i64, calm))).await;
        check(&store, &nodes, calm);
        // The newest that lives has the player: one of those that were let in just now, or else whoever had it.
        let let_in: Vec<_> = nodes.iter().flat_map(|node| &node.let_in).cloned().collect();
        let lives = |id: &String| nodes.iter().any(|node| node.sessions.contains_key(id));
        let now = winner(&store);
        if let_in.iter().any(lives) {
            assert!(now.as_ref().is_some_and(|now| let_in.contains(now)), "{now:?} has the player, not one of {let_in:?}");
        } else if before.as_ref().is_some_and(lives) {
            // Once a lease was lost: of two that logged in at the same time either may be the later one; and one that was displaced by
            // a session that has gone may be the newest that lives.
            let time = |id: &Option<String>| id.as_ref().and_then(|id| Uuid::parse_str(id).ok()).map(|id| id.as_u128() >> 64);
            let is_same = if calm { now == before } else { time(&now) >= time(&before) };
            assert!(is_same, "nobody logged in, and {now:?} has the player in place of {before:?}");
        }
        before = now;
    }
    // Everybody who is to end ends: what is left is one session a player.
    for node in &mut nodes {
        node.after.clear();
        let displaced = node.displaced(&store);
        node.end(&store, displaced).await;
    }
    check(&store, &nodes, calm);
    assert!(store.sessions().iter().all(|(_, session)| !session.displaced));
}

#[tokio::test]
async fn a_player_has_one_session_whatever_happens() {
    for seed in 0..SEEDS {
        // A seed that fails is named by what the panic says before.
        let named = Named(seed);
        simulate(seed).await;
        std::mem::forget(named);
    }
}

/// Says which seed it was.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        eprintln!("simulation: seed {}", self.0);
    }
}
