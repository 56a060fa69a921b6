//! Runtimes that may be let go of anywhere.

use std::io;
use std::ops::Deref;

use tokio::runtime::{Builder, Runtime};

/// A single-threaded runtime. Unlike tokio's own it may be dropped within another, which happens where a thread that was to run it
/// could not be started; what still runs on it is dropped, and what blocks is not waited for.
#[derive(Debug)]
pub(crate) struct Detachable(Option<Runtime>);

impl Detachable {
    /// A runtime of one thread, with what else `set_up` wants of it.
    pub(crate) fn build(set_up: impl FnOnce(&mut Builder) -> &mut Builder) -> io::Result<Detachable> {
        set_up(&mut Builder::new_current_thread()).build().map(|runtime| Detachable(Some(runtime)))
    }

    /// As tokio's own from here on.
    pub(crate) fn into_inner(mut self) -> Option<Runtime> {
        self.0.take()
    }
}

impl Deref for Detachable {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("only what consumes it takes it out")
    }
}

impl Drop for Detachable {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_may_be_dropped_within_another() {
        let runtime = Detachable::build(Builder::enable_time).expect("a runtime");
        let running = runtime.spawn(std::future::pending::<()>());
        drop(runtime);
        assert!(running.await.expect_err("it cannot end").is_cancelled());
    }
}
