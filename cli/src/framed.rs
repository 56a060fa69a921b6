//! A connection as frames: what the limbo, `probe` and `status` have in common.

use std::io;
use std::time::Duration;

use moonbridge_protocol::frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Room made for each read.
const READ: usize = 16 * 1024;

/// A peer that takes nothing for so long is gone.
const WRITE_STALL: Duration = Duration::from_secs(20);

/// A stream of whole frames. Holds at most one frame and one read beyond it.
#[derive(Debug)]
pub(crate) struct Framed {
    stream: TcpStream,
    input: Vec<u8>,
    taken: usize,
}

/// A frame of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedFrame {
    /// The packet id.
    pub(crate) id: i32,
    /// What follows the id.
    pub(crate) payload: Vec<u8>,
}

impl Framed {
    /// Frames over this stream.
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Small packets are to go out at once; a stream that cannot do it still works.
        let _ = stream.set_nodelay(true);
        Framed { stream, input: Vec::new(), taken: 0 }
    }

    /// The next frame that is not empty; `None` when the peer has closed between frames. May be dropped and called again.
    ///
    /// # Errors
    /// The stream's own; `InvalidData` for a frame that is malformed or longer than `limit`; `UnexpectedEof` for one cut off.
    pub(crate) async fn next(&mut self, limit: usize) -> io::Result<Option<OwnedFrame>> {
        loop {
            while let Some(found) = frame::first(&self.input[self.taken..], limit).map_err(invalid)? {
                let owned = (!found.is_empty()).then(|| OwnedFrame { id: found.id, payload: found.payload.to_vec() });
                self.taken += found.whole.len();
                if owned.is_some() {
                    return Ok(owned);
                }
            }
            self.input.drain(..self.taken);
            self.taken = 0;
            self.input.reserve(READ);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return if self.input.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The stream's own; `TimedOut` if the peer takes nothing for 20 s.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(WRITE_STALL, self.stream.write_all(bytes)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Says that nothing more comes, and takes what the peer still sends for a moment: closing with unread bytes would reset
    /// the connection, and a client would then show that instead of the reason it was sent.
    pub(crate) async fn close(mut self) {
        let linger = async {
            self.stream.shutdown().await?;
            let mut sink = [0; 1024];
            while self.stream.read(&mut sink).await? > 0 {}
            io::Result::Ok(())
        };
        let _ = timeout(Duration::from_millis(500), linger).await;
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
