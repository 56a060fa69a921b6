//! A run on its stage: the processes of every path are started once, then their phases alternate.

use std::net::SocketAddr;
use std::path::Path as File;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::cipher;
use super::idle::{self, Idle};
use super::load::{self, Load, Pace};
use super::measure::{Gauges, machine};
use super::memory;
use super::options::{Mode, Options, Setting, Workload};
use super::path::{Path, order};
use super::peers::{self, Route};
use super::probe::Probe;
use super::probe::allocations::{Allocations, Library};
use super::probe::perf::Perf;
use super::processes::{self, Network, Online, Place, Process, Setup};
use super::report::{self, Phase};
use super::target::Target;
use crate::collector::Collector;
use crate::session_server::SessionServer;

/// Phases of each path that are disturbed for one thing, at most: a share needs no more.
const PROBES: usize = 3;

/// Runs all that is asked for, and prints it.
///
/// # Errors
/// If a path's processes do not start, or a frame comes that is not what was sent.
pub async fn run(options: &Options) -> anyhow::Result<()> {
    let (load, paths) = (options.load()?, options.paths()?);
    let most = memory::most_sessions()?;
    ensure!(load.connections <= most, "the limit of open files (ulimit -Hn) allows {most} players: make --connections smaller");
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: what it prints says nothing (run it with --release).");
    }
    let machine = machine();
    if let Some(cpu) = options.layout.others() {
        pin_this_process(cpu)?;
    }
    let dir = tempfile::tempdir()?;
    let told = load.to_string();
    let mut stage = Stage::new(options, load, dir.path()).await?;
    let print = |text: &str| if options.json { eprintln!("{text}") } else { println!("{text}") };
    let Options { mode, layout, .. } = options;
    print(&format!("{machine}\n{told}, mode {mode:?}, layout {layout:?}, workers {}\n", options.workers()));
    if options.workload == Workload::Idle {
        return stage.idle(&paths, print).await;
    }
    for path in &paths {
        stage.open(path, None).await?;
    }
    let probes = stage.probes(&paths).await?;

    print(&format!("{}{}", report::HEADER, if *mode == Mode::Online { report::ENCRYPTION } else { "" }));
    let mut phases = Vec::new();
    let mut one = async |repeat: usize, path: &Path, probe: Option<Probe>| {
        let phase = stage.phase(repeat, path, probe).await.with_context(|| format!("repeat {repeat}, {path}"))?;
        print(&phase.line());
        if options.json {
            print_json(options, &phase)?;
        }
        phases.push(phase);
        anyhow::Ok(())
    };
    for repeat in 1..=options.repeats {
        for path in order(&paths, repeat - 1) {
            one(repeat, path, None).await?;
        }
    }
    for probe in probes {
        for repeat in 1..=options.repeats.min(PROBES) {
            for path in order(&paths, repeat - 1) {
                if *path != Path::Direct {
                    one(repeat, path, Some(probe)).await?;
                }
            }
        }
    }
    print(&format!("\n{}", report::summary(&phases)));
    Ok(())
}

/// The processes of a run, ended when this is dropped.
struct Stage<'a> {
    options: &'a Options,
    load: Load,
    dir: &'a File,
    backend: (Process, SocketAddr),
    session_server: Option<SessionServer>,
    ways: Vec<Way>,
    opened: usize,
    perf: Option<Perf>,
}

/// One way of the frames.
struct Way {
    path: Path,
    address: SocketAddr,
    proxy: Option<u32>,
    /// Set where the node is in online mode.
    collector: Option<Collector>,
    /// Set where players are moved to another backend.
    transfers: Option<SocketAddr>,
    /// Set where the proxy's allocations are counted.
    allocations: Option<Allocations>,
    _network: Option<Network>,
    _processes: Vec<Process>,
}

impl Way {
    fn to(path: Path, address: SocketAddr) -> Way {
        Way { path, address, proxy: None, collector: None, transfers: None, allocations: None, _network: None, _processes: Vec::new() }
    }
}

impl<'a> Stage<'a> {
    async fn new(options: &'a Options, load: Load, dir: &'a File) -> anyhow::Result<Self> {
        let place = Place { cpu: options.layout.others(), dir, preload: None };
        let backend = match &load.pace {
            _ if options.workload == Workload::Idle => processes::role("quiet-backend", &[], place)?,
            Pace::Window(_) => processes::role("echo-backend", &[], place)?,
            Pace::Ticks(a_second) => {
                let arguments = [load.payload.to_string(), load.burst.to_string(), a_second.to_string()];
                processes::role("tick-backend", &arguments, place)?
            }
            Pace::Trace(_) => {
                let file = options.trace.as_ref().context("a trace without a file")?;
                processes::role("trace-backend", &[file.display().to_string()], place)?
            }
        };
        let session_server = match options.mode {
            Mode::Initial | Mode::PostTransfer => None,
            Mode::Online => Some(SessionServer::start().await),
        };
        Ok(Stage { options, load, dir, backend, session_server, ways: Vec::new(), opened: 0, perf: None })
    }

    /// Makes ready for the probes that are asked for; one that cannot be had here is said, and left out.
    async fn probes(&mut self, paths: &[Path]) -> anyhow::Result<Vec<Probe>> {
        let mut probes = Vec::new();
        let left_out = |probe: Probe, error: anyhow::Error| eprintln!("Without the {}: {error:#}", probe.name());
        if self.options.user_part {
            match Perf::new(self.dir, self.options.layout.proxy()).await {
                Ok(perf) => {
                    self.perf = Some(perf);
                    probes.push(Probe::UserPart);
                }
                Err(error) => left_out(Probe::UserPart, error),
            }
        }
        if self.options.allocations {
            match Library::build(self.dir) {
                Ok(library) => {
                    for path in paths.iter().filter(|&path| *path != Path::Direct) {
                        self.open(path, Some(&library)).await?;
                    }
                    probes.push(Probe::Allocations);
                }
                Err(error) => left_out(Probe::Allocations, error),
            }
        }
        Ok(probes)
    }

    /// Starts what the frames of this path go through, so that its allocations are counted if there is a library for it.
    async fn open(&mut self, path: &Path, library: Option<&Library>) -> anyhow::Result<()> {
        self.opened += 1;
        let dir = self.dir.join(self.opened.to_string());
        std::fs::create_dir(&dir)?;
        let allocations = library.map(|library| library.count(&dir)).transpose()?;
        let place = Place { cpu: self.options.layout.proxy(), dir: &dir, preload: allocations.as_ref().map(|count| &count.preload) };
        let direct = self.backend.1;
        let mut way = Way::to(path.clone(), direct);
        match path {
            Path::Direct => {}
            Path::Raw | Path::Framed | Path::Bridged => {
                let (relay, address) = processes::role("relay", &[path.to_string(), direct.to_string()], place)?;
                (way.address, way.proxy, way._processes) = (address, Some(relay.id()), vec![relay]);
            }
            Path::Nginx | Path::Haproxy | Path::Peer(_) => {
                let command = self.options.peer(path.name());
                let route = Route { backend: direct, connections: self.load.connections, command: command.as_deref() };
                let (peer, address) = peers::start(path, &route, place).await?;
                (way.address, way.proxy, way._processes) = (address, Some(peer.id()), vec![peer]);
            }
            Path::Proxied | Path::Unbatched | Path::Alone => {
                let binary = self.options.moonbridge.clone().map_or_else(processes::moonbridge, Ok)?;
                let collector = Collector::start().await;
                let online = self.session_server.as_ref().map(|session_server| Online {
                    session_server,
                    collector: &collector,
                    together: *path != Path::Alone,
                });
                let in_batches = *path != Path::Unbatched;
                let setup = Setup { binary: &binary, backend: direct, workers: self.options.workers(), in_batches, place, online };
                let network = Network::start(setup).await?;
                way.collector = online.is_some().then_some(collector);
                way.transfers = (self.options.mode == Mode::PostTransfer).then_some(network.control);
                (way.address, way.proxy, way._network) = (network.address, Some(network.node.id()), Some(network));
            }
        }
        if let Some(rtt) = self.options.rtt {
            let arguments = [way.address.to_string(), (rtt / 2).as_micros().to_string()];
            let (delay, address) =
                processes::role("delay-relay", &arguments, Place { cpu: self.options.layout.others(), dir: &dir, preload: None })?;
            way.address = address;
            way._processes.push(delay);
        }
        way.allocations = allocations;
        self.ways.push(way);
        Ok(())
    }

    /// Measures players who only stay, each time in processes of their own.
    async fn idle(&mut self, paths: &[Path], print: impl Fn(&str)) -> anyhow::Result<()> {
        print(idle::HEADER);
        let mut all = Vec::new();
        for repeat in 1..=self.options.repeats {
            for path in order(paths, repeat - 1) {
                self.open(path, None).await?;
                let way = self.ways.pop().context("a path that was just opened")?;
                let gauges = Gauges { proxy: way.proxy, ..Gauges::default() };
                let target = self.target(&way);
                let idle = Idle::measure(repeat, path, &target, &self.load, &gauges);
                let idle = idle.await.with_context(|| format!("repeat {repeat}, {path}"))?;
                print(&idle.line());
                if self.options.json {
                    print_json(self.options, &idle)?;
                }
                all.push(idle);
            }
        }
        print(&format!("\n{}", idle::summary(&all, paths)));
        Ok(())
    }

    fn target(&self, way: &Way) -> Target<'_> {
        let session_server = self.session_server.as_ref().filter(|_| way.collector.is_some());
        Target { address: way.address, session_server, transfers: way.transfers }
    }

    /// One phase on this path, which is open.
    async fn phase(&self, repeat: usize, path: &Path, probe: Option<Probe>) -> anyhow::Result<Phase> {
        let counted = probe == Some(Probe::Allocations);
        let mut ways = self.ways.iter().enumerate();
        let (index, way) =
            ways.find(|(_, way)| way.path == *path && way.allocations.is_some() == counted).context("a path that is not open")?;
        let gauges = Gauges {
            proxy: way.proxy,
            backend: Some(self.backend.0.id()),
            metrics: way.collector.as_ref(),
            perf: self.perf.as_ref().filter(|_| probe == Some(Probe::UserPart)),
            allocations: way.allocations.as_ref(),
        };
        let load = &self.load;
        let kernel = cipher::alone(load.burst * load.payload.max(1));
        let measured = load::run(&self.target(way), &format!("b{repeat}w{index}"), load, &gauges).await?;
        Ok(Phase::new(repeat, path.clone(), probe, load, &measured, kernel))
    }
}

/// A line of JSON: what was measured, and in which run.
fn print_json(options: &Options, measured: &impl Serialize) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Line<'a, M> {
        #[serde(flatten)]
        setting: Setting<'a>,
        #[serde(flatten)]
        measured: &'a M,
    }
    println!("{}", serde_json::to_string(&Line { setting: options.setting(), measured })?);
    Ok(())
}

fn pin_this_process(cpu: usize) -> anyhow::Result<()> {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", &cpu.to_string(), &std::process::id().to_string()])
        .stdout(Stdio::null())
        .status()
        .context("starting taskset (package util-linux)")?;
    ensure!(status.success(), "there is no CPU {cpu} for this layout");
    Ok(())
}
