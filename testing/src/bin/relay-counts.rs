//! Relays ticks over memory, to be run under callgrind: `testing/tests/instructions.rs` says why.

use std::hint::black_box;

use moonbridge_dataplane::measure::{Past, Session, tick};

/// Ticks before any is counted, and those that are.
const WARM: usize = 20;
const COUNTED: usize = 200;

fn main() {
    let past = match std::env::args().nth(1).as_deref() {
        Some("vanilla") => Past::Vanilla,
        Some("forge") => Past::Forge,
        Some("vanilla-moved") => Past::VanillaMoved,
        Some("forge-moved") => Past::ForgeMoved,
        other => panic!("vanilla, forge, vanilla-moved or forge-moved, not {other:?}"),
    };
    let mut session = match std::env::args().nth(2).as_deref() {
        None => Session::new(past),
        Some("without-commands") => Session::without_commands(past),
        other => panic!("nothing or without-commands, not {other:?}"),
    };
    assert!(session.is_in_play(), "{past:?}");
    let (clientbound, serverbound) = tick();
    let mut passed = 0;
    for _ in 0..WARM {
        passed = session.turn(&clientbound, &serverbound);
    }
    let all = counted_ticks(&mut session, &clientbound, &serverbound) - passed;
    assert_eq!(all as usize, COUNTED * (clientbound.len() + serverbound.len()), "everything is passed on");
}

/// What callgrind counts.
#[inline(never)]
fn counted_ticks(session: &mut Session, clientbound: &[u8], serverbound: &[u8]) -> u64 {
    let mut passed = 0;
    for _ in 0..COUNTED {
        passed = black_box(session.turn(black_box(clientbound), black_box(serverbound)));
    }
    passed
}
