//! Tab Complete, both ways. On 1.7 neither the request nor the answer has a number: see [`crate::tab_complete`].

use std::collections::BTreeSet;

use crate::frame::{self, MAX_FRAME};
use crate::version::{Clientbound, Serverbound, Version};
use crate::wire::{Reader, WireError, put_string, put_varint};

/// The longest text in a request, and the longest word in an answer, in UTF-16 units: as much as the game reads.
pub const MAX_COMPLETED: usize = 32_767;

/// Most words that [`put_merged_tab_complete`] adds.
pub const MAX_OWN_WORDS: usize = 100;

/// Appends a request.
pub fn put_tab_complete_serverbound(out: &mut Vec<u8>, version: &Version, typed: &str) {
    frame::put(out, version.serverbound_id(Serverbound::TabComplete).into(), |out| put_string(out, typed));
}

/// Reads a request: what the player has typed, up to the cursor.
pub fn read_tab_complete_serverbound(payload: &[u8]) -> Result<&str, WireError> {
    let mut reader = Reader::new(payload);
    let typed = reader.string(MAX_COMPLETED)?;
    reader.finish()?;
    Ok(typed)
}

/// An answer: the words that the last one typed may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TabComplete<'a> {
    count: usize,
    /// As many strings, each of which has been read once.
    words: &'a [u8],
}

impl<'a> TabComplete<'a> {
    /// Reads an answer.
    pub fn read(payload: &'a [u8]) -> Result<TabComplete<'a>, WireError> {
        let mut reader = Reader::new(payload);
        let length = reader.varint()?;
        // A word takes a byte at least.
        let bad = WireError::BadLength { length: length.into(), limit: reader.rest().len() };
        let count = usize::try_from(length).ok().filter(|&count| count <= reader.rest().len()).ok_or(bad)?;
        let words = reader.rest();
        for _ in 0..count {
            reader.string(MAX_COMPLETED)?;
        }
        reader.finish()?;
        Ok(TabComplete { count, words })
    }

    /// The words.
    pub fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = Reader::new(self.words);
        std::iter::from_fn(move || reader.string(MAX_COMPLETED).ok())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Appends an answer; none of words ends the client's waiting, too.
pub fn put_tab_complete(out: &mut Vec<u8>, version: &Version, words: &[&str]) {
    frame::put(out, version.clientbound_id(Clientbound::TabComplete).into(), |out| {
        put_varint(out, words.len() as i32);
        words.iter().for_each(|word| put_string(out, word));
    });
}

/// Appends an answer of a backend's with words of ours behind it: those that it does not have, each once, as many as
/// [`MAX_OWN_WORDS`], a frame and [`MAX_COMPLETED`] allow.
pub fn put_merged_tab_complete<'a>(out: &mut Vec<u8>, version: &Version, answer: &TabComplete<'_>, own: impl Iterator<Item = &'a str>) {
    let own: Vec<&str> = own.filter(|word| word.len() <= MAX_COMPLETED).take(MAX_OWN_WORDS).collect();
    let mut missing: BTreeSet<&str> = own.iter().copied().collect();
    answer.words().for_each(|word| {
        missing.remove(word);
    });
    // An id, a count and the lengths of our words take at most five bytes each.
    let mut room = MAX_FRAME.saturating_sub(answer.words.len() + 10);
    let mut added = own;
    added.retain(|word| {
        let taken = word.len() + 5;
        let fits = missing.remove(word) && taken <= room;
        room -= if fits { taken } else { 0 };
        fits
    });
    frame::put(out, version.clientbound_id(Clientbound::TabComplete).into(), |out| {
        put_varint(out, (answer.count + added.len()) as i32);
        out.extend_from_slice(answer.words);
        added.iter().for_each(|word| put_string(out, word));
    });
}
