//! Which part of a process's CPU time is in user mode, as perf samples it: the kernel's own account is too coarse.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use crate::bench::measure::tree::with_descendants;

/// Samples a second: enough for a share, few enough to cost under a percent.
const FREQUENCY: &str = "2000";

/// A perf that works here.
#[derive(Debug)]
pub struct Perf {
    file: PathBuf,
    cpu: Option<usize>,
}

/// A perf that is sampling.
#[derive(Debug)]
pub struct Sampling {
    perf: Child,
    file: PathBuf,
}

impl Perf {
    /// Tries whether perf can sample here. Its file is to lie in `dir`, and itself to run on `cpu`, if it is to have one.
    ///
    /// # Errors
    /// If it is not installed, or not allowed to.
    pub async fn new(dir: &Path, cpu: Option<usize>) -> anyhow::Result<Self> {
        let perf = Perf { file: dir.join("perf.data"), cpu };
        perf.start(std::process::id(), Duration::from_millis(10)).await?.end().await.context("perf cannot sample here")?;
        Ok(perf)
    }

    /// Samples a process and its descendants, from its return on for this long.
    pub async fn start(&self, root: u32, time: Duration) -> anyhow::Result<Sampling> {
        let processes: Vec<String> = with_descendants(root)?.iter().map(ToString::to_string).collect();
        let mut command = match self.cpu {
            Some(cpu) => {
                let mut pinned = Command::new("taskset");
                pinned.args(["-c", &cpu.to_string(), "perf"]);
                pinned
            }
            None => Command::new("perf"),
        };
        command.args(["record", "--quiet", "--event", "cpu-clock", "--freq", FREQUENCY, "--pid", &processes.join(","), "--output"]);
        // What perf starts, it starts when it samples.
        command.arg(&self.file).args(["--", "sh", "-c", "echo; exec sleep \"$0\" >&-", &time.as_secs_f64().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(log_of(&self.file))?).kill_on_drop(true);
        let mut perf = command.spawn().context("starting perf (package linux-perf)")?;
        let mut stdout = perf.stdout.take().context("no stdout")?;
        // Nothing comes of a perf that fails; its end says why.
        let _ = stdout.read(&mut [0]).await?;
        Ok(Sampling { perf, file: self.file.clone() })
    }
}

impl Sampling {
    /// Waits until the time is over, and tells which share of the samples was in user mode.
    pub async fn user_share(self) -> anyhow::Result<f64> {
        let file = self.file.clone();
        self.end().await?;
        let said = Command::new("perf").args(["script", "--fields", "ip", "--input"]).arg(&file).stderr(Stdio::null()).output().await?;
        ensure!(said.status.success(), "perf cannot read what it has recorded");
        share(&String::from_utf8_lossy(&said.stdout))
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

/// The share of addresses, one a line, that lie in the lower half, which is the processes' own.
fn share(addresses: &str) -> anyhow::Result<f64> {
    let addresses = addresses.split_whitespace().map(|address| u64::from_str_radix(address, 16));
    let (mut user, mut all) = (0u32, 0u32);
    for address in addresses {
        user += u32::from(address.context("perf script prints more than addresses")? < 1 << 63);
        all += 1;
    }
    ensure!(all > 0, "perf took no samples of the proxy: it did nothing");
    Ok(f64::from(user) / f64::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_kernel_are_told_from_the_others() {
        assert_eq!(share("    55e7c1a0b2c0 \n ffffffff8110a3f0 \nffff800008a1b2c3\n  7f12aa00 \n").unwrap(), 0.5);
        share("").unwrap_err();
        share("main+0x12").unwrap_err();
    }
}
