//! An import: everything at once, or nothing.
//!
//! What comes is validated whole and kept in a temporary file ([`spool`]) before anything is written. Then a new generation is made of
//! it and what is stored ([`merge`]), a page of each in memory at a time, under a key with a lease that says that somebody is at it
//! ([`generation`]). One transaction makes it visible, on the condition that nothing it was made of has changed: otherwise the changes
//! are carried over first ([`carry`]). What is left of one that was not finished, and what a finished one replaced, the sweeper removes
//! ([`super::sweep`]).

mod carry;
mod generation;
mod merge;
mod missing;
mod received;
mod report;
mod spool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moonbridge_proto::v1;
use prost::Message;
use tonic::{Status, Streaming};

use self::generation::Generation;
use self::merge::Mode;
use self::missing::Missing;
use self::received::Received;
use self::report::Report;
use super::bounds::Size;
use super::commit::{MAX_RECORD, put};
use super::head::{self, Head, decode};
use super::journal::Journal;
use super::pages::Users;
use super::unreadable;
use crate::audit;
use crate::auth::Access;
use crate::replica::Replica;
use crate::store::{Committed, Compare, Store, StoreError, StoreRevision, Txn};
use crate::{keys, status};

/// So often an import is made anew when what it is made of cannot be told any more.
const ATTEMPTS: usize = 5;
/// So often one attempt carries over what has changed meanwhile: each time it is less.
const ROUNDS: usize = 100;

pub(super) async fn import(
    replica: &Replica,
    access: &Access,
    messages: Streaming<v1::ImportRequest>,
) -> Result<v1::ImportResponse, Status> {
    let mut received = Received::read(messages).await?;
    // Made once without being written: that something is wrong with it, or nothing new, comes to light before anything is stored.
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let Made { report, .. } = make(&replica.store, &head, &mut received, None).await?;
    if received.dry_run || !report.changes_something() {
        return Ok(report.answer(&received, 0));
    }
    for _ in 0..ATTEMPTS {
        if let Some((report, revision)) = attempt(replica, access, &mut received).await? {
            tracing::info!(by = %access.caller.name, source = received.source, revision, "permissions imported");
            return Ok(report.answer(&received, revision));
        }
    }
    Err(Status::aborted("permissions keep changing while they are imported: try again when it is quieter"))
}

/// Writes a generation and makes it visible; `None` if it has to be made anew.
async fn attempt(replica: &Replica, access: &Access, received: &mut Received) -> Result<Option<(Report, StoreRevision)>, Status> {
    let head = Head::read(&*replica.store).await.map_err(status::store)?;
    let mut generation = Generation::begin(replica.store.clone()).await?;
    let made = write(replica, access, &head, received, &mut generation).await;
    generation.give_up().await;
    made
}

async fn write(
    replica: &Replica,
    access: &Access,
    head: &Head,
    received: &mut Received,
    generation: &mut Generation,
) -> Result<Option<(Report, StoreRevision)>, Status> {
    let store = &replica.store;
    let journal = Journal::follow(store.clone(), head.revision + 1);
    let (mut seen, _) = head::entry_at(&**store, keys::PERMISSIONS_REVISION, Some(head.revision)).await.map_err(status::store)?;
    let Made { report, mut few } = make(store, head, received, Some(generation)).await?;
    for _ in 0..ROUNDS {
        let entry = audit::Entry {
            what: "permission.import",
            target: received.target(),
            before: vec![format!("generation {}", head.generation)],
            after: std::iter::once(format!("generation {}", generation.name())).chain(report.counts()).collect(),
        };
        let value = v1::PermissionHead { generation: generation.name().to_owned() }.encode_to_vec();
        let txn = Txn {
            compares: vec![head.unchanged(), Compare::unchanged(keys::PERMISSIONS_REVISION, seen.as_ref()), generation.goes_on()],
            changes: vec![
                put(keys::PERMISSION_HEAD.to_owned(), value),
                put(keys::PERMISSIONS_REVISION.to_owned(), Vec::new()),
                put(keys::RESOURCES_REVISION.to_owned(), Vec::new()),
                entry.change(&access.caller, &replica.name),
            ],
        };
        access.still_holds()?;
        if let Committed::Yes(revision) = store.txn(txn).await.map_err(status::change)? {
            return Ok(Some((report, revision)));
        }
        let (newest, at) = head::entry_at(&**store, keys::PERMISSIONS_REVISION, None).await.map_err(status::store)?;
        if newest == seen {
            // Its lease has ended.
            return Ok(None);
        }
        let moved = newest.as_ref().map_or(at, |newest| newest.modified);
        let Some(changed) = journal.changed_up_to(moved).await else { return Ok(None) };
        carry::over(&**store, head, at, &changed, received, &mut few, generation).await?;
        seen = newest;
    }
    Ok(None)
}

/// What was made of what has come and what is stored.
struct Made {
    report: Report,
    few: Few,
}

/// Groups and tracks: they are held in memory.
struct Few {
    groups: Vec<v1::PermissionGroup>,
    tracks: Vec<v1::PermissionTrack>,
}

/// Makes what is to be visible of what has come and what is stored, writes it (if that is wanted), and reports on it. Users are read as
/// they are at every moment: that they were the same at all of them, the transaction at the end compares.
async fn make(store: &Arc<dyn Store>, head: &Head, received: &mut Received, mut out: Option<&mut Generation>) -> Result<Made, Status> {
    let mode = received.mode;
    let mut report = Report::default();
    let few = Few::make(&**store, head, head.revision, received, &mut report).await?;
    if let Some(out) = out.as_deref_mut() {
        few.write(out).await?;
    }
    let (mut stored, mut coming) = (Users::now(&**store, head), received.users.read().await?);
    let (mut old, mut new) = (next_stored(&mut stored, mode, &mut report).await?, coming.next().await?);
    loop {
        let first = match (&old, &new) {
            (Some(old), Some(new)) => old.uuid.cmp(&new.uuid),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        let before = if first.is_le() { std::mem::replace(&mut old, next_stored(&mut stored, mode, &mut report).await?) } else { None };
        let given = if first.is_ge() { std::mem::replace(&mut new, coming.next().await?) } else { None };
        if let Some(given) = &given {
            report.missing.user(given);
        }
        let both = before.is_some() && given.is_some();
        let after = merge::user(mode, before.as_ref(), given);
        report.user(before.as_ref(), after.as_ref());
        let Some(user) = &after else { continue };
        if both {
            merge::check_user(user)?;
        }
        fits(&format!("user {}", user.uuid), user)?;
        if let Some(out) = out.as_deref_mut() {
            out.user(user).await?;
        }
    }
    if let Some(out) = out {
        out.written().await?;
    }
    Ok(Made { report, few })
}

impl Few {
    /// All there are to be, of what was stored at a revision.
    async fn make(store: &dyn Store, head: &Head, at: StoreRevision, received: &Received, report: &mut Report) -> Result<Self, Status> {
        let mode = received.mode;
        let groups = stored(store, head, at, keys::PERMISSION_GROUPS, mode, report).await?;
        let groups = join(&received.groups, &groups, |old, new| merge::group(mode, old, new), |old, new| report.group(old, new));
        let tracks = stored(store, head, at, keys::PERMISSION_TRACKS, mode, report).await?;
        let tracks = join(&received.tracks, &tracks, |old, new| merge::track(mode, old, new), |old, new| report.track(old, new));
        merge::check(&groups)?;
        let mut size = Size::default();
        for group in &groups {
            fits(&format!("group {}", group.name), group)?;
            size.add(group);
        }
        tracks.iter().for_each(|track| size.add(track));
        size.check("what is stored and what was to be imported")?;
        report.missing = Missing::beside(groups.iter().map(|group| group.name.as_str()));
        received.groups.values().for_each(|group| report.missing.group(group));
        received.tracks.values().for_each(|track| report.missing.track(track));
        Ok(Self { groups, tracks })
    }

    async fn write(&self, out: &mut Generation) -> Result<(), Status> {
        for group in &self.groups {
            out.group(group).await?;
        }
        for track in &self.tracks {
            out.track(track).await?;
        }
        Ok(())
    }
}

/// What is to be replaced need not be readable: an import is how it is set anew.
async fn next_stored(stored: &mut Users<'_>, mode: Mode, report: &mut Report) -> Result<Option<v1::PermissionUser>, Status> {
    loop {
        match stored.next().await {
            Ok(next) => return Ok(next.map(|(user, _)| user)),
            Err(StoreError::Damaged(_)) if mode == Mode::Replace => report.unreadable(stored.last()),
            Err(error) => return Err(unreadable::refused(error)),
        }
    }
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

/// Every record of a kind that is few, by name, as it was stored at a revision.
async fn stored<T: Message + Default>(
    store: &dyn Store,
    head: &Head,
    at: StoreRevision,
    prefix: &str,
    mode: Mode,
    report: &mut Report,
) -> Result<BTreeMap<String, T>, Status> {
    let prefix = keys::generation(prefix, &head.generation);
    let mut stored = BTreeMap::new();
    for entry in head::list_at(store, &prefix, at).await.map_err(status::store)? {
        match decode(&entry) {
            Ok(record) => drop(stored.insert(entry.key[prefix.len()..].to_owned(), record)),
            Err(_) if mode == Mode::Replace => report.unreadable(&entry.key),
            Err(error) => return Err(unreadable::refused(error)),
        }
    }
    Ok(stored)
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
