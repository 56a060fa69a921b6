//! Recorded traffic, sent again: the backend sends what came for the player, at its times, and the player what came from it. Both
//! check what they get. Frames count that come to players; latency is of those that are long enough to say when they were made.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, interval, sleep_until};

use super::frames::{BEGIN, clock};
use super::incoming::Incoming;
use super::load::Shared;
use super::login::{self, Decrypt, Playing};
use super::trace::Direction::{Clientbound, Serverbound};
use super::trace::{Receiver, Sender, Trace};

/// How often a player looks whether the phase is over.
const LOOK: Duration = Duration::from_millis(20);

/// Where a direction without frames waits: beyond any phase.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The backend: serves until the future is dropped, all connections on this thread (within a `LocalSet`).
pub async fn serve(listener: TcpListener, trace: Trace) -> anyhow::Result<()> {
    let trace = Arc::new(trace);
    loop {
        let (stream, peer) = listener.accept().await?;
        let trace = trace.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = connection(stream, trace).await {
                eprintln!("trace backend: {peer}: {error:#}");
            }
        });
    }
}

async fn connection(mut stream: TcpStream, trace: Arc<Trace>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (name, came) = login::backend(&mut stream).await?;
    let number = login::number(&name);
    let mut incoming = Incoming::new(&came, Decrypt::default(), trace.longest(Serverbound));
    let mut sender = Sender::new(trace.clone(), Clientbound, number);
    let mut receiver = Receiver::new(trace, Serverbound, number);
    while incoming.next()?.is_none() {
        if incoming.read(&mut stream).await.is_err() {
            return Ok(());
        }
    }
    let (start, mut out) = (Instant::now(), Vec::new());
    loop {
        tokio::select! {
            read = incoming.read(&mut stream) => {
                // Players leave as they like.
                if read.is_err() {
                    return Ok(());
                }
                while let Some(whole) = incoming.next()? {
                    receiver.check(whole)?;
                }
            }
            () = sleep_until(start + sender.next_due().unwrap_or(NEVER)) => {
                out.clear();
                sender.put_due(start.elapsed(), clock(), &mut out);
                if stream.write_all(&out).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// A player sends and takes its part of the trace until the phase stops; returns how many frames came.
pub(super) async fn play(mut playing: Playing, trace: Arc<Trace>, number: usize, shared: Rc<Shared>) -> anyhow::Result<u64> {
    playing.send(&mut BEGIN.to_vec()).await?;
    let Playing { mut stream, came, decrypt, mut encrypt } = playing;
    let mut incoming = Incoming::new(&came, decrypt, trace.longest(Clientbound));
    let mut sender = Sender::new(trace.clone(), Serverbound, number);
    let mut receiver = Receiver::new(trace, Clientbound, number);
    let (start, mut out, mut look) = (Instant::now(), Vec::new(), interval(LOOK));
    loop {
        let now = clock();
        while let Some(whole) = incoming.next()? {
            match receiver.check(whole)? {
                Some(made) => shared.count(now.saturating_sub(made), 1),
                None => shared.count_only(1),
            }
        }
        if shared.stopping.get() {
            return Ok(receiver.came());
        }
        tokio::select! {
            read = incoming.read(&mut stream) => read.with_context(|| format!("after {} frames", receiver.came()))?,
            () = sleep_until(start + sender.next_due().unwrap_or(NEVER)) => {
                out.clear();
                sender.put_due(start.elapsed(), clock(), &mut out);
                encrypt.apply(&mut out);
                stream.write_all(&out).await.context("writing")?;
            }
            _ = look.tick() => {}
        }
    }
}
