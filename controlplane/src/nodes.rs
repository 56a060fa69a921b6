//! The nodes' streams.
//!
//! One stream is some loops that run until the first of them ends ([`stream`]): what comes in is read ([`stream`]) and put into the
//! store in order ([`inbox`]); what goes out is pushes and commands ([`outbox`]), answers to claims and
//! whom they displaced ([`claims`]), players' permissions ([`permissions`]), answers to what sessions ask of the network ([`ask`]) and
//! what other sessions have for the node's ([`deliveries`]), the network's status, and signs of life; and the node's lease is kept
//! alive while the node gives signs of life. A replica that cannot do that for half the lease ends the stream, so that the node moves
//! to a replica that can.

mod ask;
mod claims;
mod deliveries;
mod inbox;
mod outbox;
mod permissions;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use moonbridge_proto::v1;
use moonbridge_proto::v1::node_service_server::NodeService;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};

use crate::replica::Replica;

/// Messages that wait for a node's connection.
const OUTGOING: usize = 32;

/// The streams of nodes that this replica has: the newest of each node.
#[derive(Default)]
pub(crate) struct Attached {
    newest: Mutex<HashMap<String, CancellationToken>>,
    tasks: TaskTracker,
}

impl Attached {
    /// Ends the node's older stream here, if any; the new one is to end when the token is cancelled.
    fn enter(&self, node: &str) -> CancellationToken {
        let token = CancellationToken::new();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the older stream's leaving sees either its own entry or its token cancelled.
        if let Some(older) = newest.insert(node.to_owned(), token.clone()) {
            older.cancel();
        }
        token
    }

    /// The stream has ended; a newer one has cancelled its token and stays.
    fn leave(&self, node: &str, token: &CancellationToken) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if !token.is_cancelled() {
            newest.remove(node);
        }
    }

    /// Waits until every stream has ended.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The service that nodes attach to.
pub(crate) struct Nodes(pub(crate) Arc<Replica>);

#[tonic::async_trait]
impl NodeService for Nodes {
    type AttachStream = ReceiverStream<Result<v1::ControlMessage, Status>>;

    async fn attach(&self, request: Request<Streaming<v1::NodeMessage>>) -> Result<Response<Self::AttachStream>, Status> {
        let (out, messages) = mpsc::channel(OUTGOING);
        // The answer's headers go out at once: a node may wait for them before it says hello.
        self.0.attached.tasks.spawn(stream::serve(self.0.clone(), request.into_inner(), out));
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
