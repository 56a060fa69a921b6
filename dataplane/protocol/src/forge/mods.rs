//! The mods of a client or a server, and how two lists differ.

use std::collections::BTreeMap;
use std::fmt;

use crate::wire::{Reader, WireError, put_varint};

use super::{put_string, read_string, read_varint};

/// Most mods of a list: their number is a varint of two bytes.
pub const MAX_MODS: usize = 16_383;

/// The longest list that is taken, in bytes. (A client's message has at most 32,766; 5,000 mods take some 150,000.)
pub const MAX_BYTES: usize = 256 * 1024;

/// The first build of Forge for 1.7.10 whose client knows Handshake Reset (FML pull request 504).
pub const FIRST_WITH_RESET: u32 = 1209;

/// What FML calls its version in builds of Forge from about 1405 on.
const LATE_FML: &str = "7.10.99.99";

/// The mods of one side, kept as they were said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModList {
    fields: Box<[u8]>,
    count: usize,
}

impl ModList {
    /// Reads the fields of a Mod List. Bytes after the last mod are ignored.
    ///
    /// # Errors
    /// If the list is cut short, is longer than [`MAX_BYTES`], or a name is not UTF-8.
    pub fn read(fields: &[u8]) -> Result<ModList, WireError> {
        let mut reader = Reader::new(fields);
        let count = read_varint(&mut reader, 2)? as usize;
        for _ in 0..count {
            read_string(&mut reader)?;
            read_string(&mut reader)?;
        }
        let length = fields.len() - reader.rest().len();
        if length > MAX_BYTES {
            return Err(WireError::BadLength { length: length as i64, limit: MAX_BYTES });
        }
        Ok(ModList { fields: fields[..length].into(), count })
    }

    /// The list of these mods, by id and version: at most [`MAX_MODS`], of at most [`MAX_BYTES`]; what is too much is left
    /// out.
    pub fn of<'a>(mods: impl IntoIterator<Item = (&'a str, &'a str)>) -> ModList {
        let mut body = Vec::new();
        let mut count = 0;
        for (id, version) in mods.into_iter().take(MAX_MODS) {
            let before = body.len();
            put_string(&mut body, id);
            put_string(&mut body, version);
            if body.len() + 2 > MAX_BYTES {
                body.truncate(before);
                break;
            }
            count += 1;
        }
        let mut fields = Vec::with_capacity(body.len() + 2);
        put_varint(&mut fields, count as i32);
        fields.extend_from_slice(&body);
        ModList { fields: fields.into(), count }
    }

    /// The fields, for [`super::message::Message::ModList`].
    pub fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// How many mods there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The mods in the order in which they were said: id and version.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut reader = Reader::new(&self.fields);
        // The number, which was read before, as was all that follows.
        let _ = read_varint(&mut reader, 2);
        (0..self.count).map_while(move |_| Some((read_string(&mut reader).ok()?, read_string(&mut reader).ok()?)))
    }

    /// The version of a mod.
    pub fn version(&self, id: &str) -> Option<&str> {
        self.iter().filter(|(other, _)| *other == id).last().map(|(_, version)| version)
    }

    /// The build of Forge: the fourth part of its version.
    pub fn forge_build(&self) -> Option<u32> {
        self.version("Forge")?.split('.').nth(3)?.parse().ok()
    }

    /// Whether a client with these mods knows Handshake Reset. One that does not is disconnected by it. A list that names neither
    /// Forge nor FML says nothing; builds that old are hardly in use any more.
    pub fn knows_reset(&self) -> bool {
        match self.forge_build() {
            Some(build) => build >= FIRST_WITH_RESET,
            None => match (self.version("Forge"), self.version("FML")) {
                (None, None) => true,
                (_, fml) => fml == Some(LATE_FML),
            },
        }
    }

    /// By id, the last one counting where a mod is named twice.
    fn by_id(&self) -> BTreeMap<&str, &str> {
        self.iter().collect()
    }
}

/// How a server's mods differ from a client's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModListDifference {
    /// Mods that the client has and the server has not.
    pub missing: Vec<Box<str>>,
    /// Mods that both have, in other versions.
    pub other_version: Vec<OtherVersion>,
    /// Mods that the server has and the client has not.
    pub extra: Vec<Box<str>>,
}

/// A mod of which client and server have different versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherVersion {
    /// Its id.
    pub id: Box<str>,
    /// The client's version.
    pub client: Box<str>,
    /// The server's.
    pub server: Box<str>,
}

impl ModListDifference {
    /// How `server` differs from `client`.
    pub fn between(client: &ModList, server: &ModList) -> ModListDifference {
        let (client, server) = (client.by_id(), server.by_id());
        let mut difference = ModListDifference::default();
        for (&id, &version) in &client {
            match server.get(id) {
                None => difference.missing.push(id.into()),
                Some(&other) if other != version => {
                    difference.other_version.push(OtherVersion { id: id.into(), client: version.into(), server: other.into() });
                }
                Some(_) => {}
            }
        }
        difference.extra.extend(server.keys().filter(|id| !client.contains_key(*id)).map(|id| Box::from(*id)));
        difference
    }

    /// What in this may make the client refuse the server: it judges the server's list by the mods that it has itself, so
    /// `extra` says nothing. Whatever it has taken from a server before (`accepted`) it takes again.
    pub fn beyond(&self, accepted: &ModListDifference) -> ModListDifference {
        ModListDifference {
            missing: self.missing.iter().filter(|id| accepted.missing.binary_search(id).is_err()).cloned().collect(),
            other_version: self.other_version.iter().filter(|other| !accepted.other_version.contains(other)).cloned().collect(),
            extra: Vec::new(),
        }
    }

    /// Adds what `other` has and this has not; `extra` is left as it is. It does not grow beyond [`MAX_MODS`] of each kind.
    pub fn merge(&mut self, other: ModListDifference) {
        for id in other.missing {
            if let Err(place) = self.missing.binary_search(&id) {
                self.missing.insert(place, id);
            }
        }
        for other in other.other_version {
            if !self.other_version.contains(&other) {
                self.other_version.push(other);
            }
        }
        self.missing.truncate(MAX_MODS);
        self.other_version.truncate(MAX_MODS);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.other_version.is_empty() && self.extra.is_empty()
    }
}

/// Most mods that a text about a difference names of each kind.
const NAMED: usize = 8;
/// Most characters of a name or version in it.
const NAME: usize = 40;

/// For people: bounded, and free of control characters.
impl fmt::Display for ModListDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("the same mods");
        }
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("not on the server: {}", named(self.missing.iter().map(|id| short(id)))));
        }
        if !self.other_version.is_empty() {
            let others = self.other_version.iter().map(|other| {
                let OtherVersion { id, client, server } = other;
                format!("{} (client {}, server {})", short(id), short(client), short(server))
            });
            parts.push(format!("in another version: {}", named(others)));
        }
        if !self.extra.is_empty() {
            parts.push(format!("not on the client: {}", named(self.extra.iter().map(|id| short(id)))));
        }
        f.write_str(&parts.join("; "))
    }
}

fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut text = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME).collect()
}
