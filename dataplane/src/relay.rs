//! The relay: what moves bytes between the two sockets of a session, a run of frames at a time.
//!
//! A turn has three stages: *read and walk* what is ready into a run ([`moonbridge_protocol::walk`]), *transform* it, and
//! *one write*. Of what goes as it is, all happens in one poll, from the worker's one read buffer; what goes to an encrypted
//! player is encrypted and written by the worker's [`flusher`] right after, together with other sessions'. A link owns bytes
//! only while a frame is incomplete, the flusher is to come, or its peer does not take them ([`buffer`]).

pub(crate) mod buffer;
pub(crate) mod flusher;
pub(crate) mod link;
pub mod measure;
pub(crate) mod outlet;
pub(crate) mod socket;
#[cfg(test)]
mod tests;

use std::io;
use std::task::{Context, Poll, ready};

use moonbridge_protocol::frame::FrameError;
use moonbridge_protocol::walk::{Empty, HOLD, Verdict, WatchSet, Watched};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use self::buffer::{Buffer, with_read_buffer, worker_is_full};
use self::link::Link;
use self::socket::{Source, Target};

/// Reads of one direction in one turn, so that a busy session does not starve its worker's others.
pub(crate) const READS_A_TURN: usize = 8;

/// Where a run goes.
pub(crate) enum Sink<'a, R = OwnedReadHalf, W = OwnedWriteHalf> {
    /// To the other side. Nothing is read while it has not taken what it was given.
    Link(&'a mut Link<R, W>),
    /// Nowhere yet: it is held, up to this many bytes; nothing is read beyond.
    Hold(&'a mut Buffer, usize),
}

/// Why a direction needs attention.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The source has ended its stream.
    Ended,
    /// The source failed.
    SourceFailed(io::Error),
    /// The source's frames cannot be read.
    Malformed(FrameError),
    /// The visitor stopped the walk; the frame it stopped at is the first of the source's unread bytes.
    Stopped,
}

/// What a direction does with frames.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) watch: WatchSet,
    pub(crate) empty: Empty,
    /// The longest frame that is waited for, to be seen whole; longer ones are cut through.
    pub(crate) hold: usize,
}

/// Moves what is ready from `source` to `sink`. Pending when there is nothing more to read or the sink is full, with the
/// task to be woken for either. Empty frames that were left out are added to `empty`.
///
/// A link is pumped by one task only, from its first turn to its last.
pub(crate) fn pump<R: Source, W: Target>(
    cx: &mut Context<'_>,
    source: &mut Link<R, W>,
    sink: &mut Sink<'_, R, W>,
    rules: Rules,
    empty: &mut u32,
    mut visit: impl FnMut(Watched<'_>) -> Verdict,
) -> Poll<Halt> {
    source.walker.set_hold(rules.hold);
    for _ in 0..READS_A_TURN {
        match sink {
            Sink::Link(link) => {
                ready!(link.out.poll_room(cx));
            }
            Sink::Hold(held, limit) => {
                // Room may come back without waking this task; its clocks look again.
                if held.len() >= *limit || (worker_is_full() && held.len() >= HOLD) {
                    return Poll::Pending;
                }
            }
        }
        // After the first read, mostly not.
        if !source.may_fill() {
            return Poll::Pending;
        }
        let halt = with_read_buffer(source.waiting(), |space| {
            let filled = match source.poll_fill(cx, space) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Some(Halt::Ended)),
                Poll::Ready(Ok(filled)) => filled,
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Halt::SourceFailed(error))),
                Poll::Pending => return Poll::Pending,
            };
            let read = &mut space[..filled];
            let walked = match source.walker.walk(read, rules.watch, rules.empty, &mut visit) {
                Ok(walked) => walked,
                Err(error) => return Poll::Ready(Some(Halt::Malformed(error))),
            };
            *empty += walked.empty;
            source.keep_unread(&read[walked.consumed..], walked.stopped || walked.malformed);
            let run = &read[..walked.forward];
            match sink {
                Sink::Link(link) => link.out.send(cx, run),
                Sink::Hold(held, _) => held.extend(run),
            }
            Poll::Ready(walked.stopped.then_some(Halt::Stopped))
        });
        if let Some(halt) = ready!(halt) {
            return Poll::Ready(halt);
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
