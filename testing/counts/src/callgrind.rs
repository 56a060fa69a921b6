//! This program under callgrind, and what callgrind writes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::BE_COUNTED;
use crate::subjects::Subject;

/// What libc is told: not to choose among its functions by the CPU's finer features, which differ between machines.
const PLAIN_LIBC: &str = "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-AVX_Fast_Unaligned_Load,-AVX512VL,-AVX512BW,-ERMS,-FSRM";

/// Instructions of one unit of what was counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Those of this program: our code, and that of the libraries it is made of.
    pub(crate) ours: f64,
    /// Those of the C library: copying, clearing, comparing, allocating. They depend on its version.
    pub(crate) libc: f64,
}

/// Calls `work`, the only thing that callgrind counts; once a process, or again and again.
#[inline(never)]
pub(crate) fn counted_by_callgrind(work: &mut dyn FnMut()) {
    work();
}

/// Runs this program under callgrind. What callgrind has written stays beside the program, for `callgrind_annotate`.
pub(crate) fn count(subject: &Subject) -> anyhow::Result<Figure> {
    let program = std::env::current_exe()?;
    let file = program.with_file_name(format!("callgrind.{}", subject.name.replace([' ', ':'], "-")));
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counted_by_callgrind*"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(&program)
        .args([BE_COUNTED, subject.name])
        .env("GLIBC_TUNABLES", PLAIN_LIBC)
        .output()
        .context("valgrind cannot be started: `bash testing/run` installs it")?;
    let said = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{} failed under callgrind ({}):\n{said}", subject.name, run.status);
    let units: f64 = String::from_utf8_lossy(&run.stdout).trim().parse().context("how many units were counted")?;
    let written = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let (ours, libc) = sum(&written, &program);
    ensure!(ours > 0, "{}: callgrind has counted nothing:\n{said}", subject.name);
    Ok(Figure { ours: ours as f64 / units, libc: libc as f64 / units })
}

/// The instructions of this program's own file, and of all others.
fn sum(written: &str, program: &Path) -> (u64, u64) {
    let (mut ours, mut others) = (0, 0);
    let mut in_ours = false;
    let mut lines = written.lines();
    while let Some(line) = lines.next() {
        if let Some(object) = line.strip_prefix("ob=") {
            in_ours = Path::new(object) == program;
        } else if line.starts_with("calls=") {
            // The next line is what was called, which has lines of its own.
            lines.next();
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost: u64 = line.split_whitespace().nth(1).and_then(|cost| cost.parse().ok()).unwrap_or(0);
            *(if in_ours { &mut ours } else { &mut others }) += cost;
        }
    }
    (ours, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_is_counted_where_it_is() {
        let written = "version: 1\nevents: Ir\n\nob=/a/counts\nfl=main.rs\nfn=work\n10 5\ncob=/lib/libc.so.6\ncfn=memcpy\n\
                       calls=2 0\n11 400\n12 7\n\nob=/lib/libc.so.6\nfl=?\nfn=memcpy\n0 400\n\ntotals: 412\n";
        assert_eq!(sum(written, Path::new("/a/counts")), (12, 400));
    }
}
