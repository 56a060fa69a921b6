//! Which part of a process's CPU time is in user mode, as perf samples it: the kernel's own account is too coarse.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use crate::bench::measure::tree::with_descendants;

/// Samples a second and CPU: enough for a share, few enough to cost little.
const FREQUENCY: &str = "1000";

/// A perf that works here.
#[derive(Debug)]
pub struct Perf {
    file: PathBuf,
    sampled: Option<usize>,
}

/// A perf that is sampling.
#[derive(Debug)]
pub struct Sampling {
    perf: Child,
    file: PathBuf,
    processes: Vec<u32>,
}

impl Perf {
    /// Tries whether perf can sample the CPU `sampled`, or all of them. Its file is to lie in `dir`.
    ///
    /// # Errors
    /// If it is not installed, or not allowed to.
    pub async fn new(dir: &Path, sampled: Option<usize>) -> anyhow::Result<Self> {
        let perf = Perf { file: dir.join("perf.data"), sampled };
        perf.start(std::process::id(), Duration::from_millis(10)).await?.end().await.context("perf cannot sample here")?;
        Ok(perf)
    }

    /// Samples a process and its descendants, from its return on for this long.
    pub async fn start(&self, root: u32, time: Duration) -> anyhow::Result<Sampling> {
        // By CPU, and not by process: a process's timer would be set anew with every context switch, which costs as much as a relay.
        let mut command = match self.sampled {
            Some(cpu) => {
                let mut beside = Command::new("taskset");
                beside.args(["-c", if cpu == 0 { "1" } else { "0" }, "perf", "record", "--cpu", &cpu.to_string()]);
                beside
            }
            None => {
                let mut all = Command::new("perf");
                all.args(["record", "--all-cpus"]);
                all
            }
        };
        command.args(["--quiet", "--no-buildid", "--no-buildid-cache", "--event", "cpu-clock", "--freq", FREQUENCY, "--output"]);
        // What perf starts, it starts when it samples.
        command.arg(&self.file).args(["--", "sh", "-c", "echo; exec sleep \"$0\" >&-", &time.as_secs_f64().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(log_of(&self.file))?).kill_on_drop(true);
        let mut perf = command.spawn().context("starting perf (package linux-perf)")?;
        let mut stdout = perf.stdout.take().context("no stdout")?;
        // Nothing comes of a perf that fails; its end says why.
        let _ = stdout.read(&mut [0]).await?;
        Ok(Sampling { perf, file: self.file.clone(), processes: with_descendants(root)? })
    }
}

impl Sampling {
    /// Waits until the time is over, and tells which share of the samples was in user mode.
    pub async fn user_share(self) -> anyhow::Result<f64> {
        let (file, processes) = (self.file.clone(), self.processes.clone());
        self.end().await?;
        // Symbols are not asked for, but looked for where there are any, which takes long with many of them.
        let without_symbols = file.with_extension("none");
        let mut script = Command::new("perf");
        script.args(["script", "--fields", "pid,ip", "--symfs"]).arg(without_symbols).arg("--input").arg(&file);
        let said = script.stderr(Stdio::null()).output().await?;
        ensure!(said.status.success(), "perf cannot read what it has recorded");
        share(&String::from_utf8_lossy(&said.stdout), &processes)
    }

    async fn end(mut self) -> anyhow::Result<()> {
        let status = self.perf.wait().await?;
        if !status.success() {
            bail!("{}", std::fs::read_to_string(log_of(&self.file)).unwrap_or_default().trim());
        }
        Ok(())
    }
}

fn log_of(file: &Path) -> PathBuf {
    file.with_extension("log")
}

/// Of the samples of these processes, a process and an address a line, the share whose addresses lie in the lower half, which is
/// the processes' own.
fn share(samples: &str, processes: &[u32]) -> anyhow::Result<f64> {
    let (mut user, mut all) = (0u32, 0u32);
    for line in samples.lines().filter(|line| !line.trim().is_empty()) {
        let mut fields = line.split_whitespace();
        let process = fields.next().and_then(|process| process.parse::<i64>().ok());
        let address = fields.next().and_then(|address| u64::from_str_radix(address, 16).ok());
        let (process, address) = process.zip(address).with_context(|| format!("perf script prints {line:?}"))?;
        if processes.iter().any(|&ours| i64::from(ours) == process) {
            user += u32::from(address < 1 << 63);
            all += 1;
        }
    }
    ensure!(all > 0, "perf took no samples of the proxy: it did nothing");
    Ok(f64::from(user) / f64::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_kernel_are_told_from_the_others() {
        let samples =
            " 71     55e7c1a0b2c0 \n  72 ffffffff8110a3f0 \n   9 7f0012345678\n   71 ffff800008a1b2c3\n  71  7f12aa00 \n   -1 1234\n\n";
        assert_eq!(share(samples, &[71, 72]).unwrap(), 0.5);
        assert_eq!(share(samples, &[72]).unwrap(), 0.0);
        share(samples, &[73]).unwrap_err();
        share("71 main+0x12", &[71]).unwrap_err();
    }
}
