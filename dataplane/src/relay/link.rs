//! A link: one socket of a session, with what has to wait on its account.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use moonbridge_protocol::walk::Walker;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::buffer::Buffer;

/// One socket of a session.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    /// Where in a frame what is read from this socket stands.
    pub(crate) walker: Walker,
    /// Read from the socket but not forwarded: the beginning of a frame, or (`unwalked`) frames not looked at yet.
    unread: Buffer,
    unwalked: bool,
    /// To be written to the socket.
    pub(crate) out: Buffer,
    /// A write has failed: nothing more is written, and that the peer is gone shows when it is read, after the last that
    /// it had to say (a kick's reason).
    deaf: bool,
    /// Something was read since [`Link::take_signs`].
    heard: bool,
    /// Something was written, or nothing waited to be, since [`Link::take_signs`].
    moved: bool,
}

/// Whether a link is alive, seen over some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signs {
    /// Bytes came from the peer.
    pub(crate) heard: bool,
    /// The peer takes what it is sent (or nothing waits for it).
    pub(crate) taking: bool,
}

impl Link {
    /// A link over this socket, of which `read` has been read already.
    pub(crate) fn new(stream: TcpStream, read: &[u8]) -> Link {
        let mut unread = Buffer::default();
        unread.write(|out| out.extend_from_slice(read));
        Link {
            stream,
            walker: Walker::default(),
            unwalked: !read.is_empty(),
            unread,
            out: Buffer::default(),
            deaf: false,
            heard: true,
            moved: true,
        }
    }

    /// Puts what waits and what the socket has into `space`; how many bytes that is. 0 means that the stream has ended.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let waiting = self.unread.len();
        if self.unwalked {
            // More may wait than the read buffer takes only if a login left it, and logins are bounded far below.
            space[..waiting].copy_from_slice(self.unread.as_slice());
            self.unwalked = false;
            return Poll::Ready(Ok(waiting));
        }
        let mut buffer = ReadBuf::new(&mut space[waiting..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let read = buffer.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        space[..waiting].copy_from_slice(self.unread.as_slice());
        self.heard = true;
        Poll::Ready(Ok(waiting + read))
    }

    /// Keeps what a walk has left; `again` if it is to be walked before more is read.
    pub(super) fn keep_unread(&mut self, rest: &[u8], again: bool) {
        self.unwalked = again && !rest.is_empty();
        if !(rest.is_empty() && self.unread.is_empty()) {
            self.unread.replace(rest);
        }
    }

    /// How many bytes wait to be walked.
    pub(super) fn waiting(&self) -> usize {
        self.unread.len()
    }

    /// The frames that a stopped walk has left.
    pub(crate) fn unread(&self) -> &[u8] {
        self.unread.as_slice()
    }

    /// Sends `run`: one write, and what the socket does not take waits. Nothing may wait already.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, run: &[u8]) {
        if run.is_empty() || self.deaf {
            return;
        }
        match Pin::new(&mut self.stream).poll_write(cx, run) {
            Poll::Ready(Ok(written)) => {
                self.moved |= written > 0;
                self.out.extend(&run[written..]);
            }
            Poll::Ready(Err(_)) => self.deaf = true,
            Poll::Pending => self.out.extend(run),
        }
    }

    /// Writes what waits; ready when nothing does.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.out.is_empty() {
            let written = if self.deaf { Ok(0) } else { ready!(Pin::new(&mut self.stream).poll_write(cx, self.out.as_slice())) };
            match written {
                Ok(written @ 1..) => {
                    self.moved = true;
                    self.out.consume(written);
                }
                Ok(0) | Err(_) => {
                    self.deaf = true;
                    self.out = Buffer::default();
                }
            }
        }
        Poll::Ready(())
    }

    /// Whether the peer has closed or reset its side, though what it sent before has not been read.
    pub(crate) fn has_hung_up(&self) -> bool {
        let ready = self.stream.ready(Interest::READABLE | Interest::ERROR).now_or_never();
        matches!(ready, Some(Ok(ready)) if ready.is_read_closed() || ready.is_error())
            || matches!(self.stream.take_error(), Ok(Some(_)) | Err(_))
    }

    /// What was seen of the peer since the last call.
    pub(crate) fn take_signs(&mut self) -> Signs {
        let signs = Signs { heard: self.heard, taking: self.moved || self.out.is_empty() };
        self.heard = false;
        self.moved = false;
        signs
    }

    /// Takes the link apart: the socket, what was read and not forwarded, and what waits to be written.
    pub(crate) fn into_parts(self) -> (TcpStream, Buffer, Buffer) {
        (self.stream, self.unread, self.out)
    }
}
