//! Traces: the sizes and times of a session's frames as a node has recorded them (`moonbridge session record`;
//! docs/operations.md has the format), to be sent again with contents of the benchmark's own.
//!
//! ```text
//! let trace = Arc::new(Trace::read(path)?);                                  // --trace FILE
//! let mut sender = Sender::new(trace.clone(), Clientbound, connection)?;     // at the backend; the player's is Serverbound
//!     sender.put_due(since_start, frames::clock(), &mut out);                // what is due by now: one write
//!     sleep_until(start + sender.next_due());
//! let mut receiver = Receiver::new(trace.clone(), Clientbound, connection);  // at the player; the backend's is Serverbound
//!     let made = receiver.check(whole)?;                                     // each frame whose id is frames::ID
//! ```
//! A trace that has come to its end begins anew, for as long as the phase lasts. Every frame is as long as the recorded one;
//! it has as much as there is room for of [`frames::ID`], its number (from the lowest byte), the time it was made, and a pattern.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use moonbridge_protocol::frame::MAX_FRAME;
use moonbridge_protocol::wire;
use serde::Deserialize;

use super::frames;

/// The version of the format that is read here.
const VERSION: u32 = 1;

/// No node records more: bytes of a file, and the time that it covers.
const MAX_BYTES: u64 = 64 << 20;
const MAX_TIME: Duration = Duration::from_secs(600);

/// A recording is played anew when it has come to its end. One that ended soon after a world had been sent would ask for more than
/// anything can carry, and be written into memory without end.
const MAX_BYTES_A_SECOND: f64 = 200e6;

/// The longest line: a header has names in it.
const MAX_LINE: u64 = 4096;

/// Bytes of a frame's number, and of the time it was made.
const NUMBER: usize = 8;
const STAMP: usize = 8;

/// How many different patterns there are, each the one before moved on by a byte.
const PATTERNS: usize = 251;

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the backend to the player.
    Clientbound,
    /// From the player to the backend.
    Serverbound,
}

/// A frame of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// When it came, from the recording's beginning.
    pub at: Duration,
    /// What its length prefix said: bytes of its packet id and what follows.
    pub length: usize,
}

/// A recording that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    clientbound: Vec<Recorded>,
    serverbound: Vec<Recorded>,
    lasts: Duration,
    missed: u64,
}

/// The first line.
#[derive(Deserialize)]
struct Header {
    moonbridge_frames: u32,
}

/// The last line.
#[derive(Deserialize)]
struct Trailer {
    micros: u64,
    frames: u64,
    missed: u64,
}

impl Trace {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Trace> {
        let file = File::open(path).with_context(|| format!("the trace {} cannot be opened", path.display()))?;
        Trace::parse(BufReader::new(file)).with_context(|| format!("{} is no trace that can be used", path.display()))
    }

    /// Reads what a file has in it; an error names the line.
    pub fn parse(mut from: impl BufRead) -> anyhow::Result<Trace> {
        let mut trace = Trace { clientbound: Vec::new(), serverbound: Vec::new(), lasts: Duration::ZERO, missed: 0 };
        let (mut line, mut bytes) = (String::new(), 0);
        for number in 1.. {
            line.clear();
            let read = from.by_ref().take(MAX_LINE).read_line(&mut line).with_context(|| format!("line {number}"))?;
            bytes += read as u64;
            ensure!(bytes <= MAX_BYTES, "line {number}: longer than the {MAX_BYTES} bytes that a node records");
            let Some(text) = line.strip_suffix('\n') else {
                bail!("line {number}: the recording is cut off here: its last line has to be a JSON object")
            };
            match number {
                1 => header(text).context("line 1")?,
                _ if text.starts_with('{') => {
                    trace.end(text).with_context(|| format!("line {number}"))?;
                    ensure!(from.fill_buf()?.is_empty(), "line {}: nothing is expected behind the last line", number + 1);
                    break;
                }
                _ => trace.add(text).with_context(|| format!("line {number}"))?,
            }
        }
        Ok(trace)
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let fields: Vec<&str> = line.split(' ').collect();
        let parsed = match fields[..] {
            [micros, "c", length] => Some((micros, &mut self.clientbound, length)),
            [micros, "s", length] => Some((micros, &mut self.serverbound, length)),
            _ => None,
        };
        let parsed = parsed.and_then(|(micros, frames, length)| Some((micros.parse().ok()?, frames, length.parse().ok()?)));
        let Some((micros, frames, length)) = parsed else {
            bail!("expected microseconds, c or s, and a length, such as \"1500 c 34\"; got {line:?}")
        };
        let at = Duration::from_micros(micros);
        ensure!((1..=MAX_FRAME).contains(&length), "expected a length of 1 to {MAX_FRAME} bytes, got {length}");
        ensure!(at >= self.lasts, "{micros} µs is before the frame above it");
        ensure!(at <= MAX_TIME, "{micros} µs is beyond the {} s that a node records", MAX_TIME.as_secs());
        self.lasts = at;
        frames.push(Recorded { at, length });
        Ok(())
    }

    fn end(&mut self, line: &str) -> anyhow::Result<()> {
        let Trailer { micros, frames, missed } = serde_json::from_str(line).context("expected the last line of a recording")?;
        let lasts = Duration::from_micros(micros);
        let there = self.clientbound.len() + self.serverbound.len();
        ensure!(frames == there as u64, "it speaks of {frames} frames, and there are {there}");
        ensure!(lasts >= self.lasts && lasts <= MAX_TIME, "it lasts {micros} µs, which cannot be");
        ensure!(there > 0 && !lasts.is_zero(), "there is no frame to send");
        ensure!(!self.clientbound.is_empty(), "no frame comes from the backend: there is nothing to measure");
        let bytes: usize = self.clientbound.iter().chain(&self.serverbound).map(|frame| frame.length).sum();
        let most = MAX_BYTES_A_SECOND * lasts.as_secs_f64();
        ensure!(bytes as f64 <= most, "{bytes} bytes in {micros} µs, again and again, are more than {MAX_BYTES_A_SECOND} a second");
        (self.lasts, self.missed) = (lasts, missed);
        Ok(())
    }

    /// The frames of one direction, in order.
    pub fn frames(&self, direction: Direction) -> &[Recorded] {
        match direction {
            Direction::Clientbound => &self.clientbound,
            Direction::Serverbound => &self.serverbound,
        }
    }

    /// How long it takes, until it begins anew.
    pub fn lasts(&self) -> Duration {
        self.lasts
    }

    /// Frames that the node came too late to record.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Bytes of the longest frame of a direction, its length prefix included: room for whoever receives it.
    pub fn longest(&self, direction: Direction) -> usize {
        let longest = self.frames(direction).iter().map(|frame| frame.length).max();
        longest.map_or(0, |length| length + moonbridge_protocol::frame::MAX_HEADER)
    }

    /// Bytes of an average frame of a direction, its length prefix not included.
    pub fn mean(&self, direction: Direction) -> usize {
        let frames = self.frames(direction);
        frames.iter().map(|frame| frame.length).sum::<usize>().checked_div(frames.len()).unwrap_or(0)
    }

    /// Frame `number` of a direction that is sent again and again; `None` if it has none.
    fn frame(&self, direction: Direction, number: u64) -> Option<Recorded> {
        let frames = self.frames(direction);
        let (round, at) = (number.checked_div(frames.len() as u64)?, number % frames.len() as u64);
        let Recorded { at, length } = frames[at as usize];
        Some(Recorded { at: at + self.lasts.saturating_mul(u32::try_from(round).unwrap_or(u32::MAX)), length })
    }
}

fn header(line: &str) -> anyhow::Result<()> {
    let header: Header = serde_json::from_str(line).context("expected the first line of a recording, {\"moonbridge_frames\":1,…}")?;
    let version = header.moonbridge_frames;
    ensure!(version == VERSION, "the format's version {version} is not known here, only {VERSION}");
    Ok(())
}

/// Sends one direction of a trace.
#[derive(Debug, Clone)]
pub struct Sender {
    trace: Arc<Trace>,
    direction: Direction,
    pattern: Pattern,
    sent: u64,
}

impl Sender {
    /// From the trace's beginning; `connection` makes the frames' pattern its own.
    pub fn new(trace: Arc<Trace>, direction: Direction, connection: usize) -> Sender {
        let pattern = Pattern::new(trace.longest(direction), connection);
        Sender { trace, direction, pattern, sent: 0 }
    }

    /// Appends every frame that is due `since_start`, made at `now` ([`frames::clock`]); how many.
    pub fn put_due(&mut self, since_start: Duration, now: u64, out: &mut Vec<u8>) -> u64 {
        let before = self.sent;
        while let Some(frame) = self.trace.frame(self.direction, self.sent).filter(|frame| frame.at <= since_start) {
            // Lengths are bounded by what three bytes can say.
            wire::put_varint(out, frame.length as i32);
            self.pattern.put(out, frame.length, self.sent, now);
            self.sent += 1;
        }
        self.sent - before
    }

    /// When the next frame is due, from the start; `None`: this direction has none.
    pub fn next_due(&self) -> Option<Duration> {
        self.trace.frame(self.direction, self.sent).map(|frame| frame.at)
    }

    /// How many frames were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

/// Checks what comes of one direction of a trace.
#[derive(Debug, Clone)]
pub struct Receiver {
    trace: Arc<Trace>,
    direction: Direction,
    pattern: Pattern,
    came: u64,
    expected: Vec<u8>,
}

impl Receiver {
    /// From the trace's beginning, what the [`Sender`] of this connection sends.
    pub fn new(trace: Arc<Trace>, direction: Direction, connection: usize) -> Receiver {
        let pattern = Pattern::new(trace.longest(direction), connection);
        Receiver { trace, direction, pattern, came: 0, expected: Vec::new() }
    }

    /// Whether `whole`, length prefix and all, is the next frame, to the last byte. When it was made, if it is long enough to say so.
    pub fn check(&mut self, whole: &[u8]) -> anyhow::Result<Option<u64>> {
        let number = self.came;
        let Some(frame) = self.trace.frame(self.direction, number) else { bail!("a frame came where the trace has none") };
        let header = moonbridge_protocol::frame::header(whole)?.context("a frame without its length")?;
        let body = &whole[header.prefix..];
        ensure!(
            body.len() == frame.length && header.body == frame.length,
            "frame {number} has {} bytes where {} were sent: lost, repeated or out of order",
            body.len(),
            frame.length
        );
        let made = body.get(1 + NUMBER..).and_then(|rest| rest.first_chunk::<STAMP>()).map(|made| u64::from_le_bytes(*made));
        self.expected.clear();
        self.pattern.put(&mut self.expected, frame.length, number, made.unwrap_or(0));
        ensure!(body == self.expected, "frame {number} has another payload than was sent");
        self.came += 1;
        Ok(made)
    }

    /// How many frames came.
    pub fn came(&self) -> u64 {
        self.came
    }
}

/// What the bodies of a connection's frames are filled with.
#[derive(Debug, Clone)]
struct Pattern(Vec<u8>);

impl Pattern {
    fn new(longest: usize, connection: usize) -> Pattern {
        Pattern((0..longest + PATTERNS).map(|at| (at * 31 + at / 251 + connection * 97) as u8).collect())
    }

    /// Appends the body of frame `number`.
    fn put(&self, out: &mut Vec<u8>, length: usize, number: u64, made: u64) {
        let end = out.len() + length;
        out.push(frames::ID);
        out.extend_from_slice(&number.to_le_bytes()[..NUMBER.min(end - out.len())]);
        if end - out.len() >= STAMP {
            out.extend_from_slice(&made.to_le_bytes());
        }
        let start = (number % PATTERNS as u64) as usize;
        out.extend_from_slice(&self.0[start..start + end - out.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{Clientbound, Serverbound};
    use super::*;

    const SMALL: &str = "{\"moonbridge_frames\":1,\"node\":\"edge\"}\n0 c 1\n10 s 9\n10 c 17\n2500 c 70000\n2500 s 3\n\
                         {\"ended\":\"time\",\"micros\":3000,\"frames\":5,\"missed\":2}\n";

    fn parse(text: &str) -> anyhow::Result<Trace> {
        Trace::parse(text.as_bytes())
    }

    #[test]
    fn a_recording_is_read() {
        let trace = parse(SMALL).unwrap();
        let at = |micros, length| Recorded { at: Duration::from_micros(micros), length };
        assert_eq!(trace.frames(Clientbound), [at(0, 1), at(10, 17), at(2500, 70_000)]);
        assert_eq!(trace.frames(Serverbound), [at(10, 9), at(2500, 3)]);
        assert_eq!((trace.lasts(), trace.missed(), trace.longest(Serverbound)), (Duration::from_millis(3), 2, 12));
    }

    #[test]
    fn the_example_is_read() {
        let trace = Trace::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/benchmarks/traces/npm-ticks.frames"))).unwrap();
        assert_eq!((trace.frames(Clientbound).len(), trace.frames(Serverbound).len()), (1231, 106));
        assert_eq!((trace.lasts(), trace.longest(Clientbound) > 8000), (Duration::from_secs(5), true));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let whole = SMALL.len();
        let cases = [
            ("", "line 1: the recording is cut off"),
            ("0 c 1\n", "line 1: expected the first line"),
            ("{\"moonbridge_frames\":2}\n", "line 1: the format's version 2"),
            (&SMALL[..60], "line 5: the recording is cut off"),
            (&SMALL[..whole - 1], "line 7: the recording is cut off"),
            (&SMALL.replace("10 s 9", "10 x 9"), "line 3: expected microseconds, c or s, and a length"),
            (&SMALL.replace("10 s 9", "10 s 9 7"), "line 3: expected microseconds"),
            (&SMALL.replace("10 s 9", "10 s -9"), "line 3: expected microseconds"),
            (&SMALL.replace("10 s 9", "10 s 0"), "line 3: expected a length of 1 to 2097151"),
            (&SMALL.replace("10 s 9", "10 s 2097152"), "line 3: expected a length of 1 to 2097151"),
            (&SMALL.replace("10 c 17", "9 c 17"), "line 4: 9 µs is before"),
            (&SMALL.replace("2500 s", "600000001 s"), "line 6: 600000001 µs is beyond the 600 s"),
            (&SMALL.replace(":5,", ":6,"), "line 7: it speaks of 6 frames, and there are 5"),
            (&SMALL.replace("3000", "2499"), "line 7: it lasts 2499 µs"),
            (&SMALL.replace("\"missed\":2", "\"x\":2"), "line 7: expected the last line"),
            (&format!("{SMALL}1 c 1\n"), "line 8: nothing is expected"),
            (&format!("{SMALL}x"), "line 8: nothing is expected"),
            (&"x".repeat(5000), "line 1: the recording is cut off"),
            ("{\"moonbridge_frames\":1}\n{\"micros\":9,\"frames\":0,\"missed\":0}\n", "line 2: there is no frame"),
            ("{\"moonbridge_frames\":1}\n0 s 1\n{\"micros\":9,\"frames\":1,\"missed\":0}\n", "line 3: no frame comes from the backend"),
            (&SMALL.replace("3000", "2500").replace("70000", "700000"), "line 7: 700030 bytes in 2500 µs"),
        ];
        for (text, expected) in cases {
            let told = format!("{:#}", parse(text).unwrap_err());
            assert!(told.starts_with(expected), "{text:?}: {told}");
        }
        let told = format!("{:#}", Trace::read(Path::new("/nonexistent/x.frames")).unwrap_err());
        assert!(told.starts_with("the trace /nonexistent/x.frames cannot be opened"), "{told}");
    }

    #[test]
    fn frames_go_at_their_times_and_then_anew() {
        let trace = Arc::new(parse(SMALL).unwrap());
        let mut sender = Sender::new(trace, Serverbound, 3);
        let mut out = Vec::new();
        let at = Duration::from_micros;
        assert_eq!((sender.next_due(), sender.put_due(at(9), 0, &mut out)), (Some(at(10)), 0));
        assert_eq!((sender.put_due(at(10), 0, &mut out), out.len()), (1, 10));
        assert_eq!((sender.next_due(), sender.put_due(at(3009), 0, &mut out)), (Some(at(2500)), 1));
        assert_eq!((sender.next_due(), sender.put_due(at(9000), 0, &mut out), sender.sent()), (Some(at(3010)), 4, 6));
        let silent = Arc::new(parse("{\"moonbridge_frames\":1}\n7 c 2\n{\"micros\":9,\"frames\":1,\"missed\":0}\n").unwrap());
        assert_eq!(Sender::new(silent, Serverbound, 0).next_due(), None);
    }

    #[test]
    fn what_is_sent_is_what_is_checked_to_the_last_byte() {
        for (direction, times) in [(Clientbound, [None, Some(77), Some(77)]), (Serverbound, [None, None, None])] {
            let trace = Arc::new(parse(SMALL).unwrap());
            let mut sender = Sender::new(trace.clone(), direction, 5);
            let mut receiver = Receiver::new(trace.clone(), direction, 5);
            let mut out = Vec::new();
            sender.put_due(Duration::from_millis(20), 77, &mut out);
            let mut rest = &mut out[..];
            while let Some(next) = frames::next(rest).unwrap() {
                let (frame, behind) = rest.split_at_mut(next.whole);
                assert!(next.ours);
                let prefix = frame.len() - trace.frame(direction, receiver.came()).unwrap().length;
                // The time it was made may be any.
                let stamp = if frame.len() >= prefix + 17 { prefix + 9..prefix + 17 } else { 0..0 };
                for at in (0..frame.len().min(100)).filter(|at| !stamp.contains(at)) {
                    frame[at] ^= 0x20;
                    assert!(receiver.clone().check(frame).is_err(), "byte {at} of a frame of {} is not checked", frame.len());
                    frame[at] ^= 0x20;
                }
                let round = receiver.came() as usize % trace.frames(direction).len();
                assert_eq!(receiver.check(frame).unwrap(), times[round]);
                rest = behind;
            }
            assert!(rest.is_empty() && receiver.came() == sender.sent() && sender.sent() > 6);
        }
    }
}
