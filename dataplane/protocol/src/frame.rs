//! Frames: a varint length, then that many bytes, which begin with a varint packet id.

use crate::wire::{self, Reader, WireError};

/// The longest frame body there is: what three varint bytes can say (minecraft.wiki, "Packet format").
pub const MAX_FRAME: usize = 2_097_151;

/// The longest length prefix, in bytes.
pub const MAX_HEADER: usize = 3;

/// What can be wrong with a frame itself, whatever is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length prefix goes on past its third byte (so a negative length, too).
    #[error("a frame's length prefix is longer than 3 bytes")]
    LengthTooLong,
    /// The frame is longer than this phase allows.
    #[error("a frame of {length} bytes, where at most {limit} are allowed")]
    TooLong {
        /// What the prefix said.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The frame has no readable packet id.
    #[error("a frame without a readable packet id")]
    NoId,
}

/// A frame's length prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the prefix itself.
    pub prefix: usize,
    /// Bytes of the body (id and payload).
    pub body: usize,
}

/// Reads the length prefix at the start of `bytes`; `None` if it is not all there yet.
#[inline]
pub fn header(bytes: &[u8]) -> Result<Option<Header>, FrameError> {
    let mut body = 0;
    for (index, &byte) in bytes.iter().take(MAX_HEADER).enumerate() {
        body |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some(Header { prefix: index + 1, body }));
        }
    }
    if bytes.len() < MAX_HEADER { Ok(None) } else { Err(FrameError::LengthTooLong) }
}

/// One whole frame, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The packet id; 0 for an empty frame, see [`Frame::is_empty`].
    pub id: i32,
    /// What follows the id.
    pub payload: &'a [u8],
    /// The frame as it came, prefix included.
    pub whole: &'a [u8],
}

impl Frame<'_> {
    /// Whether the frame has no body at all (some 1.7 clients send such).
    pub fn is_empty(&self) -> bool {
        // A prefix may be longer than it need be: `80 00` is an empty frame, too.
        matches!(header(self.whole), Ok(Some(Header { body: 0, .. })))
    }
}

/// Takes the first frame of `bytes`; `None` if it is not all there yet. For the phases before play and for tools; play
/// is walked ([`crate::walk`]).
///
/// # Errors
/// If the prefix is malformed, the body longer than `limit`, or the id unreadable.
pub fn first(bytes: &[u8], limit: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let Some(Header { prefix, body }) = header(bytes)? else { return Ok(None) };
    if body > limit {
        return Err(FrameError::TooLong { length: body, limit });
    }
    let Some(whole) = bytes.get(..prefix + body) else { return Ok(None) };
    if body == 0 {
        return Ok(Some(Frame { id: 0, payload: &[], whole }));
    }
    let mut reader = Reader::new(&whole[prefix..]);
    let id = reader.varint().map_err(|_: WireError| FrameError::NoId)?;
    Ok(Some(Frame { id, payload: reader.rest(), whole }))
}

/// Appends a frame with this id whose payload `write` appends: at most [`MAX_FRAME`] bytes with the id.
pub fn put(out: &mut Vec<u8>, id: i32, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    wire::put_varint(out, id);
    write(out);
    let body = out.len() - start;
    debug_assert!(body <= MAX_FRAME, "a frame of {body} bytes");
    let prefix = [body as u8 | 0x80, (body >> 7) as u8 | 0x80, (body >> 14) as u8];
    let length = match body {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    };
    out.splice(start..start, prefix.into_iter().take(length));
    // The prefix's last byte has no mark that another follows.
    if let Some(last) = out.get_mut(start + length - 1) {
        *last &= 0x7f;
    }
}
