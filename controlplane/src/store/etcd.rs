//! The store of several replicas: an etcd cluster (3.4 or later).
//!
//! Below a prefix of its own, `/moonbridge/` by default, lie `store-id`, made by whoever comes first, and `data/`, under which a key is
//! stored by its name. Nothing else may write there.

mod cluster;
mod history;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Compare as EtcdCompare, CompareOp, Error, GetOptions, KeyValue, PutOptions, ResponseHeader, Txn as EtcdTxn, TxnOp, TxnResponse,
    WatchOptions,
};
use tonic::Code;

use self::cluster::{Cluster, Repeat, plain};
use self::history::History;
use super::{Change, Committed, Compare, Entry, LeaseId, List, Page, Store, StoreError, StoreRevision, Txn, Watch, check_lease};

/// The prefix if none is configured.
pub const DEFAULT_PREFIX: &str = "/moonbridge/";

/// The largest page taken; one that is larger is asked for with fewer entries.
const PAGE_BYTES: usize = 64 * 1024 * 1024;

/// How to reach etcd.
#[derive(Clone)]
pub struct EtcdOptions {
    /// URLs of members, `http://…` or `https://…`; they are tried in this order, and the one that answers is kept to.
    pub endpoints: Vec<String>,
    /// All keys lie below this; a `/` is added to its end if there is none. See [`DEFAULT_PREFIX`].
    pub prefix: String,
    /// For `https://` endpoints: the authority to trust and, if etcd wants one, a client certificate.
    pub tls: Option<tonic::transport::ClientTlsConfig>,
    /// The user to log in as, if etcd has authentication enabled.
    pub user: Option<EtcdUser>,
}

/// A user of etcd.
#[derive(Clone)]
pub struct EtcdUser {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
}

/// A store in etcd.
pub struct Etcd {
    id: String,
    /// Where the id lies.
    id_key: String,
    /// What the keys of entries begin with.
    prefix: String,
    cluster: Cluster,
    history: Arc<History>,
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").field("id", &self.id).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Etcd {
    /// Finds the store in etcd, or creates it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if no member answers within 5 s, or etcd does not let us in; [`StoreError::Invalid`] for options that
    /// cannot be used.
    pub async fn connect(options: EtcdOptions) -> Result<Etcd, StoreError> {
        Etcd::open(options, None).await
    }

    /// The same after [`Store::lost`]: a store that still has the id `lost` gets a new one, so that no revision of the history that
    /// is over is taken for one of the new history.
    ///
    /// # Errors
    /// As for [`Etcd::connect`].
    pub async fn connect_again(options: EtcdOptions, lost: &str) -> Result<Etcd, StoreError> {
        Etcd::open(options, Some(lost)).await
    }

    async fn open(options: EtcdOptions, lost: Option<&str>) -> Result<Etcd, StoreError> {
        if options.endpoints.is_empty() {
            return Err(StoreError::Invalid("no etcd endpoint is given; for example http://127.0.0.1:2379".into()));
        }
        let root = format!("{}/", options.prefix.strip_suffix('/').unwrap_or(&options.prefix));
        let cluster = Cluster::new(&options);
        let id_key = format!("{root}store-id");
        let (id, revision) = find_id(&cluster, &id_key, lost).await?;
        let history = Arc::new(History::new(revision));
        Ok(Etcd { id, id_key, prefix: format!("{root}data/"), cluster, history })
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// That the store in etcd is still this one.
    async fn check_id(&self) -> Result<(), StoreError> {
        let floor = self.history.floor()?;
        let (id, revision) = read_id(&self.cluster, &self.id_key).await?;
        self.history.answered(floor, revision)?;
        match id {
            Some(id) if id == self.id => Ok(()),
            Some(_) => Err(self.history.end("the store in etcd is another one by its id: it was restored or made anew".to_owned())),
            None => Err(self.history.end("the store is gone from etcd: it was emptied".to_owned())),
        }
    }

    fn compare(&self, compare: &Compare) -> EtcdCompare {
        match compare {
            Compare::Absent(key) => EtcdCompare::version(self.key(key), CompareOp::Equal, 0),
            Compare::Present(key) => EtcdCompare::version(self.key(key), CompareOp::Greater, 0),
            // An absent key has the revision 0 for etcd; for us it has none.
            Compare::Modified(key, 0) => EtcdCompare::mod_revision(self.key(key), CompareOp::Equal, -1),
            Compare::Modified(key, revision) => EtcdCompare::mod_revision(self.key(key), CompareOp::Equal, etcd_revision(*revision)),
        }
    }

    fn change(&self, change: Change) -> TxnOp {
        match change {
            Change::Put { key, value, lease } => TxnOp::put(self.key(&key), value, Some(PutOptions::new().with_lease(lease))),
            Change::Delete(key) => TxnOp::delete(self.key(&key), None),
        }
    }
}

/// The store's id, and the revision that it was read at. A new one is written if there is none, or the one that was `lost`, unless
/// someone else is faster.
async fn find_id(cluster: &Cluster, key: &str, lost: Option<&str>) -> Result<(String, StoreRevision), StoreError> {
    loop {
        let (id, revision) = read_id(cluster, key).await?;
        let unchanged = match id {
            None => EtcdCompare::version(key, CompareOp::Equal, 0),
            Some(id) if Some(id.as_str()) == lost => EtcdCompare::value(key, CompareOp::Equal, id),
            Some(id) => return Ok((id, revision)),
        };
        let put = TxnOp::put(key, uuid::Uuid::new_v4().to_string(), None);
        txn(cluster, EtcdTxn::new().when([unchanged]).and_then([put])).await?.map_err(|error| refused(&error))?;
    }
}

/// The store's id, if there is one, and the revision that it was read at.
async fn read_id(cluster: &Cluster, key: &str) -> Result<(Option<String>, StoreRevision), StoreError> {
    let answer = cluster.call(Repeat::Freely, |client| async move { client.kv_client().get(key, None).await }).await?;
    let answer = answer.map_err(|error| refused(&error))?;
    let id = answer.kvs().first().map(|kv| {
        let id = kv.value_str().ok().filter(|id| !id.is_empty());
        id.map(str::to_owned).ok_or_else(|| StoreError::Damaged(format!("{key} in etcd holds no store id")))
    });
    Ok((id.transpose()?, header_revision(answer.header())))
}

async fn txn(cluster: &Cluster, txn: EtcdTxn) -> Result<Result<TxnResponse, Error>, StoreError> {
    cluster
        .call(Repeat::IfNotSent, |client| {
            let txn = txn.clone();
            async move { client.kv_client().txn(txn).await }
        })
        .await
}

#[tonic::async_trait]
impl Store for Etcd {
    fn id(&self) -> &str {
        &self.id
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let floor = self.history.floor()?;
        let key = &self.key(key);
        let answer = self.cluster.call(Repeat::Freely, |client| async move { client.kv_client().get(key.as_str(), None).await });
        let answer = answer.await?.map_err(|error| refused(&error))?;
        self.history.answered(floor, header_revision(answer.header()))?;
        answer.kvs().first().map(|kv| entry(&self.prefix, kv)).transpose()
    }

    async fn list(&self, list: List) -> Result<Page, StoreError> {
        if list.at == Some(0) {
            return Err(StoreError::Compacted(0));
        }
        let start = match list.after >= list.prefix {
            // The first key after it: keys are ordered as bytes.
            true if !list.after.is_empty() => format!("{}\0", self.key(&list.after)),
            _ => self.key(&list.prefix),
        };
        let start = &start;
        let end = &after_all(&self.key(&list.prefix));
        let at = list.at.map_or(0, etcd_revision);
        let mut limit = i64::try_from(list.page()).unwrap_or(i64::MAX);
        let floor = self.history.floor()?;
        loop {
            let answer = self.cluster.call(Repeat::Freely, |client| async move {
                let options = GetOptions::new().with_range(end.as_slice()).with_limit(limit).with_revision(at);
                client.kv_client().max_decoding_message_size(PAGE_BYTES).get(start.as_str(), Some(options)).await
            });
            let answer = match answer.await? {
                Ok(answer) => answer,
                Err(Error::GRpcStatus(status)) if status.code() == Code::OutOfRange => {
                    if status.message().contains("compacted") {
                        return Err(StoreError::Compacted(list.at.unwrap_or(0)));
                    }
                    if status.message().starts_with("etcdserver:") || limit == 1 {
                        return Err(StoreError::Invalid(status.message().to_owned()));
                    }
                    // Not etcd's words: the page is too large to decode.
                    limit /= 2;
                    continue;
                }
                Err(error) => return Err(refused(&error)),
            };
            self.history.answered(floor, header_revision(answer.header()))?;
            let entries = answer.kvs().iter().map(|kv| entry(&self.prefix, kv)).collect::<Result<_, _>>()?;
            let revision = list.at.unwrap_or_else(|| header_revision(answer.header()));
            return Ok(Page { entries, revision, more: answer.more() });
        }
    }

    async fn txn(&self, txn: Txn) -> Result<Committed, StoreError> {
        txn.check()?;
        let floor = self.history.floor()?;
        // etcd reads the compares of one without changes from the member that is asked, which may lag behind.
        let is_linearizable = !txn.changes.is_empty();
        let lease = txn.changes.iter().find_map(|change| match change {
            Change::Put { lease, .. } if *lease != 0 => Some(*lease),
            _ => None,
        });
        let compares: Vec<_> = txn.compares.iter().map(|compare| self.compare(compare)).collect();
        let changes: Vec<_> = txn.changes.into_iter().map(|change| self.change(change)).collect();
        let answer = self::txn(&self.cluster, EtcdTxn::new().when(compares).and_then(changes)).await?;
        let answer = answer.map_err(|error| lease_refused(&error, lease.unwrap_or(0)))?;
        let revision = header_revision(answer.header());
        if is_linearizable {
            self.history.answered(floor, revision)?;
        }
        match answer.succeeded() {
            true => Ok(Committed::Yes(revision)),
            false => Ok(Committed::Conflict),
        }
    }

    async fn watch(&self, prefix: &str, from: StoreRevision) -> Result<Watch, StoreError> {
        let from = from.max(1);
        // A watch that was lost is begun again this way: etcd may be another one since.
        self.check_id().await?;
        let key = &self.key(prefix);
        let answer = self.cluster.call(Repeat::Freely, |client| async move {
            let options = WatchOptions::new().with_prefix().with_start_revision(etcd_revision(from)).with_progress_notify();
            let mut client = client.watch_client().max_decoding_message_size(watch::RESPONSE_BYTES);
            let mut stream = client.watch(key.as_str(), Some(options)).await?;
            let created = stream.message().await?;
            Ok((stream, created))
        });
        let (stream, created) = answer.await?.map_err(|error| refused(&error))?;
        match created.and_then(|created| watch::cancelled(&created, from)) {
            Some(error) => Ok(Box::pin(futures::stream::iter([Err(error)]))),
            None => Ok(watch::batches(stream, self.prefix.clone(), from, Arc::clone(&self.history))),
        }
    }

    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        check_lease(ttl)?;
        let seconds = i64::try_from(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).unwrap_or(i64::MAX);
        // A lease granted twice ends by itself, so that repeating does no harm.
        let answer = self.cluster.call(Repeat::Freely, |client| async move { client.lease_client().grant(seconds, None).await });
        Ok(answer.await?.map_err(|error| refused(&error))?.id())
    }

    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        let answer = self.cluster.call(Repeat::Freely, |client| async move { client.lease_client().keep_alive(lease).await });
        // The answer comes with the first response; the stream for more of them is not needed.
        answer.await?.map(drop).map_err(|error| lease_refused(&error, lease))
    }

    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let answer = self.cluster.call(Repeat::IfNotSent, |client| async move { client.lease_client().revoke(lease).await });
        answer.await?.map(drop).map_err(|error| lease_refused(&error, lease))
    }

    async fn lost(&self) -> String {
        self.history.ended().await
    }
}

/// An entry below the store's prefix.
fn entry(prefix: &str, kv: &KeyValue) -> Result<Entry, StoreError> {
    let key = key_below(prefix, kv.key())?;
    Ok(Entry { key, value: kv.value().to_vec(), modified: revision(kv.mod_revision()), lease: kv.lease() })
}

fn key_below(prefix: &str, key: &[u8]) -> Result<String, StoreError> {
    let below = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(prefix));
    below.map(str::to_owned).ok_or_else(|| StoreError::Damaged(format!("{:?} in etcd is not ours", String::from_utf8_lossy(key))))
}

/// The first bytes after all that begin with this. UTF-8 never ends in the byte 255.
fn after_all(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

fn header_revision(header: Option<&ResponseHeader>) -> StoreRevision {
    header.map_or(0, |header| revision(header.revision()))
}

fn revision(revision: i64) -> StoreRevision {
    u64::try_from(revision).unwrap_or(0)
}

fn etcd_revision(revision: StoreRevision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn lease_refused(error: &Error, lease: LeaseId) -> StoreError {
    match error {
        Error::LeaseKeepAliveError(_) => StoreError::NoLease(lease),
        Error::GRpcStatus(status) if status.code() == Code::NotFound => StoreError::NoLease(lease),
        error => refused(error),
    }
}

/// What etcd refused, or how the connection ended.
fn refused(error: &Error) -> StoreError {
    let words = plain(error);
    match error {
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => StoreError::Invalid(words),
        Error::GRpcStatus(status) => match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => {
                StoreError::Unavailable(format!("etcd does not let us in: {words}; see to the etcd user, its password and its role"))
            }
            Code::InvalidArgument if words.contains("authentication failed") || words.contains("user name is empty") => {
                StoreError::Unavailable(format!("etcd does not let us in: {words}; see to the etcd user and its password"))
            }
            Code::InvalidArgument | Code::OutOfRange => StoreError::Invalid(words),
            Code::ResourceExhausted if words.contains("larger than max") => StoreError::Invalid(words),
            _ => StoreError::Unavailable(format!("etcd: {words}")),
        },
        _ => StoreError::Unavailable(format!("etcd: {words}")),
    }
}
