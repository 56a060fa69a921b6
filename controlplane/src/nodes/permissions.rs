//! What the players of a node have of their own, told to the node: with the answers to their claims ([`super::claims`]), after its
//! Hello for all that are there, and whenever it changes.
//!
//! A player is watched from its claim to the end of its last session here. It is watched before it is read, so that a change that comes
//! in between is told as well; the node goes by the revisions.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use moonbridge_proto::v1::{self, control_message, session_event};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use uuid::Uuid;

use super::stream::{End, Out};
use crate::permissions::users::{Record, UserAt, UserChange, read_user};
use crate::replica::Replica;
use crate::store::StoreError;

/// Players that are read from the store at once.
const READS: usize = 32;
/// Between attempts while the store is away.
const RETRY: Duration = Duration::from_millis(500);

/// The players of a node, and which of them are to be read.
#[derive(Default)]
pub(super) struct Players {
    state: Mutex<State>,
    due: Notify,
}

#[derive(Default)]
struct State {
    /// Whose each session is.
    sessions: HashMap<String, Uuid>,
    /// How many sessions each player has.
    watched: HashMap<Uuid, usize>,
    /// Watched players that are to be read.
    due: BTreeSet<Uuid>,
    /// Those that are being read.
    reading: BTreeSet<Uuid>,
}

impl Players {
    /// Those of a Hello; all are to be read.
    pub(super) fn of(hello: &v1::Hello) -> Self {
        let players = Self::default();
        hello.sessions.iter().for_each(|session| players.began(session));
        for claim in &hello.claims {
            if let Some(player) = players.claimed(&claim.session_id, &claim.player_uuid) {
                players.read(player);
            }
        }
        players
    }

    /// A session has claimed its player, who is watched from here on. Nothing if it is none.
    pub(super) fn claimed(&self, session: &str, player: &str) -> Option<Uuid> {
        let player = Uuid::try_parse(player).ok()?;
        self.lock().enter(session, player);
        Some(player)
    }

    /// Sessions have come or gone.
    pub(super) fn changed(&self, events: &[v1::SessionEvent]) {
        for event in events {
            match &event.event {
                Some(session_event::Event::Set(session)) => self.began(session),
                Some(session_event::Event::Ended(ended)) => self.lock().leave(&ended.id),
                None => {}
            }
        }
    }

    /// A session is in play. If it has not claimed its player on this stream, nobody has read that either.
    fn began(&self, session: &v1::Session) {
        let Ok(player) = Uuid::try_parse(&session.player_uuid) else { return };
        if self.lock().enter(&session.id, player) {
            self.read(player);
        }
    }

    /// The player is to be read, if it is still here.
    pub(super) fn read(&self, player: Uuid) {
        let mut state = self.lock();
        if state.watched.contains_key(&player) {
            state.due.insert(player);
            self.due.notify_one();
        }
    }

    fn read_all(&self) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.due.extend(state.watched.keys());
    }

    fn next_due(&self) -> Option<Uuid> {
        let mut state = self.lock();
        let player = state.due.pop_first()?;
        state.reading.insert(player);
        Some(player)
    }

    /// A player has been read; whether it is still here.
    fn was_read(&self, player: Uuid) -> bool {
        let mut state = self.lock();
        state.reading.remove(&player);
        state.watched.contains_key(&player)
    }

    /// Whether to tell this change of a player's. One that is about to be read is read (again): what the node holds from an earlier stream
    /// may be newer than this change.
    fn takes(&self, player: Uuid) -> bool {
        let mut state = self.lock();
        let read = state.reading.contains(&player);
        if read {
            state.due.insert(player);
        }
        state.watched.contains_key(&player) && !read && !state.due.contains(&player)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the session is new here.
    fn enter(&mut self, session: &str, player: Uuid) -> bool {
        if self.sessions.get(session) == Some(&player) {
            return false;
        }
        self.leave(session);
        self.sessions.insert(session.to_owned(), player);
        *self.watched.entry(player).or_default() += 1;
        true
    }

    fn leave(&mut self, session: &str) {
        let Some(player) = self.sessions.remove(session) else { return };
        if let Some(count) = self.watched.get_mut(&player) {
            *count -= 1;
            if *count == 0 {
                self.watched.remove(&player);
                self.due.remove(&player);
            }
        }
    }
}

/// What the store has of a player, as a node is told.
pub(super) async fn read(replica: &Replica, player: Uuid) -> Result<v1::UserPermissions, StoreError> {
    Ok(message(replica, read_user(&*replica.store, player).await?))
}

fn message(replica: &Replica, UserAt { uuid, record, generation, revision }: UserAt) -> v1::UserPermissions {
    let revision = Some(v1::Revision { store_id: replica.store.id().to_owned(), number: revision });
    let (user, unreadable) = match record {
        Record::Nothing => (None, false),
        Record::User(user) => (Some(user), false),
        Record::Unreadable => (None, true),
    };
    v1::UserPermissions { player_uuid: uuid.to_string(), revision, user, generation, unreadable }
}

/// Tells the node of its players: of those that are due as they can be read, of the others when they change. `changes` is from before
/// any of them was read.
pub(super) async fn tell(replica: &Replica, players: &Players, mut changes: broadcast::Receiver<UserChange>, out: &Out) -> Result<(), End> {
    let mut reads = FuturesUnordered::new();
    let mut resume: Option<Instant> = None;
    loop {
        while resume.is_none()
            && reads.len() < READS
            && let Some(player) = players.next_due()
        {
            reads.push(async move { (player, read(replica, player).await) });
        }
        let message = tokio::select! {
            change = changes.recv() => match change {
                Ok(UserChange::User(user)) if players.takes(user.uuid) => message(replica, user),
                Ok(UserChange::User(_)) => continue,
                Ok(UserChange::All) | Err(broadcast::error::RecvError::Lagged(_)) => {
                    players.read_all();
                    continue;
                }
                // The sender lives as long as the replica.
                Err(broadcast::error::RecvError::Closed) => return Err(Status::internal("the users are gone").into()),
            },
            Some((player, read)) = reads.next(), if !reads.is_empty() => match (players.was_read(player), read) {
                (true, Ok(message)) => message,
                (false, _) => continue,
                (true, Err(error)) => {
                    tracing::debug!(%player, %error, "cannot read a player's permissions, trying again");
                    players.read(player);
                    resume = Some(Instant::now() + RETRY);
                    continue;
                }
            },
            () = players.due.notified() => continue,
            () = sleep_until(resume.unwrap_or_else(Instant::now)), if resume.is_some() => {
                resume = None;
                continue;
            }
        };
        out.send(control_message::Message::Permissions(message)).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Uuid = Uuid::from_u128(1);
    const BOB: Uuid = Uuid::from_u128(2);

    fn session(id: &str, player: Uuid) -> v1::Session {
        v1::Session { id: id.to_owned(), player_uuid: player.to_string(), ..v1::Session::default() }
    }

    fn set(id: &str, player: Uuid) -> v1::SessionEvent {
        v1::SessionEvent { event: Some(session_event::Event::Set(session(id, player))) }
    }

    fn ended(id: &str) -> v1::SessionEvent {
        let ended = v1::SessionEnded { id: id.to_owned(), reason: "player_left".to_owned() };
        v1::SessionEvent { event: Some(session_event::Event::Ended(ended)) }
    }

    #[test]
    fn everybody_in_a_hello_is_read_and_whoever_began_without_a_claim() {
        let claims = vec![v1::Claim { session_id: "b".to_owned(), player_uuid: BOB.to_string(), ..v1::Claim::default() }];
        let players = Players::of(&v1::Hello { sessions: vec![session("a", ANN)], claims, ..v1::Hello::default() });
        assert_eq!((players.next_due(), players.next_due(), players.next_due()), (Some(ANN), Some(BOB), None));

        let players = Players::default();
        assert_eq!(players.claimed("a", &ANN.to_string()), Some(ANN));
        assert_eq!(players.claimed("x", "nobody"), None);
        players.changed(&[set("a", ANN), set("b", BOB), set("b", BOB)]);
        assert_eq!((players.next_due(), players.next_due()), (Some(BOB), None), "a claim's answer brings what there is");
    }

    #[test]
    fn a_player_is_watched_until_its_last_session_has_ended() {
        let players = Players::default();
        players.claimed("old", &ANN.to_string());
        players.claimed("new", &ANN.to_string());
        players.changed(&[ended("old"), ended("old"), ended("stranger")]);
        assert!(players.takes(ANN) && !players.takes(BOB));
        players.read(ANN);
        players.changed(&[ended("new")]);
        assert!(!players.takes(ANN));
        assert_eq!(players.next_due(), None);
        players.read(ANN);
        players.read_all();
        assert_eq!(players.next_due(), None, "nobody is here");
        let state = players.lock();
        assert!(state.sessions.is_empty() && state.watched.is_empty());
    }

    #[test]
    fn a_change_of_a_player_who_is_being_read_is_read_and_not_told() {
        let players = Players::of(&v1::Hello { sessions: vec![session("a", ANN)], ..v1::Hello::default() });
        assert!(!players.takes(ANN), "it is to be read");
        assert_eq!(players.next_due(), Some(ANN));
        assert!(!players.takes(ANN), "the read may have missed it");
        assert!(players.was_read(ANN));
        assert!(!players.takes(ANN), "it is to be read again");
        assert_eq!(players.next_due(), Some(ANN));
        assert!(players.was_read(ANN) && players.takes(ANN));
    }
}
