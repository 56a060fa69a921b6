//! Players by name. A name leads to who is online under it, or else to the user that is stored with it, or else to who logged in last
//! under it.

use std::time::Duration;

use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;
use uuid::Uuid;

use super::head::{Head, decode, entry_at, unchanged};
use crate::keys;
use crate::replica::Replica;
use crate::status;
use crate::store::{Change, Committed, Compare, Entry, Store, StoreError, StoreRevision, Txn};

/// The longest name or UUID of a player that is looked up, in bytes.
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
    let stored = uuid_at(store, &keys::permission_name(&head.generation, name), Some(head.revision)).await?;
    match stored {
        Some((uuid, _)) => Ok(Some(uuid)),
        None => Ok(uuid_at(store, &keys::permission_player(name), Some(head.revision)).await?.map(|(uuid, _)| uuid)),
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
    let key = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(|name| keys::permission_name(&head.generation, name));
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
    changes.extend(after.map(|key| super::commit::put(key, uuid.to_string().into_bytes())));
    Ok((compares, changes))
}

/// Notes who logged in under a name, so that the player is found by it later on. If it is another than before, stored users are
/// brought in step: this one has the name now, and nobody else.
pub(crate) async fn saw_player(store: &dyn Store, name: &str, uuid: Uuid) -> Result<(), StoreError> {
    let key = keys::permission_player(name);
    for attempt in 0..ATTEMPTS {
        let head = Head::read(store).await?;
        let (entry, _) = entry_at(store, &key, Some(head.revision)).await?;
        if entry.as_ref().is_some_and(|entry| Uuid::try_parse_ascii(&entry.value).ok() == Some(uuid)) {
            return Ok(());
        }
        let mut compares = vec![head.unchanged(), unchanged(&key, entry.as_ref())];
        let mut changes = vec![super::commit::put(key.clone(), uuid.to_string().into_bytes())];
        rename(store, &head, name, uuid, &mut compares, &mut changes).await?;
        if let Committed::Yes(_) = store.txn(Txn { compares, changes }).await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=5 << attempt))).await;
    }
    Ok(())
}

async fn rename(
    store: &dyn Store,
    head: &Head,
    name: &str,
    uuid: Uuid,
    compares: &mut Vec<Compare>,
    changes: &mut Vec<Change>,
) -> Result<(), StoreError> {
    let user_key = keys::permission_user(&head.generation, uuid);
    let (stored, _) = entry_at(store, &user_key, Some(head.revision)).await?;
    compares.push(unchanged(&user_key, stored.as_ref()));
    if let Some(entry) = &stored {
        let user: v1::PermissionUser = decode(entry)?;
        if user.username != name {
            let (more, index) = index(store, head, uuid, Some(&user.username), Some(name)).await?;
            compares.extend(more);
            changes.extend(index);
            changes.push(super::commit::put(user_key, v1::PermissionUser { username: name.to_owned(), ..user }.encode_to_vec()));
            changes.push(super::commit::put(keys::PERMISSIONS_REVISION.to_owned(), Vec::new()));
        }
        return Ok(());
    }
    // The name is no longer that of whoever is stored with it.
    let name_key = keys::permission_name(&head.generation, name);
    if let Some((holder, entry)) = uuid_at(store, &name_key, Some(head.revision)).await?
        && holder != uuid
    {
        compares.push(Compare::Modified(name_key.clone(), entry.modified));
        changes.push(Change::Delete(name_key));
        changes.push(super::commit::put(keys::PERMISSIONS_REVISION.to_owned(), Vec::new()));
    }
    Ok(())
}
