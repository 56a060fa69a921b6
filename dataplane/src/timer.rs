//! Timers: what ends a wait that has gone on for too long.
//!
//! A runtime that can have timers looks for the next one before every wait for its sockets, and reads the clock and looks through them
//! again after it, whether it has any or not: of a small frame that is a good part of what the node does with it. So a worker's
//! runtime cannot have any.
//! What runs there has its timers kept by a runtime on a thread of its own ([`Timers`]), which wakes the task when it is time; what
//! runs elsewhere, by the runtime it is on. Hence in this crate nobody but this module calls tokio's `sleep` and `timeout`
//! (`clippy.toml`): on a worker they panic.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use tokio::runtime::{Builder as RuntimeBuilder, Handle};
use tokio::time::{self, Instant, Sleep, Timeout};

use crate::runtime::Detachable;

thread_local! {
    /// What keeps the timers of those who are polled on this thread, if that is not the runtime they are on.
    static KEEPER: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Keeps timers for other threads. It has to live for as long as any of them.
#[derive(Debug, Clone)]
pub(crate) struct Timers(Arc<Detachable>);

impl Timers {
    /// Keeps timers on a thread of this name, and runs `meanwhile` there. When that is over, no timer rings any more.
    pub(crate) fn keep(name: &str, meanwhile: impl Future<Output = ()> + Send + 'static) -> io::Result<Timers> {
        let timers = Timers(Arc::new(Detachable::build(RuntimeBuilder::enable_time)?));
        let kept = timers.clone();
        Builder::new().name(name.to_owned()).spawn(move || kept.0.block_on(meanwhile))?;
        Ok(timers)
    }

    /// From here on, the timers of this thread are kept here.
    pub(crate) fn keep_for_this_thread(&self) {
        KEEPER.set(Some(self.0.handle().clone()));
    }
}

fn kept<T>(make: impl FnOnce() -> T) -> T {
    KEEPER.with_borrow(|keeper| {
        let _there = keeper.as_ref().map(Handle::enter);
        make()
    })
}

/// Over at `due`.
#[expect(clippy::disallowed_methods, reason = "within the runtime that keeps the timer")]
pub(crate) fn sleep_until(due: Instant) -> Sleep {
    kept(|| time::sleep_until(due))
}

/// Over in `time`.
#[expect(clippy::disallowed_methods, reason = "within the runtime that keeps the timer")]
pub(crate) fn sleep(time: Duration) -> Sleep {
    kept(|| time::sleep(time))
}

/// What `future` comes to, if it does before `deadline`.
#[expect(clippy::disallowed_methods, reason = "within the runtime that keeps the timer")]
pub(crate) fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    kept(|| time::timeout_at(deadline, future))
}

/// What `future` comes to, if it does in `time`.
#[expect(clippy::disallowed_methods, reason = "within the runtime that keeps the timer")]
pub(crate) fn timeout<F: IntoFuture>(time: Duration, future: F) -> Timeout<F::IntoFuture> {
    kept(|| time::timeout(time, future))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_runtime_without_timers_has_them_kept_elsewhere() {
        let (stop, stopped) = oneshot::channel::<()>();
        let timers = Timers::keep("timers", async { drop(stopped.await) }).expect("a thread");
        let runtime = RuntimeBuilder::new_current_thread().build().expect("a runtime");
        timers.keep_for_this_thread();
        let began = Instant::now();
        let due = began + Duration::from_millis(30);
        runtime.block_on(async {
            sleep_until(due).await;
            assert!(timeout_at(due, pending::<()>()).await.is_err());
            assert!(timeout(Duration::from_millis(10), pending::<()>()).await.is_err());
            sleep(Duration::from_millis(10)).await;
            assert_eq!(timeout(Duration::from_secs(60), async { 7 }).await, Ok(7));
        });
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
        drop(stop);
    }

    #[tokio::test]
    async fn elsewhere_a_timer_is_the_runtimes_own() {
        let began = Instant::now();
        sleep(Duration::from_millis(10)).await;
        assert!(began.elapsed() >= Duration::from_millis(10));
    }
}
