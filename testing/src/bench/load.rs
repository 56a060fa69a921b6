//! The player's side: a closed loop over some connections, every echo checked.
//!
//! All connections live on the calling thread (within a `LocalSet`). Each has `window` bursts of `burst` frames under way;
//! the echo of a burst's last frame is what sends the next burst, with one write. Latency is that of each frame, from the
//! write of its burst to the read that brought its echo.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use hdrhistogram::Histogram;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::frames::{self, Frames};
use super::login;
use super::measure::{Gauges, Usage};

/// Room for what one read may bring.
const READ: usize = 256 * 1024;
/// How long a login may take.
const LOGIN: Duration = Duration::from_secs(20);
/// How long the last echoes may take after a phase.
const LAST_ECHOES: Duration = Duration::from_secs(20);

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Players.
    pub connections: usize,
    /// Bytes of a frame's payload.
    pub payload: usize,
    /// Bursts under way, a connection.
    pub window: usize,
    /// Frames in a burst.
    pub burst: usize,
    /// Before anything is counted.
    pub warmup: Duration,
    /// While it counts.
    pub duration: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// How long it was counted.
    pub elapsed: Duration,
    /// Echoes in that time. A frame counts once, however often it was relayed.
    pub frames: u64,
    /// Nanoseconds from a frame's write to its echo's read.
    pub latency: Histogram<u64>,
    /// CPU time and TCP segments in that time.
    pub usage: Usage,
    /// Echoes checked over the whole phase, warm-up and end included.
    pub checked: u64,
}

/// What the connections of a phase share.
struct Shared {
    frames: Cell<u64>,
    recording: Cell<bool>,
    stopping: Cell<bool>,
    latency: RefCell<Histogram<u64>>,
}

/// Logs the players in at `target` (named `prefix` and a number), loads, and logs them out. Fails on the first echo that
/// is not what was sent, and on one that does not come.
pub async fn run(target: SocketAddr, prefix: &str, load: &Load, gauges: &Gauges) -> anyhow::Result<Measured> {
    let shared = Rc::new(Shared {
        frames: Cell::new(0),
        recording: Cell::new(false),
        stopping: Cell::new(false),
        latency: RefCell::new(Histogram::new_with_bounds(100, 60_000_000_000, 3)?),
    });
    let mut players = Vec::new();
    for index in 0..load.connections {
        let login = timeout(LOGIN, player(target, format!("{prefix}{index}"), index, load, Rc::clone(&shared)));
        players.push(
            login
                .await
                .map_err(|_| anyhow!("it took longer than {LOGIN:?}"))
                .flatten()
                .with_context(|| format!("login of player {index}"))?,
        );
    }
    let mut running = JoinSet::new();
    for mut player in players {
        running.spawn_local(async move { poll_fn(|cx| player.poll(cx)).await.with_context(|| format!("player {}", player.index)) });
    }

    undisturbed(&mut running, load.warmup).await?;
    let (before, usage, start) = (shared.frames.get(), gauges.read()?, Instant::now());
    shared.recording.set(true);
    undisturbed(&mut running, load.duration).await?;
    shared.recording.set(false);
    let (elapsed, usage, frames) = (start.elapsed(), gauges.read()?.since(&usage), shared.frames.get() - before);

    shared.stopping.set(true);
    let mut checked = 0;
    let last = timeout(LAST_ECHOES, async {
        while let Some(player) = running.join_next().await {
            checked += player??;
        }
        anyhow::Ok(())
    });
    last.await.map_err(|_| anyhow!("the last echoes did not come within {LAST_ECHOES:?}")).flatten()?;
    ensure!(frames > 0, "not one echo came");
    let latency = shared.latency.borrow().clone();
    Ok(Measured { elapsed, frames, latency, usage, checked })
}

/// Waits for `time`, unless a player fails before.
async fn undisturbed(running: &mut JoinSet<anyhow::Result<u64>>, time: Duration) -> anyhow::Result<()> {
    tokio::select! {
        () = sleep(time) => Ok(()),
        Some(ended) = running.join_next() => match ended? {
            Ok(_) => bail!("a player ended early"),
            Err(error) => Err(error),
        },
    }
}

async fn player(target: SocketAddr, name: String, index: usize, load: &Load, shared: Rc<Shared>) -> anyhow::Result<Player> {
    let mut stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let mut buffer = login::player(&mut stream, &name).await?;
    let frames = Frames::new(load.payload, index)?;
    let end = buffer.len();
    buffer.resize(READ.max(2 * frames.whole()).max(end), 0);
    Ok(Player {
        index,
        stream,
        frames,
        burst: load.burst as u64,
        due: load.window,
        sent_at: vec![Instant::now(); load.window],
        out: Vec::with_capacity(0),
        written: 0,
        sent: 0,
        echoed: 0,
        buffer,
        end,
        shared,
    })
}

struct Player {
    index: usize,
    stream: TcpStream,
    frames: Frames,
    burst: u64,
    /// Bursts that may be sent now.
    due: usize,
    /// When each burst under way was written; burst n stands at n modulo the window.
    sent_at: Vec<Instant>,
    /// The burst being written, and how much of it has been.
    out: Vec<u8>,
    written: usize,
    /// Frames, from the first.
    sent: u64,
    echoed: u64,
    /// `buffer[..end]` has been read and not been checked.
    buffer: Vec<u8>,
    end: usize,
    shared: Rc<Shared>,
}

impl Player {
    /// Writes and reads until the phase stops and every echo has come; returns how many came.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<anyhow::Result<u64>> {
        loop {
            if let Poll::Ready(Err(error)) = self.write(cx) {
                return Poll::Ready(Err(error).context("writing"));
            }
            if self.shared.stopping.get() && self.echoed == self.sent {
                return Poll::Ready(Ok(self.echoed));
            }
            let mut room = ReadBuf::new(&mut self.buffer[self.end..]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room)).context("reading")?;
            let read = room.filled().len();
            if read == 0 {
                return Poll::Ready(Err(anyhow!("the connection was closed after {} echoes of {}", self.echoed, self.sent)));
            }
            self.end += read;
            self.check()?;
        }
    }

    /// Writes what is due, a write a burst, as far as the socket takes it.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        loop {
            if self.written == self.out.len() {
                if self.due == 0 || self.shared.stopping.get() {
                    return Poll::Ready(Ok(()));
                }
                self.next_burst();
            }
            self.written += ready!(Pin::new(&mut self.stream).poll_write(cx, &self.out[self.written..]))?;
        }
    }

    fn next_burst(&mut self) {
        self.out.clear();
        self.written = 0;
        for _ in 0..self.burst {
            self.frames.put(&mut self.out, self.sent);
            self.sent += 1;
        }
        self.due -= 1;
        let slot = self.slot(self.sent - 1);
        self.sent_at[slot] = Instant::now();
    }

    fn slot(&self, frame: u64) -> usize {
        (frame / self.burst) as usize % self.sent_at.len()
    }

    /// Checks every whole frame that has come, and counts them.
    fn check(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        let (mut at, mut of_burst) = (0, 0);
        while let Some(next) = frames::next(&self.buffer[at..self.end])? {
            if next.ours {
                ensure!(self.echoed < self.sent, "an echo of what has not been sent");
                self.frames.check(&self.buffer[at..at + next.whole], self.echoed)?;
                self.echoed += 1;
                of_burst += 1;
                if self.echoed.is_multiple_of(self.burst) {
                    self.record(now, of_burst);
                    of_burst = 0;
                    self.due += 1;
                }
            }
            at += next.whole;
        }
        self.record(now, of_burst);
        self.buffer.copy_within(at..self.end, 0);
        self.end -= at;
        Ok(())
    }

    /// Counts the last `frames` echoes, all of one burst.
    fn record(&self, now: Instant, frames: u64) {
        if frames > 0 {
            self.shared.frames.set(self.shared.frames.get() + frames);
            if self.shared.recording.get() {
                let nanos = now.saturating_duration_since(self.sent_at[self.slot(self.echoed - 1)]).as_nanos();
                self.shared.latency.borrow_mut().saturating_record_n(nanos.try_into().unwrap_or(u64::MAX), frames);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;
    use crate::bench::{echo, relay};

    fn load(payload: usize) -> Load {
        let (warmup, duration) = (Duration::from_millis(10), Duration::from_millis(50));
        Load { connections: 3, payload, window: 4, burst: 32, warmup, duration }
    }

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    async fn serve_echo() -> SocketAddr {
        let (listener, address) = listener().await;
        spawn_local(echo::serve(listener));
        address
    }

    #[tokio::test]
    async fn every_echo_is_counted_once() {
        let local = LocalSet::new();
        let run = local.run_until(async {
            for payload in [8, 32, 20_000] {
                let backend = serve_echo().await;
                let (listener, relayed) = listener().await;
                spawn_local(relay::serve(listener, backend));
                for target in [backend, relayed] {
                    let measured = run(target, "bench", &load(payload), &Gauges::default()).await.unwrap();
                    assert!(measured.checked >= measured.frames);
                    assert_eq!(measured.latency.len(), measured.frames);
                    assert_eq!(measured.checked % 32, 0, "whole bursts");
                }
            }
        });
        run.await;
    }

    type Spoil = fn(&mut Vec<u8>);

    /// Relays to `backend`, but changes, leaves out or repeats bytes of what comes back after the first kilobyte.
    async fn spoiling_relay(backend: SocketAddr, spoil: Spoil) -> SocketAddr {
        let (listener, address) = listener().await;
        spawn_local(async move {
            while let Ok((player, _)) = listener.accept().await {
                let (mut from_player, mut to_player) = player.into_split();
                let (mut from_backend, mut to_backend) = TcpStream::connect(backend).await.unwrap().into_split();
                spawn_local(async move { tokio::io::copy(&mut from_player, &mut to_backend).await });
                spawn_local(async move {
                    let mut total = 0;
                    let mut bytes = vec![0; 64 * 1024];
                    while let Ok(read @ 1..) = from_backend.read(&mut bytes).await {
                        let mut out = bytes[..read].to_vec();
                        if total > 1024 {
                            spoil(&mut out);
                        }
                        total += read;
                        if to_player.write_all(&out).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn a_spoiled_echo_fails_the_phase() {
        let local = LocalSet::new();
        let run = local.run_until(async {
            let backend = serve_echo().await;
            let spoils: [(Spoil, &str); 3] = [
                (|out| *out.last_mut().unwrap() ^= 1, "another payload"),
                (|out| drop(out.drain(..34)), "expected"),
                (|out| out.extend_from_within(out.len() - 34..), "expected"),
            ];
            for (spoil, said) in spoils {
                let target = spoiling_relay(backend, spoil).await;
                let error = run(target, "bench", &load(32), &Gauges::default()).await.unwrap_err();
                let error = format!("{error:#}");
                assert!(error.contains(said) || error.contains("not been sent"), "{error}");
            }
        });
        run.await;
    }
}
