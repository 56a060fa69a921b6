//! How many players a second a node logs in: so many of them at a time, each from its connect up to Join Game, whereupon it leaves and
//! the next one comes.

mod paper_replica;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use moonbridge_protocol::frame;
use moonbridge_protocol::wire::Reader;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

pub use self::paper_replica::PaperReplica;
use super::login;
use super::measure::Gauges;
use super::solo::Solo;
use crate::network::Plane;
use crate::wire;

/// A login that is not over by then never will be.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who lets the players in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Replica {
    /// One on paper ([`PaperReplica`]), which answers every claim at once: so it is the node alone that is measured.
    Paper,
    /// A real one, with an embedded store on this machine's disk.
    Real,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Who lets the players in.
    pub replica: Replica,
    /// Players that log in at a time.
    pub at_once: usize,
    /// Worker threads of the node.
    pub workers: usize,
    /// The node's CPU, if it is to have one for itself.
    pub node_cpu: Option<usize>,
    /// Before anything counts.
    pub warmup: Duration,
    /// While it counts.
    pub duration: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Who let the players in.
    pub replica: Replica,
    /// Players that logged in at a time.
    pub at_once: usize,
    /// Worker threads of the node.
    pub workers: usize,
    /// Logins that were counted.
    pub logins: u64,
    /// Of them in a second.
    pub per_second: f64,
    /// Milliseconds from a player's connect to its Join Game.
    pub p50_ms: f64,
    /// As `p50_ms`.
    pub p99_ms: f64,
    /// CPU time of the node's process a login, its end included, in microseconds.
    pub node_cpu_us: f64,
    /// CPUs that the node kept busy.
    pub node_cpus: f64,
}

/// Measures it, on a network of its own with this backend.
///
/// # Errors
/// If a player does not get in.
pub async fn measure(load: Load, backend: SocketAddr) -> anyhow::Result<Row> {
    let config = format!("workers = {}\n", load.workers);
    let (node, _keep) = match load.replica {
        Replica::Real => {
            let solo = Solo::start(backend, &config).await;
            (solo.node.listen, (Some(solo), None))
        }
        Replica::Paper => {
            let replica = PaperReplica::start(backend).await?;
            let node = Plane::node("bench", &format!("control = [\"{}\"]\n{config}", replica.url())).await;
            replica.attached().await?;
            (node.listen, (None, Some((node, replica))))
        }
    };
    let pid = match &_keep {
        (Some(solo), _) => solo.node.process.pid(),
        (_, Some((node, _))) => node.process.pid(),
        (None, None) => bail!("no node"),
    };
    if let Some(cpu) = load.node_cpu {
        pin(pid, cpu)?;
    }
    let crowd = Crowd {
        node,
        next: Cell::new(0),
        counts_from: Instant::now() + load.warmup,
        ends: Instant::now() + load.warmup + load.duration,
        took: RefCell::new(Histogram::new(3)?),
    };
    let gauges = Gauges { proxy: Some(pid), ..Gauges::default() };
    let counted = async {
        tokio::time::sleep_until(crowd.counts_from.into()).await;
        let before = gauges.read()?;
        tokio::time::sleep_until(crowd.ends.into()).await;
        anyhow::Ok(gauges.read()?.since(&before))
    };
    let (used, _) = tokio::try_join!(counted, try_join_all((0..load.at_once).map(|_| crowd.come_and_go())))?;
    let took = crowd.took.into_inner();
    let (logins, seconds) = (took.len(), load.duration.as_secs_f64());
    ensure!(logins > 0, "nobody has logged in");
    let cpu = used.proxy.unwrap_or_default().cpu.as_secs_f64();
    let millis = |quantile| took.value_at_quantile(quantile) as f64 / 1000.0;
    Ok(Row {
        replica: load.replica,
        at_once: load.at_once,
        workers: load.workers,
        logins,
        per_second: logins as f64 / seconds,
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        node_cpu_us: cpu * 1e6 / logins as f64,
        node_cpus: cpu / seconds,
    })
}

/// The players.
struct Crowd {
    node: SocketAddr,
    /// No name comes twice: none waits for the end of another's session.
    next: Cell<u32>,
    counts_from: Instant,
    ends: Instant,
    /// Microseconds.
    took: RefCell<Histogram<u64>>,
}

impl Crowd {
    /// One after the other, until the time is up.
    async fn come_and_go(&self) -> anyhow::Result<()> {
        while Instant::now() < self.ends {
            let number = self.next.replace(self.next.get() + 1);
            let began = Instant::now();
            timeout(PATIENCE, log_in(self.node, &format!("player_{number}"))).await.context("no end of a login")??;
            let ended = Instant::now();
            if (self.counts_from..self.ends).contains(&ended) {
                let took = u64::try_from((ended - began).as_micros())?;
                self.took.borrow_mut().record(took)?;
            }
        }
        Ok(())
    }
}

/// Up to Join Game; then the player is gone.
async fn log_in(node: SocketAddr, name: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    let mut out = Vec::new();
    frame::put(&mut out, 0, |out| out.extend_from_slice(&wire::handshake(5, "localhost", node.port(), 2)));
    frame::put(&mut out, 0, |out| out.extend_from_slice(&wire::string(name)));
    stream.write_all(&out).await?;
    let mut came = Vec::with_capacity(256);
    let mut success = false;
    loop {
        while let Some(frame) = frame::first(&came, frame::MAX_FRAME)? {
            let whole = frame.whole.len();
            match (frame.id, success) {
                (0x02, false) => success = true,
                (0x01, true) => return Ok(()),
                (0x00 | 0x40, _) => bail!("{name} is told: {}", Reader::new(frame.payload).string(32_767)?),
                (id, _) => bail!("{name} is sent packet {id:#04x}"),
            }
            came.drain(..whole);
        }
        ensure!(stream.read_buf(&mut came).await? > 0, "{name}'s connection was closed");
    }
}

/// The backend: logs everybody in and waits until they leave (within a `LocalSet`).
///
/// # Errors
/// If nothing can be accepted any more.
pub async fn backend(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            stream.set_nodelay(true)?;
            login::backend(&mut stream).await?;
            let mut rest = [0; 64];
            while stream.read(&mut rest).await? > 0 {}
            anyhow::Ok(())
        });
    }
}

/// Leaves all threads of a process this CPU alone.
fn pin(pid: u32, cpu: usize) -> anyhow::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.file_name().to_string_lossy().parse()?;
        sched_setaffinity(Pid::from_raw(thread), &cpus).with_context(|| format!("pinning to CPU {cpu}"))?;
    }
    Ok(())
}
