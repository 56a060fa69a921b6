//! How long it takes to bring a network over, and what it costs a replica.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use super::file;
use crate::etcd::Etcd;
use crate::network::{Plane, command};

/// What was measured.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Imported {
    /// Users in the file.
    pub users: u32,
    /// Groups in the file.
    pub groups: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The command from its start to its end, into an empty store.
    pub seconds: f64,
    /// The same again with `--replace`, over what is there.
    pub again_seconds: f64,
    /// An export of all.
    pub export_seconds: f64,
    /// Resident memory of the replica that was asked, before the first, after the last, and at the most, in MiB.
    pub replica_mib: [f64; 3],
    /// The same of the other replica, which only watched.
    pub other_mib: [f64; 3],
    /// At the most, of the command, in MiB.
    pub command_mib: f64,
}

/// Imports a file of so many users and groups on a fresh etcd with two replicas.
///
/// # Errors
/// If any of it fails.
pub async fn measure(users: u32, groups: u32) -> anyhow::Result<Imported> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("export.json");
    file::write(&path, users, groups)?;
    let etcd = Etcd::start().await?;
    let config = format!("[store.etcd]\nendpoints = [\"{}\"]\nprefix = \"/bench/\"\n", etcd.url());
    let (replica, other) = (Plane::replica("a", &config).await, Plane::replica("b", &config).await);
    let before = [&replica, &other].map(|replica| replica.process.resident());
    let out = folder.path().join("out.json");
    let (seconds, first) = run(&folder, &replica, &["import"], &path).await?;
    let (again_seconds, again) = run(&folder, &replica, &["import", "--replace"], &path).await?;
    let (export_seconds, export) = run(&folder, &replica, &["export"], &out).await?;
    ensure!(std::fs::metadata(&out)?.len() > 0, "nothing was exported");
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let memory = |replica: &Plane, before: u64| -> anyhow::Result<[f64; 3]> {
        Ok([mib(before), mib(replica.process.resident()), mib(peak(replica.process.pid())?)])
    };
    Ok(Imported {
        users,
        groups,
        file_bytes: std::fs::metadata(&path)?.len(),
        seconds,
        again_seconds,
        export_seconds,
        replica_mib: memory(&replica, before[0])?,
        other_mib: memory(&other, before[1])?,
        command_mib: mib(first.max(again).max(export)),
    })
}

/// Runs `permission VERB… FILE`; the seconds it took, and the most memory it had.
async fn run(state: &TempDir, replica: &Plane, verb: &[&str], file: &Path) -> anyhow::Result<(f64, u64)> {
    let mut command = command(state.path());
    command.env("MOONBRIDGE_CONTROL", replica.url()).arg("permission").args(verb).arg(file);
    let said = state.path().join("stderr");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&said)?).kill_on_drop(true);
    let began = Instant::now();
    let mut running = command.spawn().context("the moonbridge binary")?;
    let pid = running.id().context("it has just been started")?;
    let mut most = 0;
    // The kernel forgets it with the process: the last look before its end counts.
    let mut look = tokio::time::interval(Duration::from_millis(20));
    let status = loop {
        tokio::select! {
            status = running.wait() => break status?,
            _ = look.tick() => most = most.max(peak(pid).unwrap_or(0)),
        }
    };
    let took = began.elapsed().as_secs_f64();
    ensure!(status.success(), "permission {verb:?} failed ({status}): {}", std::fs::read_to_string(&said)?);
    Ok((took, most))
}

/// The most resident memory that a process has had, in bytes.
fn peak(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).with_context(|| format!("no VmHWM in {path}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
