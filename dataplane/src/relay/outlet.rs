//! The way out to a peer: the last two stages of a turn. To a backend, and to a player without encryption, bytes are
//! written as they are, at once; what goes to an encrypted player is left to the worker's flusher ([`super::flusher`]),
//! which encrypts many sessions' bytes together.

use std::task::{Context, Poll, ready};

use moonbridge_crypto::cfb8::Encryptor;
use tokio::net::tcp::OwnedWriteHalf;

use super::buffer::Buffer;
use super::flusher::Line;
use super::socket::Target;

/// The way out to a peer, over its socket's half or, to measure, over anything else that takes bytes.
#[derive(Debug)]
pub(crate) struct Outlet<W = OwnedWriteHalf>(Way<W>);

#[derive(Debug)]
enum Way<W> {
    Plain(Plain<W>),
    Encrypted(Line),
}

impl Outlet {
    pub(super) fn encrypted(write: OwnedWriteHalf, encryptor: Encryptor) -> Outlet {
        Outlet(Way::Encrypted(Line::new(write, encryptor)))
    }

    /// The socket's half, and what waits; `None` only on another thread than the session's.
    pub(super) fn into_parts(self) -> Option<(OwnedWriteHalf, Buffer)> {
        match self.0 {
            Way::Plain(plain) => Some((plain.write, plain.bytes)),
            Way::Encrypted(line) => line.into_parts(),
        }
    }
}

impl<W: Target> Outlet<W> {
    pub(crate) fn plain(write: W) -> Outlet<W> {
        Outlet(Way::Plain(Plain { write, bytes: Buffer::default(), deaf: false, moved: true }))
    }

    /// What is written to, if that is not encrypted.
    pub(crate) fn plain_sink(&self) -> Option<&W> {
        match &self.0 {
            Way::Plain(plain) => Some(&plain.write),
            Way::Encrypted(_) => None,
        }
    }

    /// Sends `run`. There must be room ([`Outlet::poll_room`]).
    pub(super) fn send(&mut self, cx: &mut Context<'_>, run: &[u8]) {
        if run.is_empty() {
            return;
        }
        match &mut self.0 {
            Way::Plain(plain) => plain.send(cx, run),
            Way::Encrypted(line) => line.send(cx, run),
        }
    }

    /// Ready while more may be sent: what waits already is little, or nothing.
    #[inline]
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Way::Plain(plain) if plain.bytes.is_empty() => Poll::Ready(()),
            Way::Plain(plain) => plain.poll_flush(cx),
            Way::Encrypted(line) => line.poll_room(cx),
        }
    }

    /// Gets going what was put outside of a read ([`Outlet::write`]). What the peer does not take now goes on when it does.
    #[inline]
    pub(crate) fn push(&mut self, cx: &mut Context<'_>) {
        match &mut self.0 {
            Way::Plain(plain) if plain.bytes.is_empty() => {}
            Way::Plain(plain) => {
                let _ = plain.poll_flush(cx);
            }
            Way::Encrypted(line) => line.push(cx),
        }
    }

    /// Sends what waits; ready when nothing does.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Way::Plain(plain) => plain.poll_flush(cx),
            Way::Encrypted(line) => line.poll_flush(cx),
        }
    }

    /// Appends what `write` appends, as plaintext, behind all that was sent; it leaves with [`Outlet::push`].
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match &mut self.0 {
            Way::Plain(plain) => plain.bytes.write(write),
            Way::Encrypted(line) => line.write(write),
        }
    }

    /// How many bytes wait for the peer.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Way::Plain(plain) => plain.bytes.len(),
            Way::Encrypted(line) => line.len(),
        }
    }

    /// Whether no bytes wait for the peer.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the peer took something since the last call, or nothing waits for it.
    pub(super) fn is_taking(&mut self) -> bool {
        let moved = match &mut self.0 {
            Way::Plain(plain) => std::mem::take(&mut plain.moved),
            Way::Encrypted(line) => line.take_moved(),
        };
        moved || self.is_empty()
    }
}

#[derive(Debug)]
struct Plain<W> {
    write: W,
    /// What the socket has not taken.
    bytes: Buffer,
    /// A write has failed: nothing more is written, and that the peer is gone shows when it is read, after the last that
    /// it had to say (a kick's reason).
    deaf: bool,
    /// Something was written since it was asked.
    moved: bool,
}

impl<W: Target> Plain<W> {
    /// One write, and what the socket does not take waits.
    fn send(&mut self, cx: &mut Context<'_>, run: &[u8]) {
        if self.deaf {
            return;
        }
        match self.write.poll_write(cx, run) {
            Poll::Ready(Ok(written)) => {
                self.moved |= written > 0;
                if written < run.len() {
                    self.bytes.extend(&run[written..]);
                }
            }
            Poll::Ready(Err(_)) => self.deaf = true,
            Poll::Pending => self.bytes.extend(run),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.bytes.is_empty() {
            let written = if self.deaf { Ok(0) } else { ready!(self.write.poll_write(cx, self.bytes.as_slice())) };
            match written {
                Ok(written @ 1..) => {
                    self.moved = true;
                    self.bytes.consume(written);
                }
                Ok(0) | Err(_) => {
                    self.deaf = true;
                    self.bytes = Buffer::default();
                }
            }
        }
        Poll::Ready(())
    }
}
