//! Questions of a session's that are answered later, while it goes on.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Questions that wait for their answers: a few, so that all are looked at in turn.
pub(super) struct Asks<T> {
    waiting: Vec<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T> Default for Asks<T> {
    fn default() -> Self {
        Asks { waiting: Vec::new() }
    }
}

impl<T> Asks<T> {
    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// One more. Whoever asks sees to it that there are not too many.
    pub(super) fn push(&mut self, ask: impl Future<Output = T> + Send + 'static) {
        self.waiting.push(Box::pin(ask));
    }

    /// The next answer.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        for index in 0..self.waiting.len() {
            if let Poll::Ready(answer) = self.waiting[index].as_mut().poll(cx) {
                drop(self.waiting.remove(index));
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    }
}
