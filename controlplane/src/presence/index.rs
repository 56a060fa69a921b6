//! The sessions that others see, by what they are looked up by.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use moonbridge_proto::v1;

use crate::keys;

/// Sessions by a key and their id. A key may be of several for a moment: two accounts can meet in a name.
type Sessions = BTreeMap<(String, String), Arc<v1::Session>>;

#[derive(Default)]
pub(super) struct Index {
    /// By name in lower case.
    names: Sessions,
    /// By UUID without dashes.
    uuids: Sessions,
    backends: BTreeMap<String, OnBackend>,
    /// How many each node has.
    nodes: HashMap<String, u32>,
}

/// The sessions on a backend.
#[derive(Default)]
struct OnBackend {
    /// By name in lower case.
    names: Sessions,
    /// How many each node has there.
    nodes: BTreeMap<String, u32>,
}

impl Index {
    pub(super) fn add(&mut self, id: &str, session: &Arc<v1::Session>) {
        let key = |player: &str| (keys::player(player), id.to_owned());
        self.names.insert(key(&session.player), session.clone());
        self.uuids.insert(key(&session.player_uuid), session.clone());
        let backend = self.backends.entry(session.backend.clone()).or_default();
        backend.names.insert(key(&session.player), session.clone());
        *backend.nodes.entry(session.node_id.clone()).or_default() += 1;
        *self.nodes.entry(session.node_id.clone()).or_default() += 1;
    }

    /// Takes out what [`Index::add`] has put in.
    pub(super) fn remove(&mut self, id: &str, session: &v1::Session) {
        let key = |player: &str| (keys::player(player), id.to_owned());
        self.names.remove(&key(&session.player));
        self.uuids.remove(&key(&session.player_uuid));
        if let Some(backend) = self.backends.get_mut(&session.backend) {
            backend.names.remove(&key(&session.player));
            if let Some(count) = backend.nodes.get_mut(&session.node_id) {
                *count -= 1;
                if *count == 0 {
                    backend.nodes.remove(&session.node_id);
                }
            }
            if backend.names.is_empty() {
                self.backends.remove(&session.backend);
            }
        }
        if let Some(count) = self.nodes.get_mut(&session.node_id) {
            *count -= 1;
            if *count == 0 {
                self.nodes.remove(&session.node_id);
            }
        }
    }

    pub(super) fn len(&self) -> u32 {
        count(&self.names)
    }

    pub(super) fn on_node(&self, node: &str) -> u32 {
        self.nodes.get(node).copied().unwrap_or(0)
    }

    pub(super) fn on_backend(&self, backend: &str) -> u32 {
        self.backends.get(backend).map_or(0, |backend| count(&backend.names))
    }

    /// All there are, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<v1::Session>> {
        self.names.values()
    }

    /// Those on this backend, by name.
    pub(super) fn sessions_on(&self, backend: &str) -> impl Iterator<Item = &Arc<v1::Session>> {
        self.backends.get(backend).into_iter().flat_map(|backend| backend.names.values())
    }

    /// The nodes that have sessions on this backend.
    pub(super) fn nodes_on(&self, backend: &str) -> impl Iterator<Item = &String> {
        self.backends.get(backend).into_iter().flat_map(|backend| backend.nodes.keys())
    }

    /// The backends that have players.
    pub(super) fn backends(&self) -> impl Iterator<Item = &String> {
        self.backends.keys()
    }

    /// The newest session of a player, by name (any case) or UUID.
    pub(super) fn find(&self, player: &str) -> Option<Arc<v1::Session>> {
        let wanted = keys::player(player);
        let newest = |sessions: &Sessions| {
            let of_it = from(sessions, &wanted).take_while(|((key, _), _)| *key == wanted);
            of_it.map(|(_, session)| session).max_by_key(|session| session.started_unix_ms).cloned()
        };
        newest(&self.names).or_else(|| newest(&self.uuids))
    }

    /// The first of the players' names that begin with this, in any case; none twice.
    pub(super) fn names_beginning(&self, prefix: &str, most: usize) -> Vec<String> {
        let prefix = prefix.to_lowercase();
        let mut beginning: Vec<_> = Vec::new();
        for ((name, _), session) in from(&self.names, &prefix).take_while(|((name, _), _)| name.starts_with(&prefix)) {
            if beginning.last().is_none_or(|(last, _)| *last != name) {
                if beginning.len() == most {
                    break;
                }
                beginning.push((name, session));
            }
        }
        beginning.into_iter().map(|(_, session)| session.player.clone()).collect()
    }
}

/// The sessions from this key on.
fn from<'a>(sessions: &'a Sessions, key: &str) -> impl Iterator<Item = (&'a (String, String), &'a Arc<v1::Session>)> + use<'a> {
    sessions.range((key.to_owned(), String::new())..)
}

fn count(sessions: &Sessions) -> u32 {
    u32::try_from(sessions.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;
    use uuid::Uuid;

    use super::*;

    /// Few enough that they meet, and some in several cases.
    const PLAYERS: [&str; 6] = ["Ann", "ann", "Anna", "Bob", "bo", "Zoe_1"];

    fn random(rng: &mut Rng, id: &str) -> v1::Session {
        let player = PLAYERS[rng.usize(..PLAYERS.len())];
        v1::Session {
            id: id.to_owned(),
            node_id: format!("n{}", rng.u8(..3)),
            player: player.to_owned(),
            player_uuid: Uuid::from_u128(rng.u128(..5)).to_string(),
            backend: format!("b{}", rng.u8(..3)),
            started_unix_ms: rng.i64(..),
            ..v1::Session::default()
        }
    }

    /// What the index says, by looking at every session.
    fn check(index: &Index, model: &BTreeMap<String, Arc<v1::Session>>) {
        let count =
            |matches: &dyn Fn(&v1::Session) -> bool| u32::try_from(model.values().filter(|session| matches(session)).count()).expect("few");
        let ids = |sessions: &mut dyn Iterator<Item = &Arc<v1::Session>>| -> BTreeSet<String> {
            sessions.map(|session| session.id.clone()).collect()
        };
        assert_eq!(index.len(), count(&|_| true));
        assert_eq!(ids(&mut index.all()), model.keys().cloned().collect());
        let backends: BTreeSet<&String> = model.values().map(|session| &session.backend).collect();
        assert_eq!(index.backends().collect::<BTreeSet<_>>(), backends);
        for number in 0..4 {
            let (node, backend) = (format!("n{number}"), format!("b{number}"));
            assert_eq!(index.on_node(&node), count(&|session| session.node_id == node));
            assert_eq!(index.on_backend(&backend), count(&|session| session.backend == backend));
            let mut there = model.values().filter(|session| session.backend == backend);
            let nodes: BTreeSet<&String> = there.clone().map(|session| &session.node_id).collect();
            assert_eq!(index.nodes_on(&backend).collect::<BTreeSet<_>>(), nodes);
            assert_eq!(ids(&mut index.sessions_on(&backend)), ids(&mut there));
        }
        for player in PLAYERS.into_iter().chain(["nobody"]) {
            let of_it = model.values().filter(|session| session.player.to_lowercase() == player.to_lowercase());
            let newest = of_it.map(|session| session.started_unix_ms).max();
            assert_eq!(index.find(player).map(|session| session.started_unix_ms), newest, "{player}");
        }
        for uuid in (0..6).map(Uuid::from_u128) {
            let of_it = model.values().filter(|session| session.player_uuid == uuid.to_string());
            let newest = of_it.map(|session| session.started_unix_ms).max();
            assert_eq!(index.find(&uuid.to_string()).map(|session| session.started_unix_ms), newest);
            assert_eq!(index.find(&uuid.simple().to_string().to_uppercase()).map(|session| session.started_unix_ms), newest);
        }
        for prefix in ["", "a", "AN", "ann", "anna", "b", "zoe_1x", "\u{10ffff}"] {
            let lower: BTreeSet<String> = model.values().map(|session| session.player.to_lowercase()).collect();
            let mut expected: Vec<String> = lower.into_iter().filter(|name| name.starts_with(&prefix.to_lowercase())).collect();
            for most in [100, 2, 0] {
                expected.truncate(most);
                let names: Vec<String> = index.names_beginning(prefix, most).iter().map(|name| name.to_lowercase()).collect();
                assert_eq!(names, expected, "{prefix:?}");
            }
        }
    }

    #[test]
    fn it_says_what_looking_at_every_session_says() {
        for seed in 0..50 {
            let mut rng = Rng::with_seed(seed);
            let (mut index, mut model) = (Index::default(), BTreeMap::<String, Arc<v1::Session>>::new());
            for _ in 0..60 {
                let id = format!("s{}", rng.u8(..12));
                if let Some(before) = model.remove(&id) {
                    index.remove(&id, &before);
                }
                if rng.u8(..3) > 0 {
                    let session = Arc::new(random(&mut rng, &id));
                    index.add(&id, &session);
                    model.insert(id, session);
                }
                check(&index, &model);
            }
            for (id, session) in std::mem::take(&mut model) {
                index.remove(&id, &session);
            }
            check(&index, &model);
            assert!(index.nodes.is_empty() && index.uuids.is_empty() && index.backends.is_empty());
        }
    }
}
