//! Changes that come while an import writes are carried over into what it writes: made of what is stored now, and of what has come, as if
//! they had been there before.

use std::collections::BTreeSet;

use moonbridge_proto::v1;
use tonic::Status;

use super::generation::Generation;
use super::merge::{self, Mode};
use super::received::Received;
use super::report::Report;
use super::{Few, fits};
use crate::permissions::head::{Head, decode};
use crate::permissions::unreadable;
use crate::store::{Store, StoreRevision};
use crate::{keys, status};

/// Makes these records anew, by their keys in the visible generation; groups and tracks as they were stored at a revision, and all of
/// them if one has changed: what holds for them as a whole is checked again.
pub(super) async fn over(
    store: &dyn Store,
    head: &Head,
    at: StoreRevision,
    changed: &BTreeSet<String>,
    received: &mut Received,
    few: &mut Few,
    out: &mut Generation,
) -> Result<(), Status> {
    // Whatever was there is replaced, changed or not.
    if received.mode == Mode::Replace {
        return Ok(());
    }
    let of = |prefix: &'static str| {
        let names = changed.iter().filter_map(move |key| keys::in_generation(prefix, key));
        names.filter(|(generation, _)| *generation == head.generation).map(|(_, name)| name)
    };
    if of(keys::PERMISSION_GROUPS).chain(of(keys::PERMISSION_TRACKS)).next().is_some() {
        let before = std::mem::replace(few, Few::make(store, head, at, received, &mut Report::default()).await?);
        remove_gone(&before, few, out).await?;
        few.write(out).await?;
    }
    // In the order of those that have come.
    let users: BTreeSet<&str> = of(keys::PERMISSION_USERS).collect();
    // A name that one has given up another may have taken.
    for uuid in &users {
        out.remove_name_of(uuid).await?;
    }
    out.written().await?;
    let mut coming = received.users.read().await?;
    let mut given = coming.next().await?;
    for uuid in users {
        while given.as_ref().is_some_and(|given| given.uuid.as_str() < uuid) {
            given = coming.next().await?;
        }
        let key = format!("{}{uuid}", keys::generation(keys::PERMISSION_USERS, &head.generation));
        let entry = store.get(&key).await.map_err(status::store)?;
        let stored: Option<v1::PermissionUser> = entry.as_ref().map(decode).transpose().map_err(unreadable::refused)?;
        match merge::user(received.mode, stored.as_ref(), given.clone().filter(|given| given.uuid == uuid)) {
            Some(user) => {
                fits(&format!("user {uuid}"), &user)?;
                merge::check_user(&user)?;
                out.user(&user).await?;
            }
            None => out.remove_user(uuid).await?,
        }
    }
    out.written().await
}

/// Takes out what is not there any more.
async fn remove_gone(before: &Few, after: &Few, out: &mut Generation) -> Result<(), Status> {
    let groups: BTreeSet<&str> = after.groups.iter().map(|group| group.name.as_str()).collect();
    for gone in before.groups.iter().filter(|group| !groups.contains(group.name.as_str())) {
        out.remove(keys::permission_group(out.name(), &gone.name)).await?;
    }
    let tracks: BTreeSet<&str> = after.tracks.iter().map(|track| track.name.as_str()).collect();
    for gone in before.tracks.iter().filter(|track| !tracks.contains(track.name.as_str())) {
        out.remove(keys::permission_track(out.name(), &gone.name)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prost::Message;

    use super::super::{Made, make};
    use super::*;
    use crate::permissions::commit::put;
    use crate::permissions::journal::{self, Journal};
    use crate::store::embedded::Embedded;
    use crate::store::{Change, Committed, List, Txn};

    fn uuid(index: usize) -> String {
        uuid::Uuid::from_u128(index as u128).to_string()
    }

    fn node(key: &str) -> v1::PermissionNode {
        v1::PermissionNode { key: key.to_owned(), value: true, ..v1::PermissionNode::default() }
    }

    fn user(index: usize, name: &str, key: &str) -> v1::PermissionUser {
        v1::PermissionUser { uuid: uuid(index), username: name.to_owned(), nodes: vec![node(key)], ..v1::PermissionUser::default() }
    }

    fn put_user(index: usize, name: &str, key: &str) -> Change {
        put(format!("{}0/{}", keys::PERMISSION_USERS, uuid(index)), user(index, name, key).encode_to_vec())
    }

    fn remove_user(index: usize) -> Change {
        Change::Delete(format!("{}0/{}", keys::PERMISSION_USERS, uuid(index)))
    }

    fn group(name: &str, key: &str) -> v1::PermissionGroup {
        v1::PermissionGroup { name: name.to_owned(), nodes: vec![node(key)] }
    }

    fn put_group(name: &str, key: &str) -> Change {
        put(keys::permission_group("0", name), group(name, key).encode_to_vec())
    }

    async fn change(store: &dyn Store, mut changes: Vec<Change>) -> StoreRevision {
        changes.push(journal::note(&changes));
        match store.txn(Txn { compares: Vec::new(), changes }).await.expect("stored") {
            Committed::Yes(revision) => revision,
            Committed::Conflict => unreachable!("nothing is compared"),
        }
    }

    async fn received(groups: &[v1::PermissionGroup], users: &[v1::PermissionUser]) -> Received {
        use v1::permission_record::Record;
        let mut received = Received::new(v1::ImportHeader::default()).await.expect("a file");
        let groups = groups.iter().cloned().map(Record::Group);
        for record in groups.chain(users.iter().cloned().map(Record::User)) {
            received.take(v1::PermissionRecord { record: Some(record) }).await.expect("valid");
        }
        received
    }

    /// All there is of a generation below a prefix, by what follows that.
    async fn all(store: &dyn Store, prefix: &str, generation: &str) -> Vec<(String, Vec<u8>)> {
        let prefix = keys::generation(prefix, generation);
        let page = store.list(List { prefix: prefix.clone(), ..List::default() }).await.expect("a page");
        page.entries.into_iter().map(|entry| (entry.key[prefix.len()..].to_owned(), entry.value)).collect()
    }

    #[tokio::test]
    async fn what_changed_meanwhile_is_as_if_it_had_been_there_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let store: Arc<dyn Store> = Arc::new(Embedded::open(folder.path()).expect("a store"));
        let users = (1..=6).map(|index| put_user(index, &format!("N{index}"), "old"));
        change(&*store, users.chain([put_group("stays", "old"), put_group("goes", "old")]).collect()).await;
        let head = Head::read(&*store).await.expect("the head");
        let file_groups = [group("both", "file"), group("stays", "file")];
        let file_users = [user(2, "", "file"), user(4, "", "file"), user(8, "N8", "file")];
        let mut received = received(&file_groups, &file_users).await;
        let mut out = Generation::begin(store.clone()).await.expect("a generation");
        let journal = Journal::follow(store.clone(), head.revision + 1);
        let Made { mut few, .. } = make(&store, &head, &mut received, Some(&mut out)).await.expect("made");

        // Changed, changed and in the file, removed, removed and in the file, new, two who swap their names.
        let changes = vec![put_user(1, "N1", "new"), put_user(2, "Other", "new"), remove_user(3), remove_user(4), put_user(7, "N7", "new")];
        change(&*store, changes).await;
        change(&*store, vec![put_user(5, "N6", "old"), put_user(6, "N5", "old")]).await;
        let changes = vec![put_group("stays", "new"), Change::Delete(keys::permission_group("0", "goes")), put_group("comes", "new")];
        let at = change(&*store, changes).await;
        let changed = journal.changed_up_to(at).await.expect("told");
        over(&*store, &head, at, &changed, &mut received, &mut few, &mut out).await.expect("carried over");

        // The same as an import that begins now makes.
        let mut anew = Generation::begin(store.clone()).await.expect("a generation");
        let head = Head::read(&*store).await.expect("the head");
        make(&store, &head, &mut received, Some(&mut anew)).await.expect("made");
        for prefix in [keys::PERMISSION_USERS, keys::PERMISSION_NAMES, keys::PERMISSION_GROUPS, keys::PERMISSION_TRACKS] {
            assert_eq!(all(&*store, prefix, out.name()).await, all(&*store, prefix, anew.name()).await, "{prefix}");
        }
        let users = all(&*store, keys::PERMISSION_USERS, out.name()).await;
        assert_eq!(users.iter().map(|(uuid, _)| uuid.clone()).collect::<Vec<_>>(), [1, 2, 4, 5, 6, 7, 8].map(uuid));
    }
}
