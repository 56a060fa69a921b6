//! One session a player on the whole network.
//!
//! A session claims its player by UUID and by name in one transaction, which also puts its own record; both claims say whose the
//! player is, and their revision fences what is written of the session later. A later session takes them over, and marks the
//! earlier one's record as *displaced* in the same transaction: from then on that is not shown any more, its node is told to end
//! it, and nothing its node still reports of it counts. Its record goes when it has ended, which is what the later one waits for.
//! Two accounts can meet in a name, and two names in an account: what of a displaced session's claims was not taken over stays its
//! own until it has ended, so that whoever takes that waits as well.

use std::collections::BTreeSet;

use moonbridge_proto::snapshot::DuplicateLogin;
use moonbridge_proto::v1;
use prost::Message;

use super::attachment::{AttachError, Attachment, Known};
use super::is_shown;
use super::sessions::{ATTEMPTS, Piece, holder, logging_in};
use crate::keys;
use crate::store::{Change, Compare, Entry, Store, StoreRevision};

/// Sessions whose end one login may wait for; older ones were told to end long before.
const MAX_AFTER: usize = 32;

/// What a claim is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A login.
    Login(DuplicateLogin),
    /// A session that came to be while its node was apart: of two, the later one stays.
    Reconcile,
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// The player is this session's. The login goes on when these (`NODE/SESSION`) have ended, whom it has displaced.
    Held { revision: StoreRevision, after: Vec<String> },
    /// Another session has the player.
    Refused,
    /// A later session has the player: this one is to end, and is marked so.
    Displaced,
}

/// Another session that has a claim on the player, with its record.
struct Holder {
    entry: Entry,
    session: v1::Session,
}

impl Attachment {
    /// Claims the players of sessions that log in. Done again after a failure it comes to the same.
    pub(crate) async fn claim(
        &mut self,
        store: &dyn Store,
        claims: &[v1::Claim],
        policy: DuplicateLogin,
    ) -> Result<Vec<(String, Claimed)>, AttachError> {
        let sessions = claims.iter().filter_map(|claim| self.own(logging_in(claim.clone()))).collect();
        self.claim_all(store, sessions, Mode::Login(policy)).await
    }

    /// Claims the players of sessions, many at a time where nobody else has them.
    pub(super) async fn claim_all(
        &mut self,
        store: &dyn Store,
        sessions: Vec<v1::Session>,
        mode: Mode,
    ) -> Result<Vec<(String, Claimed)>, AttachError> {
        let free = |session: &v1::Session| {
            let claims = keys::claims(session);
            Piece {
                id: session.id.clone(),
                compares: claims.iter().cloned().map(Compare::Absent).collect(),
                changes: self.put_claim(session.clone()),
                then: Some(Known { claims, claimed: Some(0), is_shown: is_shown(session) }),
            }
        };
        let pieces = sessions.iter().map(free).collect();
        let conflicts: BTreeSet<String> = self.commit_pieces(store, pieces).await?.into_iter().collect();
        let mut outcomes = Vec::with_capacity(sessions.len());
        for session in sessions {
            let id = session.id.clone();
            let claimed = if conflicts.contains(&id) {
                self.contend(store, session, mode).await?
            } else {
                let revision = self.sessions.get(&id).and_then(|known| known.claimed).unwrap_or_default();
                Claimed::Held { revision, after: Vec::new() }
            };
            outcomes.push((id, claimed));
        }
        Ok(outcomes)
    }

    /// Claims a player that another session may have.
    async fn contend(&mut self, store: &dyn Store, mut session: v1::Session, mode: Mode) -> Result<Claimed, AttachError> {
        let claims = keys::claims(&session);
        let own = holder(&self.node().id, &session.id);
        for _ in 0..ATTEMPTS {
            self.check_fence(store).await?;
            if let Some(Holder { entry, session: stored }) = holder_of(store, &own).await?
                && stored.displaced
            {
                // What was claimed for it before has been taken over already. It may lie under an earlier lease of the node.
                let compares = vec![Compare::Modified(entry.key, entry.modified)];
                if entry.lease != self.lease() && self.try_commit(store, compares, vec![self.put_session(stored)]).await?.is_none() {
                    continue;
                }
                self.sessions.insert(session.id.clone(), Known { claims, claimed: None, is_shown: false });
                return Ok(Claimed::Displaced);
            }
            let held = [store.get(&claims[0]).await?, store.get(&claims[1]).await?];
            let mut compares: Vec<_> = claims.iter().zip(&held).map(|(key, entry)| Compare::unchanged(key, entry.as_ref())).collect();
            let mut changes = Vec::new();
            let mut after = BTreeSet::new();
            let mut is_earlier = false;
            for name in others(&held, &own) {
                let Some(other) = holder_of(store, &name).await? else { continue };
                // One that is to end keeps what nobody has taken from it, so that it is waited for.
                if !other.session.displaced {
                    if mode == Mode::Login(DuplicateLogin::Refuse) {
                        return Ok(Claimed::Refused);
                    }
                    is_earlier |= mode == Mode::Reconcile && is_later(&other.session, &session);
                }
                after.extend(self.still_there(store, &other.session.after, &own).await?);
                after.insert(name);
                displace(other, &mut compares, &mut changes);
            }
            if is_earlier {
                session.displaced = true;
                let marked = self.try_commit(store, compares, vec![self.put_session(session.clone())]).await?;
                if marked.is_some() {
                    self.sessions.insert(session.id.clone(), Known { claims, claimed: None, is_shown: false });
                    return Ok(Claimed::Displaced);
                }
                session.displaced = false;
                continue;
            }
            // The newest, if they are too many: session ids sort by time.
            session.after = newest(after);
            changes.extend(self.put_claim(session.clone()));
            if let Some(revision) = self.try_commit(store, compares, changes).await? {
                let known = Known { claims, claimed: Some(revision), is_shown: is_shown(&session) };
                self.sessions.insert(session.id.clone(), known);
                return Ok(Claimed::Held { revision, after: session.after });
            }
        }
        Err(AttachError::Contended)
    }

    /// The changes that make a player this session's.
    fn put_claim(&self, session: v1::Session) -> Vec<Change> {
        let (lease, value) = (self.lease(), holder(&self.node().id, &session.id).into_bytes());
        let claims = keys::claims(&session).map(|key| Change::Put { key, value: value.clone(), lease });
        claims.into_iter().chain([self.put_session(session)]).collect()
    }

    /// Those of these sessions that have not ended.
    async fn still_there(&self, store: &dyn Store, sessions: &[String], own: &str) -> Result<Vec<String>, AttachError> {
        let mut there = Vec::new();
        for name in sessions.iter().filter(|name| *name != own) {
            if store.get(&format!("{}{name}", keys::SESSIONS)).await?.is_some() {
                there.push(name.clone());
            }
        }
        Ok(there)
    }
}

/// What displaces a session: the mark in its record.
fn displace(other: Holder, compares: &mut Vec<Compare>, changes: &mut Vec<Change>) {
    let Holder { entry, session } = other;
    if !session.displaced {
        let value = v1::Session { displaced: true, ..session }.encode_to_vec();
        compares.push(Compare::Modified(entry.key.clone(), entry.modified));
        changes.push(Change::Put { key: entry.key, value, lease: entry.lease });
    }
}

/// The record of a session that has a claim; `None` if there is none (any more).
async fn holder_of(store: &dyn Store, name: &str) -> Result<Option<Holder>, AttachError> {
    let entry = store.get(&format!("{}{name}", keys::SESSIONS)).await?;
    Ok(entry.and_then(|entry| Some(Holder { session: v1::Session::decode(&*entry.value).ok()?, entry })))
}

/// Who holds these claims, apart from `own`.
fn others(held: &[Option<Entry>; 2], own: &str) -> BTreeSet<String> {
    let names = held.iter().flatten().map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
    names.filter(|name| name != own).collect()
}

fn is_later(other: &v1::Session, than: &v1::Session) -> bool {
    (other.started_unix_ms, &other.id) > (than.started_unix_ms, &than.id)
}

fn newest(names: BTreeSet<String>) -> Vec<String> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by(|a, b| a.rsplit('/').next().cmp(&b.rsplit('/').next()));
    let excess = names.len().saturating_sub(MAX_AFTER);
    names.split_off(excess)
}
