//! What a replica sends to a node by itself: the newest snapshot, one push at a time, and commands.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use moonbridge_proto::snapshot::Revision;
use moonbridge_proto::telemetry::names;
use moonbridge_proto::telemetry::trace::{self, KeyValue, SpanKind, Trace};
use moonbridge_proto::v1::{self, CommandState, control_message};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tonic::Status;

use super::stream::{End, Out};
use crate::commands::{self, BATCH, Step, Tracked};
use crate::replica::Replica;
use crate::snapshots::Push;

/// A node has so long to take a push into force.
const PUSH: Duration = Duration::from_secs(30);
/// Between attempts to dispatch while the store is away.
const RETRY: Duration = Duration::from_secs(1);

/// A node's answer to a push.
pub(super) enum Answer {
    Ack(Revision),
    Nack(Revision),
}

pub(super) struct Outbox<'a> {
    replica: &'a Replica,
    node: String,
    /// What the node runs on.
    held: Option<Revision>,
    /// The newest push that it refused: not sent again.
    refused: Option<Revision>,
    /// The push that it has not answered yet.
    pushed: Option<(Revision, Instant)>,
    /// Open commands that were sent on this stream.
    sent: HashSet<String>,
    woken: Arc<Notify>,
}

impl<'a> Outbox<'a> {
    pub(super) fn new(replica: &'a Replica, node: String, held: Option<Revision>) -> Self {
        let woken = Arc::new(Notify::new());
        replica.commands.wake(&node, woken.clone());
        Self { replica, node, held, refused: None, pushed: None, sent: HashSet::new(), woken }
    }

    pub(super) async fn run(mut self, out: &Out, mut answers: mpsc::Receiver<Answer>) -> Result<(), End> {
        let mut snapshots = self.replica.snapshots.subscribe();
        let woken = self.woken.clone();
        // Whatever is open for the node is sent (again): it answers what it knows from its record.
        let mut retry = self.dispatch(out).await?;
        loop {
            snapshots.mark_unchanged();
            self.push(out).await?;
            let overdue = self.pushed.as_ref().map(|(_, sent)| *sent + PUSH);
            tokio::select! {
                changed = snapshots.changed() => changed.map_err(|_| Status::internal("the snapshots are gone"))?,
                answer = answers.recv() => match answer {
                    Some(answer) => self.answered(answer),
                    None => return Err(Status::cancelled("the node's connection is gone").into()),
                },
                () = woken.notified() => retry = self.dispatch(out).await?,
                () = at(retry) => retry = self.dispatch(out).await?,
                () = at(overdue) => return Err(Status::deadline_exceeded(format!("a snapshot was not acknowledged within {PUSH:?}")).into()),
            }
        }
    }

    async fn push(&mut self, out: &Out) -> Result<(), Status> {
        if self.pushed.is_some() {
            return Ok(());
        }
        let Some((to, push)) = self.replica.snapshots.push_from(self.held.as_ref()) else { return Ok(()) };
        if self.refused.as_ref() == Some(&to) {
            return Ok(());
        }
        self.pushed = Some((to, Instant::now()));
        out.send(match push {
            Push::Full(snapshot) => control_message::Message::Snapshot(snapshot),
            Push::Delta(delta) => control_message::Message::Delta(delta),
        })
        .await
    }

    fn answered(&mut self, answer: Answer) {
        let is_awaited = |revision: &Revision| self.pushed.as_ref().is_some_and(|(pushed, _)| pushed == revision);
        match answer {
            Answer::Ack(revision) if is_awaited(&revision) => (self.held, self.refused) = (Some(revision), None),
            // It may have refused a delta for its base: the next push is a whole snapshot, unless this one was.
            Answer::Nack(revision) if is_awaited(&revision) => match self.held.take() {
                Some(_) => {}
                None => self.refused = Some(revision),
            },
            Answer::Ack(revision) | Answer::Nack(revision) => {
                tracing::debug!(node = self.node, %revision, "an answer to a push that is not waited for");
                return;
            }
        }
        self.pushed = None;
    }

    /// Sends every open command that this stream has not sent. Gives when to try again, if the store is away.
    async fn dispatch(&mut self, out: &Out) -> Result<Option<Instant>, End> {
        let replica = self.replica;
        let open = replica.commands.open_of(&self.node);
        let ids: HashSet<&str> = open.iter().map(|tracked| tracked.command.id.as_str()).collect();
        self.sent.retain(|id| ids.contains(id.as_str()));
        // One that is overdue is the sweeper's.
        let now = commands::now_ms();
        let fresh = open.iter().filter(|tracked| tracked.command.deadline_unix_ms > now && !self.sent.contains(&tracked.command.id));
        let fresh: Vec<_> = fresh.collect();
        for batch in fresh.chunks(BATCH) {
            let pending = batch.iter().filter(|tracked| tracked.command.state() == CommandState::Pending);
            let spans: Vec<_> = pending.map(|tracked| (tracked.command.clone(), span(replica, &tracked.command))).collect();
            let steps =
                spans.iter().map(|(command, span)| (command.id.clone(), Step::Dispatched { traceparent: traceparent(command, span) }));
            let steps: Vec<_> = steps.collect();
            if let Err(error) = commands::take(&*replica.store, &replica.commands, &steps, false).await {
                tracing::warn!(node = self.node, %error, "cannot dispatch commands, trying again");
                return Ok(Some(Instant::now() + RETRY));
            }
            for tracked in batch {
                // As it is now: another replica may have dispatched it, the sweeper may have ended it.
                let Some(Tracked { command, .. }) = replica.commands.get(&tracked.command.id) else { continue };
                if !commands::is_terminal(&command) {
                    self.sent.insert(command.id.clone());
                    out.send(control_message::Message::Command((*command).clone())).await?;
                }
            }
            for (command, span) in spans {
                let dispatched = replica.commands.get(&command.id);
                // Only whoever dispatched it has made the span that the node goes on below.
                if dispatched.is_some_and(|dispatched| dispatched.command.traceparent == span.traceparent()) {
                    let created = UNIX_EPOCH + Duration::from_millis(u64::try_from(command.created_unix_ms).unwrap_or(0));
                    span.finish(created, SystemTime::now(), trace::ok());
                }
            }
        }
        Ok(None)
    }
}

impl Drop for Outbox<'_> {
    fn drop(&mut self) {
        self.replica.commands.stop_waking(&self.node, &self.woken);
    }
}

/// The span of a dispatch: from the command's creation until it is sent to its node.
fn span(replica: &Replica, command: &v1::Command) -> Trace {
    Trace::new(names::DISPATCH, Some(&trace::parent(&command.traceparent)))
        .kind(SpanKind::Producer)
        .attribute(KeyValue::new(names::COMMAND_ID, command.id.clone()))
        .attribute(KeyValue::new(names::NODE, command.node_id.clone()))
        .attribute(KeyValue::new(names::REPLICA, replica.name.clone()))
}

/// What the node goes on below; nothing for a command that nobody traces.
fn traceparent(command: &v1::Command, span: &Trace) -> String {
    if command.traceparent.is_empty() { String::new() } else { span.traceparent() }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
