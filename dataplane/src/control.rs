//! The node's client of the control plane: one stream to one replica at a time, and the next replica when it breaks.
//!
//! ```text
//! connect → Hello → Welcome → (snapshot | delta → ack | nack) (events → ack) (command → updates → ack) … → lost → back-off → next URL
//! ```
//!
//! [`agent`] and what it uses decide, without I/O; [`stream`] moves the messages. Nothing here is on the way of a player's
//! frames: with the control plane away the node goes on with what it has.

mod agent;
mod backoff;
mod commands;
mod deliveries;
mod dispatch;
mod presence;
mod push;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::node::Node;
use agent::Agent;
use backoff::Backoff;
use stream::End;

/// Keeps the node attached to the control plane: tries the configured URLs in turn until [`Node::shutdown`] is cancelled.
///
/// After that it stays until every session has ended and the replica has acknowledged all there was to say, but not longer
/// than 2 s after the last session's end, nor 2 s more than the drain's time. While not attached it returns at once.
pub async fn run(node: Arc<Node>) {
    run_at(node, Pace::default()).await;
}

/// How fast things go; other than the default only in tests.
#[derive(Debug, Clone)]
struct Pace {
    /// The first wait after a failure.
    first_wait: Duration,
    /// The longest wait between attempts.
    longest_wait: Duration,
    /// A stream that lasted so long was a success: the waits begin anew after it.
    steady: Duration,
    /// The time a connection may take, TLS included.
    connect: Duration,
    /// Between heartbeats. A replica drops a node it has not heard for the lease (10 s by default).
    heartbeat: Duration,
    /// A replica that says nothing or takes nothing for so long is dead.
    silence: Duration,
    /// A replica that acknowledges no session event for so long cannot reach its store: perhaps another can.
    unacknowledged: Duration,
    /// Between HTTP/2 pings, and the wait for their answers.
    keep_alive: Duration,
    /// How long session events are gathered.
    gather: Duration,
    /// The wait for the last acknowledgements at shutdown.
    last_words: Duration,
    /// The wait for the stream's end after that.
    goodbye: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(5),
            steady: Duration::from_secs(5),
            connect: Duration::from_secs(3),
            heartbeat: Duration::from_secs(2),
            silence: Duration::from_secs(10),
            unacknowledged: Duration::from_secs(30),
            keep_alive: Duration::from_secs(3),
            gather: Duration::from_millis(50),
            last_words: Duration::from_secs(2),
            goodbye: Duration::from_millis(200),
        }
    }
}

async fn run_at(node: Arc<Node>, pace: Pace) {
    let urls = node.config.control.clone();
    let shutdown = node.shutdown.clone();
    if urls.is_empty() {
        tracing::error!("no control plane is configured (control = [\"http://…\"])");
        return shutdown.cancelled().await;
    }
    let mut agent = Agent::new(node);
    let mut backoff = Backoff::new(pace.first_wait, pace.longest_wait);
    let mut complaints = Complaints(vec![None; urls.len()]);
    for (index, url) in urls.iter().enumerate().cycle() {
        match stream::attach(&mut agent, url, &pace).await {
            End::Shutdown => return,
            End::Unreached(why) => complaints.unreached(index, url, why),
            End::Lost { why, lasted } => {
                if lasted >= pace.steady {
                    backoff.reset();
                    complaints.forget();
                }
                tracing::warn!(url, why, lasted = ?lasted, "lost the control plane, going on with what is in force");
            }
        }
        tokio::select! {
            () = crate::timer::sleep(backoff.wait(fastrand::f64())) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// What was logged of each URL, so that the same trouble is told once and not at every attempt.
struct Complaints(Vec<Option<String>>);

impl Complaints {
    fn unreached(&mut self, index: usize, url: &str, why: String) {
        if self.0[index].as_ref() == Some(&why) {
            tracing::debug!(url, why, "still cannot attach to the control plane");
        } else {
            tracing::warn!(url, why, "cannot attach to the control plane, trying on");
            self.0[index] = Some(why);
        }
    }

    fn forget(&mut self) {
        self.0.fill(None);
    }
}
