//! The frame walker: whatever a stream holds and however its bytes are cut into reads, what is forwarded, what is visited and
//! what is counted are the same as if its frames had been looked at one by one.

use moonbridge_protocol::frame::{self, FrameError, MAX_FRAME};
use moonbridge_protocol::walk::{Empty, HOLD, Verdict, Walker, WatchSet};
use moonbridge_protocol::wire::put_varint;
use proptest::prelude::*;
use proptest::sample::select;

const WATCHED: [u8; 4] = [0x00, 0x01, 0x3f, 0x7f];

/// What the visitor makes of a watched frame: the payload's first byte says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Pass,
    Drop,
    /// Every byte of the payload is changed.
    Change,
    /// The walk is stopped before it; the next time it is passed.
    Stop,
}

fn act(payload: &[u8]) -> Act {
    match payload.first().map_or(0, |byte| byte % 4) {
        0 => Act::Pass,
        1 => Act::Drop,
        2 => Act::Change,
        _ => Act::Stop,
    }
}

/// One frame of a stream as it was made: the model knows what it is without reading it.
#[derive(Debug, Clone)]
struct Made {
    prefix: Vec<u8>,
    id: Vec<u8>,
    payload: Vec<u8>,
}

impl Made {
    fn new(id: i32, payload: Vec<u8>) -> Made {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, id);
        let mut prefix = Vec::new();
        put_varint(&mut prefix, (bytes.len() + payload.len()) as i32);
        Made { prefix, id: bytes, payload }
    }

    /// The id as a peer reads it: 7 bits a byte, in 32 bits.
    fn id(&self) -> i32 {
        self.id.iter().enumerate().fold(0, |id, (at, byte)| id | (i32::from(byte & 0x7f) << (7 * at)))
    }

    fn len(&self) -> usize {
        self.prefix.len() + self.id.len() + self.payload.len()
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.prefix[..], &self.id, &self.payload].concat()
    }
}

/// All that comes of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    forwarded: Vec<u8>,
    visited: Vec<(u8, Vec<u8>)>,
    frames: u32,
    empty: u32,
    stops: u32,
    error: Option<FrameError>,
}

/// What has to come of it, frame by frame.
fn model(frames: &[Made], malformed: bool, empty: Empty) -> Came {
    let mut came = Came::default();
    for made in frames {
        came.frames += 1;
        let watched = made.len() <= HOLD && !made.id.is_empty() && WATCHED.iter().any(|&id| i32::from(id) == made.id());
        if made.id.is_empty() && empty == Empty::Drop {
            came.empty += 1;
        } else if !watched {
            came.forwarded.extend(made.bytes());
        } else {
            let visit = (made.id() as u8, made.payload.clone());
            came.visited.push(visit.clone());
            match act(&made.payload) {
                Act::Drop => {}
                Act::Pass => came.forwarded.extend(made.bytes()),
                Act::Change => {
                    let changed = made.payload.iter().map(|byte| !byte).collect();
                    came.forwarded.extend(Made { payload: changed, ..made.clone() }.bytes());
                }
                Act::Stop => {
                    came.stops += 1;
                    came.visited.push(visit);
                    came.forwarded.extend(made.bytes());
                }
            }
        }
    }
    came.error = malformed.then_some(FrameError::LengthTooLong);
    came
}

/// What the walker makes of it, read in pieces of these sizes (over and over).
fn walked(stream: &[u8], reads: &[usize], empty: Empty) -> Came {
    let watch = WatchSet::of(&WATCHED);
    let mut came = Came::default();
    let mut walker = Walker::default();
    let mut buffer = Vec::new();
    let mut stopped_before = false;
    let mut rest = stream;
    let mut sizes = reads.iter().cycle();
    'reads: while !rest.is_empty() {
        let size = (*sizes.next().expect("a size")).clamp(1, rest.len());
        buffer.extend_from_slice(&rest[..size]);
        rest = &rest[size..];
        loop {
            let result = walker.walk(&mut buffer, watch, empty, |frame| {
                came.visited.push((frame.id, frame.payload.to_vec()));
                match act(frame.payload) {
                    Act::Pass => Verdict::Pass,
                    Act::Drop => Verdict::Drop,
                    Act::Change => {
                        frame.payload.iter_mut().for_each(|byte| *byte = !*byte);
                        Verdict::Pass
                    }
                    Act::Stop => {
                        stopped_before = !stopped_before;
                        if stopped_before { Verdict::Stop } else { Verdict::Pass }
                    }
                }
            });
            let walked = match result {
                Ok(walked) => walked,
                Err(error) => {
                    came.error = Some(error);
                    break 'reads;
                }
            };
            assert!(walked.forward <= walked.consumed && walked.consumed <= buffer.len());
            came.forwarded.extend_from_slice(&buffer[..walked.forward]);
            buffer.drain(..walked.consumed);
            came.frames += walked.frames;
            came.empty += walked.empty;
            came.stops += u32::from(walked.stopped);
            if !walked.stopped && !walked.malformed {
                assert!(buffer.len() <= HOLD, "{} bytes are held", buffer.len());
                assert!(walker.at_boundary() || buffer.is_empty(), "what is cut through is never held");
                break;
            }
        }
    }
    if came.error.is_none() {
        assert!(walker.at_boundary(), "all frames have come whole");
        assert!(buffer.is_empty(), "all frames have been dealt with");
    }
    came
}

fn payload(length: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), length)
}

/// Long payloads cost: one byte, repeated.
fn long_payload() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![HOLD - 8..HOLD + 8, 0..3 * HOLD];
    (length, any::<u8>()).prop_map(|(length, byte)| vec![byte; length])
}

fn any_frame() -> impl Strategy<Value = Made> {
    prop_oneof![
        6 => (select(&WATCHED[..]), payload(0..40)).prop_map(|(id, payload)| Made::new(id.into(), payload)),
        2 => (select(&WATCHED[..]), payload(100..400)).prop_map(|(id, payload)| Made::new(id.into(), payload)),
        6 => (2..0x3f, payload(0..40)).prop_map(|(id, payload)| Made::new(id, payload)),
        2 => (any::<i32>(), payload(0..40)).prop_map(|(id, payload)| Made::new(id, payload)),
        1 => (-3..0, payload(0..40)).prop_map(|(id, payload)| Made::new(id, payload)),
        2 => select(vec![vec![0], vec![0x80, 0], vec![0x80, 0x80, 0]])
            .prop_map(|prefix| Made { prefix, id: vec![], payload: vec![] }),
        1 => (select(vec![0, 1, 5, 200, -1]), long_payload()).prop_map(|(id, payload)| Made::new(id, payload)),
        // An id that is longer than it need be, and (the last one) has more than 32 bits.
        2 => (select(&WATCHED[..]), select(vec![vec![0], vec![0x80, 0], vec![0x80, 0x80, 0x80, 0], vec![0x80, 0x80, 0x80, 0x70]]), payload(0..40))
            .prop_map(|(id, padding, payload)| {
                let id = [&[id | 0x80][..], &padding].concat();
                Made { prefix: vec![(id.len() + payload.len()) as u8], id, payload }
            }),
        // A prefix that is longer than it need be.
        1 => (select(&WATCHED[..]), payload(0..40)).prop_map(|(id, payload)| {
            let length = payload.len() as u8 + 1;
            Made { prefix: vec![length | 0x80, 0], id: vec![id], payload }
        }),
    ]
}

fn any_reads() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![1..4usize, 1..64usize, 1..5_000usize, 1..2 * HOLD];
    // Byte by byte over a long stream is slow and is done below: one read in each round is larger.
    (proptest::collection::vec(size, 0..6), 500..HOLD).prop_map(|(mut sizes, large)| {
        sizes.push(large);
        sizes
    })
}

fn stream_of(frames: &[Made], malformed: bool) -> Vec<u8> {
    let mut stream: Vec<u8> = frames.iter().flat_map(Made::bytes).collect();
    if malformed {
        stream.extend([0xff, 0x80, 0xff, 0xff, 0x0f, 0x00]);
    }
    stream
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_split_of_any_stream_gives_what_the_model_says(
        frames in proptest::collection::vec(any_frame(), 0..24),
        reads in any_reads(),
        malformed in any::<bool>(),
        drop_empty in any::<bool>(),
    ) {
        let empty = if drop_empty { Empty::Drop } else { Empty::Pass };
        let stream = stream_of(&frames, malformed);
        let expected = model(&frames, malformed, empty);
        prop_assert!(walked(&stream, &[stream.len()], empty) == expected, "in one read");
        prop_assert!(walked(&stream, &reads, empty) == expected, "in several reads");
    }

    #[test]
    fn any_split_of_arbitrary_bytes_gives_the_same(stream in payload(0..300), reads in proptest::collection::vec(1..20usize, 1..8)) {
        let run = |reads: &[usize]| {
            let mut walker = Walker::default();
            let (mut out, mut buffer, mut visited) = (Vec::new(), Vec::new(), Vec::new());
            let (mut rest, mut sizes) = (&stream[..], reads.iter().cycle());
            loop {
                let result = walker.walk(&mut buffer, WatchSet::ALL, Empty::Drop, |frame| {
                    visited.push((frame.id, frame.payload.to_vec()));
                    if frame.id % 2 == 0 { Verdict::Pass } else { Verdict::Drop }
                });
                let Ok(walked) = result else { return (out, visited, None) };
                out.extend_from_slice(&buffer[..walked.forward]);
                buffer.drain(..walked.consumed);
                if walked.malformed {
                    continue;
                }
                if rest.is_empty() {
                    return (out, visited, Some((buffer, walker)));
                }
                let size = sizes.next().copied().unwrap_or(1).min(rest.len());
                buffer.extend_from_slice(&rest[..size]);
                rest = &rest[size..];
            }
        };
        prop_assert_eq!(run(&[usize::MAX]), run(&reads));
    }

    #[test]
    fn a_frame_that_was_put_is_the_first(id in any::<i32>(), payload in payload(0..600), before in payload(0..9), after in payload(0..9)) {
        let mut out = before.clone();
        frame::put(&mut out, id, |out| out.extend_from_slice(&payload));
        let mut stream = out.split_off(before.len());
        prop_assert_eq!(out, before, "what stood before is untouched");
        let length = stream.len();
        stream.extend_from_slice(&after);
        let first = frame::first(&stream, MAX_FRAME).expect("well-formed").expect("whole");
        prop_assert_eq!((first.id, first.payload, first.whole.len()), (id, &payload[..], length));
        for end in 0..length {
            prop_assert_eq!(frame::first(&stream[..end], MAX_FRAME), Ok(None));
        }
    }
}

/// Frames of each kind, short, so that every way to cut their bytes in two or three can be tried.
fn one_of_each() -> Vec<Made> {
    vec![
        Made::new(0, vec![0, 1]),
        Made::new(1, vec![1, 1]),
        Made { prefix: vec![0], id: vec![], payload: vec![] },
        Made::new(-1, vec![7]),
        Made::new(0x3f, vec![3; 130]),
        Made { prefix: vec![0x80, 0x80, 0], id: vec![], payload: vec![] },
        Made::new(0x7f, vec![2, 2]),
        Made::new(300, vec![]),
        Made::new(0, vec![]),
    ]
}

#[test]
fn every_split_in_three_gives_what_the_model_says() {
    for malformed in [false, true] {
        let stream = stream_of(&one_of_each(), malformed);
        for empty in [Empty::Pass, Empty::Drop] {
            let expected = model(&one_of_each(), malformed, empty);
            for first in 1..stream.len() {
                for second in first..stream.len() {
                    let reads = [first, (second - first).max(1), stream.len()];
                    assert_eq!(walked(&stream, &reads, empty), expected, "{reads:?}");
                }
            }
        }
    }
}

#[test]
fn byte_by_byte_gives_what_the_model_says() {
    let frames = [one_of_each(), vec![Made::new(0, vec![1; HOLD]), Made::new(0, vec![1; HOLD - 4])], one_of_each()].concat();
    // The one of exactly 64 KiB with its prefix is held, dropped by the visitor; the longer one is cut through.
    assert_eq!(frames[frames.len() / 2].len(), HOLD);
    assert_eq!(walked(&stream_of(&frames, false), &[1], Empty::Pass), model(&frames, false, Empty::Pass));
}

#[test]
fn frames_before_a_malformed_one_are_forwarded_first() {
    let mut stream = stream_of(&one_of_each()[..1], true);
    let good = stream.len() - 6;
    let mut walker = Walker::default();
    let walked = walker.walk(&mut stream, WatchSet::default(), Empty::Pass, |_| Verdict::Pass).expect("the good frame");
    assert_eq!((walked.forward, walked.consumed, walked.frames, walked.malformed), (good, good, 1, true));
    stream.drain(..good);
    let error = walker.walk(&mut stream, WatchSet::default(), Empty::Pass, |_| Verdict::Pass);
    assert_eq!(error, Err(FrameError::LengthTooLong));
}

#[test]
fn the_longest_frame_is_cut_through_and_one_byte_more_is_malformed() {
    let mut longest = Made::new(0x21, vec![9; MAX_FRAME - 1]).bytes();
    let came = walked(&longest, &[HOLD], Empty::Drop);
    assert_eq!((came.frames, came.forwarded.len(), came.error), (1, MAX_FRAME + 3, None));
    assert_eq!(frame::first(&longest, MAX_FRAME).map(|first| first.is_some()), Ok(true));
    assert_eq!(frame::first(&longest, 100), Err(FrameError::TooLong { length: MAX_FRAME, limit: 100 }));
    longest.splice(..3, [0x80, 0x80, 0x80, 0x01]);
    assert_eq!(frame::first(&longest, MAX_FRAME), Err(FrameError::LengthTooLong));
}

#[test]
fn frames_of_every_size_of_prefix_are_put_right() {
    for length in [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, MAX_FRAME - 1] {
        let mut out = Vec::new();
        frame::put(&mut out, 5, |out| out.resize(out.len() + length, 7));
        assert_eq!(out, Made::new(5, vec![7; length]).bytes(), "{length}");
    }
}

#[test]
fn an_empty_frame_is_empty_however_its_length_is_written() {
    for bytes in [&[0][..], &[0x80, 0], &[0x80, 0x80, 0]] {
        let first = frame::first(bytes, 10).expect("well-formed").expect("whole");
        assert!(first.is_empty(), "{bytes:?}");
    }
    let keep_alive = frame::first(&[1, 0], 10).expect("well-formed").expect("whole");
    assert!(!keep_alive.is_empty());
}

#[test]
fn a_walker_that_is_told_to_waits_for_longer_frames() {
    let long = Made::new(0x3f, vec![0; HOLD + 1_000]).bytes();
    let mut walker = Walker::default();
    walker.set_hold(MAX_FRAME + frame::MAX_HEADER);
    let mut buffer = long[..long.len() - 1].to_vec();
    let none = walker.walk(&mut buffer, WatchSet::ALL, Empty::Pass, |_| Verdict::Pass).expect("well-formed");
    assert_eq!((none.consumed, walker.at_boundary()), (0, true));
    buffer.push(long[long.len() - 1]);
    let mut seen = 0;
    let walked = walker.walk(&mut buffer, WatchSet::of(&[0x3f]), Empty::Pass, |frame| {
        seen += frame.payload.len();
        Verdict::Drop
    });
    assert_eq!((walked.expect("well-formed").forward, seen), (0, HOLD + 1_000));
    // Back in play it is cut through again, and not looked into.
    walker.set_hold(HOLD);
    let walked = walker.walk(&mut long.clone(), WatchSet::ALL, Empty::Pass, |_| Verdict::Drop).expect("well-formed");
    assert_eq!(walked.forward, long.len());
}
