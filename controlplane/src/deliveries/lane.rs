//! What waits for a node whose stream is here.

use std::sync::Arc;

use moonbridge_proto::v1;
use tokio::sync::mpsc;

use super::{Deliveries, MAX_WAITING};

/// The end that deliveries are put in at.
pub(super) struct Queue(mpsc::Sender<Next>);

/// The end that they are taken at, of the node's newest stream here. Dropped, the node's stream is not here any more.
pub(crate) struct Lane {
    deliveries: Arc<Deliveries>,
    node: String,
    waiting: mpsc::Receiver<Next>,
}

/// A delivery that is to be sent.
pub(crate) struct Next {
    pub(crate) delivery: Arc<v1::Delivery>,
    stored: bool,
}

impl Queue {
    /// False if it does not fit.
    pub(super) fn push(&self, delivery: Arc<v1::Delivery>, stored: bool) -> bool {
        self.0.try_send(Next { delivery, stored }).is_ok()
    }
}

impl Lane {
    pub(super) fn new(deliveries: Arc<Deliveries>, node: &str) -> (Self, Queue) {
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        (Self { deliveries, node: node.to_owned(), waiting }, Queue(sender))
    }

    /// What is to be sent next; `None` once a newer stream has begun here and what was for this one has been taken.
    pub(crate) async fn next(&mut self) -> Option<Next> {
        self.waiting.recv().await
    }

    /// It has been sent.
    pub(crate) fn sent(&self, next: &Next) {
        if next.stored {
            self.deliveries.take_out(&self.node, &next.delivery.id);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // First, so that its own queue is told from a newer stream's.
        self.waiting.close();
        let mut state = self.deliveries.lock();
        if state.lanes.get(&self.node).is_some_and(|queue| queue.0.is_closed()) {
            state.lanes.remove(&self.node);
        }
    }
}
