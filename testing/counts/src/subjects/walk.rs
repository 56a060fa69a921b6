//! The walk over frames, without anything around it.

use std::hint::black_box;

use anyhow::ensure;
use moonbridge_protocol::frame;
use moonbridge_protocol::walk::{Empty, Verdict, Walker, WatchSet};

use crate::callgrind::counted_by_callgrind;

const FRAMES: u32 = 64;
const TIMES: u32 = 100;

/// Watched for, as keep-alives are.
const WATCHED: u8 = 0x00;

/// Frames with this id, of so many bytes; how many were walked.
pub(super) fn frames(id: i32, payload: usize) -> anyhow::Result<u64> {
    let mut bytes = Vec::new();
    for _ in 0..FRAMES {
        frame::put(&mut bytes, id, |out| out.extend(std::iter::repeat_n(7, payload)));
    }
    let watch = WatchSet::of(&[WATCHED, 0x01, 0x38, 0x40]);
    let mut walker = Walker::default();
    let (mut walked, mut seen) = (0, 0_u32);
    let mut failed = Ok(());
    counted_by_callgrind(&mut || {
        for _ in 0..TIMES {
            let see = |frame: moonbridge_protocol::walk::Watched<'_>| {
                seen += u32::from(black_box(frame.id) == WATCHED);
                Verdict::Pass
            };
            match walker.walk(black_box(&mut bytes), watch, Empty::Pass, see) {
                Ok(all) => walked += all.frames,
                Err(error) => failed = Err(error),
            }
        }
    });
    failed?;
    ensure!(walked == FRAMES * TIMES, "{walked} frames");
    ensure!(seen == if id == i32::from(WATCHED) { walked } else { 0 }, "{seen} seen");
    Ok(u64::from(walked))
}
