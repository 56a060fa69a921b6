//! Answers that are streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::replica::Replica;

/// A caller that takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// The wait to tell a caller why its stream ends.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Messages that wait for the caller.
const WAITING: usize = 16;

pub(super) type Answers<T> = ReceiverStream<Result<T, Status>>;

/// Where the messages go.
pub(super) struct Sender<T>(mpsc::Sender<Result<T, Status>>);

impl<T> Sender<T> {
    /// # Errors
    /// When the caller is gone, or takes nothing.
    pub(super) async fn send(&self, message: T) -> Result<(), Status> {
        let gone = |_| Status::cancelled("the caller takes no messages any more");
        self.0.send_timeout(Ok(message), PATIENCE).await.map_err(gone)
    }
}

/// A stream of what `produce` sends, which ends with its error, with the caller, or with the replica.
pub(super) fn stream<T, F>(replica: &Arc<Replica>, produce: impl FnOnce(Sender<T>) -> F) -> Answers<T>
where
    T: Send + 'static,
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    let producing = produce(Sender(sender.clone()));
    let shutdown = replica.shutdown.clone();
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = producing => ended,
            () = sender.closed() => Ok(()),
            () = shutdown.cancelled() => Err(Status::unavailable("this replica is shutting down: ask another")),
        };
        if let Err(status) = ended {
            // It may be gone.
            let _ = sender.send_timeout(Err(status), LAST_WORD).await;
        }
    });
    ReceiverStream::new(receiver)
}
