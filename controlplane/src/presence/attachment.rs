//! A node's presence in the store, as written by the one replica that has its newest stream.
//!
//! Everything lies under the node's lease, and every write compares the node's *fence*: a key that the newest stream has set.
//! An older stream, on whatever replica, thus cannot write once a newer one has begun, nor after the lease has ended.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use moonbridge_proto::v1;
use prost::Message;
use uuid::Uuid;

use crate::follow;
use crate::keys;
use crate::store::{Change, Committed, Compare, LeaseId, MAX_OPERATIONS, Store, StoreError, StoreRevision, Txn};

/// Why a node's presence could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    /// A newer stream of the node has begun, or its lease has ended.
    #[error("a newer stream of this node has begun, or its lease has ended")]
    Superseded,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The right to write a node's presence.
pub(crate) struct Attachment {
    node: v1::Node,
    fence: StoreRevision,
    /// Whether the lease of an earlier stream went on.
    pub(crate) resumed: bool,
    /// The sessions in the store.
    sessions: HashSet<String>,
}

impl Attachment {
    /// Takes the node over from any older stream, and makes the store's presence of it what the node says it is.
    ///
    /// `node.lease_id` is the lease that the node had, or 0.
    pub(crate) async fn begin(
        store: &dyn Store,
        mut node: v1::Node,
        sessions: Vec<v1::Session>,
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
        let mut attachment = Self { node, fence, resumed: kept.is_some(), sessions: HashSet::new() };
        attachment.replace_sessions(store, sessions).await?;
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
            sessions: u32::try_from(self.sessions.len()).unwrap_or(u32::MAX),
            ..node
        };
        if node != self.node {
            self.commit(store, vec![put_node(&node)]).await?;
            self.node = node;
        }
        Ok(())
    }

    /// Writes changes of sessions, in order. Done again after a failure it comes to the same.
    pub(crate) async fn set_sessions(&mut self, store: &dyn Store, events: &[v1::SessionEvent]) -> Result<(), AttachError> {
        let mut changes: HashMap<String, Change> = HashMap::new();
        for event in events {
            match &event.event {
                Some(v1::session_event::Event::Set(session)) => {
                    if let Some((key, change)) = self.put_session(session.clone()) {
                        changes.insert(key, change);
                    }
                }
                Some(v1::session_event::Event::Ended(ended)) => {
                    let key = keys::session(&self.node.id, &ended.id);
                    changes.insert(key.clone(), Change::Delete(key));
                }
                None => {}
            }
        }
        self.commit_sessions(store, changes.into_values().collect()).await
    }

    async fn replace_sessions(&mut self, store: &dyn Store, sessions: Vec<v1::Session>) -> Result<(), AttachError> {
        let mut wanted: HashMap<String, Change> = sessions.into_iter().filter_map(|session| self.put_session(session)).collect();
        let (stored, _) = follow::list_all(store, &keys::sessions_of(&self.node.id)).await?;
        let mut changes = Vec::new();
        for entry in stored {
            match wanted.get(&entry.key) {
                // What is there already, under this lease, costs no write when a thousand nodes come back at once.
                Some(Change::Put { value, lease, .. }) if *value == entry.value && *lease == entry.lease => {
                    wanted.remove(&entry.key);
                    self.sessions.insert(entry.key);
                }
                Some(_) => {}
                None => changes.push(Change::Delete(entry.key)),
            }
        }
        changes.extend(wanted.into_values());
        self.commit_sessions(store, changes).await
    }

    /// The key and the change that enter a session; `None` for one whose id is none.
    fn put_session(&self, mut session: v1::Session) -> Option<(String, Change)> {
        if Uuid::try_parse(&session.id).is_err() {
            tracing::warn!(node = self.node.name, id = session.id, "the node reports a session whose id is no UUID: ignored");
            return None;
        }
        session.node_id.clone_from(&self.node.id);
        session.node_name.clone_from(&self.node.name);
        let key = keys::session(&self.node.id, &session.id);
        Some((key.clone(), Change::Put { key, value: session.encode_to_vec(), lease: self.node.lease_id }))
    }

    async fn commit_sessions(&mut self, store: &dyn Store, changes: Vec<Change>) -> Result<(), AttachError> {
        for changes in changes.chunks(MAX_OPERATIONS) {
            self.commit(store, changes.to_vec()).await?;
            for change in changes {
                match change {
                    Change::Put { key, .. } => self.sessions.insert(key.clone()),
                    Change::Delete(key) => self.sessions.remove(key),
                };
            }
        }
        Ok(())
    }

    async fn commit(&self, store: &dyn Store, changes: Vec<Change>) -> Result<(), AttachError> {
        let compares = vec![Compare::Modified(keys::stream(&self.node.id), self.fence)];
        match store.txn(Txn { compares, changes }).await {
            Ok(Committed::Yes(_)) => Ok(()),
            Ok(Committed::Conflict) | Err(StoreError::NoLease(_)) => Err(AttachError::Superseded),
            Err(error) => Err(error.into()),
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
