//! Workers: one thread and one single-threaded runtime each, on which sessions live from accept to end.

pub(crate) mod clock;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::{Builder as RuntimeBuilder, Handle};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::Config;
use crate::relay::{buffer, flusher};
use crate::runtime::Detachable;
use crate::timer::Timers;

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
        let timers = Timers::keep("timers", clock::give_beats(beats.clone(), stop.clone()))?;
        let start = |(index, beat)| start(index, buffers, config, beat, timers.clone(), stop.clone());
        let workers = beats.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
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

fn start(index: usize, buffers: usize, config: &Config, beat: Arc<Notify>, timers: Timers, stop: CancellationToken) -> io::Result<Worker> {
    let runtime = runtime()?;
    let handle = runtime.handle().clone();
    let cipher: Arc<flusher::Counters> = Arc::default();
    let counters = cipher.clone();
    let (encrypt_together, batch_scheduling) = (config.encrypt_together, config.batch_scheduling);
    let thread = Builder::new().name(format!("relay-{index}")).spawn(move || {
        if batch_scheduling
            && let Err(error) = schedule_in_batches()
            && index == 0
        {
            tracing::warn!(error, "workers cannot be scheduled in batches (batch_scheduling) and stay as they are: at more cost a frame");
        }
        timers.keep_for_this_thread();
        buffer::limit_worker(buffers);
        flusher::set_up(counters, encrypt_together);
        runtime.spawn(flusher::run());
        runtime.spawn(clock::run(beat));
        runtime.block_on(stop.cancelled());
        clock::stop();
        // Name look-ups under way are not waited for.
        drop(runtime);
        // Only now, for its tasks' timers are these.
        drop(timers);
    })?;
    Ok(Worker { runtime: handle, load: Arc::default(), cipher, _thread: thread })
}

/// A worker's runtime: it has no timers ([`crate::timer`]).
pub(crate) fn runtime() -> io::Result<Detachable> {
    Detachable::build(RuntimeBuilder::enable_io)
}

/// Has the kernel schedule this thread as one that had rather finish more at a time than begin at once (`SCHED_BATCH`): when something
/// comes for it while another thread is on its CPU, that is not interrupted. Mostly it is the one who sends, and then it sends all that
/// it has, and the worker takes that with one read and passes it on with one write. A thread that an operator has given a policy keeps
/// it.
#[cfg(target_os = "linux")]
pub(crate) fn schedule_in_batches() -> Result<(), String> {
    use preempt_rt::sched::{Pid, PreemptRtError, Scheduler, SchedulerParams, get_scheduler, set_scheduler};

    let this = Pid::current_thread();
    let set = match get_scheduler(this) {
        Ok(Scheduler::SCHED_NORMAL) => set_scheduler(this, Scheduler::SCHED_BATCH, SchedulerParams { priority: 0 }),
        other => other.map(drop),
    };
    set.map_err(|error| match error {
        PreemptRtError::Errno(code) => io::Error::from_raw_os_error(code).to_string(),
        other => other.to_string(),
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn schedule_in_batches() -> Result<(), String> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use preempt_rt::sched::{Pid, Scheduler, SchedulerParams, get_scheduler, set_scheduler};
    use tokio::sync::oneshot;

    use super::*;
    use crate::timer::{sleep, timeout};

    #[tokio::test]
    async fn workers_are_scheduled_as_they_are_set_up_and_can_wait_for_a_time() {
        let as_it_is = get_scheduler(Pid::current_thread()).expect("a policy");
        let in_batches = if as_it_is == Scheduler::SCHED_NORMAL { Scheduler::SCHED_BATCH } else { as_it_is };
        for (batch_scheduling, wanted) in [(true, in_batches), (false, as_it_is)] {
            let workers = Workers::start(&Config { workers: 1, batch_scheduling, ..Config::default() }).expect("they start");
            let (tell, told) = oneshot::channel();
            workers.spawn(|_load| async move {
                sleep(Duration::from_millis(1)).await;
                let _ = tell.send(get_scheduler(Pid::current_thread()).expect("a policy"));
            });
            assert_eq!(timeout(Duration::from_secs(10), told).await.expect("in time"), Ok(wanted));
        }
    }

    #[test]
    fn a_policy_that_was_given_stays() {
        set_scheduler(Pid::current_thread(), Scheduler::SCHED_IDLE, SchedulerParams { priority: 0 }).expect("allowed");
        schedule_in_batches().expect("allowed");
        assert_eq!(get_scheduler(Pid::current_thread()).expect("a policy"), Scheduler::SCHED_IDLE);
    }
}
