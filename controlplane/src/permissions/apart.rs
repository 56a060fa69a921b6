//! Work that may keep a processor for long, such as hundreds of regular expressions on hundreds of permissions: on threads of its own, a
//! few at a time, so that whoever asks for much waits for itself and not everybody else.

use tokio::sync::Semaphore;
use tonic::Status;

/// Pieces of work under way at once, of everybody's.
const AT_ONCE: usize = 2;

/// First come, first served.
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Does a piece of work when its turn has come. Long work is done in pieces, so that others get a turn in between.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    let ended = |error: &dyn std::error::Error| Status::internal(error.to_string());
    let turn = TURNS.acquire().await.map_err(|error| ended(&error))?;
    let done = tokio::task::spawn_blocking(move || {
        // Kept also if whoever asked is gone: the thread is busy all the same.
        let _turn = turn;
        work()
    });
    done.await.map_err(|error| ended(&error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// On a runtime of one thread, which the work would keep.
    #[tokio::test]
    async fn others_go_on_meanwhile_and_a_third_waits() {
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let end = std::sync::Arc::new(std::sync::Mutex::new(end));
        let waits = || {
            let end = end.clone();
            apart(move || end.lock().expect("not poisoned").recv().expect("told"))
        };
        let both = tokio::spawn(futures::future::join(waits(), waits()));
        while TURNS.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let third = tokio::spawn(apart(|| 3));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!third.is_finished());
        ends.send(()).expect("somebody waits");
        ends.send(()).expect("somebody waits");
        let third = tokio::time::timeout(Duration::from_secs(30), third).await.expect("its turn comes").expect("no panic");
        assert_eq!(third.expect("done"), 3);
        let (first, second) = both.await.expect("no panic");
        first.and(second).expect("done");
    }
}
