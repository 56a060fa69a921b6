//! Answers that are streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::replica::Replica;

/// A caller that takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages that wait for the caller.
const WAITING: usize = 16;

pub(super) type Answers<T> = ReceiverStream<Result<T, Status>>;

/// Where the messages go.
pub(super) struct Sender<T>(mpsc::Sender<Result<T, Status>>);

impl<T> Sender<T> {
    /// # Errors
    /// When the caller is gone, or takes nothing.
    pub(super) async fn send(&self, message: T) -> Result<(), Status> {
        let gone = |_| Status::aborted(format!("nothing of this stream was taken for {PATIENCE:?}: begin anew"));
        self.0.send_timeout(Ok(message), PATIENCE).await.map_err(gone)
    }
}

/// A stream of what `produce` sends, which ends with its error, with the caller, or with the replica.
pub(super) fn stream<T, F>(replica: &Arc<Replica>, produce: impl FnOnce(Sender<T>) -> F) -> Answers<T>
where
    T: Send + 'static,
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING + 1);
    // So that a caller who took nothing is told, too, once it looks: an end without a word would pass for the whole answer.
    let last_word = sender.clone().try_reserve_owned();
    let producing = produce(Sender(sender.clone()));
    let shutdown = replica.shutdown.clone();
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = producing => ended,
            () = sender.closed() => Ok(()),
            () = shutdown.cancelled() => Err(Status::unavailable("this replica is shutting down: ask another")),
        };
        if let (Err(status), Ok(last_word)) = (ended, last_word) {
            last_word.send(Err(status));
        }
    });
    ReceiverStream::new(receiver)
}
