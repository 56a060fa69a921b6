//! Where commands and deliveries wait for their session: a bounded queue that owns no memory while it is empty, for there are
//! thousands of them (tokio's own keep room for 32 messages from the beginning).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::task::AtomicWaker;

/// A mailbox for at most `places` messages.
pub(super) fn mailbox<T>(places: usize) -> (Sender<T>, Mailbox<T>) {
    let shared = Arc::new(Shared { signal: AtomicBool::new(false), reader: AtomicWaker::new(), queue: Mutex::new(Queue::new(places)) });
    (Sender(shared.clone()), Mailbox { shared, registered: None })
}

/// The way in; when it is dropped, the mailbox's messages end.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Messages for one session.
#[derive(Debug)]
pub struct Mailbox<T> {
    shared: Arc<Shared<T>>,
    /// Who is registered as the reader, for as long as nothing has come.
    registered: Option<Waker>,
}

#[derive(Debug)]
struct Shared<T> {
    /// There is something to see under the lock: a message, or the end.
    signal: AtomicBool,
    reader: AtomicWaker,
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    waiting: VecDeque<T>,
    places: usize,
    /// Nobody sends any more.
    ended: bool,
    /// Nobody takes any more.
    closed: bool,
}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Closed,
}

impl<T> Queue<T> {
    fn new(places: usize) -> Queue<T> {
        Queue { waiting: VecDeque::new(), places, ended: false, closed: false }
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.waiting.pop_front();
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        first
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the reader look. Under the lock, which the reader takes before it registers again: so it is never woken for what it has
    /// seen already, and whoever is registered stays so until there is something to see.
    fn wake(&self, _: &MutexGuard<'_, Queue<T>>) {
        self.signal.store(true, Ordering::Release);
        self.reader.wake();
    }
}

impl<T> Sender<T> {
    /// Puts a message behind the others; gives it back if it cannot.
    pub(super) fn try_send(&self, message: T) -> Result<(), (Refused, T)> {
        let mut queue = self.0.lock();
        match queue.waiting.len() {
            _ if queue.closed => return Err((Refused::Closed, message)),
            waiting if waiting >= queue.places => return Err((Refused::Full, message)),
            _ => queue.waiting.push_back(message),
        }
        self.0.wake(&queue);
        Ok(())
    }

    /// How many more would be taken now.
    pub(super) fn capacity(&self) -> usize {
        let queue = self.0.lock();
        queue.places.saturating_sub(queue.waiting.len())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.ended = true;
        self.0.wake(&queue);
    }
}

impl<T> Mailbox<T> {
    /// The next message; none when there will be no more. Takes no lock while there is nothing to see.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let shared = &*self.shared;
        if !shared.signal.load(Ordering::Acquire) {
            if self.registered.as_ref().is_some_and(|registered| registered.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            shared.reader.register(cx.waker());
            // It may have come before the waker was there.
            if !shared.signal.load(Ordering::Acquire) {
                self.registered = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        self.registered = None;
        let mut queue = shared.lock();
        let first = queue.pop();
        match first {
            Some(_) => {
                shared.signal.store(queue.ended || !queue.waiting.is_empty(), Ordering::Release);
                Poll::Ready(first)
            }
            None => Poll::Ready(None),
        }
    }

    /// As [`Mailbox::poll_recv`].
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Takes no more, and drops what waits.
    pub(super) fn close(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(waiting);
    }

    /// What waits, without waiting for it.
    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        use futures::FutureExt as _;
        self.recv().now_or_never().flatten()
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use futures::FutureExt as _;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn messages_come_in_order_and_end_with_their_sender() {
        let (sender, mut mailbox) = mailbox(3);
        assert_eq!(mailbox.recv().now_or_never(), None, "nothing has come");
        for message in 0..3 {
            assert_eq!(sender.try_send(message), Ok(()));
        }
        assert_eq!((sender.try_send(3), sender.capacity()), (Err((Refused::Full, 3)), 0));
        assert_eq!((mailbox.try_recv(), sender.capacity()), (Some(0), 1));
        drop(sender);
        assert_eq!([mailbox.try_recv(), mailbox.try_recv()], [Some(1), Some(2)]);
        assert_eq!([mailbox.recv().now_or_never(), mailbox.recv().now_or_never()], [Some(None); 2], "the end stays");
    }

    #[test]
    fn a_closed_mailbox_takes_nothing_and_holds_nothing() {
        let (sender, mut mailbox) = mailbox(3);
        let message = Arc::new(());
        assert!(sender.try_send(message.clone()).is_ok());
        mailbox.close();
        assert_eq!(Arc::strong_count(&message), 1);
        assert_eq!(sender.try_send(message).map_err(|(refused, _)| refused), Err(Refused::Closed));
    }

    #[test]
    fn whoever_waits_is_woken_by_a_message_and_by_the_end() {
        const MANY: u32 = 20_000;
        let (sender, mut mailbox) = mailbox(1);
        let reader = thread::spawn(move || {
            block_on(async {
                for message in 0..MANY {
                    assert_eq!(mailbox.recv().await, Some(message));
                }
                mailbox.recv().await
            })
        });
        // One place: both sides meet at every message, in every way in which they can.
        for message in 0..MANY {
            while sender.try_send(message).is_err() {
                thread::yield_now();
            }
        }
        drop(sender);
        assert_eq!(reader.join().expect("no panic"), None);
    }

    #[test]
    fn an_empty_mailbox_owns_no_room_for_messages() {
        let (sender, mut mailbox) = mailbox::<[u8; 256]>(200);
        for _ in 0..100 {
            assert!(sender.try_send([0; 256]).is_ok());
        }
        while mailbox.try_recv().is_some() {}
        assert_eq!(mailbox.shared.lock().waiting.capacity(), 0);
    }
}
