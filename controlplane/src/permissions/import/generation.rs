//! A generation that is being written. A key under a lease says so: without it, the sweeper takes what there is for litter, and
//! nothing can be written or made visible any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;
use uuid::Uuid;

use crate::permissions::commit::put;
use crate::permissions::head::decode;
use crate::permissions::players::name_key;
use crate::store::{Change, Committed, Compare, LeaseId, MAX_OPERATIONS, Store, StoreError, Txn};
use crate::{keys, status};

/// The lease ends so long after a replica that died.
const LEASE: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Transactions under way at once: a store takes the next while it writes the last to its disk.
const IN_FLIGHT: usize = 8;
/// A transaction is sent when it is so large.
const BYTES: usize = 512 << 10;
/// A batch that the store did not answer is sent again so often: it comes to the same.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Generation {
    store: Arc<dyn Store>,
    name: String,
    lease: LeaseId,
    /// Keeps the lease alive as long as this lives.
    keeper: tokio::task::JoinHandle<()>,
    batch: Vec<Change>,
    in_batch: HashSet<String>,
    bytes: usize,
    in_flight: FuturesUnordered<BoxFuture<'static, Result<Committed, StoreError>>>,
}

impl Generation {
    pub(super) async fn begin(store: Arc<dyn Store>) -> Result<Self, Status> {
        let name = Uuid::now_v7().simple().to_string();
        let lease = store.lease_grant(LEASE).await.map_err(status::store)?;
        let key = keys::permission_import(&name);
        let changes = vec![Change::Put { key, value: Vec::new(), lease }];
        store.txn(Txn { compares: Vec::new(), changes }).await.map_err(status::store)?;
        let keeper = tokio::spawn(keep(store.clone(), lease));
        let (batch, in_batch, in_flight) = (Vec::new(), HashSet::new(), FuturesUnordered::new());
        Ok(Self { store, name, lease, keeper, batch, in_batch, bytes: 0, in_flight })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// That it is still being written, and by us: no other is ever called like it.
    pub(super) fn goes_on(&self) -> Compare {
        Compare::Present(keys::permission_import(&self.name))
    }

    pub(super) async fn group(&mut self, group: &v1::PermissionGroup) -> Result<(), Status> {
        self.put(keys::permission_group(&self.name, &group.name), group.encode_to_vec()).await
    }

    pub(super) async fn track(&mut self, track: &v1::PermissionTrack) -> Result<(), Status> {
        self.put(keys::permission_track(&self.name, &track.name), track.encode_to_vec()).await
    }

    /// Writes a user and the entry of its name. Of several users of one name, any has it.
    pub(super) async fn user(&mut self, user: &v1::PermissionUser) -> Result<(), Status> {
        self.put(self.user_key(&user.uuid), user.encode_to_vec()).await?;
        match name_key(&self.name, &user.username) {
            Some(key) => self.put(key, user.uuid.clone().into_bytes()).await,
            None => Ok(()),
        }
    }

    pub(super) async fn remove(&mut self, key: String) -> Result<(), Status> {
        self.change(key.clone(), Change::Delete(key), 0).await
    }

    pub(super) async fn remove_user(&mut self, uuid: &str) -> Result<(), Status> {
        self.remove(self.user_key(uuid)).await
    }

    /// Takes a user's entry out of the index of names. It is only there once all is written.
    pub(super) async fn remove_name_of(&mut self, uuid: &str) -> Result<(), Status> {
        let Some(entry) = self.store.get(&self.user_key(uuid)).await.map_err(status::store)? else { return Ok(()) };
        let user: v1::PermissionUser = decode(&entry).map_err(status::store)?;
        let Some(key) = name_key(&self.name, &user.username) else { return Ok(()) };
        let holder = self.store.get(&key).await.map_err(status::store)?;
        match holder {
            Some(holder) if holder.value == uuid.as_bytes() => self.remove(key).await,
            _ => Ok(()),
        }
    }

    /// Waits until everything is in the store.
    pub(super) async fn written(&mut self) -> Result<(), Status> {
        self.send().await?;
        while !self.in_flight.is_empty() {
            self.one().await?;
        }
        Ok(())
    }

    /// Ends the lease: what is not visible by now never is.
    pub(super) async fn give_up(self) {
        self.keeper.abort();
        // What is under way could only come too late.
        if let Err(error) = self.store.lease_revoke(self.lease).await {
            tracing::debug!(%error, "the lease of an import is left to its end");
        }
    }

    fn user_key(&self, uuid: &str) -> String {
        format!("{}{uuid}", keys::generation(keys::PERMISSION_USERS, &self.name))
    }

    async fn put(&mut self, key: String, value: Vec<u8>) -> Result<(), Status> {
        let bytes = value.len();
        self.change(key.clone(), put(key, value), bytes).await
    }

    async fn change(&mut self, key: String, change: Change, bytes: usize) -> Result<(), Status> {
        // A name may come twice; a transaction changes no key twice.
        if self.batch.len() == MAX_OPERATIONS || self.bytes + bytes > BYTES || self.in_batch.contains(&key) {
            self.send().await?;
        }
        self.bytes += key.len() + bytes;
        self.in_batch.insert(key);
        self.batch.push(change);
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Status> {
        if self.batch.is_empty() {
            return Ok(());
        }
        while self.in_flight.len() >= IN_FLIGHT {
            self.one().await?;
        }
        let txn = Txn { compares: vec![self.goes_on()], changes: std::mem::take(&mut self.batch) };
        self.in_batch.clear();
        self.bytes = 0;
        self.in_flight.push(Box::pin(commit(self.store.clone(), txn)));
        Ok(())
    }

    /// Waits for one of those under way.
    async fn one(&mut self) -> Result<(), Status> {
        match self.in_flight.next().await {
            None | Some(Ok(Committed::Yes(_))) => Ok(()),
            Some(Ok(Committed::Conflict)) => {
                Err(Status::aborted("the store was away for too long while the import was written: nothing was imported, try again"))
            }
            Some(Err(error)) => Err(status::store(error)),
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

async fn commit(store: Arc<dyn Store>, txn: Txn) -> Result<Committed, StoreError> {
    let mut tried = 1;
    loop {
        match store.txn(txn.clone()).await {
            Err(StoreError::Unavailable(_)) if tried < TRIES => tried += 1,
            outcome => return outcome,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn keep(store: Arc<dyn Store>, lease: LeaseId) {
    loop {
        tokio::time::sleep(KEEP_ALIVE).await;
        match store.lease_keep_alive(lease).await {
            Ok(()) => {}
            // Whoever writes is told by the store that the key is gone.
            Err(StoreError::NoLease(_)) => return,
            Err(error) => tracing::debug!(%error, "the lease of an import is not kept alive, trying again"),
        }
    }
}
