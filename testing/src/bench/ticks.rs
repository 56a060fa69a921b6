//! Ticks: a server's traffic. The backend gives every player the same number of small frames, with one write each, at the same
//! beat; the players only take and check them. Latency is that of each frame, from being made to the read that brought it.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};

use super::frames::{self, Frames, clock};
use super::incoming::Incoming;
use super::load::Shared;
use super::login::{self, Decrypt, Encrypt, Playing};

/// What a tick is.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// Bytes of a frame's payload.
    pub payload: usize,
    /// Frames that each player is given.
    pub frames: usize,
    /// Ticks in a second.
    pub a_second: u32,
}

/// The backend: serves until the future is dropped, all connections on this thread (within a `LocalSet`).
pub async fn serve(listener: TcpListener, beat: Beat) -> anyhow::Result<()> {
    let players = Rc::new(RefCell::new(Vec::new()));
    let mut ticks = interval(Duration::from_secs(1) / beat.a_second);
    // A server that is late does not give its players the world twice as fast.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut out = Vec::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, peer) = accepted?;
                let players = players.clone();
                tokio::task::spawn_local(async move {
                    if let Err(error) = enter(stream, beat, &players).await {
                        eprintln!("tick backend: {peer}: {error:#}");
                    }
                });
            }
            _ = ticks.tick() => {
                players.borrow_mut().retain_mut(|player: &mut Given| match player.tick(beat, &mut out) {
                    Ok(()) => true,
                    Err(error) => {
                        // One that has left is none of our business.
                        if error.kind() == io::ErrorKind::WouldBlock {
                            eprintln!("tick backend: {} did not take its tick and is cut off", player.name);
                        }
                        false
                    }
                });
            }
        }
    }
}

/// A player of the backend's.
struct Given {
    name: String,
    to: OwnedWriteHalf,
    frames: Frames,
    sent: u64,
}

impl Given {
    fn tick(&mut self, beat: Beat, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        let now = clock();
        for _ in 0..beat.frames {
            self.frames.put(out, self.sent, now);
            self.sent += 1;
        }
        match self.to.try_write(out)? {
            all if all == out.len() => Ok(()),
            // Half a frame: there is no going on.
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Logs a player in, gives it ticks as soon as it asks for them, and reads what it says until it leaves.
async fn enter(mut stream: TcpStream, beat: Beat, players: &RefCell<Vec<Given>>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (name, came) = login::backend(&mut stream).await?;
    let frames = Frames::stamped(beat.payload, login::number(&name))?;
    let mut incoming = Incoming::new(&came, Decrypt::default(), frames::BEGIN.len());
    while incoming.next()?.is_none() {
        if incoming.read(&mut stream).await.is_err() {
            return Ok(());
        }
    }
    let (mut from, to) = stream.into_split();
    players.borrow_mut().push(Given { name, to, frames, sent: 0 });
    let mut said = [0; 4096];
    // However it ends, the next tick finds out.
    while from.read(&mut said).await.is_ok_and(|read| read > 0) {}
    Ok(())
}

/// A player that takes ticks. Now and then it says something, as clients do, so that nobody takes it for dead.
pub(super) struct Watcher {
    stream: TcpStream,
    encrypt: Encrypt,
    incoming: Incoming,
    frames: Frames,
    came: u64,
    /// Frames after which it says something: those of a second.
    speak_every: u64,
    /// What it is about to say.
    out: Vec<u8>,
    shared: Rc<Shared>,
}

impl Watcher {
    pub(super) fn new(playing: Playing, frames: Frames, beat: Beat, shared: Rc<Shared>) -> Watcher {
        let mut watcher = Watcher {
            incoming: Incoming::new(&playing.came, playing.decrypt, frames.whole()),
            stream: playing.stream,
            encrypt: playing.encrypt,
            frames,
            came: 0,
            speak_every: beat.frames as u64 * u64::from(beat.a_second),
            out: Vec::new(),
            shared,
        };
        watcher.say_something();
        watcher
    }

    fn say_something(&mut self) {
        let begin = self.out.len();
        self.out.extend_from_slice(&frames::BEGIN);
        self.encrypt.apply(&mut self.out[begin..]);
    }

    /// Takes ticks until the phase stops; returns how many frames came.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<anyhow::Result<u64>> {
        loop {
            if self.shared.stopping.get() {
                return Poll::Ready(Ok(self.came));
            }
            while !self.out.is_empty() {
                let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.out)).context("writing")?;
                self.out.drain(..written);
            }
            ready!(self.incoming.poll_read(cx, &mut self.stream)).with_context(|| format!("after {} frames", self.came))?;
            self.check()?;
        }
    }

    fn check(&mut self) -> anyhow::Result<()> {
        let now = clock();
        while let Some(whole) = self.incoming.next()? {
            let made = self.frames.check(whole, self.came)?;
            self.came += 1;
            self.shared.count(now.saturating_sub(made), 1);
            if self.came.is_multiple_of(self.speak_every) {
                self.say_something();
            }
        }
        Ok(())
    }
}
