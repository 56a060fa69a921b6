//! A node's sessions in the store: what it reports of them, and the claims that come and go with them.
//!
//! Most of what a node reports changes nothing of whose a player is; it goes into the store many sessions at a time, on the
//! condition that each still holds its claim. Only those for which that fails are looked at one by one ([`super::claims`]).

use std::collections::{HashMap, HashSet};

use moonbridge_proto::v1::{self, session_event::Event};
use prost::Message;
use uuid::Uuid;

use super::attachment::{AttachError, Attachment, Known};
use super::claims::Mode;
use crate::follow;
use crate::keys;
use crate::store::{Change, Compare, Entry, MAX_OPERATIONS, Store, StoreRevision};

/// The longest name or UUID of a player, in bytes.
const MAX_PLAYER: usize = 64;
/// So often a change is tried that others get in the way of; each time one of them has come further.
pub(super) const ATTEMPTS: usize = 50;

/// One session's part of a transaction.
pub(super) struct Piece {
    pub(super) id: String,
    pub(super) compares: Vec<Compare>,
    pub(super) changes: Vec<Change>,
    /// What is known of the session once it is committed; its claim is as of that revision if it is `Some(0)`.
    pub(super) then: Option<Known>,
}

impl Attachment {
    /// Writes changes of sessions. Done again after a failure it comes to the same.
    pub(crate) async fn set_sessions(&mut self, store: &dyn Store, events: &[v1::SessionEvent]) -> Result<(), AttachError> {
        // The newest of each session, ends before the rest.
        let (mut ended, mut set) = (HashSet::new(), HashMap::new());
        for event in events {
            match &event.event {
                Some(Event::Set(session)) => {
                    if let Some(session) = self.own(session.clone()) {
                        set.insert(session.id.clone(), session);
                    }
                }
                Some(Event::Ended(end)) => {
                    set.remove(&end.id);
                    ended.insert(end.id.clone());
                }
                None => {}
            }
        }
        self.release(store, ended).await?;
        self.put(store, set).await
    }

    /// Makes the store's sessions of this node those that its Hello names.
    pub(super) async fn replace_sessions(
        &mut self,
        store: &dyn Store,
        sessions: Vec<v1::Session>,
        claims: Vec<v1::Claim>,
    ) -> Result<(), AttachError> {
        let said = claims.into_iter().map(logging_in).chain(sessions);
        let mut wanted: HashMap<String, v1::Session> =
            said.filter_map(|session| self.own(session)).map(|session| (session.id.clone(), session)).collect();
        let (stored, _) = follow::list_all(store, &keys::sessions_of(&self.node().id)).await?;
        let mut gone = HashSet::new();
        for entry in stored {
            let Ok(session) = v1::Session::decode(&*entry.value) else { continue };
            let id = session.id.clone();
            let is_ours = entry.lease == self.lease();
            if is_ours || !wanted.contains_key(&id) {
                self.sessions.insert(id.clone(), known(&entry, &session));
            }
            match wanted.get(&id) {
                // What is there already, under this lease, costs no write when a thousand nodes come back at once.
                Some(said) if is_ours && is_same(said, &session) => {
                    wanted.remove(&id);
                }
                Some(_) => {}
                None => {
                    gone.insert(id);
                }
            }
        }
        self.release(store, gone).await?;
        self.put(store, wanted).await
    }

    /// The session as it is to be stored; `None` for one that is none.
    pub(super) fn own(&self, mut session: v1::Session) -> Option<v1::Session> {
        if Uuid::try_parse(&session.id).is_err() || session.player.len() > MAX_PLAYER || session.player_uuid.len() > MAX_PLAYER {
            tracing::warn!(node = self.node().name, id = session.id, "the node reports a session whose id or player is none: ignored");
            return None;
        }
        session.node_id.clone_from(&self.node().id);
        session.node_name.clone_from(&self.node().name);
        (session.claim, session.displaced, session.after) = (0, false, Vec::new());
        Some(session)
    }

    /// Writes sessions that hold their claims already; claims the players of those that do not.
    async fn put(&mut self, store: &dyn Store, sessions: HashMap<String, v1::Session>) -> Result<(), AttachError> {
        let (mut pieces, mut unclaimed) = (Vec::new(), Vec::new());
        for session in sessions.values() {
            match self.sessions.get(&session.id) {
                // One that is displaced is to end: what it still does is nobody's concern.
                Some(known) => pieces.extend(known.claimed.map(|claimed| self.update(session, known, claimed))),
                None => unclaimed.push(session.clone()),
            }
        }
        // Their claims are another's by now, or gone with an earlier lease.
        let conflicts = self.commit_pieces(store, pieces).await?;
        unclaimed.extend(conflicts.iter().filter_map(|id| sessions.get(id)).cloned());
        self.claim_all(store, unclaimed, Mode::Reconcile).await.map(|_| ())
    }

    fn update(&self, session: &v1::Session, known: &Known, claimed: StoreRevision) -> Piece {
        let then = Known { claims: keys::claims(session), claimed: Some(claimed), is_shown: super::is_shown(session) };
        Piece {
            id: session.id.clone(),
            compares: known.claims.iter().map(|key| Compare::Modified(key.clone(), claimed)).collect(),
            changes: vec![self.put_session(v1::Session { claim: claimed, ..session.clone() })],
            then: Some(then),
        }
    }

    pub(super) fn put_session(&self, session: v1::Session) -> Change {
        Change::Put { key: keys::session(&self.node().id, &session.id), value: session.encode_to_vec(), lease: self.lease() }
    }

    /// Removes sessions that have ended, with the claims that they still hold.
    async fn release(&mut self, store: &dyn Store, ended: HashSet<String>) -> Result<(), AttachError> {
        let (mut pieces, mut displaced) = (Vec::new(), Vec::new());
        for id in ended {
            let record = Change::Delete(keys::session(&self.node().id, &id));
            let (compares, changes) = match self.sessions.get(&id) {
                Some(Known { claims, claimed: Some(claimed), .. }) => (
                    claims.iter().map(|key| Compare::Modified(key.clone(), *claimed)).collect(),
                    claims.iter().cloned().map(Change::Delete).chain([record]).collect(),
                ),
                Some(_) => {
                    displaced.push(id);
                    continue;
                }
                None => (Vec::new(), vec![record]),
            };
            pieces.push(Piece { id, compares, changes, then: None });
        }
        displaced.extend(self.commit_pieces(store, pieces).await?);
        for id in displaced {
            self.release_one(store, id).await?;
        }
        Ok(())
    }

    /// Removes a session whose claims may be another's by now, one of them or both.
    async fn release_one(&mut self, store: &dyn Store, id: String) -> Result<(), AttachError> {
        let claims = self.sessions.get(&id).map(|known| known.claims.clone());
        for _ in 0..ATTEMPTS {
            self.check_fence(store).await?;
            let (mut compares, mut changes) = (Vec::new(), vec![Change::Delete(keys::session(&self.node().id, &id))]);
            for key in claims.iter().flatten() {
                if let Some(entry) = store.get(key).await?
                    && entry.value == holder(&self.node().id, &id).into_bytes()
                {
                    compares.push(Compare::Modified(entry.key.clone(), entry.modified));
                    changes.push(Change::Delete(entry.key));
                }
            }
            if self.try_commit(store, compares, changes).await?.is_some() {
                self.sessions.remove(&id);
                return Ok(());
            }
        }
        Err(AttachError::Contended)
    }

    /// Commits pieces, as many in one transaction as it takes. Gives the ids of those in conflict.
    pub(super) async fn commit_pieces(&mut self, store: &dyn Store, pieces: Vec<Piece>) -> Result<Vec<String>, AttachError> {
        let mut conflicts = Vec::new();
        for pack in packs(pieces) {
            if self.commit_pack(store, &pack).await? {
                continue;
            }
            for piece in &pack {
                if pack.len() == 1 || !self.commit_pack(store, std::slice::from_ref(piece)).await? {
                    conflicts.push(piece.id.clone());
                }
            }
        }
        Ok(conflicts)
    }

    async fn commit_pack(&mut self, store: &dyn Store, pack: &[Piece]) -> Result<bool, AttachError> {
        let compares = pack.iter().flat_map(|piece| piece.compares.iter().cloned()).collect();
        let changes = pack.iter().flat_map(|piece| piece.changes.iter().cloned()).collect();
        let Some(revision) = self.try_commit(store, compares, changes).await? else { return Ok(false) };
        for piece in pack {
            match piece.then.clone() {
                Some(mut known) => {
                    known.claimed = known.claimed.map(|claimed| if claimed == 0 { revision } else { claimed });
                    self.sessions.insert(piece.id.clone(), known);
                }
                None => {
                    self.sessions.remove(&piece.id);
                }
            }
        }
        Ok(true)
    }
}

/// What the claims of a player say of whose it is.
pub(super) fn holder(node: &str, session: &str) -> String {
    format!("{node}/{session}")
}

/// A session before it is in play.
pub(super) fn logging_in(claim: v1::Claim) -> v1::Session {
    let v1::Claim { session_id, player, player_uuid, started_unix_ms } = claim;
    v1::Session { id: session_id, player, player_uuid, started_unix_ms, ..v1::Session::default() }
}

fn known(entry: &Entry, session: &v1::Session) -> Known {
    let claimed = if session.claim == 0 { entry.modified } else { session.claim };
    Known { claims: keys::claims(session), claimed: (!session.displaced).then_some(claimed), is_shown: super::is_shown(session) }
}

/// Whether a session is stored as it is said to be, or is beyond change.
fn is_same(said: &v1::Session, stored: &v1::Session) -> bool {
    stored.displaced || *said == v1::Session { claim: 0, after: Vec::new(), ..stored.clone() }
}

/// Pieces in groups that each fit a transaction, no key twice in one.
fn packs(pieces: Vec<Piece>) -> Vec<Vec<Piece>> {
    let mut packs: Vec<Vec<Piece>> = Vec::new();
    let (mut compares, mut changed) = (MAX_OPERATIONS, HashSet::new());
    for piece in pieces {
        let key = |change: &Change| match change {
            Change::Put { key, .. } | Change::Delete(key) => key.clone(),
        };
        let keys: Vec<_> = piece.changes.iter().map(key).collect();
        // One more compare is the fence.
        compares += piece.compares.len();
        if compares >= MAX_OPERATIONS || changed.len() + keys.len() > MAX_OPERATIONS || keys.iter().any(|key| changed.contains(key)) {
            packs.push(Vec::new());
            compares = piece.compares.len();
            changed.clear();
        }
        changed.extend(keys);
        if let Some(pack) = packs.last_mut() {
            pack.push(piece);
        }
    }
    packs
}
