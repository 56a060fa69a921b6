//! The worker's flusher: encrypts what is ready for many sessions together, then writes it, each session's with one write.
//!
//! CFB8 cannot be parallelised within a stream, but a worker has many streams, and several of them side by side cost
//! hardly more than one (`moonbridge_crypto::cfb8::encrypt_together`). So a session that has bytes for its encrypted
//! player puts them into its *line* and goes on; the first to do so wakes the flusher's task. A runtime of one thread runs
//! its tasks in the order in which they were woken: the flusher comes after every session that the same batch of events
//! has woken, and finds all that they have put. A session is woken again only if it waits for room, or to go on with what
//! its socket did not take.
//!
//! A worker with few lines and little to encrypt does not let them wait for each other: it has the time to encrypt each
//! alone, and the first would only wait for the last to be read.
//!
//! The lines are the thread's own, not the sessions': the flusher needs them all at once, without a lock.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use moonbridge_crypto::cfb8::{self, Encryptor};
use slab::Slab;
use tokio::net::tcp::OwnedWriteHalf;

use super::buffer::Buffer;
use super::socket::Target as _;

/// Bytes in a line beyond which its session reads no more for it.
const ROOM: usize = 64 * 1024;

/// What a line gets encrypted at a time. A stream's bytes are a serial chain (about 11 ns each), and all that are flushed
/// together wait for the longest: a world's chunks to one player do not hold up the others' small frames for long.
const SLICE: usize = 16 * 1024;

/// Lines that are flushed at once without waiting for more: the kernels' lanes are full with 16, and the first to have put
/// their bytes wait no longer for the last.
const MOST: usize = 64;

/// With fewer lines than these a worker that is not busy encrypts each alone: measured, filling the lanes costs no latency from
/// here on, and up to a quarter of the median below (testing/benchmarks/results/2026-11-30-online.md).
const FEW: usize = 24;

/// A worker is busy if its cipher takes more than one in so many parts of its time, seen over windows of this length.
const BUSY_PART: u32 = 20;
const WINDOW: Duration = Duration::from_millis(50);

thread_local! {
    static FLUSHER: RefCell<Flusher> = RefCell::new(Flusher::default());
}

/// What a worker's encryption has done, for whoever asks from another thread. All are totals since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes encrypted for players.
    pub(crate) bytes: AtomicU64,
    /// Time spent in the cipher for them.
    pub(crate) nanoseconds: AtomicU64,
    /// How often the cipher was run.
    pub(crate) batches: AtomicU64,
    /// Lines that it was run for: over `batches`, how many lanes were filled on average.
    pub(crate) lines: AtomicU64,
    /// Batches by their number of lines: 1, 2, 3–4, 5–8, 9–16, more.
    pub(crate) batches_by_lines: [AtomicU64; 6],
}

impl Counters {
    fn note(&self, lines: usize, bytes: usize, spent: Duration) {
        let size_class = lines.next_power_of_two().trailing_zeros() as usize;
        let add = |counter: &AtomicU64, value: u64| {
            // One thread writes: no need of a locked instruction.
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
        };
        add(&self.bytes, bytes as u64);
        add(&self.nanoseconds, spent.as_nanos() as u64);
        add(&self.batches, 1);
        add(&self.lines, lines as u64);
        add(&self.batches_by_lines[size_class.min(5)], 1);
    }
}

/// Makes this thread's flusher: counts in `counters`; `together` is whether lines wait for each other at all.
pub(crate) fn set_up(counters: Arc<Counters>, together: bool) {
    FLUSHER.with_borrow_mut(|flusher| {
        flusher.queue.counters = counters;
        flusher.queue.alone = !together;
    });
}

/// The flusher's task: to be spawned once on each worker. Without it (or if lines are not to wait for each other) each
/// session encrypts its own bytes at once.
pub(crate) async fn run() {
    poll_fn(|cx| {
        let more = FLUSHER.with_borrow_mut(|flusher| {
            if flusher.queue.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
                flusher.queue.task = Some(cx.waker().clone());
            }
            flusher.flush();
            !flusher.queue.due.is_empty()
        });
        if more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

/// An encrypted stream to a player; its state is in the thread's flusher.
#[derive(Debug)]
pub(super) struct Line(usize);

#[derive(Default)]
struct Flusher {
    /// A line is out of its place only while it is flushed.
    lines: Slab<Option<Box<State>>>,
    queue: Queue,
    /// The lines of the flush under way; empty between.
    batch: Vec<Batched>,
}

#[derive(Default)]
struct Queue {
    /// Lines with bytes to encrypt. May name lines that are gone.
    due: Vec<usize>,
    /// The flusher's task.
    task: Option<Waker>,
    alone: bool,
    counters: Arc<Counters>,
    /// How many lines there are.
    lines: usize,
    load: Load,
}

/// How much of the worker's time the cipher has taken lately.
#[derive(Default)]
struct Load {
    since: Option<Instant>,
    spent: Duration,
    busy: bool,
}

struct State {
    write: OwnedWriteHalf,
    encryptor: Encryptor,
    /// What the socket has not taken: ciphertext up to `sealed`, plaintext behind.
    bytes: Buffer,
    sealed: usize,
    /// Among the due.
    queued: bool,
    /// The session's task, and whether it waits for the flush.
    session: Option<Waker>,
    waited_for: bool,
    /// A write has failed: see the plain outlet.
    deaf: bool,
    /// Something was written since it was asked.
    moved: bool,
}

struct Batched {
    key: usize,
    line: Box<State>,
}

impl Line {
    pub(super) fn new(write: OwnedWriteHalf, encryptor: Encryptor) -> Line {
        let line = State {
            write,
            encryptor,
            bytes: Buffer::default(),
            sealed: 0,
            queued: false,
            session: None,
            waited_for: false,
            deaf: false,
            moved: true,
        };
        Line(FLUSHER.with_borrow_mut(|flusher| {
            flusher.queue.lines += 1;
            flusher.lines.insert(Some(Box::new(line)))
        }))
    }

    /// Sends `run` with the next flush.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, run: &[u8]) {
        self.with(|queue, key, line| {
            line.append(|bytes| bytes.extend_from_slice(run));
            queue.put(key, line, cx);
        });
        FLUSHER.with_borrow_mut(|flusher| {
            if flusher.queue.due.len() >= MOST {
                flusher.flush();
            }
        });
    }

    /// Appends what `write` appends; it leaves with the next [`Line::send`] or [`Line::push`].
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.with(|_, _, line| line.append(write));
    }

    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.with(|_, _, line| line.sealed == 0 && line.bytes.len() < ROOM) {
            Some(false) => self.poll_flush(cx),
            Some(true) | None => Poll::Ready(()),
        }
    }

    pub(super) fn push(&mut self, cx: &mut Context<'_>) {
        self.with(|queue, key, line| {
            queue.put(key, line, cx);
            let _ = line.poll_write(cx);
        });
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.with(|queue, key, line| {
            queue.put(key, line, cx);
            line.waited_for = line.queued;
            if line.queued { Poll::Pending } else { line.poll_write(cx) }
        })
        .unwrap_or(Poll::Ready(()))
    }

    pub(super) fn len(&self) -> usize {
        self.with(|_, _, line| line.bytes.len()).unwrap_or(0)
    }

    pub(super) fn take_moved(&mut self) -> bool {
        self.with(|_, _, line| std::mem::take(&mut line.moved)).unwrap_or(false)
    }

    /// The socket's half, and what it has not taken.
    pub(super) fn into_parts(self) -> Option<(OwnedWriteHalf, Buffer)> {
        let line = self.remove()?;
        Some((line.write, line.bytes))
    }

    /// Works on the line; `None` on another thread than the one that made it.
    fn with<T>(&self, work: impl FnOnce(&mut Queue, usize, &mut State) -> T) -> Option<T> {
        FLUSHER.with_borrow_mut(|flusher| {
            let line = flusher.lines.get_mut(self.0)?.as_mut()?;
            Some(work(&mut flusher.queue, self.0, line))
        })
    }

    fn remove(&self) -> Option<Box<State>> {
        let remove = |flusher: &RefCell<Flusher>| {
            let flusher = &mut *flusher.borrow_mut();
            let line = flusher.lines.try_remove(self.0);
            flusher.queue.lines = flusher.lines.len();
            line
        };
        // A worker that ends destroys its thread's memory in any order.
        FLUSHER.try_with(remove).ok()??
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

impl Queue {
    /// Has the line's plaintext encrypted and written soon: by the flusher, or at once if there is none.
    fn put(&mut self, key: usize, line: &mut State, cx: &mut Context<'_>) {
        if line.session.as_ref().is_none_or(|session| !session.will_wake(cx.waker())) {
            line.session = Some(cx.waker().clone());
        }
        if line.queued || line.sealed == line.bytes.len() {
            return;
        }
        let plain = &mut line.bytes.as_mut_slice()[line.sealed..];
        let alone = self.alone || self.load.is_for_one(self.lines, plain.len());
        match &self.task {
            Some(task) if !alone => {
                if self.due.is_empty() {
                    task.wake_by_ref();
                }
                self.due.push(key);
                line.queued = true;
            }
            _ => {
                let began = Instant::now();
                line.encryptor.encrypt(plain);
                let bytes = plain.len();
                self.note(1, bytes, began);
                line.sealed = line.bytes.len();
                let _ = line.poll_write(cx);
            }
        }
    }
}

impl Queue {
    /// The cipher was run, from `began` until now.
    fn note(&mut self, lines: usize, bytes: usize, began: Instant) {
        let spent = began.elapsed();
        self.counters.note(lines, bytes, spent);
        self.load.note(began + spent, spent);
    }
}

impl Load {
    /// Whether so many bytes are encrypted alone on a worker with so many lines.
    fn is_for_one(&self, lines: usize, bytes: usize) -> bool {
        lines < FEW && !self.busy && bytes <= SLICE
    }

    fn note(&mut self, now: Instant, spent: Duration) {
        self.spent += spent;
        let window = now.duration_since(*self.since.get_or_insert(now));
        if window >= WINDOW {
            *self = Load { since: Some(now), spent: Duration::ZERO, busy: self.spent * BUSY_PART > window };
        }
    }
}

impl Flusher {
    /// Encrypts a slice of every line that is due, and writes it. Lines with more are due again.
    fn flush(&mut self) {
        let Flusher { lines, queue, batch } = self;
        let mut bytes = 0;
        for key in queue.due.drain(..) {
            let due = lines.get_mut(key).and_then(|line| line.take_if(|line| line.queued));
            if let Some(line) = due {
                bytes += line.slice();
                batch.push(Batched { key, line });
            }
        }
        if batch.is_empty() {
            return;
        }
        let began = Instant::now();
        cfb8::encrypt_together(batch);
        queue.note(batch.len(), bytes, began);
        for Batched { key, mut line } in batch.drain(..) {
            line.sealed += line.slice();
            line.try_write();
            line.queued = line.sealed < line.bytes.len();
            if line.queued {
                queue.due.push(key);
            }
            let stuck = line.sealed > 0;
            let waited_for = std::mem::take(&mut line.waited_for);
            if (stuck || waited_for)
                && let Some(session) = &line.session
            {
                session.wake_by_ref();
            }
            if let Some(place) = lines.get_mut(key) {
                *place = Some(line);
            }
        }
    }
}

impl State {
    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.deaf {
            self.bytes.write(write);
        }
    }

    /// How much of the plaintext is encrypted next.
    fn slice(&self) -> usize {
        (self.bytes.len() - self.sealed).min(SLICE)
    }

    /// Writes ciphertext, with the session's task to be woken when the socket takes more; ready when nothing waits.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.sealed > 0 {
            match self.write.poll_write(cx, &self.bytes.as_slice()[..self.sealed]) {
                Poll::Ready(Ok(written @ 1..)) => self.wrote(written),
                Poll::Ready(Ok(0) | Err(_)) => self.go_deaf(),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    /// One write, without waiting.
    fn try_write(&mut self) {
        match self.write.try_write(&self.bytes.as_slice()[..self.sealed]) {
            Ok(written @ 1..) => self.wrote(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => self.go_deaf(),
        }
    }

    fn wrote(&mut self, written: usize) {
        self.moved = true;
        self.bytes.consume(written);
        self.sealed -= written;
    }

    fn go_deaf(&mut self) {
        self.deaf = true;
        self.bytes = Buffer::default();
        self.sealed = 0;
    }
}

impl cfb8::Lane for Batched {
    fn parts(&mut self) -> (&mut Encryptor, &mut [u8]) {
        let slice = self.line.slice();
        let State { encryptor, bytes, sealed, .. } = &mut *self.line;
        (encryptor, &mut bytes.as_mut_slice()[*sealed..][..slice])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_for_each_other_only_where_that_pays() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let micros = Duration::from_micros;
        let mut load = Load::default();
        load.note(at(0), micros(500));
        assert!(load.is_for_one(FEW - 1, SLICE) && !load.is_for_one(FEW, 1) && !load.is_for_one(1, SLICE + 1));
        // A twentieth of a window of 50 ms is 2.5 ms.
        load.note(at(30), micros(2_000));
        load.note(at(50), micros(0));
        assert!(load.is_for_one(1, 1), "a twentieth is not busy yet");
        load.note(at(80), micros(2_000));
        load.note(at(100), micros(600));
        assert!(!load.is_for_one(1, 1), "more is");
        load.note(at(160), micros(100));
        assert!(load.is_for_one(1, 1), "until it is over");
    }
}
