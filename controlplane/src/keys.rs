//! Where things lie in the store. Every value is an encoded message of `moonbridge.v1`, unless it says otherwise.
//!
//! | Key | Value |
//! |---|---|
//! | `resources/revision` | empty; written by every change of a resource, removals too, so that its modification is the snapshot's number |
//! | `resources/settings` | `Settings` |
//! | `resources/backends/NAME` | `Backend` |
//! | `resources/routes/HOST` | `Route` |
//! | `resources/permissions/head` | `PermissionHead`: the generation of all below that has one in its key; absent: `0` |
//! | `resources/permissions/settings` | `PermissionSettings` |
//! | `resources/permissions/groups/GEN/NAME` | `PermissionGroup` |
//! | `resources/permissions/tracks/GEN/NAME` | `PermissionTrack` |
//! | `permissions/users/GEN/UUID` | `PermissionUser` (UUIDs dashed, in lower case) |
//! | `permissions/names/GEN/NAME` | which of them has this name, in lower case: its UUID (text) |
//! | `permissions/players/NAME` | who logged in last under this name, in lower case: its UUID (text) |
//! | `permissions/revision` | written by every change of a user, group or track, which do not compare it: an import does; the keys of what changed, a line each |
//! | `permissions/imports/GEN` | empty, under a lease: an import is writing this generation |
//! | `presence/nodes/NODE` | `Node`, under the node's lease |
//! | `presence/streams/NODE` | the id of the newest stream of the node (text), under its lease: the fence of all its writes |
//! | `presence/sessions/NODE/SESSION` | `Session`, under the node's lease, from its claim on |
//! | `claims/uuid/UUID`, `claims/name/NAME` | whose the player is: `NODE/SESSION` (text), under that node's lease |
//! | `commands/ID` | `Command` |
//! | `deliveries/NODE/ID` | `Delivery`, under the node's lease, until it is sent |
//! | `tokens/NAME` | `AdminToken` |
//! | `audit/KEY` | `AuditRecord`; the key counts down as the ids count up, so that the newest come first |

use moonbridge_proto::v1;
use uuid::Uuid;

pub(crate) const RESOURCES: &str = "resources/";
pub(crate) const RESOURCES_REVISION: &str = "resources/revision";
pub(crate) const SETTINGS: &str = "resources/settings";
pub(crate) const BACKENDS: &str = "resources/backends/";
pub(crate) const ROUTES: &str = "resources/routes/";
pub(crate) const PERMISSION_RESOURCES: &str = "resources/permissions/";
pub(crate) const PERMISSION_HEAD: &str = "resources/permissions/head";
pub(crate) const PERMISSION_SETTINGS: &str = "resources/permissions/settings";
pub(crate) const PERMISSION_GROUPS: &str = "resources/permissions/groups/";
pub(crate) const PERMISSION_TRACKS: &str = "resources/permissions/tracks/";
pub(crate) const PERMISSION_USERS: &str = "permissions/users/";
pub(crate) const PERMISSION_NAMES: &str = "permissions/names/";
pub(crate) const PERMISSION_PLAYERS: &str = "permissions/players/";
pub(crate) const PERMISSIONS_REVISION: &str = "permissions/revision";
pub(crate) const PERMISSION_IMPORTS: &str = "permissions/imports/";
pub(crate) const PRESENCE: &str = "presence/";
pub(crate) const NODES: &str = "presence/nodes/";
pub(crate) const STREAMS: &str = "presence/streams/";
pub(crate) const SESSIONS: &str = "presence/sessions/";
pub(crate) const CLAIMS_OF_UUIDS: &str = "claims/uuid/";
pub(crate) const CLAIMS_OF_NAMES: &str = "claims/name/";
pub(crate) const COMMANDS: &str = "commands/";
pub(crate) const DELIVERIES: &str = "deliveries/";
pub(crate) const TOKENS: &str = "tokens/";
pub(crate) const AUDIT: &str = "audit/";

pub(crate) fn backend(name: &str) -> String {
    format!("{BACKENDS}{name}")
}

pub(crate) fn route(host: &str) -> String {
    format!("{ROUTES}{host}")
}

/// What the keys of a generation begin with, below one of the prefixes that have generations.
pub(crate) fn generation(prefix: &str, generation: &str) -> String {
    format!("{prefix}{generation}/")
}

/// The generation that a key below such a prefix is of, and what it is the key of.
pub(crate) fn in_generation<'a>(prefix: &str, key: &'a str) -> Option<(&'a str, &'a str)> {
    key.strip_prefix(prefix)?.split_once('/')
}

pub(crate) fn permission_group(generation: &str, name: &str) -> String {
    format!("{PERMISSION_GROUPS}{generation}/{name}")
}

pub(crate) fn permission_track(generation: &str, name: &str) -> String {
    format!("{PERMISSION_TRACKS}{generation}/{name}")
}

pub(crate) fn permission_user(generation: &str, uuid: Uuid) -> String {
    format!("{PERMISSION_USERS}{generation}/{uuid}")
}

pub(crate) fn permission_name(generation: &str, name: &str) -> String {
    format!("{PERMISSION_NAMES}{generation}/{}", name.to_lowercase())
}

pub(crate) fn permission_player(name: &str) -> String {
    format!("{PERMISSION_PLAYERS}{}", name.to_lowercase())
}

pub(crate) fn permission_import(generation: &str) -> String {
    format!("{PERMISSION_IMPORTS}{generation}")
}

pub(crate) fn node(id: &str) -> String {
    format!("{NODES}{id}")
}

pub(crate) fn stream(node: &str) -> String {
    format!("{STREAMS}{node}")
}

/// What the keys of a node's sessions begin with.
pub(crate) fn sessions_of(node: &str) -> String {
    format!("{SESSIONS}{node}/")
}

pub(crate) fn session(node: &str, session: &str) -> String {
    format!("{SESSIONS}{node}/{session}")
}

/// Where the claims of a player lie, by UUID and by name.
pub(crate) fn claims(session: &v1::Session) -> [String; 2] {
    [format!("{CLAIMS_OF_UUIDS}{}", player(&session.player_uuid)), format!("{CLAIMS_OF_NAMES}{}", player(&session.player))]
}

/// A name or a UUID, however it is written, as the key of a look-up. No valid name is 32 characters long.
pub(crate) fn player(player: &str) -> String {
    match Uuid::try_parse(player) {
        Ok(uuid) => uuid.simple().to_string(),
        Err(_) => player.to_lowercase(),
    }
}

pub(crate) fn command(id: &str) -> String {
    format!("{COMMANDS}{id}")
}

/// The id of the command that a key is of.
pub(crate) fn command_id(key: &str) -> Option<&str> {
    key.strip_prefix(COMMANDS)
}

pub(crate) fn delivery(node: &str, id: &str) -> String {
    format!("{DELIVERIES}{node}/{id}")
}

/// The node and the id of the delivery that a key is of.
pub(crate) fn delivery_of(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(DELIVERIES)?.split_once('/')
}

pub(crate) fn token(name: &str) -> String {
    format!("{TOKENS}{name}")
}

pub(crate) fn audit(id: Uuid) -> String {
    format!("{AUDIT}{:032x}", !id.as_u128())
}

/// What a key below [`PRESENCE`] is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PresenceKey<'a> {
    Node(&'a str),
    Stream(&'a str),
    Session { session: &'a str },
}

/// Reads a key below [`PRESENCE`].
pub(crate) fn presence(key: &str) -> Option<PresenceKey<'_>> {
    let session = |rest: &'_ str| rest.split_once('/').map(|(node, _)| node.len() + 1);
    if let Some(node) = key.strip_prefix(NODES) {
        Some(PresenceKey::Node(node))
    } else if let Some(node) = key.strip_prefix(STREAMS) {
        Some(PresenceKey::Stream(node))
    } else {
        let rest = key.strip_prefix(SESSIONS)?;
        Some(PresenceKey::Session { session: &rest[session(rest)?..] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_keys_read_back() {
        assert_eq!(presence(&node("n")), Some(PresenceKey::Node("n")));
        assert_eq!(presence(&stream("n")), Some(PresenceKey::Stream("n")));
        assert_eq!(presence(&session("n", "s")), Some(PresenceKey::Session { session: "s" }));
        assert_eq!(presence("presence/sessions/n"), None);
        assert_eq!(presence(&command("c")), None);
        assert_eq!(command_id(&command("c")), Some("c"));
        assert_eq!(delivery_of(&delivery("n", "d")), Some(("n", "d")));
    }

    #[test]
    fn the_newest_record_of_the_audit_comes_first() {
        let (older, newer) = (Uuid::now_v7(), Uuid::now_v7());
        assert!(audit(newer) < audit(older));
    }

    #[test]
    fn keys_with_a_generation_read_back() {
        let key = permission_group("7", "mod");
        assert_eq!(in_generation(PERMISSION_GROUPS, &key), Some(("7", "mod")));
        assert!(key.starts_with(&generation(PERMISSION_GROUPS, "7")) && !key.starts_with(&generation(PERMISSION_GROUPS, "70")));
        assert_eq!(in_generation(PERMISSION_TRACKS, &key), None);
    }

    #[test]
    fn every_resource_lies_below_the_watched_prefix() {
        for key in [RESOURCES_REVISION.to_owned(), SETTINGS.to_owned(), backend("b"), route("*")] {
            assert!(key.starts_with(RESOURCES), "{key}");
        }
        for key in [PERMISSION_HEAD, PERMISSION_SETTINGS, &permission_group("0", "g"), &permission_track("0", "t")] {
            assert!(key.starts_with(RESOURCES) && key.starts_with(PERMISSION_RESOURCES), "{key}");
        }
        for key in [node("n"), stream("n"), session("n", "s")] {
            assert!(key.starts_with(PRESENCE), "{key}");
        }
    }
}
