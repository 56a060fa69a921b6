//! The benchmark's frames: an id that nobody between player and backend looks at, a sequence number, a pattern.
//!
//! Their wire form is the same in both directions, so an echo is the very bytes that came. Frames of ticks also say when they were
//! made, by the machine's clock, since it is another process that reads them.

use anyhow::{Context as _, bail, ensure};
use moonbridge_protocol::{frame, wire};
use rustix::time::{ClockId, clock_gettime};

/// The packet id: in play, unknown to protocol 5 serverbound, and of no interest to a proxy clientbound.
pub const ID: u8 = 0x50;

/// A frame of the benchmark without anything in it: with it players ask for ticks, or recorded traffic, to begin.
pub const BEGIN: [u8; 2] = [1, ID];

/// Bytes of a payload that the sequence number takes.
pub const SEQUENCE: usize = 8;

/// Bytes of a payload that the time takes, in frames that have it.
pub const STAMP: usize = 8;

/// How many different patterns there are, each the one before moved on by a byte.
const PATTERNS: usize = 251;

/// Makes and checks the frames of one connection.
#[derive(Debug, Clone)]
pub struct Frames {
    /// Length prefix and id, the same for every frame.
    head: Vec<u8>,
    /// Bytes between sequence number and pattern, [`STAMP`] or none.
    stamp: usize,
    /// The pattern of frame n begins at n modulo [`PATTERNS`].
    pattern: Vec<u8>,
    /// Bytes of pattern in a frame.
    fill: usize,
}

impl Frames {
    /// Frames with payloads of `payload` bytes (at least [`SEQUENCE`]); `connection` makes their pattern their own.
    pub fn new(payload: usize, connection: usize) -> anyhow::Result<Self> {
        Frames::with(payload, 0, connection)
    }

    /// The same for payloads of at least [`SEQUENCE`] and [`STAMP`] bytes, which say when their frame was made.
    pub fn stamped(payload: usize, connection: usize) -> anyhow::Result<Self> {
        Frames::with(payload, STAMP, connection)
    }

    fn with(payload: usize, stamp: usize, connection: usize) -> anyhow::Result<Self> {
        let least = SEQUENCE + stamp;
        let fill = payload.checked_sub(least).with_context(|| format!("a payload has at least {least} bytes"))?;
        ensure!(payload < frame::MAX_FRAME, "a payload has less than {} bytes", frame::MAX_FRAME);
        let mut head = Vec::new();
        wire::put_varint(&mut head, i32::try_from(payload + 1)?);
        head.push(ID);
        let pattern = (0..fill + PATTERNS).map(|at| (at * 31 + at / 251 + connection * 97) as u8).collect();
        Ok(Frames { head, stamp, pattern, fill })
    }

    /// Bytes of one whole frame.
    pub fn whole(&self) -> usize {
        self.head.len() + SEQUENCE + self.stamp + self.fill
    }

    /// Appends frame number `sequence`, made at `now` if that is in it ([`clock`]).
    pub fn put(&self, out: &mut Vec<u8>, sequence: u64, now: u64) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&sequence.to_be_bytes());
        out.extend_from_slice(&now.to_be_bytes()[..self.stamp]);
        out.extend_from_slice(self.pattern_of(sequence));
    }

    /// Whether `whole` is frame number `sequence`, to the last byte. Returns when it was made, if that is in it, else 0.
    pub fn check(&self, whole: &[u8], sequence: u64) -> anyhow::Result<u64> {
        let body = whole.strip_prefix(self.head.as_slice());
        let parts = body.and_then(|body| body.split_first_chunk::<SEQUENCE>());
        let Some((number, (stamp, fill))) = parts.and_then(|(number, rest)| Some((number, rest.split_at_checked(self.stamp)?))) else {
            bail!("frame {sequence} has another length than was sent");
        };
        let number = u64::from_be_bytes(*number);
        ensure!(number == sequence, "frame {sequence} expected, {number} came: lost, repeated or out of order");
        ensure!(fill == self.pattern_of(sequence), "frame {sequence} has another payload than was sent");
        Ok(stamp.iter().fold(0, |made, &byte| made << 8 | u64::from(byte)))
    }

    fn pattern_of(&self, sequence: u64) -> &[u8] {
        let start = (sequence % PATTERNS as u64) as usize;
        &self.pattern[start..start + self.fill]
    }
}

/// Nanoseconds of the machine's monotonic clock, the same for all its processes.
pub fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// A frame at the start of some bytes: how long it is, and whether it is one of the benchmark's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Bytes of the whole frame.
    pub whole: usize,
    /// Its id is [`ID`].
    pub ours: bool,
}

/// The frame at the start of `bytes`; `None` if it is not all there yet.
pub fn next(bytes: &[u8]) -> anyhow::Result<Option<Next>> {
    let Some(frame::Header { prefix, body }) = frame::header(bytes)? else { return Ok(None) };
    let whole = prefix + body;
    Ok((whole <= bytes.len()).then(|| Next { whole, ours: body > 0 && bytes[prefix] == ID }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_itself_and_no_other() {
        for payload in [8, 9, 32, 500, 30_000] {
            let frames = Frames::new(payload, 1).unwrap();
            let mut bytes = Vec::new();
            frames.put(&mut bytes, 700, 5);
            assert_eq!(bytes.len(), frames.whole());
            assert_eq!(next(&bytes).unwrap(), Some(Next { whole: bytes.len(), ours: true }));
            assert_eq!(next(&bytes[..bytes.len() - 1]).unwrap(), None);
            assert_eq!(frames.check(&bytes, 700).unwrap(), 0);
            frames.check(&bytes, 701).unwrap_err();
            for at in 0..bytes.len() {
                bytes[at] ^= 1;
                assert!(frames.check(&bytes, 700).is_err(), "byte {at} of payload {payload} is not checked");
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn a_stamped_frame_says_when_it_was_made() {
        let frames = Frames::stamped(32, 1).unwrap();
        let mut bytes = Vec::new();
        frames.put(&mut bytes, 7, u64::MAX - 1);
        assert_eq!(bytes.len(), frames.whole());
        assert_eq!(frames.check(&bytes, 7).unwrap(), u64::MAX - 1);
        let (before, after) = (clock(), clock());
        assert!(before > 0 && after >= before);
    }

    #[test]
    fn patterns_of_neighbours_differ() {
        let (one, other) = (Frames::new(32, 0).unwrap(), Frames::new(32, 1).unwrap());
        assert_ne!(one.pattern_of(5), one.pattern_of(6));
        assert_ne!(one.pattern_of(5), other.pattern_of(5));
    }

    #[test]
    fn a_payload_without_room_for_the_sequence_is_refused() {
        Frames::new(7, 0).unwrap_err();
        Frames::stamped(15, 0).unwrap_err();
        Frames::new(frame::MAX_FRAME, 0).unwrap_err();
    }
}
