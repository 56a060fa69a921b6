//! What comes on a player's connection: decrypted if need be, and taken frame by frame.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anyhow::{Context as _, anyhow};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;

use super::frames;
use super::login::Decrypt;

/// Room for what one read may bring.
const READ: usize = 256 * 1024;

/// What has come and was not taken: `buffer[at..end]`.
pub(super) struct Incoming {
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    decrypt: Decrypt,
}

impl Incoming {
    /// After a login that left `came`, with room for frames of `frame` bytes.
    pub(super) fn new(came: &[u8], decrypt: Decrypt, frame: usize) -> Incoming {
        let end = came.len();
        // Zeroed by the kernel, where it is used: hundreds of players have one each.
        let mut buffer = vec![0; READ.max(2 * frame).max(end)];
        buffer[..end].copy_from_slice(came);
        Incoming { buffer, at: 0, end, decrypt }
    }

    /// Reads what there is; fails when there will be no more.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, stream: &mut TcpStream) -> Poll<anyhow::Result<()>> {
        self.buffer.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        let mut room = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(Pin::new(stream).poll_read(cx, &mut room)).context("reading")?;
        let read = room.filled_mut();
        self.decrypt.apply(read);
        let read = read.len();
        self.end += read;
        Poll::Ready(if read > 0 { Ok(()) } else { Err(anyhow!("the connection was closed")) })
    }

    /// The same for whoever waits.
    pub(super) async fn read(&mut self, stream: &mut TcpStream) -> anyhow::Result<()> {
        poll_fn(|cx| self.poll_read(cx, stream)).await
    }

    /// Takes the next whole frame of the benchmark, past any other.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        while let Some(next) = frames::next(&self.buffer[self.at..self.end])? {
            let whole = self.at..self.at + next.whole;
            self.at = whole.end;
            if next.ours {
                return Ok(Some(&self.buffer[whole]));
            }
        }
        Ok(None)
    }
}
