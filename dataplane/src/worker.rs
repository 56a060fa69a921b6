//! Workers: one thread and one single-threaded runtime each, on which sessions live from accept to end.

pub(crate) mod clock;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::Config;
use crate::relay::{buffer, flusher};

/// A node's workers. Dropping them ends their threads, and whatever still runs there.
pub(crate) struct Workers {
    workers: Vec<Worker>,
    _stop: DropGuard,
}

struct Worker {
    runtime: Handle,
    load: Arc<AtomicUsize>,
    cipher: Arc<flusher::Counters>,
    _thread: JoinHandle<()>,
}

/// What a task counts for on its worker, while it lives.
pub(crate) struct Load(Arc<AtomicUsize>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts a node's workers.
    pub(crate) fn start(config: &Config) -> io::Result<Workers> {
        let count = if config.workers == 0 { std::thread::available_parallelism()?.get() } else { config.workers };
        let buffers = config.limits.node_buffers / count;
        let stop = CancellationToken::new();
        // If one of them does not start, those that have are ended.
        let ended_with_these = stop.clone().drop_guard();
        let beats: Vec<Arc<Notify>> = (0..count).map(|_| Arc::default()).collect();
        let start = |(index, beat): (usize, &Arc<Notify>)| start(index, buffers, config.encrypt_together, beat.clone(), stop.clone());
        let workers = beats.iter().enumerate().map(start).collect::<io::Result<_>>()?;
        clock::give_beats(beats, stop.clone())?;
        Ok(Workers { workers, _stop: ended_with_these })
    }

    /// What each worker's encryption has done.
    pub(crate) fn cipher(&self) -> impl Iterator<Item = &Arc<flusher::Counters>> {
        self.workers.iter().map(|worker| &worker.cipher)
    }

    /// Runs a task on the worker that has the fewest. It is to keep what it is given for as long as it lives. (A future around the
    /// task's own would take its room a second time.)
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(Load) -> F) {
        let Some(worker) = self.workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed)) else { return };
        worker.load.fetch_add(1, Ordering::Relaxed);
        worker.runtime.spawn(task(Load(worker.load.clone())));
    }
}

fn start(index: usize, buffers: usize, encrypt_together: bool, beat: Arc<Notify>, stop: CancellationToken) -> io::Result<Worker> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let cipher: Arc<flusher::Counters> = Arc::default();
    let counters = cipher.clone();
    let thread = Builder::new().name(format!("relay-{index}")).spawn(move || {
        buffer::limit_worker(buffers);
        flusher::set_up(counters, encrypt_together);
        runtime.spawn(flusher::run());
        runtime.spawn(clock::run(beat));
        runtime.block_on(stop.cancelled());
        clock::stop();
        // Name look-ups under way are not waited for.
        runtime.shutdown_background();
    })?;
    Ok(Worker { runtime: handle, load: Arc::default(), cipher, _thread: thread })
}
