//! An import: everything at once, or nothing.
//!
//! What comes is validated whole and kept in a temporary file ([`spool`]) before anything is written. Then a new generation is made of
//! it and what is stored ([`merge`]), a page of each in memory at a time, under a key with a lease that says that somebody is at it
//! ([`generation`]). One transaction makes it visible, on the condition that nothing it was made of has changed: otherwise it is made
//! anew. What is left of one that was not finished, and what a finished one replaced, the sweeper removes ([`super::sweep`]).

mod generation;
mod merge;
mod received;
mod report;
mod spool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moonbridge_proto::v1;
use prost::Message;
use tonic::{Status, Streaming};

use self::generation::Generation;
use self::received::Received;
use self::report::Report;
use super::commit::{MAX_RECORD, put};
use super::head::{self, Head, decode, unchanged};
use super::pages::Users;
use crate::audit;
use crate::auth::Caller;
use crate::replica::Replica;
use crate::store::{Committed, Store, StoreRevision, Txn};
use crate::{keys, status};

/// So often an import is made anew when changes get in between.
const ATTEMPTS: usize = 5;

pub(super) async fn import(
    replica: &Replica,
    caller: &Caller,
    messages: Streaming<v1::ImportRequest>,
) -> Result<v1::ImportResponse, Status> {
    let mut received = Received::read(messages).await?;
    if received.dry_run {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let report = make(&replica.store, &head, &mut received, None).await?;
        return Ok(report.answer(None));
    }
    for _ in 0..ATTEMPTS {
        if let Some((report, revision)) = attempt(replica, caller, &mut received).await? {
            tracing::info!(by = %caller.name, source = received.source, revision, "permissions imported");
            return Ok(report.answer(Some(revision)));
        }
    }
    Err(Status::aborted("permissions keep changing while they are imported: try again when it is quieter"))
}

/// Writes a generation and makes it visible; `None` if something has changed meanwhile.
async fn attempt(replica: &Replica, caller: &Caller, received: &mut Received) -> Result<Option<(Report, StoreRevision)>, Status> {
    let store = &replica.store;
    let head = Head::read(&**store).await.map_err(status::store)?;
    let (changed, _) = head::entry_at(&**store, keys::PERMISSIONS_REVISION, Some(head.revision)).await.map_err(status::store)?;
    let mut generation = Generation::begin(store.clone()).await?;
    let made = make(store, &head, received, Some(&mut generation)).await;
    let report = match made {
        Ok(report) => report,
        Err(status) => {
            generation.give_up().await;
            return Err(status);
        }
    };
    let entry = audit::Entry {
        what: "permission.import",
        target: received.target(),
        before: vec![format!("generation {}", head.generation)],
        after: std::iter::once(format!("generation {}", generation.name())).chain(report.counts()).collect(),
    };
    let value = v1::PermissionHead { generation: generation.name().to_owned() }.encode_to_vec();
    let txn = Txn {
        compares: vec![head.unchanged(), unchanged(keys::PERMISSIONS_REVISION, changed.as_ref()), generation.goes_on()],
        changes: vec![
            put(keys::PERMISSION_HEAD.to_owned(), value),
            put(keys::PERMISSIONS_REVISION.to_owned(), Vec::new()),
            put(keys::RESOURCES_REVISION.to_owned(), Vec::new()),
            entry.change(caller, &replica.name),
        ],
    };
    let committed = store.txn(txn).await;
    generation.give_up().await;
    match committed.map_err(status::change)? {
        Committed::Yes(revision) => Ok(Some((report, revision))),
        Committed::Conflict => Ok(None),
    }
}

/// Makes what is to be visible of what has come and what is stored, writes it (if that is wanted), and reports on it. What is stored is
/// read as it is at every moment: that it was the same at all of them, the transaction at the end compares.
async fn make(store: &Arc<dyn Store>, head: &Head, received: &mut Received, mut out: Option<&mut Generation>) -> Result<Report, Status> {
    let mode = received.mode;
    let mut report = Report::default();
    let (groups, tracks) = (stored(&**store, head, keys::PERMISSION_GROUPS).await?, stored(&**store, head, keys::PERMISSION_TRACKS).await?);
    let groups = join(&received.groups, &groups, |old, new| merge::group(mode, old, new), |old, new| report.group(old, new));
    merge::check(&groups)?;
    let tracks = join(&received.tracks, &tracks, |old, new| merge::track(mode, old, new), |old, new| report.track(old, new));
    for group in &groups {
        fits(&format!("group {}", group.name), group)?;
    }
    if let Some(out) = out.as_deref_mut() {
        for group in &groups {
            out.group(group).await?;
        }
        for track in &tracks {
            out.track(track).await?;
        }
    }
    let (mut stored, mut coming) = (Users::now(&**store, head), received.users.read().await?);
    let (mut old, mut new) = (stored.next().await.map_err(status::store)?, coming.next().await?);
    loop {
        let first = match (&old, &new) {
            (Some((old, _)), Some(new)) => old.uuid.cmp(&new.uuid),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        let before = if first.is_le() { std::mem::replace(&mut old, stored.next().await.map_err(status::store)?) } else { None };
        let given = if first.is_ge() { std::mem::replace(&mut new, coming.next().await?) } else { None };
        let before = before.map(|(user, _)| user);
        let after = merge::user(mode, before.as_ref(), given);
        report.user(before.as_ref(), after.as_ref());
        let Some(user) = &after else { continue };
        fits(&format!("user {}", user.uuid), user)?;
        if let Some(out) = out.as_deref_mut() {
            out.user(user).await?;
        }
    }
    if let Some(out) = out {
        out.written().await?;
    }
    Ok(report)
}

/// Refuses a record that has become too large by what was added to it.
fn fits(target: &str, record: &impl Message) -> Result<(), Status> {
    match record.encoded_len() {
        0..=MAX_RECORD => Ok(()),
        bytes => Err(Status::invalid_argument(format!(
            "the {target} would have {bytes} bytes; at most {MAX_RECORD} are kept of one. Nothing was imported"
        ))),
    }
}

/// Every stored record of a kind that is few, by name.
async fn stored<T: Message + Default>(store: &dyn Store, head: &Head, prefix: &str) -> Result<BTreeMap<String, T>, Status> {
    let prefix = keys::generation(prefix, &head.generation);
    let entries = head::list_at(store, &prefix, head.revision).await.map_err(status::store)?;
    let read = entries.into_iter().map(|entry| Ok((entry.key[prefix.len()..].to_owned(), decode(&entry).map_err(status::store)?)));
    read.collect()
}

/// What becomes of each record that is stored or has come.
fn join<T: Clone>(
    coming: &BTreeMap<String, T>,
    stored: &BTreeMap<String, T>,
    merge: impl Fn(Option<&T>, Option<&T>) -> Option<T>,
    mut report: impl FnMut(Option<&T>, Option<&T>),
) -> Vec<T> {
    let names: BTreeSet<&String> = coming.keys().chain(stored.keys()).collect();
    let mut made = Vec::new();
    for name in names {
        let old = stored.get(name);
        let new = merge(old, coming.get(name));
        report(old, new.as_ref());
        made.extend(new);
    }
    made
}
