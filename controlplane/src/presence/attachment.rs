//! A node's presence in the store, as written by the one replica that has its newest stream.
//!
//! Everything lies under the node's lease, and every write compares the node's *fence*: a key that the newest stream has set.
//! An older stream, on whatever replica, thus cannot write once a newer one has begun, nor after the lease has ended.

use std::collections::HashMap;
use std::time::Duration;

use moonbridge_proto::v1;
use prost::Message;
use uuid::Uuid;

use crate::keys;
use crate::store::{Change, Committed, Compare, LeaseId, Store, StoreError, StoreRevision, Txn};

/// Why a node's presence could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    /// A newer stream of the node has begun, or its lease has ended.
    #[error("a newer stream of this node has begun, or its lease has ended")]
    Superseded,
    /// Others keep getting in the way of a change.
    #[error("others keep claiming the same player")]
    Contended,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The right to write a node's presence.
pub(crate) struct Attachment {
    node: v1::Node,
    fence: StoreRevision,
    /// Whether the lease of an earlier stream went on.
    pub(crate) resumed: bool,
    /// Its sessions in the store, by id.
    pub(super) sessions: HashMap<String, Known>,
}

/// What this replica knows of a session in the store.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Where its player's claims lie.
    pub(super) claims: [String; 2],
    /// The revision at which it made them; `None` if it is displaced.
    pub(super) claimed: Option<StoreRevision>,
    /// Whether it is in play.
    pub(super) is_shown: bool,
}

impl Attachment {
    /// Takes the node over from any older stream, and makes the store's presence of it what the node says it is.
    ///
    /// `node.lease_id` is the lease that the node had, or 0; `claims` are those of sessions that still log in.
    pub(crate) async fn begin(
        store: &dyn Store,
        mut node: v1::Node,
        sessions: Vec<v1::Session>,
        claims: Vec<v1::Claim>,
        ttl: Duration,
    ) -> Result<Self, AttachError> {
        let kept = resume(store, &node).await?;
        node.lease_id = match kept {
            Some(lease) => lease,
            None => store.lease_grant(ttl).await?,
        };
        node.sessions = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        let stream = Uuid::new_v4().to_string().into_bytes();
        let fence = Change::Put { key: keys::stream(&node.id), value: stream, lease: node.lease_id };
        let txn = Txn { compares: Vec::new(), changes: vec![fence, put_node(&node)] };
        let fence = match store.txn(txn).await? {
            Committed::Yes(revision) => revision,
            Committed::Conflict => return Err(AttachError::Superseded),
        };
        let mut attachment = Self { node, fence, resumed: kept.is_some(), sessions: HashMap::new() };
        attachment.replace_sessions(store, sessions, claims).await?;
        Ok(attachment)
    }

    pub(crate) fn lease(&self) -> LeaseId {
        self.node.lease_id
    }

    /// The revision at which this stream took the node over.
    pub(crate) fn fence(&self) -> StoreRevision {
        self.fence
    }

    pub(crate) fn node(&self) -> &v1::Node {
        &self.node
    }

    /// Writes the node's own record, if it is another than before. Its id, replica and lease are not the caller's to change.
    pub(crate) async fn set_node(&mut self, store: &dyn Store, node: v1::Node) -> Result<(), AttachError> {
        let node = v1::Node {
            id: self.node.id.clone(),
            replica: self.node.replica.clone(),
            lease_id: self.node.lease_id,
            sessions: u32::try_from(self.sessions.values().filter(|known| known.is_shown).count()).unwrap_or(u32::MAX),
            ..node
        };
        if node != self.node {
            self.commit(store, vec![put_node(&node)]).await?;
            self.node = node;
        }
        Ok(())
    }

    async fn commit(&self, store: &dyn Store, changes: Vec<Change>) -> Result<(), AttachError> {
        match self.try_commit(store, Vec::new(), changes).await? {
            Some(_) => Ok(()),
            None => Err(AttachError::Superseded),
        }
    }

    /// Makes these changes if these compares hold, and nobody has taken the node over. Gives the revision, or `None` for a conflict.
    pub(super) async fn try_commit(
        &self,
        store: &dyn Store,
        mut compares: Vec<Compare>,
        changes: Vec<Change>,
    ) -> Result<Option<StoreRevision>, AttachError> {
        compares.push(Compare::Modified(keys::stream(&self.node.id), self.fence));
        match store.txn(Txn { compares, changes }).await {
            Ok(Committed::Yes(revision)) => Ok(Some(revision)),
            // Whose lease it was is seen at the next look.
            Ok(Committed::Conflict) | Err(StoreError::NoLease(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// After a conflict: whether the node is still ours to write for.
    pub(super) async fn check_fence(&self, store: &dyn Store) -> Result<(), AttachError> {
        match store.get(&keys::stream(&self.node.id)).await? {
            Some(fence) if fence.modified == self.fence => Ok(()),
            _ => Err(AttachError::Superseded),
        }
    }
}

/// The node's lease, if it still lives. That the store has the node's own fence under it is asked for as well: the number is what the
/// node says, and whatever that is (another store's lease, another node's), two nodes must never share one.
async fn resume(store: &dyn Store, node: &v1::Node) -> Result<Option<LeaseId>, StoreError> {
    if node.lease_id == 0 {
        return Ok(None);
    }
    let fence = store.get(&keys::stream(&node.id)).await?;
    if fence.is_none_or(|fence| fence.lease != node.lease_id) {
        return Ok(None);
    }
    match store.lease_keep_alive(node.lease_id).await {
        Ok(()) => Ok(Some(node.lease_id)),
        Err(StoreError::NoLease(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn put_node(node: &v1::Node) -> Change {
    Change::Put { key: keys::node(&node.id), value: node.encode_to_vec(), lease: node.lease_id }
}
