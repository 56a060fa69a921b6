//! The node's side of the conversation: facts in, messages out. It outlives the streams: lease, record of commands and
//! what is in force are kept from one to the next.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use moonbridge_proto::snapshot::Revision;
use moonbridge_proto::v1::{self, control_message::Message as Down, node_message::Message as Up};

use uuid::Uuid;

use super::commands::{Commands, Receive};
use super::deliveries::Deliveries;
use super::dispatch::{Dispatched, Running, dispatch};
use super::push::Push;
use crate::node::Node;
use crate::registry::Outcome;

/// What this node knows and has promised, across streams.
pub(super) struct Agent {
    pub(super) node: Arc<Node>,
    started_unix_ms: i64,
    /// The lease of the newest Welcome, or 0.
    lease_id: i64,
    commands: Commands,
    deliveries: Deliveries,
    /// Handed to sessions, their outcome to come.
    pub(super) running: FuturesUnordered<Running>,
    /// The push that was refused last, so that the same one is not complained of at every reconnect.
    refused: Option<v1::Nack>,
}

/// What a message from the replica leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Reaction {
    /// These are to be sent, in order; perhaps none.
    Send(Vec<Up>),
    /// The replica has taken this node in.
    Welcomed(v1::Welcome),
    /// This batch of session events is in the store.
    EventsAcknowledged(u64),
}

impl Agent {
    pub(super) fn new(node: Arc<Node>) -> Self {
        let (running, commands, deliveries) = (FuturesUnordered::new(), Commands::default(), Deliveries::default());
        Self { node, started_unix_ms: now_unix_ms(), lease_id: 0, commands, deliveries, running, refused: None }
    }

    /// The first message of a stream, with all live sessions and the claims of those that still log in.
    pub(super) fn hello(&mut self, (sessions, claims): (Vec<v1::Session>, Vec<v1::Claim>), now: Instant) -> Up {
        while let Some(Some((id, outcome))) = self.running.next().now_or_never() {
            self.commands.finished(&id, 0, outcome, now);
        }
        let (node, lease_id, held, commands) = (self.describe(), self.lease_id, self.held(), self.commands.open(now));
        Up::Hello(v1::Hello { node: Some(node), lease_id, held, sessions, commands, claims })
    }

    /// A message came.
    pub(super) fn receive(&mut self, message: Down, now: Instant) -> Reaction {
        Reaction::Send(match message {
            Down::Welcome(welcome) => {
                self.lease_id = welcome.lease_id;
                return Reaction::Welcomed(welcome);
            }
            Down::EventsAck(ack) => return Reaction::EventsAcknowledged(ack.sequence),
            Down::Snapshot(snapshot) => vec![self.push(Push::Snapshot(snapshot))],
            Down::Delta(delta) => vec![self.push(Push::Delta(delta))],
            Down::Command(command) => self.command(&command, now),
            Down::CommandAck(ack) => {
                self.commands.acknowledged(&ack.id);
                Vec::new()
            }
            Down::Status(status) => {
                self.node.players_elsewhere.store(status.players_elsewhere, Ordering::Relaxed);
                Vec::new()
            }
            Down::ClaimAnswer(answer) => {
                self.node.registry.answered(answer);
                Vec::new()
            }
            Down::Displaced(displaced) => {
                // The end of one that has gone is on its way.
                if let Ok(id) = Uuid::parse_str(&displaced.session_id) {
                    self.node.registry.displace(&id);
                }
                Vec::new()
            }
            Down::Permissions(permissions) => {
                self.node.registry.set_permissions(permissions);
                Vec::new()
            }
            Down::AskAnswer(answer) => {
                self.node.network.answered(answer);
                Vec::new()
            }
            Down::Delivery(delivery) => {
                self.deliveries.deliver(&self.node.registry, delivery);
                Vec::new()
            }
            Down::Heartbeat(_) => Vec::new(),
        })
    }

    /// A command that ran has ended.
    pub(super) fn ended(&mut self, id: &str, outcome: Outcome, now: Instant) -> Up {
        tracing::debug!(command = id, reason = outcome.result.reason, "command ended");
        Up::Command(self.commands.finished(id, 0, outcome, now))
    }

    /// What is due at a regular tick: the heartbeat, and results that went unanswered.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Up> {
        let overdue = self.commands.overdue(now).into_iter().map(Up::Command);
        std::iter::once(self.heartbeat()).chain(overdue).collect()
    }

    /// Whether the replicas have acknowledged every result.
    pub(super) fn all_acknowledged(&self) -> bool {
        self.commands.all_acknowledged()
    }

    fn push(&mut self, push: Push) -> Up {
        let held = self.node.snapshot.load();
        match push.validate(held.as_deref()) {
            Ok(snapshot) => {
                let ack = v1::Revision::from(&snapshot.revision);
                tracing::info!(
                    revision = %snapshot.revision,
                    backends = snapshot.backends.len(),
                    routes = snapshot.routes.len(),
                    groups = snapshot.groups.len(),
                    "snapshot in force"
                );
                // In force first, acknowledged after.
                self.node.put_in_force(snapshot);
                self.refused = None;
                Up::Ack(ack)
            }
            Err(nack) => {
                if self.refused.as_ref() != Some(&nack) {
                    let fields: Vec<String> = nack.errors.iter().map(ToString::to_string).collect();
                    let revision = nack.revision.clone().map(Revision::from).unwrap_or_default();
                    let kept = held.as_ref().map(|held| held.revision.to_string()).unwrap_or_else(|| "none".to_owned());
                    tracing::warn!(%revision, kept, fields = fields.join("; "), "snapshot refused, the last good one stays in force");
                    self.refused = Some(nack.clone());
                }
                Up::Nack(nack)
            }
        }
    }

    fn command(&mut self, command: &v1::Command, now: Instant) -> Vec<Up> {
        match self.commands.receive(command, now_unix_ms(), now) {
            Receive::Answer(update) => return vec![Up::Command(update)],
            Receive::Run => {}
        }
        match dispatch(&self.node, command) {
            Dispatched::Running(outcome) => {
                self.running.push(outcome);
                vec![Up::Command(self.commands.running(command))]
            }
            Dispatched::Ended(outcome) => {
                let update = Up::Command(self.commands.finished(&command.id, command.deadline_unix_ms, outcome, now));
                match command.action {
                    // So that a list of nodes shows it at once.
                    Some(v1::command::Action::Drain(_)) => vec![self.heartbeat(), update],
                    _ => vec![update],
                }
            }
        }
    }

    fn heartbeat(&self) -> Up {
        Up::Heartbeat(v1::Heartbeat { node: Some(self.describe()) })
    }

    fn held(&self) -> Option<v1::Revision> {
        self.node.snapshot.load().as_ref().map(|snapshot| v1::Revision::from(&snapshot.revision))
    }

    fn describe(&self) -> v1::Node {
        let node = &self.node;
        v1::Node {
            id: node.id.to_string(),
            name: node.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: node.config.listener.listen.to_string(),
            drained: node.drained.load(Ordering::Relaxed),
            started_unix_ms: self.started_unix_ms,
            sessions: u32::try_from(node.registry.len()).unwrap_or(u32::MAX),
            revision: self.held(),
            replica: String::new(),
            lease_id: self.lease_id,
            ..v1::Node::default()
        }
    }
}

fn now_unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
