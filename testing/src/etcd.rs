//! A real etcd of one member, for a test: on loopback, with its data in a temporary folder, ended with the value.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// etcd is up within this, or something is wrong.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// How often new ports are taken, should someone else be faster to bind them.
const TRIES: usize = 5;

/// A running (or stopped) etcd.
#[derive(Debug)]
pub struct Etcd {
    folder: TempDir,
    ports: Ports,
    tls: Option<EtcdTls>,
    child: Child,
}

/// Makes etcd serve TLS and ask its clients for a certificate.
#[derive(Debug, Clone)]
pub struct EtcdTls {
    /// The authority that clients' certificates must be from.
    pub client_ca: PathBuf,
    /// The server's certificate, for 127.0.0.1.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    peer: u16,
    health: u16,
}

impl Etcd {
    /// Starts etcd and waits until it serves.
    ///
    /// # Errors
    /// There is no `etcd` on the PATH (Debian: etcd-server), or it does not come up; with the end of its log.
    pub async fn start() -> anyhow::Result<Etcd> {
        Etcd::start_with(None).await
    }

    /// The same, with TLS for clients if given.
    ///
    /// # Errors
    /// As for [`Etcd::start`].
    pub async fn start_with(tls: Option<EtcdTls>) -> anyhow::Result<Etcd> {
        let mut problem = None;
        for _ in 0..TRIES {
            let folder = tempfile::Builder::new().prefix("moonbridge-etcd-").tempdir()?;
            // Held until etcd starts, so that three different ones are free then.
            let held = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
            let [client, peer, health] = &held;
            let ports = Ports { client: client.local_addr()?.port(), peer: peer.local_addr()?.port(), health: health.local_addr()?.port() };
            drop(held);
            let child = spawn(&folder, ports, tls.as_ref())?;
            let mut etcd = Etcd { folder, ports, tls: tls.clone(), child };
            match etcd.serves().await {
                Ok(()) => return Ok(etcd),
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.context("etcd was not started")?)
    }

    /// Where its clients connect to.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.ports.client)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Freezes it (SIGSTOP): connections stay open, nothing is answered.
    ///
    /// # Errors
    /// It does not run.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Etcd::stop`].
    ///
    /// # Errors
    /// It does not run.
    pub fn go_on(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills it; its data and ports stay for [`Etcd::restart`].
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Kills it if it runs, starts it again on its data and ports, and waits until it serves.
    ///
    /// # Errors
    /// As for [`Etcd::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        self.child = spawn(&self.folder, self.ports, self.tls.as_ref())?;
        self.serves().await
    }

    /// Kills it if it runs, and throws its data away; [`Etcd::restart`] begins with nothing.
    ///
    /// # Errors
    /// The data cannot be removed.
    pub fn wipe(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        Ok(std::fs::remove_dir_all(self.folder.path().join("data"))?)
    }

    /// Saves a snapshot (`etcdctl snapshot save`) for [`Etcd::restore`]; a newer one replaces it.
    ///
    /// # Errors
    /// There is no `etcdctl` on the PATH (Debian: etcd-client), or it fails. TLS is not for it.
    pub async fn save(&self) -> anyhow::Result<()> {
        let mut command = tokio::process::Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg("--endpoints").arg(self.url()).args(["snapshot", "save"]).arg(self.snapshot());
        done(command).await
    }

    /// Kills it if it runs, and puts the snapshot in the place of its data (`etcdctl snapshot restore`); [`Etcd::restart`] begins
    /// with that.
    ///
    /// # Errors
    /// As for [`Etcd::save`].
    pub async fn restore(&mut self) -> anyhow::Result<()> {
        self.wipe()?;
        let peer = format!("http://127.0.0.1:{}", self.ports.peer);
        let mut command = tokio::process::Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["snapshot", "restore"]).arg(self.snapshot());
        command.args(["--name", "test", "--initial-cluster", &format!("test={peer}"), "--initial-advertise-peer-urls", &peer]);
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        done(command).await
    }

    fn snapshot(&self) -> PathBuf {
        self.folder.path().join("snapshot")
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process")?;
        Ok(kill_process(pid, signal)?)
    }

    async fn serves(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STARTS_WITHIN;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("etcd ended ({status}): {}", self.log());
            }
            if timeout(Duration::from_secs(2), healthy(self.ports.health)).await.is_ok_and(|healthy| healthy.unwrap_or(false)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("etcd is not up after {STARTS_WITHIN:?}: {}", self.log());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.kill();
    }
}

fn spawn(folder: &TempDir, ports: Ports, tls: Option<&EtcdTls>) -> anyhow::Result<Child> {
    let log = File::options().create(true).append(true).open(folder.path().join("log"))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let client = format!("{scheme}://127.0.0.1:{}", ports.client);
    let peer = format!("http://127.0.0.1:{}", ports.peer);
    let mut command = Command::new("etcd");
    command.args(["--name", "test", "--initial-cluster", &format!("test={peer}")]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--listen-metrics-urls", &format!("http://127.0.0.1:{}", ports.health)]);
    command.arg("--data-dir").arg(folder.path().join("data"));
    // Alone, it need not wait a second for others to stand for election.
    command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]);
    if let Some(tls) = tls {
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&tls.client_ca);
        command.arg("--cert-file").arg(&tls.cert).arg("--key-file").arg(&tls.key);
    }
    // etcd takes every option from the environment, too.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ETCD_") {
            command.env_remove(name);
        }
    }
    if cfg!(target_arch = "aarch64") {
        // etcd 3.4 asks for it on this architecture.
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().context("cannot start etcd (Debian: apt-get install etcd-server)")
}

async fn done(mut command: tokio::process::Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output().await.context("cannot start etcdctl (Debian: apt-get install etcd-client)")?;
    if !output.status.success() {
        bail!("etcdctl failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

async fn healthy(port: u16) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.contains("\"health\":\"true\""))
}
