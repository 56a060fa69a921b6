//! Users' permissions: read when they are asked for, and followed so that whoever has a player online hears of its changes. Nothing
//! of them is kept here.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::v1;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::feed::{Change, Feed, Place};
use super::head::{self, Head};
use crate::keys;
use crate::store::{Entry, Store, StoreError, StoreRevision};

/// Changes that a receiver may lag behind; one that lags more reads everybody anew.
const CHANGES: usize = 1_024;
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(2);

/// A change of what users have of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UserChange {
    /// One user, as it is from its revision on.
    User(UserAt),
    /// Read every user anew: an import became visible, or changes may have been missed.
    All,
}

/// A user as of a revision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UserAt {
    pub(crate) uuid: Uuid,
    pub(crate) record: Record,
    /// The one that the record is of.
    pub(crate) generation: String,
    pub(crate) revision: StoreRevision,
}

/// What is stored of a user.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    Nothing,
    User(v1::PermissionUser),
    /// Something that cannot be read. It may take permissions away, so it is never taken for nothing, nor for what was there before.
    Unreadable,
}

impl Record {
    pub(super) fn of(entry: Option<&Entry>) -> Self {
        match entry.map(head::decode) {
            None => Self::Nothing,
            Some(Ok(user)) => Self::User(user),
            Some(Err(error)) => {
                tracing::error!(%error, "this user's permissions are void until they are set anew");
                Self::Unreadable
            }
        }
    }
}

/// Tells of changes of users, as this replica sees them.
pub(crate) struct Users {
    changes: broadcast::Sender<UserChange>,
}

impl Users {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { changes: broadcast::Sender::new(CHANGES) })
    }

    /// Every change from here on. A receiver that lags takes that for [`UserChange::All`].
    pub(crate) fn changes(&self) -> broadcast::Receiver<UserChange> {
        self.changes.subscribe()
    }

    /// Follows the store until `shutdown`.
    pub(crate) async fn follow(&self, store: &dyn Store, shutdown: CancellationToken) {
        let _ = shutdown.run_until_cancelled(self.keep(store)).await;
    }

    async fn keep(&self, store: &dyn Store) {
        let (mut place, mut delay) = (None, FIRST_DELAY);
        loop {
            match self.watch(store, &mut place, &mut delay).await {
                StoreError::Compacted(revision) => {
                    tracing::info!(revision, "the store has compacted changes of users: their permissions are read anew");
                    place = None;
                }
                error => tracing::warn!(%error, "cannot follow changes of permissions, trying again"),
            }
            tokio::time::sleep(delay.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            delay = (delay * 2).min(LAST_DELAY);
        }
    }

    /// Goes on from a place, or begins anew, until the first error.
    async fn watch(&self, store: &dyn Store, place: &mut Option<Place>, delay: &mut Duration) -> StoreError {
        let at = match place {
            Some(place) => place,
            None => match Head::read(store).await {
                Ok(head) => {
                    // Whoever reads from here on reads at a later revision than that of this place.
                    self.tell(UserChange::All);
                    place.insert(Place::after(&head))
                }
                Err(error) => return error,
            },
        };
        let mut feed = match Feed::open(store, at).await {
            Ok(feed) => feed,
            Err(error) => return error,
        };
        *delay = FIRST_DELAY;
        loop {
            let changes = match feed.next(store, at).await {
                Ok(changes) => changes,
                Err(error) => return error,
            };
            for change in changes {
                match change {
                    Change::User(user) => self.tell(UserChange::User(user)),
                    Change::Imported(_) => self.tell(UserChange::All),
                    Change::Resource(_) => {}
                }
            }
        }
    }

    fn tell(&self, change: UserChange) {
        // Nobody may listen.
        let _ = self.changes.send(change);
    }
}

/// What a player has of its own.
///
/// # Errors
/// When the store fails.
pub(crate) async fn read_user(store: &dyn Store, uuid: Uuid) -> Result<UserAt, StoreError> {
    let head = Head::read(store).await?;
    let (entry, revision) = head::entry_at(store, &keys::permission_user(&head.generation, uuid), Some(head.revision)).await?;
    Ok(UserAt { uuid, record: Record::of(entry.as_ref()), generation: head.generation, revision })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::store::embedded::Embedded;
    use crate::store::{Change as Put, Committed, Txn};

    const ADA: Uuid = Uuid::from_u128(10);

    async fn put(store: &dyn Store, key: &str, value: Vec<u8>) -> StoreRevision {
        let changes = vec![Put::Put { key: key.to_owned(), value, lease: 0 }];
        match store.txn(Txn { compares: Vec::new(), changes }).await {
            Ok(Committed::Yes(revision)) => revision,
            other => panic!("{other:?}"),
        }
    }

    fn ada(key: &str) -> v1::PermissionUser {
        let node = v1::PermissionNode { key: key.to_owned(), value: true, ..v1::PermissionNode::default() };
        v1::PermissionUser { uuid: ADA.to_string(), nodes: vec![node], ..v1::PermissionUser::default() }
    }

    async fn set(store: &dyn Store, generation: &str, key: &str) -> StoreRevision {
        put(store, &keys::permission_user(generation, ADA), ada(key).encode_to_vec()).await
    }

    async fn show(store: &dyn Store, generation: &str) {
        let head = v1::PermissionHead { generation: generation.to_owned() };
        put(store, keys::PERMISSION_HEAD, head.encode_to_vec()).await;
    }

    async fn remove(store: &dyn Store, generation: &str) {
        let changes = vec![Put::Delete(keys::permission_user(generation, ADA))];
        store.txn(Txn { compares: Vec::new(), changes }).await.expect("removed");
    }

    /// A user, without the revision.
    fn told(change: UserChange) -> (String, Record) {
        match change {
            UserChange::User(user) if user.uuid == ADA => (user.generation, user.record),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn changes_of_the_visible_generation_are_told_and_another_generation_as_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(Embedded::open(folder.path()).expect("a store"));
        let users = Users::new();
        let mut changes = users.changes();
        let (shutdown, following) = (CancellationToken::new(), store.clone());
        let stop = shutdown.clone();
        let task = tokio::spawn(async move { users.follow(&*following, stop).await });
        let mut next = async || tokio::time::timeout(Duration::from_secs(30), changes.recv()).await.expect("a change").expect("a change");
        let is = async |expected: &str| {
            let user = read_user(&*store, ADA).await.expect("an answer");
            assert_eq!(user.record, Record::User(ada(expected)));
        };
        assert_eq!(next().await, UserChange::All);
        let revision = set(&*store, "0", "a").await;
        let a = UserAt { uuid: ADA, record: Record::User(ada("a")), generation: "0".to_owned(), revision };
        assert_eq!(next().await, UserChange::User(a.clone()));
        assert_eq!(read_user(&*store, ADA).await.expect("an answer"), a);
        // An import writes, and is seen by nobody before it is visible.
        set(&*store, "1", "b").await;
        is("a").await;
        show(&*store, "1").await;
        assert_eq!(next().await, UserChange::All);
        is("b").await;
        // What happens to the old one is nobody's concern any more.
        set(&*store, "0", "c").await;
        // A record that cannot be read is told as that, and not as none.
        put(&*store, &keys::permission_user("1", ADA), vec![0xff]).await;
        assert_eq!(told(next().await), ("1".to_owned(), Record::Unreadable));
        assert_eq!(read_user(&*store, ADA).await.expect("an answer").record, Record::Unreadable);
        remove(&*store, "1").await;
        assert_eq!(told(next().await), ("1".to_owned(), Record::Nothing));
        shutdown.cancel();
        task.await.expect("no panic");
    }

    /// Whoever is behind sees a sweeper at work on users that it takes for the visible ones.
    #[tokio::test]
    async fn a_generation_that_is_swept_away_removes_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(folder.path()).expect("a store");
        set(&store, "0", "a").await;
        let mut place = Place::after(&Head::read(&store).await.expect("the head"));
        show(&store, "1").await;
        remove(&store, "0").await;
        set(&store, "1", "b").await;
        // Of two watches that have something, either is looked at first.
        for _ in 0..64 {
            let mut at = place.clone();
            let mut feed = Feed::open(&store, &at).await.expect("watches");
            let changes = tokio::time::timeout(Duration::from_secs(30), feed.next(&store, &mut at)).await.expect("soon").expect("a change");
            assert!(matches!(changes[..], [Change::Imported(_)]), "{changes:?}");
        }
        // A removal in the visible one is told.
        place = Place::after(&Head::read(&store).await.expect("the head"));
        let mut feed = Feed::open(&store, &place).await.expect("watches");
        remove(&store, "1").await;
        let changes = feed.next(&store, &mut place).await.expect("a change");
        assert!(matches!(&changes[..], [Change::User(user)] if user.record == Record::Nothing), "{changes:?}");
    }
}
