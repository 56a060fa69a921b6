//! Players who do nothing but stay: what a session costs a proxy in memory, and in CPU time for the keep-alives between.
//!
//! A process that has once had memory does not give it back, so each figure is of a process of its own. What comes and goes with the
//! first players is not a session's: some have come and gone before it is looked at.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use moonbridge_protocol::play;
use moonbridge_protocol::version::Version;
use moonbridge_protocol::wire::Reader;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::frames::{self, Frames};
use super::load::Load;
use super::login::Playing;
use super::measure::Gauges;
use super::measure::tree::Tree;
use super::path::Path;
use super::report::{row, spread, told};
use super::target::Target;

/// Players that come and go first.
const WARM: usize = 64;

/// An echo that has not come by then never will.
const PATIENCE: Duration = Duration::from_secs(20);

/// What idle players cost, as `--json` gives it.
#[derive(Debug, Clone, Serialize)]
pub struct Idle {
    /// Which repeat, from 1.
    pub repeat: usize,
    /// Which way they came.
    pub path: Path,
    /// How many they are.
    pub connections: usize,
    /// How long they did nothing.
    pub seconds: f64,
    /// Resident memory of the proxy before they came, in KiB.
    pub resident_before_kib: u64,
    /// The same at the end.
    pub resident_kib: u64,
    /// What it has grown by, a session.
    pub resident_kib_per_session: f64,
    /// CPU time of the proxy, a session and second, in microseconds.
    pub cpu_us_per_session_second: f64,
}

impl Idle {
    /// Measures the proxy at `target`: players come, have one frame echoed each, and stay.
    ///
    /// # Errors
    /// If one does not get in, has no echo, or loses its session; if there is no proxy to measure.
    pub async fn measure(repeat: usize, path: &Path, target: &Target<'_>, load: &Load, gauges: &Gauges<'_>) -> anyhow::Result<Self> {
        let proxy = gauges.proxy.with_context(|| format!("{path}: there is no proxy that idle players could cost anything"))?;
        drop(come(target, "warm", load, WARM).await?);
        let before = Tree::read(proxy)?;
        let mut staying = JoinSet::new();
        for player in come(target, "idle", load, load.connections).await? {
            staying.spawn_local(stay(player));
        }
        sleep(load.warmup).await;
        let start = Tree::read(proxy)?;
        tokio::select! {
            () = sleep(load.duration) => {}
            Some(left) = staying.join_next() => return left?,
        }
        let spent = Tree::read(proxy)?.since(&start);
        let (seconds, sessions) = (load.duration.as_secs_f64(), load.connections as f64);
        let resident_before_kib = before.resident();
        Ok(Idle {
            repeat,
            path: path.clone(),
            connections: load.connections,
            seconds,
            resident_before_kib,
            resident_kib: spent.resident,
            resident_kib_per_session: (spent.resident as f64 - resident_before_kib as f64) / sessions,
            cpu_us_per_session_second: spent.cpu.as_secs_f64() * 1e6 / sessions / seconds,
        })
    }

    /// It in a line, under [`HEADER`].
    pub fn line(&self) -> String {
        format!(
            "{:>6}  {:<8} {:>8} {:>13.1} {:>13.1} {:>13.2} {:>24.2}",
            self.repeat,
            self.path,
            self.connections,
            self.resident_before_kib as f64 / 1024.0,
            self.resident_kib as f64 / 1024.0,
            self.resident_kib_per_session,
            self.cpu_us_per_session_second,
        )
    }
}

/// The heads of [`Idle::line`]'s columns.
pub const HEADER: &str = "repeat  path     sessions   RSS before MiB        MiB   KiB/session   CPU µs/session/second";

/// One figure of it.
type Figure = fn(&Idle) -> f64;

/// Medians over the repeats, with the least and the most.
pub fn summary(all: &[Idle], paths: &[Path]) -> String {
    let figures: [(&str, Figure); 2] =
        [("KiB/session", |idle| idle.resident_kib_per_session), ("CPU µs/session/s", |idle| idle.cpu_us_per_session_second)];
    let mut out = row("median [min–max]", paths.iter().map(ToString::to_string));
    for (name, figure) in figures {
        let of = |path: &Path| told(spread(all.iter().filter(|idle| idle.path == *path).map(figure).collect()), 2);
        let _ = write!(out, "{}", row(name, paths.iter().map(of)));
    }
    out.trim_end().to_owned()
}

/// So many players come, and each has a frame echoed.
async fn come(target: &Target<'_>, prefix: &str, load: &Load, players: usize) -> anyhow::Result<Vec<Playing>> {
    let mut players = target.players(prefix, players).await?;
    for (index, player) in players.iter_mut().enumerate() {
        let frames = Frames::new(load.payload, index)?;
        let echoed = timeout(PATIENCE, echo(player, &frames)).await;
        echoed.context("its echo does not come").flatten().with_context(|| format!("player {index}"))?;
    }
    Ok(players)
}

async fn echo(player: &mut Playing, frames: &Frames) -> anyhow::Result<()> {
    let mut out = Vec::new();
    frames.put(&mut out, 0, 0);
    player.send(&mut out.clone()).await?;
    loop {
        let (id, payload) = player.receive().await?;
        if id == i32::from(frames::ID) {
            ensure!(out.ends_with(&payload), "another echo than was sent");
            return Ok(());
        }
        answer(player, id, &payload).await?;
    }
}

/// Answers what it is asked until its connection ends, which is an error.
async fn stay<T>(mut player: Playing) -> anyhow::Result<T> {
    loop {
        let (id, payload) = player.receive().await?;
        answer(&mut player, id, &payload).await?;
    }
}

/// Answers a keep-alive; other frames are of no interest.
async fn answer(player: &mut Playing, id: i32, payload: &[u8]) -> anyhow::Result<()> {
    match id {
        0x00 => {
            let asked = i32::from_be_bytes(*payload.first_chunk().context("a keep-alive has 4 bytes")?);
            let mut out = Vec::new();
            play::put_keep_alive_serverbound(&mut out, Version::newest(), asked.into());
            player.send(&mut out).await
        }
        0x40 => bail!("disconnected: {}", Reader::new(payload).string(32_767)?),
        _ => Ok(()),
    }
}
