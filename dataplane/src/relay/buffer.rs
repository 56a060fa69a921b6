//! Memory of a worker: one read buffer for all its sessions, and a pool for the bytes that have to wait.

use std::cell::{Cell, RefCell};
use std::task::Poll;

/// The worker's read buffer: large reads are what makes bulk cheap (shared/performance.md: 30 KB frames cost half as much
/// with 256 KiB as with 16 KiB).
const READ_BUFFER: usize = 256 * 1024;

/// What a worker keeps for later: bytes in all, and of one buffer. A tick of a busy server fills one buffer for each of its
/// encrypted players at the same time.
const POOLED: usize = 8 << 20;
const POOLED_CAPACITY: usize = 128 * 1024;

/// Bytes at a buffer's front that wait no longer, from which on their room is used again.
const CLOSE_UP: usize = 32 * 1024;

/// Buffers for which the pool has room from the start.
const POOLED_BUFFERS: usize = 1024;

thread_local! {
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BUFFER]);
    static POOL: RefCell<Pool> = RefCell::new(Pool { buffers: Vec::with_capacity(POOLED_BUFFERS), bytes: 0 });
    static HELD: Cell<usize> = const { Cell::new(0) };
    static HELD_LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// What is read at a time while the worker's buffers hold more than they should: what a peer does not take of it is little.
const READ_WHEN_FULL: usize = 16 * 1024;

/// Sets how many bytes this worker's buffers should hold together at the most.
///
/// Nobody is cut off for reaching it, since whoever needs the next byte is seldom the one that hoards: from there on the
/// worker's sessions read in small pieces, and what is held for a transfer is held in the senders' sockets. Peers that take
/// nothing are closed in time (`timeouts.write_stall`).
pub(crate) fn limit_worker(bytes: usize) {
    HELD_LIMIT.set(bytes);
}

/// Whether this worker's buffers hold as much as they should.
pub(crate) fn worker_is_full() -> bool {
    HELD.get() >= HELD_LIMIT.get()
}

/// Lends the worker's read buffer, `waiting` bytes of it and room to read behind them. Must not be nested.
pub(crate) fn with_read_buffer<T>(waiting: usize, work: impl FnOnce(&mut [u8]) -> Poll<T>) -> Poll<T> {
    READ.with_borrow_mut(|space| {
        let room = if worker_is_full() { READ_WHEN_FULL } else { READ_BUFFER };
        // Frames of Forge's handshake are waited for up to 2 MiB: while one is, the buffer is longer.
        if waiting + READ_WHEN_FULL > READ_BUFFER {
            if space.len() < waiting + READ_BUFFER {
                space.resize(waiting + 2 * READ_BUFFER, 0);
            }
        } else if space.len() > READ_BUFFER {
            space.truncate(READ_BUFFER);
            space.shrink_to_fit();
        }
        let end = space.len().min(waiting + room);
        work(&mut space[..end])
    })
}

/// Bytes that wait: owns memory only while there are any, taken from and given back to the worker's pool.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where the bytes that still wait begin.
    start: usize,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The bytes, to be changed in place.
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Appends.
    pub(crate) fn extend(&mut self, more: &[u8]) {
        if more.is_empty() {
            return;
        }
        if self.bytes.capacity() == 0 {
            self.bytes = borrow();
        }
        self.close_up();
        self.bytes.extend_from_slice(more);
        HELD.set(HELD.get() + more.len());
    }

    /// Bytes that wait no longer keep their room only until they are the greater part: a buffer that is never wholly emptied
    /// does not grow with all that has gone through it.
    fn close_up(&mut self) {
        if self.start >= CLOSE_UP && self.start >= self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// The first `count` bytes wait no longer.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        HELD.set(HELD.get().saturating_sub(count));
        if self.start == self.bytes.len() {
            self.start = 0;
            give_back(std::mem::take(&mut self.bytes));
        }
    }

    /// Takes all bytes out.
    pub(crate) fn take(&mut self) -> Buffer {
        std::mem::take(self)
    }

    /// Replaces all bytes.
    pub(crate) fn replace(&mut self, bytes: &[u8]) {
        if self.bytes.is_empty() {
            return self.extend(bytes);
        }
        HELD.set(HELD.get().saturating_sub(self.len()));
        self.bytes.clear();
        self.start = 0;
        if bytes.is_empty() {
            give_back(std::mem::take(&mut self.bytes));
        }
        self.extend(bytes);
    }

    /// Appends what `write` appends to the bytes that wait.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes.capacity() == 0 {
            self.bytes = borrow();
        }
        self.close_up();
        let before = self.bytes.len();
        write(&mut self.bytes);
        HELD.set(HELD.get() + self.bytes.len() - before);
        if self.bytes.is_empty() {
            give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let waiting = self.len();
        // A worker that ends destroys its thread's memory in any order.
        let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(waiting)));
        give_back(std::mem::take(&mut self.bytes));
    }
}

/// Empty buffers with room.
struct Pool {
    buffers: Vec<Vec<u8>>,
    /// Their capacities together.
    bytes: usize,
}

fn borrow() -> Vec<u8> {
    POOL.with_borrow_mut(|pool| {
        let buffer = pool.buffers.pop().unwrap_or_default();
        pool.bytes -= buffer.capacity();
        buffer
    })
}

fn give_back(mut buffer: Vec<u8>) {
    let capacity = buffer.capacity();
    if capacity == 0 || capacity > POOLED_CAPACITY {
        return;
    }
    buffer.clear();
    let _ = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.bytes + capacity <= POOLED {
            pool.bytes += capacity;
            pool.buffers.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_and_given_back() {
        let mut buffer = Buffer::default();
        buffer.extend(b"hello");
        buffer.consume(2);
        assert_eq!(buffer.as_slice(), b"llo");
        assert_eq!(HELD.get(), 3);
        buffer.replace(b"other bytes");
        assert_eq!(HELD.get(), 11);
        buffer.write(|out| out.extend_from_slice(b"!!"));
        assert_eq!((HELD.get(), buffer.as_slice()), (13, &b"other bytes!!"[..]));
        drop(buffer);
        assert_eq!(HELD.get(), 0);
        assert_eq!(POOL.with_borrow(|pool| pool.buffers.len()), 1);
        assert!(POOL.with_borrow(|pool| pool.bytes) >= 13);
    }

    #[test]
    fn a_buffer_that_is_never_emptied_does_not_grow() {
        let mut buffer = Buffer::default();
        let mut next = (0..).map(|index: u32| index as u8);
        let mut expected: std::collections::VecDeque<u8> = std::collections::VecDeque::new();
        for round in 0..20_000 {
            let more: Vec<u8> = next.by_ref().take(1000).collect();
            expected.extend(&more);
            if round % 2 == 0 {
                buffer.extend(&more)
            } else {
                buffer.write(|out| out.extend_from_slice(&more))
            }
            if buffer.len() > 50_000 {
                buffer.consume(1000);
                expected.drain(..1000);
            }
        }
        assert!(buffer.bytes.capacity() < 512 * 1024, "{} bytes for {}", buffer.bytes.capacity(), buffer.len());
        assert!(expected.iter().eq(buffer.as_slice()));
        assert_eq!(HELD.get(), buffer.len());
    }

    #[test]
    fn a_full_worker_reads_in_small_pieces() {
        limit_worker(10);
        let mut buffer = Buffer::default();
        let room = |waiting| {
            let mut room = 0;
            let _ = with_read_buffer(waiting, |space| {
                room = space.len();
                Poll::Ready(())
            });
            room
        };
        buffer.extend(&[0; 9]);
        assert_eq!(room(0), READ_BUFFER);
        buffer.extend(&[0; 1]);
        assert_eq!((room(0), room(1000)), (READ_WHEN_FULL, READ_WHEN_FULL + 1000));
        buffer.consume(10);
        assert_eq!(room(1000), READ_BUFFER);
    }
}
