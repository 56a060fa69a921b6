//! The backend that the player has left: it gets what was already on its way to it, and of what it still says the chat is
//! delivered.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use moonbridge_protocol::frame::{self, MAX_FRAME, MAX_HEADER};
use moonbridge_protocol::version::{Clientbound, Version};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::conn;
use crate::relay::READS_A_TURN;
use crate::relay::buffer::{Buffer, with_read_buffer};
use crate::relay::link::Link;
use crate::relay::outlet::Outlet;

/// How long a backend that was left may go on saying what was under way.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// Player bytes waiting beyond which the chat waits, too.
const HIGH_WATER: usize = 256 * 1024;

/// A connection on its way out.
#[derive(Debug)]
pub(crate) struct Leaving {
    stream: TcpStream,
    inbox: Vec<u8>,
    out: Buffer,
    shut: bool,
    /// Frames that were not delivered.
    pub(crate) dropped: u64,
    /// Since when it has all that was for it.
    since: Instant,
    /// When it was left.
    left: Instant,
}

impl Leaving {
    /// `None` only on another thread than the session's.
    pub(crate) fn new(link: Link, now: Instant) -> Option<Leaving> {
        let (stream, unread, out) = link.into_parts()?;
        Some(Leaving { stream, inbox: unread.as_slice().to_vec(), out, shut: false, dropped: 0, since: now, left: now })
    }

    /// The session ends: there is nobody left to hear it. Waits until it has let go of the player, for a while.
    pub(crate) async fn close(self, patience: Duration) {
        conn::close(self.stream, patience).await;
    }

    /// When it is closed whatever it still has to say: [`LINGER`] after it has taken what was on its way to it, for which it
    /// gets `patience`.
    pub(crate) fn deadline(&self, patience: Duration) -> Instant {
        if self.out.is_empty() { self.since + LINGER } else { self.left + patience }
    }

    /// Goes on with it; ready when it is over. Chat goes to `player`, if that is given and not too full.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, version: &Version, mut player: Option<&mut Outlet>) -> Poll<()> {
        if self.poll_send(cx).is_err() {
            return Poll::Ready(());
        }
        for _ in 0..READS_A_TURN {
            match self.deliver(version, player.as_deref_mut()) {
                Delivered::All => {}
                Delivered::Waits => return Poll::Pending,
                Delivered::Garbage => return Poll::Ready(()),
            }
            if !matches!(ready!(self.poll_read(cx)), Ok(1..)) {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends what waits, then our end of the stream.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.out.is_empty() {
            let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, self.out.as_slice()) else { return Ok(()) };
            self.out.consume(written?);
            self.since = Instant::now();
        }
        if !self.shut
            && let Poll::Ready(shut) = Pin::new(&mut self.stream).poll_shutdown(cx)
        {
            shut?;
            self.shut = true;
        }
        Ok(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        with_read_buffer(0, |space| {
            let mut buffer = ReadBuf::new(space);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            self.inbox.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    fn deliver(&mut self, version: &Version, mut player: Option<&mut Outlet>) -> Delivered {
        let mut taken = 0;
        let outcome = loop {
            match frame::first(&self.inbox[taken..], MAX_FRAME) {
                Err(_) => break Delivered::Garbage,
                // What has not come whole is bounded by the longest frame there is.
                Ok(None) if self.inbox.len() - taken > MAX_FRAME + MAX_HEADER => break Delivered::Garbage,
                Ok(None) => break Delivered::All,
                Ok(Some(frame)) => {
                    let kind = u8::try_from(frame.id).map_or(Clientbound::Other, |id| version.clientbound(id));
                    if kind == Clientbound::Chat && !frame.is_empty() {
                        let Some(player) = player.as_deref_mut().filter(|player| player.len() < HIGH_WATER) else {
                            break Delivered::Waits;
                        };
                        player.write(|out| out.extend_from_slice(frame.whole));
                    } else {
                        self.dropped += 1;
                    }
                    taken += frame.whole.len();
                }
            }
        };
        self.inbox.drain(..taken);
        outcome
    }
}

enum Delivered {
    All,
    /// The player's stream is inside a frame, or full.
    Waits,
    Garbage,
}
