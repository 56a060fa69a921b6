//! The processes around the load: backends and relays (this binary again), a control plane and a node.
//!
//! Each is ended by its own id when its handle is dropped. Ports are free ones, found just before.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use moonbridge_proto::v1;
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{sleep, timeout};

use super::login;
use crate::collector::Collector;
use crate::session_server::SessionServer;

/// How long a process may take until it serves.
pub(super) const START: Duration = Duration::from_secs(20);

/// How long a proxy that is not ours may take to end when it is asked to.
const END: Duration = Duration::from_secs(5);

/// How often the metrics of a node in online mode are read.
pub const METRICS: Duration = Duration::from_millis(500);

/// A process of ours; dropping it ends it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
    /// Whether it may have processes of its own, in a group that they are ended by.
    group: bool,
}

/// Where a process runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its CPU, if it is to have one.
    pub cpu: Option<usize>,
    /// The folder of its files.
    pub dir: &'a Path,
    /// A library that it is to load first.
    pub preload: Option<&'a Preload>,
}

/// A library that a process loads first, and what it is told.
#[derive(Debug)]
pub struct Preload {
    /// The library.
    pub library: PathBuf,
    /// Variables of its environment.
    pub environment: Vec<(&'static str, PathBuf)>,
}

impl<'a> Place<'a> {
    /// On any CPU, with its files in `dir`.
    pub fn anywhere(dir: &'a Path) -> Self {
        Place { cpu: None, dir, preload: None }
    }
}

impl Process {
    /// Starts `command`, on one CPU if its place says so (by `taskset`, which replaces itself); what it says goes to a file.
    pub(super) fn start(name: &str, command: &Command, place: Place<'_>) -> anyhow::Result<Self> {
        Process::spawn(name, command, place, false, None)
    }

    /// The same for a proxy that is not ours, and may start processes of its own.
    pub(super) fn start_group(name: &str, command: &Command, place: Place<'_>) -> anyhow::Result<Self> {
        Process::spawn(name, command, place, true, None)
    }

    fn spawn(name: &str, command: &Command, place: Place<'_>, group: bool, stdout: Option<Stdio>) -> anyhow::Result<Self> {
        let log = place.dir.join(format!("{name}.log"));
        let file = File::create(&log)?;
        let mut pinned;
        match place.cpu {
            Some(cpu) => {
                pinned = Command::new("taskset");
                pinned.arg("-c").arg(cpu.to_string()).arg(command.get_program());
            }
            None => pinned = Command::new(command.get_program()),
        }
        pinned.args(command.get_args()).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(Preload { library, environment }) = place.preload {
            pinned.env("LD_PRELOAD", library).envs(environment.iter().map(|(name, value)| (name, value)));
        }
        pinned.stdin(Stdio::piped()).stdout(stdout.map_or_else(|| file.try_clone().map(Stdio::from), Ok)?).stderr(file);
        if group {
            pinned.process_group(0);
        }
        let child = pinned.spawn().with_context(|| format!("starting {:?}", pinned.get_program()))?;
        Ok(Process { child, name: name.to_owned(), log, group })
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails, with the end of its log, if it has ended.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the {} ended ({status}):\n{}", self.name, self.log_end()),
        }
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id().cast_signed()).filter(|_| self.group);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::TERM);
            let asked = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < END {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This binary again, in one of its hidden roles; it prints the address it serves.
pub fn role(role: &str, args: &[String], place: Place<'_>) -> anyhow::Result<(Process, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).args(args);
    let mut process = Process::spawn(role, &command, place, false, Some(Stdio::piped()))?;
    let stdout = process.child.stdout.take().context("no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim().parse().with_context(|| format!("the {role} did not say its address: {}", process.log_end()))?;
    Ok((process, address))
}

/// The names that the one backend has at a node: where players come to, and where they can be moved to.
pub const BACKENDS: [&str; 2] = ["echo", "other"];

/// A node and its control plane, each a process of the `moonbridge` binary, whose one route leads to one backend.
#[derive(Debug)]
pub struct Network {
    /// The node.
    pub node: Process,
    /// Where players connect.
    pub address: SocketAddr,
    /// Where admins do.
    pub control: SocketAddr,
    _control: Process,
}

/// How a [`Network`] is set up.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The `moonbridge` binary.
    pub binary: &'a Path,
    /// Where the one route leads.
    pub backend: SocketAddr,
    /// Worker threads of the node; 0 leaves it to the node.
    pub workers: usize,
    /// Whether they are scheduled in batches.
    pub in_batches: bool,
    /// Where the node runs, and both have their files.
    pub place: Place<'a>,
    /// Set for a node that asks its players who they are, and encrypts.
    pub online: Option<Online<'a>>,
}

/// How a node of online mode is set up.
#[derive(Clone, Copy)]
pub struct Online<'a> {
    /// Whom it asks.
    pub session_server: &'a SessionServer,
    /// Who gets its metrics, every [`METRICS`].
    pub collector: &'a Collector,
    /// Whether it encrypts many sessions together, or each alone.
    pub together: bool,
}

impl Network {
    /// Starts both and waits until a player can log in.
    pub async fn start(setup: Setup<'_>) -> anyhow::Result<Self> {
        let dir = setup.place.dir;
        let (control_address, address) = (free_port()?, free_port()?);
        let data = dir.join("store");
        fs::create_dir_all(&data)?;
        let control_file = dir.join("controlplane.toml");
        fs::write(&control_file, format!("listen = \"{control_address}\"\n[store]\nembedded = {{ data_dir = {data:?} }}\n"))?;
        let mut command = Command::new(setup.binary);
        command.arg("controlplane").arg("--config").arg(&control_file);
        let mut control = Process::start("controlplane", &command, Place::anywhere(dir))?;
        within(START, "set up the route", &mut control, || configure(control_address, setup.backend)).await?;

        let node_file = dir.join("dataplane.toml");
        let mut config = format!(
            "name = \"bench\"\nlisten = \"{address}\"\ncontrol = [\"http://{control_address}\"]\nworkers = {}\nbatch_scheduling = {}\n",
            setup.workers, setup.in_batches
        );
        if let Some(Online { session_server, collector, together }) = setup.online {
            config.push_str(&format!(
                "authentication = \"online\"\nencrypt_together = {together}\nsession_server = {{ url = {:?} }}\n\
                 telemetry = {{ otlp_endpoint = {:?} }}\n",
                session_server.url(),
                collector.endpoint(),
            ));
        }
        fs::write(&node_file, config)?;
        let mut command = Command::new(setup.binary);
        command.arg("dataplane").arg("--config").arg(&node_file);
        command.env("OTEL_METRIC_EXPORT_INTERVAL", METRICS.as_millis().to_string());
        let mut node = Process::start("dataplane", &command, setup.place)?;
        let session_server = setup.online.map(|online| online.session_server);
        within(START, "log in through the node", &mut node, || async move {
            login::player(address, "bench_start", session_server).await.map(drop)
        })
        .await?;
        Ok(Network { node, address, control: control_address, _control: control })
    }
}

/// Tries again until it works, the process ends, or the time is up.
pub(super) async fn within<F: Future<Output = anyhow::Result<()>>>(
    limit: Duration,
    what: &str,
    process: &mut Process,
    attempt: impl Fn() -> F,
) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        process.check()?;
        let error = match timeout(Duration::from_secs(5), attempt()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "no answer within 5 s".to_owned(),
        };
        ensure!(start.elapsed() < limit, "could not {what} within {limit:?}: {error}\n{}", process.log_end());
        sleep(Duration::from_millis(50)).await;
    }
}

async fn configure(control: SocketAddr, backend: SocketAddr) -> anyhow::Result<()> {
    let mut admin = AdminServiceClient::connect(format!("http://{control}")).await?;
    for name in BACKENDS {
        let backend = v1::Backend {
            name: name.to_owned(),
            address: backend.to_string(),
            forwarding: v1::Forwarding::None.into(),
            drained: false,
            ..Default::default()
        };
        admin.set_backend(v1::SetBackendRequest { backend: Some(backend), keep_drained: false }).await?;
    }
    let route = v1::Route { host: "*".to_owned(), backends: vec![BACKENDS[0].to_owned()], on_kick: v1::OnKick::Disconnect.into() };
    admin.set_route(v1::SetRouteRequest { route: Some(route) }).await?;
    Ok(())
}

pub(super) fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The `moonbridge` binary beside this one, built anew if cargo finds it missing or older than its sources.
pub fn moonbridge() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folder = here.parent().context("this binary is in no folder")?;
    let binary = folder.join("moonbridge");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "-p", "moonbridge-cli", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    eprintln!("Making sure that {} is built from the sources as they are …", binary.display());
    let status = build.status().context("starting cargo (or name a binary with --moonbridge)")?;
    ensure!(status.success(), "the moonbridge binary could not be built");
    ensure!(binary.is_file(), "cargo put the moonbridge binary elsewhere than {}: name it with --moonbridge", binary.display());
    Ok(binary)
}
