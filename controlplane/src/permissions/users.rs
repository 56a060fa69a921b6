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
