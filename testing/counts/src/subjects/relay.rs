//! A session's relay over memory: what a frame costs once it has been read, and before it is written.

use std::hint::black_box;

use anyhow::ensure;
use moonbridge_dataplane::measure::Session;
use moonbridge_protocol::keep_alive::{Asker, Ledger};
use moonbridge_protocol::version::Version;
use moonbridge_protocol::{frame, play, tab_list};

use crate::callgrind::counted_by_callgrind;

/// Turns before any is counted, and those that are.
const WARM: usize = 40;
const COUNTED: usize = 200;

/// A server of 1.7 asks every two seconds, which are so many ticks.
const TICKS_BETWEEN_KEEP_ALIVES: usize = 40;

/// Small frames of each direction in a tick.
const FRAMES: u8 = 64;

/// What a server and a player send in one tick, which the session moves in one turn.
#[derive(Default)]
struct Tick {
    clientbound: Vec<u8>,
    serverbound: Vec<u8>,
    frames: u64,
}

/// Busy ticks; how many frames they had.
pub(super) fn ticks(session: Session) -> anyhow::Result<u64> {
    turn_through(session, |_| Tick::busy())
}

/// The same, with the backend's keep-alives and the player's answers among them.
pub(super) fn ticks_with_keep_alives(session: Session) -> anyhow::Result<u64> {
    // The session's own ledger asks with the same ids.
    let mut asked = Ledger::default();
    turn_through(session, |index| {
        let mut tick = Tick::busy();
        if index % TICKS_BETWEEN_KEEP_ALIVES == 0 {
            tick.ask(index as i64, &mut asked);
        }
        tick
    })
}

fn turn_through(mut session: Session, tick: impl FnMut(usize) -> Tick) -> anyhow::Result<u64> {
    ensure!(session.is_in_play(), "the session is not in play");
    let ticks: Vec<_> = (0..WARM + COUNTED).map(tick).collect();
    let (warm, counted) = ticks.split_at(WARM);
    let mut passed = 0;
    for tick in warm {
        passed = session.turn(&tick.clientbound, &tick.serverbound);
    }
    let before = passed;
    counted_by_callgrind(&mut || {
        for tick in counted {
            passed = session.turn(black_box(&tick.clientbound), black_box(&tick.serverbound));
        }
    });
    let sent: usize = counted.iter().map(|tick| tick.clientbound.len() + tick.serverbound.len()).sum();
    ensure!(passed - before == sent as u64, "of {sent} bytes {} were passed on", passed - before);
    ensure!(session.unanswered() == 0, "{} answers did not go where they belong", session.unanswered());
    Ok(counted.iter().map(|tick| tick.frames).sum())
}

impl Tick {
    /// Small frames, and a line of the tab list among the backend's.
    fn busy() -> Tick {
        let mut tick = Tick::default();
        for index in 0..FRAMES {
            frame::put(&mut tick.clientbound, 0x15, |out| out.extend_from_slice(&[index; 8]));
            frame::put(&mut tick.serverbound, 0x06, |out| out.extend_from_slice(&[index; 41]));
        }
        tab_list::put_player_list_item(&mut tick.clientbound, Version::newest(), "Steve", true, 20);
        tick.frames = 2 * u64::from(FRAMES) + 1;
        tick
    }

    /// The backend asks with this id, and the player answers with the node's.
    fn ask(&mut self, id: i64, asked: &mut Ledger) {
        let version = Version::newest();
        play::put_keep_alive_clientbound(&mut self.clientbound, version, id);
        let ours = asked.ask(Asker::Node, id);
        asked.answer(ours);
        play::put_keep_alive_serverbound(&mut self.serverbound, version, ours);
        self.frames += 2;
    }
}
