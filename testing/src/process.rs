//! A process that a test starts, reads the output of, and ends.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

/// Time for anything that should happen soon, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);

/// Lines of output kept for failure messages.
const KEPT: usize = 20_000;

/// The folder of this crate, in which the clients lie.
pub fn testing_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The `moonbridge` binary that was built beside the running test.
pub fn moonbridge() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // target/debug/deps/TEST, or target/debug/BIN for a binary of this crate.
    let folder = test.ancestors().skip(1).find(|folder| folder.file_name() != Some(OsStr::new("deps"))).expect("it lies in a folder");
    let path = folder.join("moonbridge");
    assert!(path.exists(), "{} is not built: run `cargo build -p moonbridge-cli` first (testing/run does)", path.display());
    path
}

/// A running process. Killed, by its own id, when dropped.
pub struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    output: Arc<Output>,
}

/// A test that fails shows what its processes have said.
impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprint!("{} said:\n{}", self.name, self.log());
        }
    }
}

/// What a process has said: whole lines of stdout and stderr in the order they were read.
struct Output {
    lines: Mutex<Lines>,
    /// Moves with every line, and at the end of each stream.
    grown: watch::Sender<u64>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<String>,
    dropped: usize,
    ended: usize,
}

impl Process {
    /// Starts `command`; `name` is for failure messages.
    pub fn start(name: impl Into<String>, mut command: Command) -> Process {
        let name = name.into();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start ({command:?}): {error}"));
        let output = Arc::new(Output { lines: Mutex::default(), grown: watch::Sender::new(0) });
        tokio::spawn(read(child.stdout.take().expect("piped"), output.clone()));
        tokio::spawn(read(child.stderr.take().expect("piped"), output.clone()));
        let stdin = child.stdin.take();
        Process { name, child, stdin, output }
    }

    /// Its id, while it runs.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_else(|| panic!("{} has ended:\n{}", self.name, self.log()))
    }

    /// Writes a line to its stdin.
    pub async fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is piped");
        let written = stdin.write_all(format!("{line}\n").as_bytes()).await;
        written.unwrap_or_else(|error| panic!("{} takes no more commands ({error}):\n{}", self.name, self.log()));
    }

    /// The end of what it has said, for failure messages.
    pub fn log(&self) -> String {
        let lines = self.output.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = lines.kept.len().saturating_sub(60);
        lines.kept.iter().skip(skip).map(|line| format!("  {}: {line}\n", self.name)).collect()
    }

    /// Everything it has said so far.
    pub fn lines(&self) -> Vec<String> {
        self.output.lines.lock().unwrap_or_else(PoisonError::into_inner).kept.iter().cloned().collect()
    }

    /// Waits for a line, from the beginning of its output on, that `find` makes something of.
    pub async fn line<T>(&self, what: &str, find: impl FnMut(&str) -> Option<T>) -> T {
        self.line_from(&mut 0, SOON, what, find).await
    }

    /// The same from line number `cursor` on, which is moved past the line found.
    pub async fn line_from<T>(&self, cursor: &mut usize, within: Duration, what: &str, find: impl FnMut(&str) -> Option<T>) -> T {
        match tokio::time::timeout(within, self.find_line(cursor, find)).await {
            Ok(Some(found)) => found,
            Ok(None) => panic!("{} ended without {what}:\n{}", self.name, self.log()),
            Err(_) => panic!("{} did not get to {what} within {within:?}:\n{}", self.name, self.log()),
        }
    }

    async fn find_line<T>(&self, cursor: &mut usize, mut find: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let mut grown = self.output.grown.subscribe();
        loop {
            grown.borrow_and_update();
            {
                let lines = self.output.lines.lock().unwrap_or_else(PoisonError::into_inner);
                let dropped = lines.dropped;
                for (index, line) in lines.kept.iter().enumerate().skip(cursor.saturating_sub(dropped)) {
                    *cursor = dropped + index + 1;
                    if let Some(found) = find(line) {
                        return Some(found);
                    }
                }
                if lines.ended == 2 {
                    return None;
                }
            }
            if grown.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Waits for its end and returns the exit code (128 and the signal, if one ended it). By then all that it has said has been read.
    pub async fn ended(&mut self, within: Duration) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        let ended = async {
            let status = self.child.wait().await;
            // Unless a child of its own keeps its output open.
            let _ = tokio::time::timeout(Duration::from_secs(1), self.find_line(&mut 0, |_| None::<()>)).await;
            status
        };
        match tokio::time::timeout(within, ended).await {
            Ok(Ok(status)) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            Ok(Err(error)) => panic!("{} cannot be waited for: {error}", self.name),
            Err(_) => panic!("{} did not end within {within:?}:\n{}", self.name, self.log()),
        }
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGKILL, and its end awaited.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap_or_else(|error| panic!("{} cannot be killed: {error}", self.name));
    }

    /// SIGINT, as Ctrl-C sends.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// SIGTERM, as service managers send.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGHUP, as the end of a terminal sends.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// SIGSTOP: it stays, and does nothing.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{} cannot be sent {signal:?}: {error}", self.name));
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> u64 {
        let path = Path::new("/proc").join(self.pid().to_string()).join("status");
        let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB") * 1024
    }
}

async fn read(stream: impl AsyncRead + Unpin, output: Arc<Output>) {
    let mut stream = BufReader::new(stream).lines();
    loop {
        let line = stream.next_line().await;
        let mut lines = output.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = match line {
            Ok(Some(line)) => {
                lines.kept.push_back(line);
                if lines.kept.len() > KEPT {
                    lines.kept.pop_front();
                    lines.dropped += 1;
                }
                false
            }
            _ => {
                lines.ended += 1;
                true
            }
        };
        drop(lines);
        output.grown.send_modify(|grown| *grown += 1);
        if ended {
            return;
        }
    }
}
