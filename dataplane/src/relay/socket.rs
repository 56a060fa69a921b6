//! Reading and writing the sockets of a session: the system call itself, and of the runtime only whether it may succeed.
//!
//! tokio's own go through libc, whose `recv` and `send` are points where a thread may be cancelled: in a process of several threads
//! each call marks that with an atomic operation before and after. A turn is two or three calls, and hardly more than that.

use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// What bytes are read from: a socket or, to measure, anything else.
pub(crate) trait Source {
    /// Whether bytes, or the end, may be there. Costs next to nothing, and wakes nobody when that changes.
    fn may_have_more(&self) -> bool;

    /// Ready if bytes, or the end, may be there. While it is pending the task will be woken.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Reads once; 0 is the end. While it is pending the task will be woken.
    fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>>;
}

/// What bytes are written to.
pub(crate) trait Target {
    /// Writes once; how many bytes. While it is pending the task will be woken.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
}

impl Source for OwnedReadHalf {
    #[inline]
    fn may_have_more(&self) -> bool {
        self.as_ref().try_io(Interest::READABLE, || Ok(())).is_ok()
    }

    #[inline]
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.as_ref().poll_read_ready(cx).map(drop)
    }

    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = self.as_ref();
        loop {
            match stream.try_io(Interest::READABLE, || Ok(rustix::net::recv(stream, &mut *space, RecvFlags::empty())?.0)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(stream.poll_read_ready(cx))?,
                Ok(read) if 0 < read && read < space.len() => {
                    is_exhausted(stream, Interest::READABLE);
                    return Poll::Ready(Ok(read));
                }
                read => return Poll::Ready(read),
            }
        }
    }
}

impl Target for OwnedWriteHalf {
    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = self.as_ref();
        loop {
            match stream.try_io(Interest::WRITABLE, || Ok(rustix::net::send(stream, bytes, SendFlags::NOSIGNAL)?)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(stream.poll_write_ready(cx))?,
                Ok(written) if written < bytes.len() => {
                    is_exhausted(stream, Interest::WRITABLE);
                    return Poll::Ready(Ok(written));
                }
                written => return Poll::Ready(written),
            }
        }
    }
}

/// Notes that a socket has given, or taken, all it could: it need not be tried again to know. What comes from now on, epoll tells the
/// runtime, as it does what has come since the call: on a worker nobody asks epoll until this task has been polled. (Where the
/// runtime's driver runs on another thread, that could be wiped away here.)
fn is_exhausted(stream: &TcpStream, interest: Interest) {
    let _ = stream.try_io(interest, || Err::<(), _>(ErrorKind::WouldBlock.into()));
}
