//! Players by name. A name leads to who is online under it, or else to who logged in last under it, or else to the user that is stored
//! with it: what was imported may know less than what was seen.

use std::time::Duration;

use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;
use uuid::Uuid;

use super::commit::put;
use super::head::{Head, decode, entry_at};
use super::journal;
use crate::keys;
use crate::replica::Replica;
use crate::status;
use crate::store::{Change, Committed, Compare, Entry, Store, StoreError, StoreRevision, Txn};

/// The longest name or UUID of a player that is looked up, in bytes: no longer one is indexed.
const MAX_PLAYER: usize = 64;
/// So often a login's entry is tried that changes get in the way of; the next login does it as well.
const ATTEMPTS: u32 = 5;

/// A player that a call is about.
#[derive(Debug, Clone)]
pub(super) struct Player {
    pub(super) uuid: Uuid,
    /// As far as known; as the player or the call spells it.
    pub(super) name: Option<String>,
    /// Where it is online, as far as this replica knows.
    pub(super) session: Option<std::sync::Arc<v1::Session>>,
}

impl Player {
    /// "6f1f6b0e-... (Ada)"
    pub(super) fn shown(&self, username: Option<&str>) -> String {
        match username.or(self.name.as_deref()) {
            Some(name) => format!("{} ({name})", self.uuid),
            None => self.uuid.to_string(),
        }
    }
}

/// The player of this name (in any case) or UUID.
pub(super) async fn find(replica: &Replica, player: &str) -> Result<Player, Status> {
    status::bounded("player", player, MAX_PLAYER)?;
    let session = replica.presence.find(player);
    if let Ok(uuid) = Uuid::try_parse(player) {
        let name = session.as_ref().map(|session| session.player.clone());
        return Ok(Player { uuid, name, session });
    }
    if let Some(online) = &session
        && let Ok(uuid) = Uuid::try_parse(&online.player_uuid)
    {
        return Ok(Player { uuid, name: Some(online.player.clone()), session });
    }
    match known(&*replica.store, player).await.map_err(status::store)? {
        Some(uuid) => Ok(Player { uuid, name: Some(player.to_owned()), session: None }),
        None => Err(Status::not_found(format!(
            "no player called {player:?} is stored, or has logged in so far: check the spelling, or give the UUID"
        ))),
    }
}

async fn known(store: &dyn Store, name: &str) -> Result<Option<Uuid>, StoreError> {
    let head = Head::read(store).await?;
    let seen = uuid_at(store, &keys::permission_player(name), Some(head.revision)).await?;
    match seen {
        Some((uuid, _)) => Ok(Some(uuid)),
        None => Ok(uuid_at(store, &keys::permission_name(&head.generation, name), Some(head.revision)).await?.map(|(uuid, _)| uuid)),
    }
}

async fn uuid_at(store: &dyn Store, key: &str, at: Option<StoreRevision>) -> Result<Option<(Uuid, Entry)>, StoreError> {
    let (entry, _) = entry_at(store, key, at).await?;
    Ok(entry.and_then(|entry| Some((Uuid::try_parse_ascii(&entry.value).ok()?, entry))))
}

/// What keeps the index of names in step when a user is stored as `after` and was as `before`.
pub(super) async fn index(
    store: &dyn Store,
    head: &Head,
    uuid: Uuid,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(Vec<Compare>, Vec<Change>), StoreError> {
    let key = |name: Option<&str>| name.and_then(|name| name_key(&head.generation, name));
    let (before, after) = (key(before), key(after));
    let (mut compares, mut changes) = (Vec::new(), Vec::new());
    if before == after {
        return Ok((compares, changes));
    }
    // The old name may be another's by now.
    if let Some(key) = before
        && let Some((holder, entry)) = uuid_at(store, &key, Some(head.revision)).await?
        && holder == uuid
    {
        compares.push(Compare::Modified(key.clone(), entry.modified));
        changes.push(Change::Delete(key));
    }
    changes.extend(after.map(|key| put(key, uuid.to_string().into_bytes())));
    Ok((compares, changes))
}

/// Where the index has a name, if it has it.
pub(super) fn name_key(generation: &str, name: &str) -> Option<String> {
    (1..=MAX_PLAYER).contains(&name.len()).then(|| keys::permission_name(generation, name))
}

/// Notes who logged in under a name, so that the player is found by it later on, and brings the name of the stored user in step.
pub(crate) async fn saw_player(store: &dyn Store, name: &str, uuid: Uuid) -> Result<(), StoreError> {
    let key = keys::permission_player(name);
    for attempt in 0..ATTEMPTS {
        let head = Head::read(store).await?;
        let (entry, _) = entry_at(store, &key, Some(head.revision)).await?;
        let is_known = entry.as_ref().is_some_and(|entry| Uuid::try_parse_ascii(&entry.value).ok() == Some(uuid));
        let user_key = keys::permission_user(&head.generation, uuid);
        let (stored, _) = entry_at(store, &user_key, Some(head.revision)).await?;
        let mut compares = vec![head.unchanged(), Compare::unchanged(&key, entry.as_ref()), Compare::unchanged(&user_key, stored.as_ref())];
        let mut changes = Vec::new();
        if !is_known {
            changes.push(put(key.clone(), uuid.to_string().into_bytes()));
        }
        // Compared even if the login is no news: an import may have brought an older name since. What cannot be read has none.
        if let Some(user) = stored.as_ref().and_then(|stored| decode::<v1::PermissionUser>(stored).ok())
            && user.username != name
        {
            let (more, index) = index(store, &head, uuid, Some(&user.username), Some(name)).await?;
            compares.extend(more);
            changes.extend(index);
            changes.push(put(user_key, v1::PermissionUser { username: name.to_owned(), ..user }.encode_to_vec()));
            changes.push(journal::note(&changes));
        }
        if changes.is_empty() {
            return Ok(());
        }
        if let Committed::Yes(_) = store.txn(Txn { compares, changes }).await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=5 << attempt))).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::users::{Record, read_user};
    use crate::store::embedded::Embedded;

    const ADA: Uuid = Uuid::from_u128(10);
    const EVE: Uuid = Uuid::from_u128(14);

    #[tokio::test]
    async fn a_name_leads_to_who_was_seen_with_it_last_and_a_stored_user_goes_by_its_newest_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(folder.path()).expect("a store");
        assert_eq!(known(&store, "Ada").await.expect("an answer"), None);
        let stored = v1::PermissionUser { uuid: ADA.to_string(), username: "Ada".to_owned(), ..v1::PermissionUser::default() };
        let changes = vec![
            put(keys::permission_user("0", ADA), stored.encode_to_vec()),
            put(keys::permission_name("0", "Ada"), ADA.to_string().into_bytes()),
        ];
        store.txn(Txn { compares: Vec::new(), changes }).await.expect("stored");
        assert_eq!(known(&store, "ADA").await.expect("an answer"), Some(ADA));
        saw_player(&store, "ada", EVE).await.expect("seen");
        assert_eq!(known(&store, "Ada").await.expect("an answer"), Some(EVE));
        saw_player(&store, "Ada2", ADA).await.expect("seen");
        assert_eq!(known(&store, "ada2").await.expect("an answer"), Some(ADA));
        let user = read_user(&store, ADA).await.expect("an answer");
        assert!(matches!(&user.record, Record::User(stored) if stored.username == "Ada2"), "{user:?}");
        assert!(store.get(&keys::permission_name("0", "ada")).await.expect("an answer").is_none());
        // Nothing is written when nothing is new.
        saw_player(&store, "Ada2", ADA).await.expect("seen");
        assert_eq!(read_user(&store, ADA).await.expect("an answer"), user);
    }

    #[tokio::test]
    async fn a_user_imported_under_an_older_name_goes_by_its_own_from_the_next_login_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(folder.path()).expect("a store");
        saw_player(&store, "Ada2", ADA).await.expect("seen");
        let old = v1::PermissionUser { uuid: ADA.to_string(), username: "Ada".to_owned(), ..v1::PermissionUser::default() };
        let changes = vec![
            put(keys::permission_user("0", ADA), old.encode_to_vec()),
            put(keys::permission_name("0", "Ada"), ADA.to_string().into_bytes()),
        ];
        store.txn(Txn { compares: Vec::new(), changes }).await.expect("imported");
        saw_player(&store, "Ada2", ADA).await.expect("seen");
        let user = read_user(&store, ADA).await.expect("an answer");
        assert!(matches!(&user.record, Record::User(stored) if stored.username == "Ada2"), "{user:?}");
        assert_eq!((known(&store, "Ada").await.expect("an answer"), known(&store, "ada2").await.expect("an answer")), (None, Some(ADA)));
        // What cannot be read is in no login's way.
        store.txn(Txn { compares: Vec::new(), changes: vec![put(keys::permission_user("0", ADA), vec![0xff])] }).await.expect("damaged");
        saw_player(&store, "Ada3", ADA).await.expect("seen");
        assert_eq!(known(&store, "ada3").await.expect("an answer"), Some(ADA));
    }
}
