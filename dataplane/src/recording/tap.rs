//! What follows the frames of one socket while they are recorded.

use std::sync::atomic::Ordering;
use std::sync::mpsc::TrySendError;

use moonbridge_protocol::frame::MAX_HEADER;

use super::{Direction, Frame, Recording};

/// Sees every byte that is read from a socket, and tells of each frame when its last byte has come.
#[derive(Debug)]
pub(crate) struct Tap {
    recording: Recording,
    direction: Direction,
    lengths: Lengths,
}

impl Tap {
    pub(super) fn new(recording: Recording, direction: Direction) -> Tap {
        Tap { recording, direction, lengths: Lengths::default() }
    }

    /// Begins where the socket stands: in a frame of which `passing` bytes are to come, and which is left out, or behind `unread`,
    /// which has come and not gone on.
    pub(crate) fn begin(&mut self, passing: usize, unread: &[u8]) {
        self.lengths.left = passing;
        self.read(unread);
    }

    /// What it tells, while that listens.
    pub(crate) fn recording(&self) -> Option<&Recording> {
        (!self.recording.is_over()).then_some(&self.recording)
    }

    /// Takes in what was read. False: the recording is over.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> bool {
        let Recording { frames, began, state } = &self.recording;
        let micros = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
        let direction = self.direction;
        let mut listens = true;
        let readable = self.lengths.follow(bytes, |length| match frames.try_send(Frame { micros, direction, length }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                state.missed.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => listens = false,
        });
        readable && listens
    }
}

/// Where in a frame a stream stands.
#[derive(Debug, Default)]
struct Lengths {
    /// Bytes of the length prefix that have come, and what they say.
    prefix: usize,
    said: usize,
    /// The frame whose prefix is whole (0: not told of), and how much of it is to come.
    length: usize,
    left: usize,
}

impl Lengths {
    /// Tells the length of each frame that ends in `bytes`; empty ones, which the relay leaves out too, are none. False: a prefix
    /// is malformed, so that nothing more can be told.
    fn follow(&mut self, mut bytes: &[u8], mut ended: impl FnMut(u32)) -> bool {
        loop {
            let part = self.left.min(bytes.len());
            self.left -= part;
            bytes = &bytes[part..];
            if self.left == 0 && self.length > 0 {
                // At most what three bytes can say.
                ended(self.length as u32);
                self.length = 0;
            }
            let Some((&byte, rest)) = bytes.split_first() else { return true };
            bytes = rest;
            self.said |= usize::from(byte & 0x7f) << (7 * self.prefix);
            self.prefix += 1;
            if byte & 0x80 == 0 {
                (self.length, self.left) = (self.said, self.said);
                (self.prefix, self.said) = (0, 0);
            } else if self.prefix == MAX_HEADER {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use moonbridge_protocol::frame;

    use super::*;

    fn stream(lengths: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &length in lengths {
            frame::put(&mut bytes, 1, |out| out.resize(out.len() + length - 1, 0xff));
        }
        bytes
    }

    #[test]
    fn lengths_are_the_same_however_a_stream_is_cut() {
        let lengths = [1, 127, 128, 300, 16_383, 16_384, 70_000, 2];
        let mut bytes = stream(&lengths);
        // Empty frames, one with a longer prefix than it needs.
        bytes.extend([0, 0x80, 0, 1, 9]);
        let expected: Vec<u32> = lengths.iter().map(|&length| length as u32).chain([1]).collect();
        for piece in [1, 2, 3, 7, 1000, bytes.len()] {
            let (mut told, mut state) = (Vec::new(), Lengths::default());
            assert!(bytes.chunks(piece).all(|piece| state.follow(piece, |length| told.push(length))));
            assert_eq!(told, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn it_begins_within_a_frame_or_behind_the_beginning_of_one() {
        let (recording, frames) = Recording::begin();
        let told = || std::iter::from_fn(|| frames.try_recv().ok()).map(|frame| frame.length).collect::<Vec<_>>();
        let bytes = stream(&[100, 5]);
        let mut within = recording.tap(Direction::Clientbound);
        within.begin(60, &[]);
        assert!(within.read(&bytes[41..]));
        assert_eq!(told(), [5]);
        let mut behind = recording.tap(Direction::Clientbound);
        behind.begin(0, &bytes[..50]);
        assert!(behind.read(&bytes[50..]));
        assert_eq!(told(), [100, 5]);
    }

    #[test]
    fn a_malformed_prefix_ends_it() {
        let (recording, frames) = Recording::begin();
        let mut tap = recording.tap(Direction::Serverbound);
        assert!(tap.read(&[1, 0, 0x80, 0x80]));
        assert!(!tap.read(&[0x80]));
        assert_eq!(frames.try_iter().count(), 1);
    }
}
