//! One node's stream, from its Hello to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moonbridge_proto::v1::{self, control_message, node_message};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use uuid::Uuid;

use super::inbox::{Holding, Inbox, Item};
use super::outbox::{Answer, Outbox};
use super::permissions::{self, Players};
use super::{ask, claims, deliveries};
use crate::presence::{AttachError, Attachment};
use crate::replica::Replica;
use crate::status;
use crate::store::{LeaseId, StoreError, StoreRevision};

/// Messages that wait to be put into the store; then the node is not read.
const INCOMING: usize = 128;
/// Acks and nacks that wait; a node has one push to answer.
const ANSWERS: usize = 8;
/// Claims that wait to be waited for.
const CLAIMS: usize = 128;
/// Questions that wait; those beyond are not answered.
const ASKS: usize = 1_024;
/// Signs of life of the replica: at least every 3 s are promised.
const HEARTBEAT: Duration = Duration::from_millis(1500);
/// The network's status is sent at most so often.
const STATUS: Duration = Duration::from_secs(1);
/// The longest name of a node, in bytes.
const MAX_NAME: usize = 128;

/// Why a stream ended, apart from failures.
pub(super) enum End {
    /// The node has said goodbye.
    Goodbye,
    Failed(Status),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

impl From<AttachError> for End {
    fn from(error: AttachError) -> Self {
        Self::Failed(match error {
            AttachError::Superseded | AttachError::Contended => Status::aborted(error.to_string()),
            AttachError::Store(error) => status::store(error),
        })
    }
}

/// The way to the node.
#[derive(Clone)]
pub(super) struct Out {
    pub(super) sender: mpsc::Sender<Result<v1::ControlMessage, Status>>,
    /// A node that takes nothing for so long is gone.
    pub(super) patience: Duration,
}

impl Out {
    pub(super) async fn send(&self, message: control_message::Message) -> Result<(), Status> {
        let message = v1::ControlMessage { message: Some(message) };
        match timeout(self.patience, self.sender.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Status::cancelled("the node's connection is gone")),
            Err(_) => Err(Status::deadline_exceeded("the node takes no messages any more")),
        }
    }
}

/// Serves a node until its stream ends; says why if it was not the node's own wish.
pub(super) async fn serve(
    replica: Arc<Replica>,
    incoming: Streaming<v1::NodeMessage>,
    out: mpsc::Sender<Result<v1::ControlMessage, Status>>,
) {
    let ended = tokio::select! {
        ended = greet(&replica, incoming, Out { sender: out.clone(), patience: replica.lease }) => ended,
        () = replica.shutdown.cancelled() => Err(Status::unavailable("this replica is shutting down: connect to another")),
    };
    if let Err(status) = ended {
        // A connection that takes it not even now gets no reason.
        let _ = timeout(Duration::from_secs(1), out.send(Err(status))).await;
    }
}

async fn greet(replica: &Arc<Replica>, mut incoming: Streaming<v1::NodeMessage>, out: Out) -> Result<(), Status> {
    let first = timeout(replica.lease, incoming.message()).await;
    let first = first.map_err(|_| Status::deadline_exceeded("no Hello came"))??.and_then(|message| message.message);
    let Some(node_message::Message::Hello(hello)) = first else {
        return Err(Status::invalid_argument("the first message must be a Hello"));
    };
    let node = hello_node(replica, &hello)?;
    let name = node.name.clone();
    let token = replica.attached.enter(&node.id);
    let guard = Leave { replica, node: node.id.clone(), token: token.clone() };
    let end = tokio::select! {
        ended = attached(replica, node, hello, incoming, out) => ended.err().unwrap_or(End::Goodbye),
        () = token.cancelled() => End::Failed(Status::aborted("a newer stream of this node has begun")),
    };
    drop(guard);
    match end {
        End::Goodbye => {
            tracing::info!(node = name, "the node has left");
            Ok(())
        }
        End::Failed(status) => {
            tracing::warn!(node = name, code = ?status.code(), reason = status.message(), "the stream of a node has ended");
            Err(status)
        }
    }
}

/// Takes a stream out of those attached, however it ends.
struct Leave<'a> {
    replica: &'a Replica,
    node: String,
    token: CancellationToken,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.replica.attached.leave(&self.node, &self.token);
    }
}

/// The node as it is to be stored.
fn hello_node(replica: &Replica, hello: &v1::Hello) -> Result<v1::Node, Status> {
    let node = hello.node.clone().ok_or_else(|| Status::invalid_argument("hello.node: missing"))?;
    let id =
        Uuid::try_parse(&node.id).map_err(|_| Status::invalid_argument(format!("hello.node.id: expected a UUID, got {:?}", node.id)))?;
    status::bounded("hello.node.name", &node.name, MAX_NAME)?;
    Ok(v1::Node {
        id: id.to_string(),
        replica: replica.name.clone(),
        lease_id: hello.lease_id,
        revision: hello.held.clone(),
        refused: None,
        refused_for: Vec::new(),
        ..node
    })
}

/// Takes the node in, then serves it until the first of the loops ends.
async fn attached(replica: &Replica, node: v1::Node, hello: v1::Hello, incoming: Streaming<v1::NodeMessage>, out: Out) -> Result<(), End> {
    let store = &*replica.store;
    let (changes, players) = (replica.users.changes(), Players::of(&hello));
    let attachment = Attachment::begin(store, node, hello.sessions, hello.claims, replica.lease).await?;
    let (lease, fence, id) = (attachment.lease(), attachment.fence(), attachment.node().id.clone());
    tracing::info!(node = attachment.node().name, id, lease, resumed = attachment.resumed, "a node is attached");
    let welcome = v1::Welcome {
        replica: replica.name.clone(),
        store_id: store.id().to_owned(),
        lease_id: lease,
        lease_seconds: u32::try_from(replica.lease.as_secs()).unwrap_or(u32::MAX),
        lease_resumed: attachment.resumed,
    };
    out.send(control_message::Message::Welcome(welcome)).await?;

    let (items, inbox) = mpsc::channel(INCOMING);
    let (answers, answered) = mpsc::channel(ANSWERS);
    let (questions, asks) = mpsc::channel(ASKS);
    let heard = AtomicU64::new(0);
    let outbox = Outbox::new(replica, id.clone(), hello.held.map(Into::into));
    let holding = Holding { revision: attachment.node().revision.clone(), ..Holding::default() };
    let (held, claims) = mpsc::channel(CLAIMS);
    let inbox = Inbox { replica, attachment, out: out.clone(), items: inbox, holding, players: &players, claims: held };
    let unread = items.clone();
    let held = Held { lease, node: &id, fence };
    tokio::try_join!(
        read(incoming, Ways { items, answers, questions }, &heard, replica.lease),
        inbox.run(hello.commands),
        outbox.run(&out, answered),
        tell_status(replica, &id, &out),
        claims::answer(replica, &id, &players, &out, claims),
        permissions::tell(replica, &players, changes, &out),
        claims::tell_displaced(replica, &id, &out),
        ask::answer(replica, &out, asks),
        deliveries::tell(replica, &id, &out),
        // A node that is not read because the inbox is full is not silent.
        keep_lease(replica, held, &heard, || unread.capacity() == 0),
    )?;
    Ok(())
}

/// Where what the node sends goes on.
struct Ways {
    items: mpsc::Sender<Item>,
    answers: mpsc::Sender<Answer>,
    questions: mpsc::Sender<v1::Ask>,
}

/// Reads what the node sends, for as long as it sends something.
async fn read(
    mut incoming: Streaming<v1::NodeMessage>,
    Ways { items, answers, questions }: Ways,
    heard: &AtomicU64,
    patience: Duration,
) -> Result<(), End> {
    loop {
        // Only when there is room, so that a store that is slow or away is not taken for a silent node.
        let Ok(permit) = items.reserve().await else { return std::future::pending().await };
        let message = match timeout(patience, incoming.message()).await {
            Ok(Ok(Some(message))) => message.message,
            Ok(Ok(None)) => return Err(Status::cancelled("the node has closed the stream without a goodbye").into()),
            Ok(Err(status)) => return Err(Status::cancelled(format!("the connection is lost: {}", status.message())).into()),
            Err(_) => return Err(Status::deadline_exceeded(format!("nothing was heard of the node for {patience:?}")).into()),
        };
        heard.fetch_add(1, Ordering::Relaxed);
        // Of a newer protocol: not for us.
        let Some(message) = message else { continue };
        match message {
            node_message::Message::Hello(_) => return Err(Status::invalid_argument("a second Hello: open a new stream").into()),
            node_message::Message::Ack(revision) => {
                permit.send(Item::InForce(revision.clone()));
                let _ = answers.send(Answer::Ack(revision.into())).await;
            }
            node_message::Message::Nack(nack) => {
                let revision = nack.revision.clone().unwrap_or_default();
                permit.send(Item::Nack(nack));
                let _ = answers.send(Answer::Nack(revision.into())).await;
            }
            node_message::Message::Events(events) => permit.send(Item::Events(events)),
            node_message::Message::Command(update) => permit.send(Item::Command(update)),
            node_message::Message::Claim(claim) => permit.send(Item::Claim(claim)),
            node_message::Message::Ask(ask) => {
                if let Err(error) = questions.try_send(ask) {
                    tracing::debug!(%error, "a node asks more than it takes answers");
                }
            }
            node_message::Message::Goodbye(_) => {
                permit.send(Item::Goodbye);
                // The inbox ends the stream when it has done what came before.
                return std::future::pending().await;
            }
            node_message::Message::Heartbeat(heartbeat) => {
                if let Some(node) = heartbeat.node {
                    permit.send(Item::Node(Box::new(node)));
                }
            }
        }
    }
}

/// Gives signs of life, and tells how many players the other nodes have when that has changed.
async fn tell_status(replica: &Replica, node: &str, out: &Out) -> Result<(), End> {
    let mut changes = replica.presence.players_changed();
    changes.mark_changed();
    let mut told = None;
    let mut heartbeat = Instant::now() + HEARTBEAT;
    loop {
        match timeout_at(heartbeat, changes.changed()).await {
            Ok(Ok(())) => {
                let players_elsewhere = replica.presence.players_elsewhere(node);
                if told.replace(players_elsewhere) != Some(players_elsewhere) {
                    out.send(control_message::Message::Status(v1::NetworkStatus { players_elsewhere })).await?;
                    heartbeat = Instant::now() + HEARTBEAT;
                    sleep(STATUS).await;
                }
            }
            // The sender lives as long as the replica.
            Ok(Err(_)) => return Err(Status::internal("presence is gone").into()),
            Err(_) => {
                out.send(control_message::Message::Heartbeat(v1::ReplicaHeartbeat {})).await?;
                heartbeat = Instant::now() + HEARTBEAT;
            }
        }
    }
}

/// The lease of a node that a stream keeps, and the revision that the stream began at.
pub(super) struct Held<'a> {
    pub(super) lease: LeaseId,
    pub(super) node: &'a str,
    pub(super) fence: StoreRevision,
}

/// Lets the lease live on while the node gives signs of life, and ends the stream when a newer one has begun elsewhere, or when the
/// store could not be told for half the lease: another replica may reach it, and then there is time left to go on with the lease.
pub(super) async fn keep_lease(replica: &Replica, held: Held<'_>, heard: &AtomicU64, is_unread: impl Fn() -> bool) -> Result<(), End> {
    let (step, patience) = (replica.lease / 5, replica.lease / 2);
    let mut before = heard.load(Ordering::Relaxed);
    let mut kept = Instant::now();
    let mut next = kept + step;
    loop {
        sleep_until(next).await;
        if replica.presence.stream_of(held.node).is_some_and(|newest| newest > held.fence) {
            return Err(AttachError::Superseded.into());
        }
        let (now, began) = (heard.load(Ordering::Relaxed), Instant::now());
        next = began + step;
        if now == before && !is_unread() {
            continue;
        }
        // After a silence of the node the store still gets a moment to answer.
        let until = next.max(kept + patience);
        let problem = match timeout_at(until, replica.store.lease_keep_alive(held.lease)).await {
            Ok(Ok(())) => {
                (before, kept, next) = (now, began, Instant::now() + step);
                continue;
            }
            Ok(Err(StoreError::NoLease(_))) => return Err(AttachError::Superseded.into()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the store does not answer".to_owned(),
        };
        tracing::debug!(node = held.node, problem, "cannot keep the lease alive, trying again");
        if kept.elapsed() >= patience {
            let why = format!("this replica could not keep the node's lease alive for {patience:?} ({problem}): attach to another");
            return Err(Status::unavailable(why).into());
        }
        next = next.min(kept + patience);
    }
}
