//! The tokens of the store, as this replica knows them: whoever shows one is looked up by what it hashes to.
//!
//! The store has no token, only its SHA-256. That is enough: a token is 32 random bytes, which no dictionary has. Expiry is seen by
//! looking at the clock; nothing is written for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moonbridge_proto::v1::{self, Role};
use prost::Message;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::auth::Caller;
use crate::commands::now_ms;
use crate::follow::View;
use crate::keys;
use crate::store::{Batch, Entry, Event, StoreRevision};

/// The clock is looked at so often while a stream waits for its token's expiry: it may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// What a token is kept as.
pub(crate) type Hash = [u8; 32];

pub(crate) fn hash(secret: &[u8]) -> Hash {
    Sha256::digest(secret).into()
}

/// Whether a token's time is over.
pub(crate) fn is_expired(expires_unix_ms: i64, now: i64) -> bool {
    expires_unix_ms != 0 && expires_unix_ms <= now
}

/// The tokens, a little behind the store. Without it they stay as they were.
pub(crate) struct Tokens {
    state: Mutex<State>,
    /// What the view has been brought to; 0: it knows nothing yet.
    revision: watch::Sender<StoreRevision>,
}

#[derive(Default)]
struct State {
    by_name: HashMap<String, Arc<Stored>>,
    by_hash: HashMap<Hash, Arc<Stored>>,
}

struct Stored {
    caller: Caller,
    hash: Hash,
    expires_unix_ms: i64,
    revoked: CancellationToken,
}

impl Tokens {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), revision: watch::Sender::new(0) })
    }

    /// Who has this token. How long the look-up takes tells something of the hash at most, from which nobody gets to the token.
    pub(crate) fn holder(&self, secret: &[u8]) -> Option<Holder> {
        self.lock().by_hash.get(&hash(secret)).cloned().map(Holder)
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().by_name.len()
    }

    /// Waits until the view is as new as this revision.
    pub(crate) async fn caught_up(&self, revision: StoreRevision) {
        // The sender is ours, so that it does not go away.
        let _ = self.revision.subscribe().wait_for(|seen| *seen >= revision).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody with a token of the store.
#[derive(Clone)]
pub(crate) struct Holder(Arc<Stored>);

impl Holder {
    pub(crate) fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Why the token is worth nothing now, if so.
    pub(crate) fn refusal(&self) -> Option<Status> {
        let name = &self.0.caller.name;
        if self.0.revoked.is_cancelled() {
            return Some(Status::unauthenticated(format!("the token {name} was revoked: ask an admin for another (--token-file FILE)")));
        }
        is_expired(self.0.expires_unix_ms, now_ms())
            .then(|| Status::unauthenticated(format!("the token {name} has expired: ask an admin for another (--token-file FILE)")))
    }

    /// Waits until the token is worth nothing any more, and says why.
    pub(crate) async fn ended(self) -> Status {
        loop {
            if let Some(refusal) = self.refusal() {
                return refusal;
            }
            let left = match self.0.expires_unix_ms {
                0 => LOOK,
                expires => Duration::from_millis(u64::try_from(expires.saturating_sub(now_ms())).unwrap_or(0)).min(LOOK),
            };
            let _ = tokio::time::timeout(left, self.0.revoked.cancelled()).await;
        }
    }
}

impl State {
    fn enter(&mut self, entry: &Entry) {
        let Some(name) = entry.key.strip_prefix(keys::TOKENS) else { return };
        match read(name, entry) {
            Ok(token) if self.by_name.get(name).is_some_and(|known| known.is_as(&token)) => {}
            Ok(token) => {
                self.remove(name);
                let token = Arc::new(token);
                self.by_hash.insert(token.hash, token.clone());
                self.by_name.insert(name.to_owned(), token);
            }
            Err(problem) => {
                tracing::error!(key = entry.key, problem, "this token in the store is unusable and is refused: revoke it");
                self.remove(name);
            }
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(token) = self.by_name.remove(name) {
            self.by_hash.remove(&token.hash);
            token.revoked.cancel();
        }
    }
}

impl Stored {
    fn is_as(&self, other: &Self) -> bool {
        (&self.caller, self.hash, self.expires_unix_ms) == (&other.caller, other.hash, other.expires_unix_ms)
    }
}

fn read(name: &str, entry: &Entry) -> Result<Stored, String> {
    let token = v1::AdminToken::decode(&*entry.value).map_err(|error| error.to_string())?;
    let role = token.role();
    if role == Role::Unspecified {
        return Err(format!("it has the role {}", token.role));
    }
    let hash = token.sha256.try_into().map_err(|_| "its hash is not of 32 bytes".to_owned())?;
    let caller = Caller { name: name.into(), role };
    Ok(Stored { caller, hash, expires_unix_ms: token.expires_unix_ms, revoked: CancellationToken::new() })
}

/// Keeps [`Tokens`] equal to the store.
pub(crate) struct Follower(pub(crate) Arc<Tokens>);

impl View for Follower {
    fn reset(&mut self, entries: Vec<Entry>, revision: StoreRevision) {
        let mut state = self.0.lock();
        let listed: BTreeSet<_> = entries.iter().filter_map(|entry| entry.key.strip_prefix(keys::TOKENS)).collect();
        let gone: Vec<_> = state.by_name.keys().filter(|name| !listed.contains(name.as_str())).cloned().collect();
        for name in gone {
            state.remove(&name);
        }
        for entry in &entries {
            state.enter(entry);
        }
        drop(state);
        self.0.revision.send_replace(revision);
    }

    fn apply(&mut self, batch: Batch) {
        let mut state = self.0.lock();
        for event in batch.events {
            match event {
                Event::Put(entry) => state.enter(&entry),
                Event::Delete { key, .. } => {
                    if let Some(name) = key.strip_prefix(keys::TOKENS) {
                        state.remove(name);
                    }
                }
            }
        }
        drop(state);
        self.0.revision.send_replace(batch.revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, secret: &str, role: Role, expires_unix_ms: i64) -> Entry {
        let sha256 = hash(secret.as_bytes()).to_vec();
        let token = v1::AdminToken { name: name.to_owned(), role: role.into(), sha256, expires_unix_ms, ..v1::AdminToken::default() };
        Entry { key: keys::token(name), value: token.encode_to_vec(), modified: 1, lease: 0 }
    }

    fn who(tokens: &Tokens, secret: &str) -> Option<(String, Role)> {
        tokens.holder(secret.as_bytes()).map(|holder| (holder.caller().name.to_string(), holder.caller().role))
    }

    #[tokio::test]
    async fn a_token_holds_until_it_is_revoked_or_replaced() {
        let tokens = Tokens::new();
        let mut view = Follower(tokens.clone());
        view.reset(vec![put("a", "one", Role::Viewer, 0), put("b", "two", Role::Admin, 0)], 5);
        tokens.caught_up(5).await;
        assert_eq!(who(&tokens, "one"), Some(("a".to_owned(), Role::Viewer)));
        assert_eq!(who(&tokens, "three"), None);
        let (first, second) = (tokens.holder(b"one").expect("a"), tokens.holder(b"two").expect("b"));
        // A listing that says the same ends nobody's streams.
        view.reset(vec![put("a", "one", Role::Viewer, 0), put("b", "two", Role::Admin, 0)], 6);
        assert!(first.refusal().is_none() && second.refusal().is_none());
        view.apply(Batch { revision: 7, events: vec![Event::Delete { key: keys::token("a"), modified: 7 }] });
        assert!(first.ended().await.message().contains("revoked"));
        view.apply(Batch { revision: 8, events: vec![Event::Put(put("b", "new", Role::Admin, 0))] });
        assert!(second.ended().await.message().contains("revoked"));
        assert_eq!((who(&tokens, "one"), who(&tokens, "two")), (None, None));
        assert_eq!(who(&tokens, "new"), Some(("b".to_owned(), Role::Admin)));
        view.reset(Vec::new(), 9);
        assert_eq!((who(&tokens, "new"), tokens.count()), (None, 0));
    }

    #[tokio::test]
    async fn a_token_expires_by_the_clock() {
        let tokens = Tokens::new();
        Follower(tokens.clone()).reset(vec![put("old", "old", Role::Viewer, now_ms()), put("new", "new", Role::Viewer, i64::MAX)], 1);
        let old = tokens.holder(b"old").expect("old");
        assert!(old.refusal().expect("refused").message().contains("expired"));
        assert!(old.ended().await.message().contains("expired"));
        assert!(tokens.holder(b"new").expect("new").refusal().is_none());
        assert!(is_expired(1, 1) && !is_expired(2, 1) && !is_expired(0, i64::MAX));
    }

    #[test]
    fn a_token_that_cannot_be_read_lets_nobody_in() {
        let tokens = Tokens::new();
        let mut view = Follower(tokens.clone());
        let strange = [
            Entry { value: vec![255], ..put("a", "one", Role::Viewer, 0) },
            put("b", "two", Role::Unspecified, 0),
            Entry {
                value: v1::AdminToken { role: 3, sha256: vec![1], ..Default::default() }.encode_to_vec(),
                ..put("c", "three", Role::Admin, 0)
            },
            Entry {
                value: v1::AdminToken { role: 4, sha256: hash(b"four").to_vec(), ..Default::default() }.encode_to_vec(),
                ..put("d", "", Role::Admin, 0)
            },
        ];
        view.reset(vec![put("a", "one", Role::Viewer, 0)], 1);
        view.apply(Batch { revision: 2, events: strange.into_iter().map(Event::Put).collect() });
        assert!(["one", "two", "three", "four", ""].iter().all(|secret| who(&tokens, secret).is_none()));
    }
}
