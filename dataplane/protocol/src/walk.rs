//! Walking the frames of a stream: which bytes go on as they are, and which frames somebody has to see.
//!
//! A relay forwards *runs* of bytes. [`Walker::walk`] goes over what has been read, frame header by frame header, shows the
//! frames of the watched ids to a visitor, and leaves everything that is to be forwarded in one unbroken run at the start of
//! the buffer. What is left over at the end is the beginning of a frame that has not come whole; a frame longer than
//! [`HOLD`] (or what [`Walker::set_hold`] says) is not waited for but cut through as it comes.

use crate::frame::{self, FrameError, Header};

/// An incomplete frame up to this length (prefix included) waits until it is whole; a longer one is cut through.
pub const HOLD: usize = 64 * 1024;

/// The packet ids that a visitor wants to see: a set over 0 to 127. All other ids, negative ones too, pass untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchSet(u128);

impl WatchSet {
    /// The set of these ids. Panics (at compile time, where it is const) on an id above 127.
    pub const fn of(ids: &[u8]) -> WatchSet {
        let mut set = 0;
        let mut index = 0;
        while index < ids.len() {
            assert!(ids[index] < 128, "only ids that fit one varint byte can be watched");
            set |= 1 << ids[index];
            index += 1;
        }
        WatchSet(set)
    }

    /// This set and one more id. Panics as [`WatchSet::of`] does.
    pub const fn with(self, id: u8) -> WatchSet {
        WatchSet(self.0 | WatchSet::of(&[id]).0)
    }

    /// Every id that fits one varint byte.
    pub const ALL: WatchSet = WatchSet(u128::MAX);

    /// Whether the body of a frame begins with a watched id.
    #[inline]
    fn has(self, first_byte: u8) -> bool {
        first_byte < 128 && self.0 >> first_byte & 1 == 1
    }
}

/// What a visitor says of a watched frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Goes on, with whatever the visitor changed in place.
    Pass,
    /// Is left out.
    Drop,
    /// The walk ends before this frame, which stays unconsumed.
    Stop,
}

/// What becomes of frames without a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empty {
    /// They go on as they are.
    Pass,
    /// They are left out and counted.
    Drop,
}

/// A watched frame, whole, to be looked at or changed in place (never in length).
#[derive(Debug)]
pub struct Watched<'a> {
    /// The packet id.
    pub id: u8,
    /// What follows the id.
    pub payload: &'a mut [u8],
}

/// What a walk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walked {
    /// `buffer[..forward]` is the run to send on.
    pub forward: usize,
    /// `buffer[consumed..]` has not been dealt with: it must stand at the start of the buffer of the next walk.
    pub consumed: usize,
    /// The visitor said [`Verdict::Stop`].
    pub stopped: bool,
    /// Frames that ended in this walk.
    pub frames: u32,
    /// Empty frames that were left out.
    pub empty: u32,
    /// What stands at `consumed` is a malformed length prefix: nothing more can come of the stream, and the next walk says so
    /// with an error. Whoever forwards what came before it need not wait for more bytes.
    pub malformed: bool,
}

/// The state of one direction of a stream between walks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walker {
    /// Bytes of a frame being cut through that are still to come.
    passing: usize,
    /// The longest frame that is waited for.
    hold: usize,
}

impl Default for Walker {
    fn default() -> Self {
        Walker { passing: 0, hold: HOLD }
    }
}

impl Walker {
    /// From the next frame on, waits for incomplete ones up to `bytes` (prefix included), not [`HOLD`], and shows them to the
    /// visitor: for phases in which long frames have to be seen, as those of Forge's handshake.
    pub fn set_hold(&mut self, bytes: usize) {
        self.hold = bytes;
    }

    /// Whether all that was forwarded ends at the end of a frame: only then may other frames be put between.
    pub fn at_boundary(&self) -> bool {
        self.passing == 0
    }

    /// Bytes of a frame being cut through that are still to come.
    pub fn passing(&self) -> usize {
        self.passing
    }

    /// Walks `buffer`, which begins where the last walk's `consumed` ended.
    ///
    /// # Errors
    /// [`FrameError::LengthTooLong`], once the malformed prefix stands at the start of `buffer`; nothing else can be wrong
    /// with a frame that is only passed on. Frames before a malformed one are walked as ever ([`Walked::malformed`]), so
    /// that what comes of a stream does not depend on how its bytes were cut into reads.
    pub fn walk(
        &mut self,
        buffer: &mut [u8],
        watch: WatchSet,
        empty: Empty,
        mut visit: impl FnMut(Watched<'_>) -> Verdict,
    ) -> Result<Walked, FrameError> {
        let mut walked = Walked::default();
        // Bytes `run..at` are to be forwarded but stand where they came; they are moved down to `forward` only if a
        // frame before them was left out.
        let mut run = 0;
        let mut at = self.passing.min(buffer.len());
        self.passing -= at;
        if at > 0 && self.passing == 0 {
            walked.frames += 1;
        }
        loop {
            let Header { prefix, body } = match frame::header(&buffer[at..]) {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(error) if at == 0 => return Err(error),
                Err(_) => {
                    walked.malformed = true;
                    break;
                }
            };
            let start = at + prefix;
            let whole = prefix + body;
            let there = buffer.len() - at;
            if whole > there {
                if whole > self.hold {
                    self.passing = whole - there;
                    at = buffer.len();
                }
                break;
            }
            let end = at + whole;
            let verdict = if body == 0 {
                match empty {
                    Empty::Pass => Verdict::Pass,
                    Empty::Drop => {
                        walked.empty += 1;
                        Verdict::Drop
                    }
                }
            } else if whole <= self.hold
                && let Some((id, length)) = watched_id(&buffer[start..end], watch)
            {
                visit(Watched { id, payload: &mut buffer[start + length..end] })
            } else {
                Verdict::Pass
            };
            match verdict {
                Verdict::Pass => {}
                Verdict::Drop => {
                    walked.forward = gather(buffer, walked.forward, run, at);
                    run = end;
                }
                Verdict::Stop => {
                    walked.stopped = true;
                    break;
                }
            }
            at = end;
            walked.frames += 1;
        }
        walked.forward = gather(buffer, walked.forward, run, at);
        walked.consumed = at;
        Ok(walked)
    }
}

/// The id at the start of a frame, if it is watched for, and how many bytes it takes.
#[inline]
fn watched_id(body: &[u8], watch: WatchSet) -> Option<(u8, usize)> {
    let first = body[0];
    if first < 0x80 { watch.has(first).then_some((first, 1)) } else { padded_id(body).filter(|(id, _)| watch.has(*id)) }
}

/// An id that would take one byte, written with more. Nobody writes so, but the peer would read it all the same: what is taken off a
/// stream is not to get past by that. A reader takes at most five bytes, and of the fifth only what fits 32 bits.
#[cold]
fn padded_id(body: &[u8]) -> Option<(u8, usize)> {
    for (at, byte) in body.iter().enumerate().take(5).skip(1) {
        match byte {
            0x80 if at < 4 => {}
            0 => return Some((body[0] & 0x7f, at + 1)),
            byte if at == 4 && byte & 0x8f == 0 => return Some((body[0] & 0x7f, at + 1)),
            _ => return None,
        }
    }
    None
}

/// Moves `buffer[run..end]` down to `forward` and returns where it ends there.
#[inline]
fn gather(buffer: &mut [u8], forward: usize, run: usize, end: usize) -> usize {
    if forward != run {
        buffer.copy_within(run..end, forward);
    }
    forward + (end - run)
}
