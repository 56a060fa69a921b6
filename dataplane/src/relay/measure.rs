//! The relay alone, between two sockets and without a session around it: what a benchmark compares a whole session with.

use std::future::poll_fn;
use std::task::{Context, Poll};

use moonbridge_protocol::keep_alive::{Answer, Asker, Ledger};
use moonbridge_protocol::play;
use moonbridge_protocol::version::{Clientbound, Serverbound, Version};
use moonbridge_protocol::walk::{Empty, HOLD, Verdict, WatchSet, Watched};
use tokio::net::TcpStream;

use super::link::Link;
use super::{Rules, Sink, pump};

/// Which frames are looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// None: every frame is only stepped over.
    Nothing,
    /// Keep-alives, whose ids are rewritten as between a player and its backend.
    KeepAlives,
}

/// Relays frames both ways until one side ends or sends what is no frame.
pub async fn relay(player: TcpStream, backend: TcpStream, watch: Watch) {
    let [player, backend] = [player, backend].map(|stream| Link::new(stream, &[], None));
    let mut pair = Pair { player, backend, watch, ledger: Ledger::default() };
    poll_fn(|cx| pair.poll(cx)).await;
}

struct Pair {
    player: Link,
    backend: Link,
    watch: Watch,
    ledger: Ledger,
}

impl Pair {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Pair { player, backend, watch, ledger } = self;
        let version = Version::newest();
        let [clientbound, serverbound] = match watch {
            Watch::Nothing => [WatchSet::default(); 2],
            Watch::KeepAlives => {
                [version.watch_clientbound(&[Clientbound::KeepAlive]), version.watch_serverbound(&[Serverbound::KeepAlive])]
            }
        };
        let rules = |watch| Rules { watch, empty: Empty::Pass, hold: HOLD };
        let to_player = pump(cx, backend, &mut Sink::Link(player), rules(clientbound), &mut 0, |frame| ask(ledger, version, frame));
        let to_backend = pump(cx, player, &mut Sink::Link(backend), rules(serverbound), &mut 0, |frame| answer(ledger, version, frame));
        if to_player.is_ready() || to_backend.is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn ask(ledger: &mut Ledger, version: &Version, frame: Watched<'_>) -> Verdict {
    if let Ok(id) = play::read_keep_alive(version, frame.payload) {
        play::write_keep_alive(version, frame.payload, ledger.ask(Asker::Backend(0), id));
    }
    Verdict::Pass
}

fn answer(ledger: &mut Ledger, version: &Version, frame: Watched<'_>) -> Verdict {
    // Handshake and Login Start have the same id, and are no keep-alives.
    let Ok(id) = play::read_keep_alive(version, frame.payload) else { return Verdict::Pass };
    match ledger.answer(id) {
        Answer::To(_, id) => play::write_keep_alive(version, frame.payload, id),
        Answer::Late => return Verdict::Drop,
        Answer::Unasked => {}
    }
    Verdict::Pass
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn ends() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    async fn receive(from: &mut TcpStream, length: usize) -> Vec<u8> {
        let mut came = vec![0; length];
        from.read_exact(&mut came).await.unwrap();
        came
    }

    #[tokio::test]
    async fn keep_alives_are_bridged_only_where_they_are_watched() {
        for (watch, same) in [(Watch::Nothing, true), (Watch::KeepAlives, false)] {
            let ((mut player, near), (far, mut backend)) = (ends().await, ends().await);
            let relayed = async {
                let mut asked = Vec::new();
                play::put_keep_alive_clientbound(&mut asked, Version::newest(), 77);
                backend.write_all(&asked).await.unwrap();
                backend.write_all(&[3, 0x50, 1, 2]).await.unwrap();
                let came = receive(&mut player, asked.len()).await;
                assert_eq!((came == asked, came.len()), (same, asked.len()), "{watch:?}");
                assert_eq!(receive(&mut player, 4).await, [3, 0x50, 1, 2]);
                // The id of an answer is the same in both directions.
                player.write_all(&came).await.unwrap();
                assert_eq!(receive(&mut backend, asked.len()).await, asked, "{watch:?}");
                drop(player);
                assert_eq!(backend.read(&mut [0]).await.unwrap(), 0);
            };
            tokio::join!(relay(near, far, watch), relayed);
        }
    }
}
