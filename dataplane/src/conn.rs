//! A connection before play: whole frames in, whole frames out, with a limit and a deadline for everything.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::ready;
use std::time::Duration;

use moonbridge_crypto::cfb8::Secret;
use moonbridge_protocol::frame::{self, MAX_HEADER};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::cipher::Ciphers;
use crate::error::Trouble;
use crate::relay::buffer::with_read_buffer;
use crate::relay::link::Link;
use crate::timer::{timeout, timeout_at};

/// Bytes read at a time: what is left over when a login ends must fit the relay's read buffer, even a small one.
const READ: usize = 16 * 1024;

/// A frame by itself.
#[derive(Debug)]
pub(crate) struct OwnFrame {
    pub(crate) id: i32,
    pub(crate) payload: Vec<u8>,
    /// Prefix, id and payload as they came.
    pub(crate) whole: Vec<u8>,
}

/// A connection before play. Holds no memory while nothing incomplete has come.
#[derive(Debug)]
pub(crate) struct Conn {
    stream: TcpStream,
    inbox: Vec<u8>,
    /// Bytes at the inbox's front that were taken.
    taken: usize,
    ciphers: Option<Box<Ciphers>>,
}

impl Conn {
    pub(crate) fn new(stream: TcpStream) -> Conn {
        Conn { stream, inbox: Vec::new(), taken: 0, ciphers: None }
    }

    /// What has come and was not taken.
    pub(crate) fn inbox(&self) -> &[u8] {
        &self.inbox[self.taken..]
    }

    /// From here on everything is encrypted: what was read and not taken as well as what comes, and all that is written.
    pub(crate) fn encrypt(&mut self, secret: &Secret) {
        let mut ciphers = Box::new(Ciphers::new(secret));
        ciphers.decryptor.decrypt(&mut self.inbox[self.taken..]);
        self.ciphers = Some(ciphers);
    }

    /// Whether everything is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.ciphers.is_some()
    }

    /// The socket alone, to be closed.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The connection in play.
    pub(crate) fn into_link(self) -> Link {
        Link::new(self.stream, &self.inbox[self.taken..], self.ciphers.map(|ciphers| *ciphers))
    }

    /// Reads what there is, at most `limit` bytes, behind what waits already. 0 means the end.
    pub(crate) async fn fill(&mut self, limit: usize) -> io::Result<usize> {
        self.inbox.drain(..self.taken);
        self.taken = 0;
        let Conn { stream, inbox, ciphers, .. } = self;
        poll_fn(|cx| {
            with_read_buffer(0, |space| {
                let mut buffer = ReadBuf::new(&mut space[..limit.min(READ)]);
                ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
                if let Some(ciphers) = ciphers {
                    ciphers.decryptor.decrypt(buffer.filled_mut());
                }
                inbox.extend_from_slice(buffer.filled());
                std::task::Poll::Ready(Ok(buffer.filled().len()))
            })
        })
        .await
    }

    /// The next frame that is not empty, of a body of at most `limit` bytes.
    pub(crate) async fn frame(&mut self, limit: usize, deadline: Instant) -> Result<OwnFrame, Trouble> {
        let began = Instant::now();
        loop {
            if let Some(frame) = frame::first(self.inbox(), limit)? {
                // Some 1.7 clients send empty frames.
                let own =
                    (!frame.is_empty()).then(|| OwnFrame { id: frame.id, payload: frame.payload.to_vec(), whole: frame.whole.to_vec() });
                self.taken += frame.whole.len();
                if self.taken == self.inbox.len() {
                    (self.inbox, self.taken) = (Vec::new(), 0);
                }
                match own {
                    Some(own) => return Ok(own),
                    None => continue,
                }
            }
            // No more is taken than one frame needs: what a stranger can make us hold is bounded by `limit`.
            let room = (limit + MAX_HEADER).saturating_sub(self.inbox().len()).max(1);
            match timeout_at(deadline, self.fill(room)).await {
                Err(_) => return Err(Trouble::TimedOut(deadline.saturating_duration_since(began))),
                Ok(Ok(0)) => return Err(Trouble::Closed),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// Writes all of `bytes`. Nothing may be written after an error.
    pub(crate) async fn write(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), Trouble> {
        match timeout_at(deadline, self.write_all(bytes)).await {
            Err(_) => Err(Trouble::TimedOut(Duration::ZERO)),
            Ok(written) => Ok(written?),
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(ciphers) = &mut self.ciphers else { return self.stream.write_all(bytes).await };
        let mut sealed = bytes.to_vec();
        ciphers.encryptor.encrypt(&mut sealed);
        self.stream.write_all(&sealed).await
    }

    /// Writes `last` and closes so that the peer gets to read it: see [`close`].
    pub(crate) async fn finish(mut self, last: &[u8], patience: Duration) {
        if timeout(patience, self.write_all(last)).await.is_ok_and(|written| written.is_ok()) {
            close(self.stream, patience).await;
        }
    }
}

/// Closes in order: our end first, then what the peer still sends is read and dropped until it closes too or `patience`
/// ends. A socket closed with bytes unread would reset the connection, and a reset may overtake what was written: clients
/// then show "connection reset" in place of the reason, and backends lose the last chat lines.
pub(crate) async fn close(mut stream: TcpStream, patience: Duration) {
    let _ = timeout(patience, async {
        stream.shutdown().await?;
        loop {
            let read = poll_fn(|cx| {
                with_read_buffer(0, |space| {
                    let mut buffer = ReadBuf::new(space);
                    ready!(Pin::new(&mut stream).poll_read(cx, &mut buffer))?;
                    std::task::Poll::Ready(io::Result::Ok(buffer.filled().len()))
                })
            })
            .await?;
            if read == 0 {
                return io::Result::Ok(());
            }
        }
    })
    .await;
}
