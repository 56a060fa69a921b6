//! Relays to compare a node with, each in a process of its own: one that copies bytes both ways, one write a read, and does nothing else,
//! which is what any proxy costs on this machine; and the node's own relay, without a session around it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use clap::ValueEnum;
use moonbridge_dataplane::relay_alone::{self, Watch};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

thread_local! {
    /// What one read may bring. All connections share it: nothing stays in it.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 256 * 1024]);
}

/// What a relay does with what it relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Relay {
    /// It copies bytes.
    Raw,
    /// The node's relay: it walks frames, and looks into none.
    Framed,
    /// The node's relay: it walks frames, and rewrites the ids of keep-alives.
    Bridged,
}

/// Serves until the future is dropped, all connections on this thread (within a `LocalSet`).
pub async fn serve(listener: TcpListener, to: SocketAddr, relay: Relay) -> anyhow::Result<()> {
    loop {
        let (player, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            let Ok(backend) = TcpStream::connect(to).await else { return };
            let _ = (player.set_nodelay(true), backend.set_nodelay(true));
            match relay {
                Relay::Raw => copy(player, backend),
                Relay::Framed => relay_alone::relay(player, backend, Watch::Nothing).await,
                Relay::Bridged => relay_alone::relay(player, backend, Watch::KeepAlives).await,
            }
        });
    }
}

fn copy(player: TcpStream, backend: TcpStream) {
    let (from_player, to_player) = player.into_split();
    let (from_backend, to_backend) = backend.into_split();
    for (from, to) in [(from_player, to_backend), (from_backend, to_player)] {
        let mut direction = Direction { from, to, waiting: Vec::new() };
        // The end of one direction drops its write half, which ends the other.
        tokio::task::spawn_local(async move { poll_fn(|cx| direction.poll(cx)).await });
    }
}

struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// What was read and not taken.
    waiting: Vec<u8>,
}

impl Direction {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        loop {
            while !self.waiting.is_empty() {
                let written = ready!(Pin::new(&mut self.to).poll_write(cx, &self.waiting))?;
                self.waiting.drain(..written);
            }
            let read = BUFFER.with_borrow_mut(|buffer| {
                let mut room = ReadBuf::new(buffer);
                ready!(Pin::new(&mut self.from).poll_read(cx, &mut room))?;
                let bytes = room.filled();
                let written = match Pin::new(&mut self.to).poll_write(cx, bytes) {
                    Poll::Ready(written) => written?,
                    Poll::Pending => 0,
                };
                self.waiting.extend_from_slice(&bytes[written..]);
                Poll::Ready(std::io::Result::Ok(bytes.len()))
            });
            if ready!(read)? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
