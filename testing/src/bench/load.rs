//! The players' side: a phase of one load, every frame checked.
//!
//! All connections live on the calling thread (within a `LocalSet`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::cipher::Cipher;
use super::frames::Frames;
use super::measure::{Gauges, Usage};
use super::player::Player;
use super::replay;
use super::target::Target;
use super::ticks::{Beat, Watcher};
use super::trace::Direction::{Clientbound, Serverbound};
use super::trace::Trace;

/// How long the last echoes may take after a phase.
const LAST_ECHOES: Duration = Duration::from_secs(20);

/// What is sent.
#[derive(Clone)]
pub struct Load {
    /// Players.
    pub connections: usize,
    /// Bytes of a frame's payload.
    pub payload: usize,
    /// Frames in a burst: what is written at once.
    pub burst: usize,
    /// Who sends, and when.
    pub pace: Pace,
    /// Before anything is counted.
    pub warmup: Duration,
    /// While it counts.
    pub duration: Duration,
}

/// Who sends, and when.
#[derive(Clone)]
pub enum Pace {
    /// The players, as fast as echoes come: so many bursts are under way, a connection.
    Window(usize),
    /// The backend: so many bursts a second to every player.
    Ticks(u32),
    /// Both, at the times of a recording, frames of its sizes.
    Trace(Arc<Trace>),
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { connections, payload, burst, pace, warmup, duration } = self;
        write!(f, "{connections} players, ")?;
        match pace {
            Pace::Window(window) => write!(f, "window {window}, {burst} frames of {payload} bytes a burst")?,
            Pace::Ticks(a_second) => write!(f, "{a_second} ticks a second, {burst} frames of {payload} bytes each")?,
            Pace::Trace(trace) => {
                let [to, from] = [Clientbound, Serverbound].map(|direction| trace.frames(direction).len());
                write!(f, "a trace of {:?}: {to} frames to the player, {from} from it, {} not recorded", trace.lasts(), trace.missed())?;
            }
        }
        write!(f, "; {duration:?} after a warm-up of {warmup:?}")
    }
}

impl Load {
    /// What the backend of ticks has to know.
    pub fn beat(&self, a_second: u32) -> Beat {
        Beat { payload: self.payload, frames: self.burst, a_second }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// How long it was counted.
    pub elapsed: Duration,
    /// Frames that came in that time. An echo counts once, however often it was relayed.
    pub frames: u64,
    /// Nanoseconds from a frame's write to the read that brought it, or its echo.
    pub latency: Histogram<u64>,
    /// What it took in that time.
    pub usage: Usage,
    /// The part of the proxy's CPU time in user mode, if it was sampled.
    pub user_share: Option<f64>,
    /// What encrypting came to in about that time.
    pub cipher: Option<Cipher>,
    /// Frames checked over the whole phase, warm-up and end included.
    pub checked: u64,
}

/// What the connections of a phase share.
pub(super) struct Shared {
    frames: Cell<u64>,
    recording: Cell<bool>,
    pub(super) stopping: Cell<bool>,
    latency: RefCell<Histogram<u64>>,
}

impl Shared {
    /// Counts frames that came in time `nanos`.
    pub(super) fn count(&self, nanos: u64, frames: u64) {
        self.frames.set(self.frames.get() + frames);
        if self.recording.get() {
            self.latency.borrow_mut().saturating_record_n(nanos, frames);
        }
    }

    /// Counts frames of which nobody knows how long they took.
    pub(super) fn count_only(&self, frames: u64) {
        self.frames.set(self.frames.get() + frames);
    }
}

/// Logs the players in at `target` (named `prefix` and a number), loads, and logs them out. Fails on the first echo that
/// is not what was sent, and on one that does not come.
pub async fn run(target: &Target<'_>, prefix: &str, load: &Load, gauges: &Gauges<'_>) -> anyhow::Result<Measured> {
    let shared = Rc::new(Shared {
        frames: Cell::new(0),
        recording: Cell::new(false),
        stopping: Cell::new(false),
        latency: RefCell::new(Histogram::new_with_bounds(100, 60_000_000_000, 3)?),
    });
    let players = target.players(prefix, load.connections).await?;
    // They begin together.
    let mut running = JoinSet::new();
    for (index, playing) in players.into_iter().enumerate() {
        let shared = Rc::clone(&shared);
        let whose = move || format!("player {index}");
        match &load.pace {
            Pace::Window(window) => {
                let mut player = Player::new(playing, Frames::new(load.payload, index)?, *window, load.burst, shared);
                running.spawn_local(async move { poll_fn(|cx| player.poll(cx)).await.with_context(whose) });
            }
            Pace::Ticks(a_second) => {
                let mut watcher = Watcher::new(playing, Frames::stamped(load.payload, index)?, load.beat(*a_second), shared);
                running.spawn_local(async move { poll_fn(|cx| watcher.poll(cx)).await.with_context(whose) });
            }
            Pace::Trace(trace) => {
                let player = replay::play(playing, trace.clone(), index, shared);
                running.spawn_local(async move { player.await.with_context(whose) });
            }
        }
    }

    undisturbed(&mut running, sleep(load.warmup)).await?;
    let cipher = undisturbed(&mut running, cipher(gauges)).await??;
    let sampling = match gauges.perf.zip(gauges.proxy) {
        Some((perf, proxy)) => Some(undisturbed(&mut running, perf.start(proxy, load.duration)).await??),
        None => None,
    };
    let (before, usage, start) = (shared.frames.get(), gauges.read()?, Instant::now());
    shared.recording.set(true);
    undisturbed(&mut running, sleep(load.duration)).await?;
    shared.recording.set(false);
    let (elapsed, usage, frames) = (start.elapsed(), gauges.read()?.since(&usage), shared.frames.get() - before);

    let cipher = match cipher {
        Some(before) => undisturbed(&mut running, self::cipher(gauges)).await??.map(|after| after.since(&before)),
        None => None,
    };

    shared.stopping.set(true);
    let mut checked = 0;
    let last = timeout(LAST_ECHOES, async {
        while let Some(player) = running.join_next().await {
            checked += player??;
        }
        anyhow::Ok(())
    });
    last.await.map_err(|_| anyhow!("the last echoes did not come within {LAST_ECHOES:?}")).flatten()?;
    ensure!(frames > 0, "not one frame came");
    let user_share = match sampling {
        Some(sampling) => Some(sampling.user_share().await?),
        None => None,
    };
    let latency = shared.latency.borrow().clone();
    Ok(Measured { elapsed, frames, latency, usage, user_share, cipher, checked })
}

async fn cipher(gauges: &Gauges<'_>) -> anyhow::Result<Option<Cipher>> {
    match gauges.metrics {
        Some(collector) => Cipher::read(collector).await.map(Some),
        None => Ok(None),
    }
}

/// Waits for `until`, unless a player fails before.
async fn undisturbed<T>(running: &mut JoinSet<anyhow::Result<u64>>, until: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::select! {
        reached = until => Ok(reached),
        Some(ended) = running.join_next() => match ended? {
            Ok(_) => bail!("a player ended early"),
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::{LocalSet, spawn_local};

    use super::*;
    use crate::bench::echo;
    use crate::bench::relay::{self, Relay};

    fn load(payload: usize) -> Load {
        let (warmup, duration) = (Duration::from_millis(10), Duration::from_millis(50));
        Load { connections: 3, payload, burst: 32, pace: Pace::Window(4), warmup, duration }
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
            for (payload, kind) in [(8, Relay::Raw), (32, Relay::Framed), (20_000, Relay::Bridged)] {
                let backend = serve_echo().await;
                let (listener, relayed) = listener().await;
                spawn_local(relay::serve(listener, backend, kind));
                for target in [backend, relayed] {
                    let measured = run(&Target::offline(target), "bench", &load(payload), &Gauges::default()).await.unwrap();
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
                let error = run(&Target::offline(target), "bench", &load(32), &Gauges::default()).await.unwrap_err();
                let error = format!("{error:#}");
                assert!(error.contains(said) || error.contains("not been sent"), "{error}");
            }
        });
        run.await;
    }
}
