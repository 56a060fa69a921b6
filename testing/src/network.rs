//! A MoonBridge network as an operator starts it: `moonbridge up`, or replicas and nodes apart, and the admin verbs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::process::{Process, SOON, moonbridge};

mod net;

pub use net::{Net, Nodes, on_etcd};

/// `moonbridge` with an environment of its own: nothing of this user's is read or written.
pub fn command(state: &Path) -> Command {
    let mut command = Command::new(moonbridge());
    for name in ["MOONBRIDGE_CONTROL", "MOONBRIDGE_TOKEN_FILE", "OTEL_EXPORTER_OTLP_ENDPOINT", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.env("XDG_STATE_HOME", state).env("NO_COLOR", "1");
    command
}

/// A fresh folder, gone when dropped.
pub fn folder() -> TempDir {
    tempfile::Builder::new().prefix("moonbridge-test-").tempdir().expect("a temporary folder")
}

/// A port of loopback that refuses connections for as long as the value lives: bound, not listening.
pub fn dead_port() -> (socket2::Socket, u16) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    let port = socket.local_addr().expect("bound").as_socket_ipv4().expect("IPv4").port();
    (socket, port)
}

/// How an admin verb (or any other short command) ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

impl Ran {
    /// Panics unless it ended with this code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Its output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Everything it said.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs admin verbs.
#[derive(Debug, Clone)]
pub struct Cli {
    state: PathBuf,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
}

impl Cli {
    /// Finds its control plane by itself, beside an `up` with this state folder.
    pub fn beside(state: &Path) -> Cli {
        Cli { state: state.to_owned(), environment: Vec::new(), arguments: Vec::new() }
    }

    /// Talks to this control plane.
    pub fn to(state: &Path, control: &str) -> Cli {
        let environment = vec![("MOONBRIDGE_CONTROL".to_owned(), control.to_owned())];
        Cli { state: state.to_owned(), environment, arguments: Vec::new() }
    }

    /// The same with a variable more.
    pub fn env(mut self, name: &str, value: &str) -> Cli {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with arguments behind those of every call.
    pub fn args(mut self, arguments: &[&str]) -> Cli {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// Runs to the end.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = command(&self.state);
        command
            .args(arguments)
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(2 * SOON, command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("moonbridge {arguments:?} does not end")).expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs to a good end.
    pub async fn ok(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments).await;
        assert_eq!(ran.code, 0, "moonbridge {arguments:?}\nstdout: {}\nstderr: {}", ran.stdout, ran.stderr);
        ran
    }

    /// The rows of a list.
    pub async fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        match self.ok(&[arguments, &["-o", "json"]].concat()).await.json() {
            Value::Array(rows) => rows,
            other => panic!("moonbridge {arguments:?} lists {other}"),
        }
    }

    /// Repeats a list until `wanted` holds for it.
    pub async fn until(&self, arguments: &[&str], wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.repeat(arguments, false, wanted).await
    }

    /// The same where the control plane may be away for a while.
    pub async fn until_answered(&self, arguments: &[&str], wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.repeat(arguments, true, wanted).await
    }

    async fn repeat(&self, arguments: &[&str], patient: bool, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut last = None;
        let waited = tokio::time::timeout(2 * SOON, async {
            loop {
                let ran = self.run(&[arguments, &["-o", "json"]].concat()).await;
                assert!(patient || ran.code == 0, "moonbridge {arguments:?}: {ran:?}");
                if let (0, Value::Array(rows)) = (ran.code, if ran.code == 0 { ran.json() } else { Value::Null })
                    && wanted(&rows)
                {
                    return rows;
                }
                last = Some(ran);
                // Presence has no event that a command could wait for.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("moonbridge {arguments:?} did not come to what was waited for: {last:?}"))
    }
}

/// A running `moonbridge up`.
pub struct Up {
    /// The process.
    pub process: Process,
    /// Where players connect.
    pub listen: SocketAddr,
    /// Its admin.
    pub cli: Cli,
    _state: TempDir,
}

impl Up {
    /// Starts it on free ports with these arguments more, and waits until it serves.
    pub async fn start(arguments: &[&str]) -> Up {
        Up::start_with(arguments, &[]).await
    }

    /// The same with variables more.
    pub async fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Up {
        let state = folder();
        let mut command = command(state.path());
        command.args(["up", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]).args(arguments).envs(environment.iter().copied());
        let process = Process::start("up", command);
        let listen = process.line("the players' address", |line| address_in(line, &["players connect to"])).await;
        Up { process, listen, cli: Cli::beside(state.path()), _state: state }
    }

    /// Ends it by Ctrl-C and waits.
    pub async fn stop(mut self) -> i32 {
        self.process.interrupt();
        self.process.ended(SOON).await
    }
}

/// A replica or a node, alone.
pub struct Plane {
    /// The process.
    pub process: Process,
    /// Where it listens.
    pub listen: SocketAddr,
    config: PathBuf,
    kind: &'static str,
    environment: Vec<(String, String)>,
    state: TempDir,
}

impl Plane {
    /// Starts `moonbridge controlplane` with this configuration, without its `listen`.
    pub async fn replica(name: &str, config: &str) -> Plane {
        Plane::start("controlplane", name, config, &[]).await
    }

    /// Starts `moonbridge dataplane` with this configuration, without its `listen`.
    pub async fn node(name: &str, config: &str) -> Plane {
        Plane::start("dataplane", name, config, &[]).await
    }

    /// Starts either, with variables more.
    pub async fn start(kind: &'static str, name: &str, config: &str, environment: &[(&str, &str)]) -> Plane {
        let state = folder();
        let file = state.path().join("config.toml");
        std::fs::write(&file, format!("name = \"{name}\"\nlisten = \"127.0.0.1:0\"\n{config}")).expect("a file in a new folder");
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>();
        let process = spawn(kind, name, &file, &environment, state.path());
        let listen = process.line("its address", |line| address_in(line, &["connect to"])).await;
        Plane { process, listen, config: file, kind, environment, state }
    }

    /// Kills it and starts it again on the same address.
    pub async fn restart(&mut self) {
        self.process.kill().await;
        let config = std::fs::read_to_string(&self.config).expect("written above");
        let config = config.replacen("127.0.0.1:0", &self.listen.to_string(), 1);
        std::fs::write(&self.config, config).expect("written above");
        self.process = spawn(self.kind, self.kind, &self.config, &self.environment, self.state.path());
        self.process.line("its address", |line| address_in(line, &["connect to"])).await;
    }

    /// For `control = [...]` of a node and for [`Cli::to`].
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// The admin, at this replica.
    pub fn cli(&self) -> Cli {
        Cli::to(self.state.path(), &self.url())
    }
}

fn spawn(kind: &str, name: &str, config: &Path, environment: &[(String, String)], state: &Path) -> Process {
    let mut command = command(state);
    command.arg(kind).arg("--config").arg(config).envs(environment.iter().cloned());
    Process::start(format!("{kind} {name}"), command)
}

/// The first loopback address in a line that has one of these words.
fn address_in(line: &str, words: &[&str]) -> Option<SocketAddr> {
    if !words.iter().any(|word| line.contains(word)) {
        return None;
    }
    let start = line.find("127.0.0.1:")?;
    let rest = &line[start..];
    let end = rest.char_indices().find(|(at, letter)| *at > 9 && !letter.is_ascii_digit()).map_or(rest.len(), |(at, _)| at);
    rest[..end].parse().ok().filter(|address: &SocketAddr| address.port() != 0)
}
