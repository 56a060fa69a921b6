//! A link: one socket of a session, with what has to wait on its account.

use std::io;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use moonbridge_crypto::cfb8::Decryptor;
use moonbridge_protocol::walk::Walker;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::coop::has_budget_remaining;

use super::buffer::Buffer;
use super::outlet::Outlet;
use super::socket::{Source, Target};
use crate::cipher::Ciphers;
use crate::recording::{Recording, Tap};

/// One socket of a session, or, to measure, anything else that bytes come from and go to.
#[derive(Debug)]
pub(crate) struct Link<R = OwnedReadHalf, W = OwnedWriteHalf> {
    read: R,
    /// The session's task is woken when there is something to read.
    awaited: bool,
    /// Boxed: an offline session that is not recorded does not pay for it.
    intake: Option<Box<Intake>>,
    /// Where in a frame what is read from this socket stands.
    pub(crate) walker: Walker,
    /// Read from the socket but not forwarded: the beginning of a frame, or (`unwalked`) frames not looked at yet.
    unread: Buffer,
    unwalked: bool,
    /// The way to the peer.
    pub(crate) out: Outlet<W>,
    /// Something was read since [`Link::take_signs`].
    heard: bool,
}

/// What is done with bytes when they have been read.
#[derive(Debug, Default)]
struct Intake {
    decryptor: Option<Decryptor>,
    /// While the session is recorded.
    tap: Option<Tap>,
}

impl Intake {
    fn take_in(&mut self, bytes: &mut [u8]) {
        if let Some(decryptor) = &mut self.decryptor {
            decryptor.decrypt(bytes);
        }
        if self.tap.as_mut().is_some_and(|tap| !tap.read(bytes)) {
            self.tap = None;
        }
    }
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
    /// A link over this socket, of which `read` has been read (and decrypted) already.
    pub(crate) fn new(stream: TcpStream, read: &[u8], ciphers: Option<Ciphers>) -> Link {
        let (read_half, write_half) = stream.into_split();
        let (out, intake) = match ciphers {
            None => (Outlet::plain(write_half), None),
            Some(Ciphers { encryptor, decryptor }) => {
                let intake = Intake { decryptor: Some(decryptor), tap: None };
                (Outlet::encrypted(write_half, encryptor), Some(Box::new(intake)))
            }
        };
        let mut link = Link { intake, unwalked: !read.is_empty(), ..Link::over(read_half, out) };
        link.unread.write(|out| out.extend_from_slice(read));
        link
    }

    /// Whether the peer has closed or reset its side, though what it sent before has not been read.
    pub(crate) fn has_hung_up(&self) -> bool {
        let ready = self.read.ready(Interest::READABLE | Interest::ERROR).now_or_never();
        matches!(ready, Some(Ok(ready)) if ready.is_read_closed() || ready.is_error())
            || matches!(self.read.as_ref().take_error(), Ok(Some(_)) | Err(_))
    }

    /// Takes the link apart: the socket, what was read and not forwarded, and what waits to be written. `None` only on
    /// another thread than the session's.
    pub(crate) fn into_parts(self) -> Option<(TcpStream, Buffer, Buffer)> {
        let (write, out) = self.out.into_parts()?;
        let stream = self.read.reunite(write).ok()?;
        Some((stream, self.unread, out))
    }
}

/// Whether the task will be woken. Out of its budget, tokio wakes it once and registers nothing.
fn waits<T>(polled: &Poll<T>) -> bool {
    polled.is_pending() && has_budget_remaining()
}

impl<R: Source, W: Target> Link<R, W> {
    /// A plain link over these halves.
    pub(crate) fn over(read: R, out: Outlet<W>) -> Link<R, W> {
        let (walker, unread) = (Walker::default(), Buffer::default());
        Link { read, awaited: false, intake: None, walker, unread, unwalked: false, out, heard: true }
    }

    /// What is read from.
    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.read
    }

    /// Whether [`Link::poll_fill`] may come to anything. While the task is going to be woken anyway, asking this is all that a turn
    /// owes the direction in which nothing has come.
    #[inline]
    pub(crate) fn may_fill(&self) -> bool {
        !self.awaited || self.unwalked || self.read.may_have_more()
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
        let room = space.len() - waiting;
        let polled = self.read.poll_read(cx, &mut space[waiting..]);
        self.awaited = waits(&polled);
        let read = ready!(polled)?;
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        if read < room {
            // That was all: what comes next is waited for without another try.
            self.awaited = waits(&self.read.poll_more(cx));
        }
        if let Some(intake) = &mut self.intake {
            intake.take_in(&mut space[waiting..waiting + read]);
        }
        if waiting > 0 {
            space[..waiting].copy_from_slice(self.unread.as_slice());
        }
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

    /// From here on the frames that come are recorded.
    pub(crate) fn record(&mut self, mut tap: Tap) {
        tap.begin(self.walker.passing(), self.unread.as_slice());
        self.intake.get_or_insert_default().tap = Some(tap);
    }

    /// What the frames that come are told to, if they are recorded.
    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.intake.as_ref()?.tap.as_ref()?.recording()
    }

    /// How many bytes wait to be walked.
    pub(super) fn waiting(&self) -> usize {
        self.unread.len()
    }

    /// The frames that a stopped walk has left.
    pub(crate) fn unread(&self) -> &[u8] {
        self.unread.as_slice()
    }

    /// What was seen of the peer since the last call.
    pub(crate) fn take_signs(&mut self) -> Signs {
        Signs { heard: std::mem::take(&mut self.heard), taking: self.out.is_taking() }
    }
}
