//! The backend: after a real login it sends every frame of the benchmark back, a whole read at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anyhow::ensure;
use moonbridge_protocol::frame;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::{frames, login};

/// Room for what one read may bring.
const READ: usize = 256 * 1024;

/// Serves until the future is dropped, all connections on this thread (within a `LocalSet`).
pub async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (stream, peer) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            if let Err(error) = connection(stream).await {
                eprintln!("echo backend: {peer}: {error:#}");
            }
        });
    }
}

async fn connection(mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (_, came) = login::backend(&mut stream).await?;
    // Zeroed by the kernel, where it is used: thousands of players have one each.
    let mut echo = Echo { stream, buffer: vec![0; READ.max(came.len())], start: 0, ready: 0, end: came.len() };
    echo.buffer[..came.len()].copy_from_slice(&came);
    echo.walk()?;
    poll_fn(|cx| echo.poll(cx)).await
}

/// One connection: `buffer[start..ready]` is to be sent back, `buffer[ready..end]` the beginning of a frame.
struct Echo {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    ready: usize,
    end: usize,
}

impl Echo {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<anyhow::Result<()>> {
        loop {
            while self.start < self.ready {
                self.start += ready!(Pin::new(&mut self.stream).poll_write(cx, &self.buffer[self.start..self.ready]))?;
            }
            self.make_room();
            let mut room = ReadBuf::new(&mut self.buffer[self.end..]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
            let read = room.filled().len();
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            self.end += read;
            self.walk()?;
        }
    }

    /// Marks what may go back: whole frames of ours. Others are taken out.
    fn walk(&mut self) -> anyhow::Result<()> {
        while let Some(next) = frames::next(&self.buffer[self.ready..self.end])? {
            if next.ours {
                self.ready += next.whole;
            } else {
                self.buffer.copy_within(self.ready + next.whole..self.end, self.ready);
                self.end -= next.whole;
            }
        }
        ensure!(self.end - self.ready <= frame::MAX_FRAME + frame::MAX_HEADER, "an endless frame");
        Ok(())
    }

    /// Everything has been sent back: the begun frame moves to the front.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.ready..self.end, 0);
        self.end -= self.ready;
        (self.start, self.ready) = (0, 0);
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
    }
}
