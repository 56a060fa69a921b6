//! A raw relay: what any proxy costs on this machine. It copies bytes both ways, one write a read, and does nothing else.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Serves until the future is dropped, all connections on this thread (within a `LocalSet`).
pub async fn serve(listener: TcpListener, to: SocketAddr) -> anyhow::Result<()> {
    loop {
        let (player, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            if let Ok(backend) = TcpStream::connect(to).await {
                pair(player, backend);
            }
        });
    }
}

fn pair(player: TcpStream, backend: TcpStream) {
    let _ = (player.set_nodelay(true), backend.set_nodelay(true));
    let (from_player, to_player) = player.into_split();
    let (from_backend, to_backend) = backend.into_split();
    for (from, to) in [(from_player, to_backend), (from_backend, to_player)] {
        let mut direction = Direction { from, to, buffer: vec![0; 256 * 1024], at: 0, end: 0 };
        // The end of one direction drops its write half, which ends the other.
        tokio::task::spawn_local(async move { poll_fn(|cx| direction.poll(cx)).await });
    }
}

struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl Direction {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        loop {
            while self.at < self.end {
                self.at += ready!(Pin::new(&mut self.to).poll_write(cx, &self.buffer[self.at..self.end]))?;
            }
            let mut room = ReadBuf::new(&mut self.buffer);
            ready!(Pin::new(&mut self.from).poll_read(cx, &mut room))?;
            (self.at, self.end) = (0, room.filled().len());
            if self.end == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
