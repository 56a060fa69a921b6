//! Mod Id Data of 1.7: which number each block and item has on the server. Hundreds of kilobytes; two servers with the same
//! mods often say the same.

use md5::{Digest as _, Md5};

use crate::wire::{Reader, WireError, put_varint};

use super::{put_string, read_string, read_varint};

/// What a server's ids are, read but not copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModIds<'a> {
    /// Name and number. A name begins with `\u{1}` if it is a block's, with `\u{2}` if it is an item's.
    pub mappings: Vec<(&'a str, i32)>,
    /// Blocks that mods have put in another's place. Builds of Forge before there were any leave both lists out.
    pub block_substitutions: Vec<&'a str>,
    /// Items, likewise.
    pub item_substitutions: Vec<&'a str>,
}

impl<'a> ModIds<'a> {
    /// Reads the fields of a Mod Id Data. The number that precedes the item substitutions is not relied on: Forge writes that
    /// of the block substitutions there (seen in build 1614), so all strings that follow are taken.
    ///
    /// # Errors
    /// If it is cut short, or a name is not UTF-8.
    pub fn read(fields: &'a [u8]) -> Result<ModIds<'a>, WireError> {
        let mut reader = Reader::new(fields);
        let count = read_varint(&mut reader, 3)? as usize;
        // A mapping has at least two bytes.
        let mut ids = ModIds { mappings: Vec::with_capacity(count.min(fields.len() / 2)), ..ModIds::default() };
        for _ in 0..count {
            ids.mappings.push((read_string(&mut reader)?, read_varint(&mut reader, 3)?));
        }
        if reader.rest().is_empty() {
            return Ok(ids);
        }
        for _ in 0..read_varint(&mut reader, 3)? {
            ids.block_substitutions.push(read_string(&mut reader)?);
        }
        if !reader.rest().is_empty() {
            read_varint(&mut reader, 3)?;
        }
        while !reader.rest().is_empty() {
            ids.item_substitutions.push(read_string(&mut reader)?);
        }
        Ok(ids)
    }

    /// Appends the fields, for [`super::message::Message::ModIdData`].
    pub fn write(&self, fields: &mut Vec<u8>) {
        put_varint(fields, self.mappings.len() as i32);
        for (name, id) in &self.mappings {
            put_string(fields, name);
            put_varint(fields, *id);
        }
        for names in [&self.block_substitutions, &self.item_substitutions] {
            put_varint(fields, names.len() as i32);
            names.iter().for_each(|name| put_string(fields, name));
        }
    }

    /// What identifies these ids, whatever order they were said in.
    pub fn fingerprint(mut self) -> Fingerprint {
        self.mappings.sort_unstable();
        self.block_substitutions.sort_unstable();
        self.item_substitutions.sort_unstable();
        let mut ids = Md5::new();
        let text = |hash: &mut Md5, text: &str| {
            hash.update((text.len() as u32).to_be_bytes());
            hash.update(text);
        };
        for (name, id) in &self.mappings {
            text(&mut ids, name);
            ids.update(id.to_be_bytes());
        }
        for list in [&self.block_substitutions, &self.item_substitutions] {
            ids.update([0xff; 4]);
            list.iter().for_each(|name| text(&mut ids, name));
        }
        Fingerprint(ids.finalize().into())
    }
}

/// What identifies a server's ids. It is a hash (MD5, which is enough to tell apart what the network's own backends say), so
/// that a session need not keep hundreds of kilobytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of a Mod Id Data's fields.
    ///
    /// # Errors
    /// As [`ModIds::read`].
    pub fn of(fields: &[u8]) -> Result<Fingerprint, WireError> {
        Ok(ModIds::read(fields)?.fingerprint())
    }
}
