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
use crate::store::{Store, StoreError, StoreRevision};

/// Changes that a receiver may lag behind; one that lags more reads everybody anew.
const CHANGES: usize = 1_024;
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(2);

/// A change of what users have of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UserChange {
    /// One user, as it is from this revision on; `None`: nothing is stored of it any more.
    User { uuid: Uuid, user: Option<v1::PermissionUser>, revision: StoreRevision },
    /// Read every user anew: an import became visible, or changes may have been missed.
    All,
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
                    Change::User { uuid, user, revision } => self.tell(UserChange::User { uuid, user, revision }),
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

/// What a player has of its own, and the revision that this is as of.
///
/// # Errors
/// When the store fails, or the record cannot be read: it is not to be taken for nothing.
pub(crate) async fn read_user(store: &dyn Store, uuid: Uuid) -> Result<(Option<v1::PermissionUser>, StoreRevision), StoreError> {
    let head = Head::read(store).await?;
    let (entry, revision) = head::entry_at(store, &keys::permission_user(&head.generation, uuid), Some(head.revision)).await?;
    Ok((entry.as_ref().map(head::decode).transpose()?, revision))
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
        assert_eq!(next().await, UserChange::All);
        let revision = put(&*store, &keys::permission_user("0", ADA), ada("a").encode_to_vec()).await;
        assert_eq!(next().await, UserChange::User { uuid: ADA, user: Some(ada("a")), revision });
        assert_eq!(read_user(&*store, ADA).await.expect("an answer"), (Some(ada("a")), revision));
        // An import writes, and is seen by nobody before it is visible.
        put(&*store, &keys::permission_user("1", ADA), ada("b").encode_to_vec()).await;
        assert_eq!(read_user(&*store, ADA).await.expect("an answer").0, Some(ada("a")));
        let head = v1::PermissionHead { generation: "1".to_owned() };
        put(&*store, keys::PERMISSION_HEAD, head.encode_to_vec()).await;
        assert_eq!(next().await, UserChange::All);
        assert_eq!(read_user(&*store, ADA).await.expect("an answer").0, Some(ada("b")));
        // What happens to the old one is nobody's concern any more; a record that cannot be read changes nothing.
        put(&*store, &keys::permission_user("0", ADA), ada("c").encode_to_vec()).await;
        put(&*store, &keys::permission_user("1", ADA), vec![0xff]).await;
        assert!(matches!(read_user(&*store, ADA).await, Err(StoreError::Damaged(_))));
        let changes = vec![Put::Delete(keys::permission_user("1", ADA))];
        store.txn(Txn { compares: Vec::new(), changes }).await.expect("removed");
        assert!(matches!(next().await, UserChange::User { uuid: ADA, user: None, .. }));
        shutdown.cancel();
        task.await.expect("no panic");
    }
}
