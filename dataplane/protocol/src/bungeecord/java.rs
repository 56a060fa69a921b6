//! Texts as Java's `DataInputStream.readUTF` and `DataOutputStream.writeUTF` have them: a u16 length in bytes, then "modified
//! UTF-8" (the documentation of `java.io.DataInput`). That is the UTF-16 units, each by itself in one to three bytes, with NUL
//! in two: `C0 80`; a character beyond U+FFFF is two surrogates of three bytes each.

use std::borrow::Cow;

use crate::wire::{Reader, WireError};

/// Most bytes of a text, in this form.
pub const MAX_TEXT: usize = u16::MAX as usize;

/// Reads a text. As Java does, it takes a NUL in one byte and characters in more bytes than they need. A surrogate that has
/// no other half, which Java can hold and no Rust text can, is read as U+FFFD.
///
/// # Errors
/// If the bytes end within it, or are not modified UTF-8.
pub fn read_text<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, str>, WireError> {
    let length = reader.u16()?;
    let bytes = reader.bytes(length.into())?;
    match std::str::from_utf8(bytes) {
        // Up to three bytes a character, the forms are one; four bytes are none of Java's.
        Ok(text) if bytes.iter().all(|&byte| byte < 0xf0) => Ok(Cow::Borrowed(text)),
        _ => decode(bytes).map(Cow::Owned).ok_or(WireError::NotUtf8),
    }
}

fn decode(mut bytes: &[u8]) -> Option<String> {
    let mut units = Vec::with_capacity(bytes.len());
    let continued = |byte: u8| (byte & 0xc0 == 0x80).then_some(u16::from(byte & 0x3f));
    while let [first, rest @ ..] = bytes {
        let unit;
        (unit, bytes) = match (first, rest) {
            (0x00..=0x7f, _) => (u16::from(*first), rest),
            (0xc0..=0xdf, [second, rest @ ..]) => (u16::from(first & 0x1f) << 6 | continued(*second)?, rest),
            (0xe0..=0xef, [second, third, rest @ ..]) => {
                (u16::from(first & 0x0f) << 12 | continued(*second)? << 6 | continued(*third)?, rest)
            }
            _ => return None,
        };
        units.push(unit);
    }
    Some(String::from_utf16_lossy(&units))
}

/// Appends a text; says whether it could be said: not in more than [`MAX_TEXT`] bytes.
pub fn put_text(out: &mut Vec<u8>, text: &str) -> bool {
    let Ok(length) = u16::try_from(text_len(text)) else { return false };
    out.extend_from_slice(&length.to_be_bytes());
    if usize::from(length) == text.len() {
        // A NUL or a character beyond U+FFFF would have made a difference.
        out.extend_from_slice(text.as_bytes());
        return true;
    }
    for unit in text.encode_utf16() {
        let low = 0x80 | (unit & 0x3f) as u8;
        match unit {
            0x01..=0x7f => out.push(unit as u8),
            0x00 | 0x80..=0x7ff => out.extend_from_slice(&[0xc0 | (unit >> 6) as u8, low]),
            _ => out.extend_from_slice(&[0xe0 | (unit >> 12) as u8, 0x80 | (unit >> 6 & 0x3f) as u8, low]),
        }
    }
    true
}

/// How many bytes a text takes in this form, without its length.
pub fn text_len(text: &str) -> usize {
    // A NUL takes one byte more than in UTF-8, a character of four bytes two more.
    text.len() + text.bytes().map(|byte| usize::from(byte == 0) + 2 * usize::from(byte >= 0xf0)).sum::<usize>()
}
