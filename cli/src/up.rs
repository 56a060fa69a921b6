//! `moonbridge up`: a control plane and one node in one process, which speak real gRPC over loopback.

mod network;
mod words;

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use moonbridge_controlplane::config::{SettingsConfig, StoreConfig};
use moonbridge_dataplane::config;
use moonbridge_proto::snapshot::DuplicateLogin;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::FLUSH;
use crate::admin::backend;
use crate::args::{DuplicateLoginArg, UpArgs};
use crate::control::Control;
use crate::demo::Limbo;
use crate::failure::{Failure, Outcome};
use crate::leftovers::Leftovers;
use crate::plane::{self, Running};
use crate::state::{self, UpFiles};

/// The names of the limbos of `--demo`.
const DEMO: [&str; 2] = ["demo-1", "demo-2"];

/// How long the node may take to end: its own drain has 10 s.
const NODE_END: Duration = Duration::from_secs(20);

/// How long the control plane may take to end.
const CONTROL_END: Duration = Duration::from_secs(5);

/// All prefixes below which etcd keys lie, unless given.
const ETCD_PREFIX: &str = "/moonbridge/";

/// Runs until Ctrl-C, SIGTERM or SIGHUP, then drains.
pub(crate) async fn run(args: UpArgs) -> Outcome {
    let telemetry = plane::start_telemetry("moonbridge", args.log, None);
    plane::raise_file_limit();
    let leftovers = Leftovers::default();
    let stop = plane::stop_on_signal(leftovers.clone())?;
    let result = serve(args, stop, &leftovers).await;
    telemetry.flush(FLUSH).await;
    result
}

/// Where and as whom players come in.
fn listener(args: &UpArgs) -> config::Listener {
    let authentication = if args.online { config::Authentication::Online } else { config::Authentication::Offline };
    config::Listener { listen: args.listen, authentication, allow_offline_public: args.allow_offline_public }
}

async fn serve(args: UpArgs, stop: CancellationToken, leftovers: &Leftovers) -> Outcome {
    listener(&args).check().map_err(|error| {
        Failure::usage(format!("authentication is {error}; give --online, or --allow-offline-public if something else keeps strangers out"))
    })?;
    let state = state::make_directory()?;
    let token = random_token()?;
    let store = Store::choose(&args, &state)?;
    if let Store::Temporary(folder) = &store {
        leftovers.add([folder.path().to_owned()]);
    }

    let limbos = Limbos::start(args.demo).await?;
    let starting = start(&args, &store, &token, &limbos);
    let (mut control, mut node, network) = tokio::select! {
        started = starting => started?,
        // It may wait for an etcd that is away. Nobody is served yet: there is nothing to drain.
        () = stop.cancelled() => return Ok(()),
    };
    let files = UpFiles::write(&state, control.url(), &token)
        .map_err(|error| Failure::failed(format!("cannot write to the state directory {}: {error}", state.display())))?;
    leftovers.add(files.paths());
    let others = state::find_ups(&state).into_iter().filter(|found| found.alive && found.up.pid != std::process::id()).count();
    let place = words::Place { listen: node.listen, online: args.online, control: &control.url(), store: &store.to_string(), others };
    words::greet(&place, &network)?;

    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = &mut node.run => Err(early(ended, "the node")),
        ended = &mut control.run => Err(early(ended, "the control plane")),
    };
    // From here on an admin would only get in the way; and the players go before what they are on.
    drop(files);
    let node = node.end().await;
    let control = control.end().await;
    limbos.end().await;
    ended.and(node).and(control)
}

/// The control plane, then what it is to know, then the node.
async fn start(args: &UpArgs, store: &Store, token: &str, limbos: &Limbos) -> Outcome<(ControlPlane, Node, network::Network)> {
    let told = backend::told(&args.forwarding)?;
    // A mistake in what the node is to do is told before anything is written.
    let config = Node::config(args, token)?;
    let control = ControlPlane::start(args, store.config(args), token).await?;
    let entered = async {
        let own = Control::own(control.url(), token)?;
        let network = network::enter(&own, args, &told, &limbos.backends).await?;
        Ok((Node::start(config, args.listen, control.url()).await?, network))
    };
    match entered.await {
        Ok((node, network)) => Ok((control, node, network)),
        Err(failure) => {
            // What went wrong first is what is told.
            let _ = control.end().await;
            Err(failure)
        }
    }
}

fn early(ended: Result<anyhow::Result<()>, tokio::task::JoinError>, what: &str) -> Failure {
    Failure::failed(match ended {
        Ok(Ok(())) => format!("{what} ended by itself"),
        Ok(Err(error)) => format!("{what} failed: {error:#}"),
        Err(error) => format!("{what} failed: {error}"),
    })
}

/// 32 random bytes in hex. It never stands on a command line, where others could read it.
fn random_token() -> Outcome<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Failure::failed(format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where everything is kept.
enum Store {
    Folder(PathBuf),
    Temporary(TempDir),
    Etcd(Vec<String>),
}

impl Store {
    fn choose(args: &UpArgs, state: &Path) -> Outcome<Self> {
        let failed = |path: &Path, error: std::io::Error| {
            Failure::failed(format!("cannot make the store's folder {}: {error}; give another with --data-dir", path.display()))
        };
        if !args.etcd.is_empty() {
            return Ok(Store::Etcd(args.etcd.clone()));
        }
        if args.demo && args.data_dir.is_none() {
            let folder = tempfile::Builder::new().prefix("moonbridge-").tempdir();
            return folder.map(Store::Temporary).map_err(|error| failed(&std::env::temp_dir(), error));
        }
        let folder = args.data_dir.clone().unwrap_or_else(|| state.join("up"));
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| failed(&folder, error))?;
        Ok(Store::Folder(folder))
    }

    fn config(&self, args: &UpArgs) -> StoreConfig {
        match self {
            Store::Folder(folder) => StoreConfig::Embedded { data_dir: folder.clone() },
            Store::Temporary(folder) => StoreConfig::Embedded { data_dir: folder.path().to_owned() },
            Store::Etcd(endpoints) => StoreConfig::Etcd {
                endpoints: endpoints.clone(),
                prefix: args.etcd_prefix.clone().unwrap_or_else(|| ETCD_PREFIX.to_owned()),
            },
        }
    }
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Store::Folder(folder) => write!(f, "{}", folder.display()),
            Store::Temporary(_) => f.write_str("temporary (give --data-dir to keep it)"),
            Store::Etcd(endpoints) => write!(f, "etcd at {}", endpoints.join(", ")),
        }
    }
}

/// The limbos of `--demo`.
struct Limbos {
    backends: Vec<(String, SocketAddr)>,
    running: Vec<tokio::task::JoinHandle<()>>,
    shutdown: CancellationToken,
}

impl Limbos {
    async fn start(demo: bool) -> Outcome<Self> {
        let mut limbos = Limbos { backends: Vec::new(), running: Vec::new(), shutdown: CancellationToken::new() };
        for name in DEMO.iter().filter(|_| demo) {
            let limbo = Limbo::bind(name).await.map_err(|error| Failure::failed(format!("no port for the limbo {name}: {error}")))?;
            limbos.backends.push(((*name).to_owned(), limbo.address()));
            limbos.running.push(tokio::spawn(limbo.run(limbos.shutdown.clone())));
        }
        Ok(limbos)
    }

    async fn end(self) {
        self.shutdown.cancel();
        for running in self.running {
            // It bounds its own end.
            let _ = running.await;
        }
    }
}

/// The control plane of this process.
struct ControlPlane {
    run: Running,
    listen: SocketAddr,
    shutdown: CancellationToken,
}

impl ControlPlane {
    async fn start(args: &UpArgs, store: StoreConfig, token: &str) -> Outcome<Self> {
        let duplicate_login = args.duplicate_login.map(|policy| match policy {
            DuplicateLoginArg::Newest => DuplicateLogin::Newest,
            DuplicateLoginArg::Refuse => DuplicateLogin::Refuse,
        });
        let config = moonbridge_controlplane::config::Config {
            listen: args.control,
            token: Some(token.to_owned()),
            store,
            settings: duplicate_login.map(|policy| SettingsConfig { duplicate_login: Some(policy), ..SettingsConfig::default() }),
            ..Default::default()
        };
        let shutdown = CancellationToken::new();
        let (sender, ready) = oneshot::channel();
        let mut run = tokio::spawn(moonbridge_controlplane::run(config, shutdown.clone(), sender));
        let ready = plane::ready(&mut run, ready, "the control plane", args.control, "--control").await?;
        Ok(ControlPlane { run, listen: ready.listen, shutdown })
    }

    fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    async fn end(self) -> Outcome {
        end(self.run, self.shutdown, CONTROL_END, "the control plane").await
    }
}

/// The node of this process.
struct Node {
    run: Running,
    listen: SocketAddr,
    shutdown: CancellationToken,
}

impl Node {
    fn config(args: &UpArgs, token: &str) -> Outcome<config::Config> {
        let mut config = config::Config {
            listener: listener(args),
            token: Some(token.to_owned()),
            recordings: args.recordings.clone(),
            ..Default::default()
        };
        config.check_files().map_err(|mistakes| Failure::usage(mistakes.to_string()))?;
        if let Some(url) = &args.session_server {
            config.session_server.url = url.clone();
        }
        Ok(config)
    }

    async fn start(config: config::Config, listen: SocketAddr, control: String) -> Outcome<Self> {
        let config = config::Config { control: vec![control], ..config };
        let shutdown = CancellationToken::new();
        let (sender, ready) = oneshot::channel();
        let mut run = tokio::spawn(moonbridge_dataplane::run(config, shutdown.clone(), sender));
        let ready = plane::ready(&mut run, ready, "the node", listen, "--listen").await?;
        Ok(Node { run, listen: ready.listen, shutdown })
    }

    async fn end(self) -> Outcome {
        end(self.run, self.shutdown, NODE_END, "the node").await
    }
}

async fn end(run: Running, shutdown: CancellationToken, limit: Duration, what: &str) -> Outcome {
    shutdown.cancel();
    // A plane that has ended by itself has been reported; a task may not be asked twice.
    if run.is_finished() {
        return Ok(());
    }
    match tokio::time::timeout(limit, run).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(ended) => Err(early(ended, what)),
        Err(_) => Err(Failure::failed(format!("{what} did not end within {} s", limit.as_secs()))),
    }
}
