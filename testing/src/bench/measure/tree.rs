//! A process and all that it has started: what Linux has counted for them in /proc.

use std::collections::BTreeMap;
use std::fs;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;

/// One tick of /proc/PID/stat: the kernel's USER_HZ is 100 on every architecture that a node runs on (proc(5)).
const TICK: Duration = Duration::from_millis(10);

/// What a process and its descendants have used so far.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// By thread.
    threads: BTreeMap<u32, Thread>,
    /// CPU time by the processes' own account: coarse, but with the threads that have ended.
    ticks: Duration,
    /// Resident memory, in KiB.
    resident: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    cpu: Duration,
    waits: u64,
    preemptions: u64,
}

/// What was used between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// CPU time, user and system.
    pub cpu: Duration,
    /// Context switches of threads that had to wait.
    pub waits: u64,
    /// Context switches of threads that had more to do.
    pub preemptions: u64,
    /// Resident memory at the end, in KiB.
    pub resident: u64,
}

impl Tree {
    /// Reads the process `root` and its descendants.
    pub fn read(root: u32) -> anyhow::Result<Self> {
        let mut tree = Tree::default();
        for process in with_descendants(root)? {
            tree.add(process)?;
        }
        Ok(tree)
    }

    /// Reads this process alone.
    pub fn of_one(process: u32) -> anyhow::Result<Self> {
        let mut tree = Tree::default();
        tree.add(process)?;
        Ok(tree)
    }

    /// Resident memory, in KiB.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Tree) -> Spent {
        let mut spent = Spent { resident: self.resident, ..Spent::default() };
        for (id, now) in &self.threads {
            let then = earlier.threads.get(id).copied().unwrap_or_default();
            spent.cpu += now.cpu.saturating_sub(then.cpu);
            spent.waits += now.waits.saturating_sub(then.waits);
            spent.preemptions += now.preemptions.saturating_sub(then.preemptions);
        }
        // The two roundings of two readings may be two ticks in all; what the processes' account has beyond was used by threads
        // that have ended.
        let ticks = self.ticks.saturating_sub(earlier.ticks);
        spent.cpu = spent.cpu.max(ticks.saturating_sub(2 * TICK));
        spent
    }

    fn add(&mut self, process: u32) -> anyhow::Result<()> {
        let stat = read(&format!("/proc/{process}/stat"))?;
        let [utime, stime] = [14, 15].map(|field| after_name(&stat, field).and_then(|text| text.parse::<u32>().ok()));
        self.ticks += TICK * utime.zip(stime).map(|(user, system)| user + system).context("a stat without times")?;
        self.resident += number::<u64>(&read(&format!("/proc/{process}/status"))?, "VmRSS:").unwrap_or_default();
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let name = entry?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            // One that has just ended is in the ticks.
            if let Ok(thread) = Thread::read(process, id) {
                self.threads.insert(id, thread);
            }
        }
        Ok(())
    }
}

impl Thread {
    fn read(process: u32, id: u32) -> anyhow::Result<Self> {
        let schedstat = read(&format!("/proc/{process}/task/{id}/schedstat"))?;
        let nanos = schedstat.split_whitespace().next().and_then(|first| first.parse().ok());
        let status = read(&format!("/proc/{process}/task/{id}/status"))?;
        Ok(Thread {
            cpu: Duration::from_nanos(nanos.context("a schedstat without a time")?),
            waits: number(&status, "voluntary_ctxt_switches:").context("a status without context switches")?,
            preemptions: number(&status, "nonvoluntary_ctxt_switches:").context("a status without context switches")?,
        })
    }
}

/// The process, and those that it and its have started.
pub fn with_descendants(root: u32) -> anyhow::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that has just ended is nobody's parent.
        let Ok(stat) = read(&format!("/proc/{id}/stat")) else { continue };
        if let Some(parent) = after_name(&stat, 4).and_then(|text| text.parse::<u32>().ok()) {
            parents.push((id, parent));
        }
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|&&(_, of)| of == parent).map(|&(id, _)| id));
        next += 1;
    }
    Ok(family)
}

/// A field of /proc/PID/stat, by the number that proc(5) gives it. The name, in brackets, may hold anything; field 3 is behind it.
fn after_name(stat: &str, field: usize) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(field - 3)
}

/// The number on the line of /proc/PID/status that begins so.
fn number<T: FromStr>(status: &str, name: &str) -> Option<T> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn tree(threads: &[(u32, u64)], ticks: u64) -> Tree {
        let thread = |&(id, millis)| (id, Thread { cpu: Duration::from_millis(millis), ..Thread::default() });
        Tree { threads: threads.iter().map(thread).collect(), ticks: Duration::from_millis(ticks), resident: 0 }
    }

    #[test]
    fn time_is_by_thread_and_what_ended_threads_used_is_not_lost() {
        let before = tree(&[(1, 500), (2, 40)], 540);
        let both_live = tree(&[(1, 701), (2, 52), (3, 1)], 750).since(&before);
        assert_eq!(both_live.cpu, Duration::from_millis(201 + 12 + 1));
        let one_ended = tree(&[(1, 701)], 1000).since(&before);
        assert_eq!(one_ended.cpu, Duration::from_millis(1000 - 540 - 20));
    }

    #[test]
    fn this_process_can_be_read() {
        let before = Tree::of_one(std::process::id()).unwrap();
        let (mut work, start) = (1u64, Instant::now());
        while start.elapsed() < Duration::from_millis(60) {
            work = std::hint::black_box(work.wrapping_mul(3));
        }
        let spent = Tree::of_one(std::process::id()).unwrap().since(&before);
        assert!(spent.cpu > Duration::ZERO && spent.resident > 0, "{spent:?}");
    }

    #[test]
    fn a_thread_that_waits_is_switched_from() {
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, answered) = mpsc::channel::<()>();
        let other = thread::spawn(move || asked.iter().for_each(|()| answer.send(()).unwrap()));
        let before = Tree::read(std::process::id()).unwrap();
        for _ in 0..100 {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }
        let spent = Tree::read(std::process::id()).unwrap().since(&before);
        assert!(spent.waits > 0, "{spent:?}");
        drop(ask);
        other.join().unwrap();
    }

    #[test]
    fn children_and_theirs_are_counted() {
        let mut shell = Command::new("sh").args(["-c", "cat; true"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        while with_descendants(shell.id()).unwrap().len() < 2 {
            assert!(start.elapsed() < Duration::from_secs(20), "the shell does not start cat");
            thread::yield_now();
        }
        assert!(with_descendants(std::process::id()).unwrap().len() >= 3);
        assert!(Tree::read(shell.id()).unwrap().threads.len() >= 2);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
