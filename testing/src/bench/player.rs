//! A player of the closed loop: it keeps `window` bursts of `burst` frames under way, and checks every echo.
//!
//! The echo of a burst's last frame is what sends the next burst, with one write. Latency is that of each frame, from the
//! write of its burst to the read that brought its echo.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use tokio::io::AsyncWrite as _;
use tokio::net::TcpStream;

use super::frames::Frames;
use super::incoming::Incoming;
use super::load::Shared;
use super::login::{Encrypt, Playing};

pub(super) struct Player {
    stream: TcpStream,
    encrypt: Encrypt,
    incoming: Incoming,
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
    shared: Rc<Shared>,
}

impl Player {
    pub(super) fn new(playing: Playing, frames: Frames, window: usize, burst: usize, shared: Rc<Shared>) -> Player {
        Player {
            incoming: Incoming::new(&playing.came, playing.decrypt, frames.whole()),
            stream: playing.stream,
            encrypt: playing.encrypt,
            frames,
            burst: burst as u64,
            due: window,
            sent_at: vec![Instant::now(); window],
            out: Vec::new(),
            written: 0,
            sent: 0,
            echoed: 0,
            shared,
        }
    }

    /// Writes and reads until the phase stops and every echo has come; returns how many came.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<anyhow::Result<u64>> {
        loop {
            if let Poll::Ready(Err(error)) = self.write(cx) {
                return Poll::Ready(Err(error).context("writing"));
            }
            if self.shared.stopping.get() && self.echoed == self.sent {
                return Poll::Ready(Ok(self.echoed));
            }
            ready!(self.incoming.poll_read(cx, &mut self.stream))
                .with_context(|| format!("after {} echoes of {}", self.echoed, self.sent))?;
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
            self.frames.put(&mut self.out, self.sent, 0);
            self.sent += 1;
        }
        self.encrypt.apply(&mut self.out);
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
        let mut of_burst = 0;
        while let Some(whole) = self.incoming.next()? {
            ensure!(self.echoed < self.sent, "an echo of what has not been sent");
            self.frames.check(whole, self.echoed)?;
            self.echoed += 1;
            of_burst += 1;
            if self.echoed.is_multiple_of(self.burst) {
                self.record(now, of_burst);
                of_burst = 0;
                self.due += 1;
            }
        }
        self.record(now, of_burst);
        Ok(())
    }

    /// Counts the last `frames` echoes, all of one burst.
    fn record(&self, now: Instant, frames: u64) {
        if frames > 0 {
            let nanos = now.saturating_duration_since(self.sent_at[self.slot(self.echoed - 1)]).as_nanos();
            self.shared.count(nanos.try_into().unwrap_or(u64::MAX), frames);
        }
    }
}
