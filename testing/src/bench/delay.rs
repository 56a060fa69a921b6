//! A relay that delays: what comes goes on in the same order, some time later, as over a long way. It does not limit how much goes at a
//! time, except that it holds so much at most.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Bytes of one read, and reads that are held for one direction of a connection.
const READ: usize = 64 * 1024;
const HELD: usize = 1024;

/// Serves until the future is dropped, all connections on this thread (within a `LocalSet`); each way takes `delay`.
pub async fn serve(listener: TcpListener, to: SocketAddr, delay: Duration) -> anyhow::Result<()> {
    loop {
        let (player, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            if let Ok(backend) = TcpStream::connect(to).await {
                let _ = (player.set_nodelay(true), backend.set_nodelay(true));
                let (from_player, to_player) = player.into_split();
                let (from_backend, to_backend) = backend.into_split();
                for (from, to) in [(from_player, to_backend), (from_backend, to_player)] {
                    let (hold, held) = mpsc::channel(HELD);
                    tokio::task::spawn_local(take(from, hold, delay));
                    tokio::task::spawn_local(give(to, held));
                }
            }
        });
    }
}

/// Some bytes, and when they are to go on.
type Held = (Instant, Vec<u8>);

async fn take(mut from: OwnedReadHalf, hold: mpsc::Sender<Held>, delay: Duration) {
    let mut bytes = vec![0; READ];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if hold.send((Instant::now() + delay, bytes[..read].to_vec())).await.is_err() {
            return;
        }
    }
}

/// The end of what comes drops the write half, which ends the other direction.
async fn give(mut to: OwnedWriteHalf, mut held: mpsc::Receiver<Held>) {
    while let Some((due, bytes)) = held.recv().await {
        sleep_until(due).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    const DELAY: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn bytes_come_in_order_and_not_before_their_time() {
        let run = async {
            let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let near = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = near.local_addr().unwrap();
            spawn_local(serve(near, far.local_addr().unwrap(), DELAY));
            let mut player = TcpStream::connect(address).await.unwrap();
            let (mut backend, _) = far.accept().await.unwrap();

            let sent: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
            let whole = sent.clone();
            let start = Instant::now();
            let player = spawn_local(async move {
                player.write_all(&whole).await.unwrap();
                player.shutdown().await.unwrap();
                let mut back = Vec::new();
                player.read_to_end(&mut back).await.unwrap();
                (back, start.elapsed())
            });
            let mut came = Vec::new();
            backend.read_to_end(&mut came).await.unwrap();
            assert!(came == sent && start.elapsed() >= DELAY, "after {:?}", start.elapsed());
            backend.write_all(b"back").await.unwrap();
            drop(backend);
            let (back, after) = player.await.unwrap();
            assert!(back == b"back" && after >= 2 * DELAY, "{back:?} after {after:?}");
        };
        LocalSet::new().run_until(run).await;
    }
}
