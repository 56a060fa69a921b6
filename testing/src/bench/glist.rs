//! How long the whole network's answer to a player's command takes: two replicas on an etcd, a node on each, and a crowd that
//! exists in the presence only, on nodes of its own at the replica that the player's node is not on.
//!
//! A time is from the write of the chat line to the read that brought the last line of its answer.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use moonbridge_protocol::version::Version;
use moonbridge_protocol::{frame, play};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::login::{self, Playing};
use super::permissions::{Row, crowd};
use crate::network::{Net, Nodes};
use crate::paper_node;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Players in the presence.
    pub players: usize,
    /// Backends that they are spread over, at most 100.
    pub backends: usize,
    /// How often each command is typed.
    pub times: usize,
}

/// Times before any is counted.
const WARM: usize = 20;
/// An answer that has not come by then never will.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// Measures `/glist`, `/glist all` and `/find`, in turn.
///
/// # Errors
/// If any of it fails, or an answer is wrong.
pub async fn measure(load: Load) -> anyhow::Result<Vec<Row>> {
    let (_backend, address) = crowd::backend().await?;
    let names: Vec<_> = (0..load.backends.clamp(1, 100)).map(|number| format!("backend-{number}")).collect();
    let backends: Vec<_> = names.iter().map(|name| (name.as_str(), address)).collect();
    let config = "[commands]\nrate = 1000\nburst = 1000\n";
    let net = Net::start_with(&backends, Nodes { config, ..Nodes::default() }).await;
    net.b.cli().ok(&["permission", "group", "set", "default", "moonbridge.command.*"]).await;
    net.in_force().await;
    let player = |number: usize| (format!("Paper_{number:05}"), names[number % names.len()].as_str());
    let players: Vec<_> = (0..load.players).map(player).collect();
    let _crowd = paper_node::crowd(&net.b.url(), &players).await?;
    net.known(&[&format!("Paper_{:05}", load.players.saturating_sub(1))]).await;

    let mut asker = Asker(login::player(net.first.listen, "bench_1", None).await?);
    let total = format!("Players online: {}", load.players + 1);
    asker.until_known(&total).await?;
    let last = load.players.saturating_sub(1);
    let found = format!("Paper_{last:05} is on {}.", names[last % names.len()]);
    let mut rows = ["/glist", "/glist all", "/find"].map(|what| Row { what, micros: Vec::new() });
    for time in 0..WARM + load.times {
        for row in &mut rows {
            let line = if row.what == "/find" { format!("/find Paper_{last:05}") } else { row.what.to_owned() };
            let answer = if row.what == "/find" { &found } else { &total };
            let took = asker.ask(&line, answer).await.with_context(|| line.clone())?;
            if time >= WARM {
                row.micros.push(u64::try_from(took.as_micros())?);
            }
        }
    }
    Ok(rows.into())
}

/// The player who types.
struct Asker(Playing);

impl Asker {
    /// Waits until the network counts this player too.
    async fn until_known(&mut self, total: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            self.say("/glist").await?;
            let last = self.hear_until(|line| line.starts_with("Players online: ")).await?;
            if last == total {
                return Ok(());
            }
            ensure!(began.elapsed() < GIVEN_UP, "the player is not in the presence: {last}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Types a line and waits for this answer; how long it took.
    async fn ask(&mut self, line: &str, answer: &str) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.say(line).await?;
        self.hear_until(|line| line == answer).await?;
        Ok(began.elapsed())
    }

    async fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let mut out = Vec::new();
        play::put_chat_serverbound(&mut out, Version::newest(), line);
        Ok(self.0.stream.write_all(&out).await?)
    }

    /// The first line that is wanted; keep-alives are answered meanwhile.
    async fn hear_until(&mut self, wanted: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        timeout(GIVEN_UP, async {
            loop {
                while let Some(frame) = frame::first(&self.0.came, frame::MAX_FRAME)? {
                    let (id, payload, whole) = (frame.id, frame.payload.to_vec(), frame.whole.len());
                    self.0.came.drain(..whole);
                    match id {
                        0x00 => {
                            let mut out = Vec::new();
                            frame::put(&mut out, 0x00, |out| out.extend_from_slice(&payload));
                            self.0.stream.write_all(&out).await?;
                        }
                        0x02 => {
                            let line = play::read_chat(&payload)?.plain();
                            if wanted(&line) {
                                return Ok(line);
                            }
                        }
                        _ => {}
                    }
                }
                ensure!(self.0.stream.read_buf(&mut self.0.came).await? > 0, "the connection was closed");
            }
        })
        .await
        .context("no answer came")?
    }
}
