//! What a node reports, put into the store in the order it came. A store that is away is waited for; the stream stays up.

use std::time::Duration;

use moonbridge_proto::v1::{self, CommandState, control_message};
use tokio::sync::mpsc;
use tonic::Status;

use super::stream::{End, Out};
use crate::commands::{self, Step};
use crate::presence::{AttachError, Attachment};
use crate::replica::Replica;
use crate::snapshots;
use crate::store::StoreError;

/// Messages taken at once; command updates among them that follow each other share a transaction.
const AT_ONCE: usize = 64;
/// Mistakes of a push that are kept and logged.
const MAX_MISTAKES: usize = 32;
/// Between attempts while the store is away.
const RETRY: Duration = Duration::from_millis(500);

/// Something that a node reports.
pub(super) enum Item {
    Events(v1::SessionEvents),
    Command(v1::CommandUpdate),
    Node(Box<v1::Node>),
    InForce(v1::Revision),
    Nack(v1::Nack),
    /// The node ends.
    Goodbye,
}

pub(super) struct Inbox<'a> {
    pub(super) replica: &'a Replica,
    pub(super) attachment: Attachment,
    pub(super) out: Out,
    pub(super) items: mpsc::Receiver<Item>,
}

impl Inbox<'_> {
    /// `first`: the results in the node's Hello.
    pub(super) async fn run(mut self, first: Vec<v1::CommandUpdate>) -> Result<(), End> {
        self.commands(first).await?;
        let mut items = Vec::with_capacity(AT_ONCE);
        loop {
            if self.items.recv_many(&mut items, AT_ONCE).await == 0 {
                return Err(End::Failed(Status::cancelled("the node's connection is gone")));
            }
            let mut updates = Vec::new();
            for item in items.drain(..) {
                match item {
                    Item::Command(update) => {
                        updates.push(update);
                        continue;
                    }
                    other => {
                        self.commands(std::mem::take(&mut updates)).await?;
                        self.one(other).await?;
                    }
                }
            }
            self.commands(updates).await?;
        }
    }

    async fn one(&mut self, item: Item) -> Result<(), End> {
        let node = self.attachment.node().clone();
        match item {
            Item::Command(update) => self.commands(vec![update]).await,
            Item::Events(events) => {
                let store = &*self.replica.store;
                while waited(self.attachment.set_sessions(store, &events.events).await).await?.is_none() {}
                let ack = v1::EventsAck { sequence: events.sequence };
                Ok(self.out.send(control_message::Message::EventsAck(ack)).await?)
            }
            Item::Node(reported) => {
                // What the node holds is known from its acks; a report may be older than the last of them.
                self.set_node(v1::Node { revision: node.revision, refused: node.refused, refused_for: node.refused_for, ..*reported }).await
            }
            Item::InForce(revision) => {
                tracing::debug!(node = node.name, revision = revision.number, "the snapshot is in force");
                self.set_node(v1::Node { revision: Some(revision), refused: None, refused_for: Vec::new(), ..node }).await
            }
            Item::Nack(mut nack) => {
                nack.errors.truncate(MAX_MISTAKES);
                let revision = nack.revision.as_ref().map_or(0, |revision| revision.number);
                let mistakes = snapshots::shown(&nack.errors);
                tracing::error!(node = node.name, revision, mistakes, "the node refuses the snapshot and keeps the one before");
                self.set_node(v1::Node { refused: nack.revision, refused_for: nack.errors, ..node }).await
            }
            Item::Goodbye => {
                if let Err(error) = self.replica.store.lease_revoke(self.attachment.lease()).await {
                    tracing::debug!(node = node.name, %error, "cannot revoke the lease: it runs out by itself");
                }
                Err(End::Goodbye)
            }
        }
    }

    /// The node's record is not waited for while the store is away: the next report brings it.
    async fn set_node(&mut self, node: v1::Node) -> Result<(), End> {
        match self.attachment.set_node(&*self.replica.store, node).await {
            Ok(()) => Ok(()),
            Err(AttachError::Store(error)) => {
                tracing::debug!(%error, "cannot write a node's record, trying again with its next report");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn commands(&mut self, updates: Vec<v1::CommandUpdate>) -> Result<(), End> {
        let mut steps = Vec::with_capacity(updates.len());
        for update in &updates {
            let Some(step) = commands::reported(update) else { continue };
            if !self.is_ours(&update.id).await? {
                tracing::warn!(node = self.attachment.node().name, id = update.id, "the node reports on a command of another: ignored");
                continue;
            }
            // Of one command only the last step of a batch counts.
            steps.retain(|(id, _): &(String, Step)| *id != update.id);
            steps.push((update.id.clone(), step));
        }
        if !steps.is_empty() {
            let replica = self.replica;
            while waited(commands::take(&*replica.store, &replica.commands, &steps, false).await).await?.is_none() {}
        }
        for update in updates {
            if matches!(update.state(), CommandState::Succeeded | CommandState::Failed) {
                self.out.send(control_message::Message::CommandAck(v1::CommandAck { id: update.id })).await?;
            }
        }
        Ok(())
    }

    /// Whether a command is this node's; true as well for one that is no longer recorded.
    async fn is_ours(&self, id: &str) -> Result<bool, End> {
        let known = loop {
            if let Some(known) = self.replica.commands.get(id) {
                break Some(known);
            }
            if let Some(stored) = waited(commands::get(&*self.replica.store, id).await).await? {
                break stored;
            }
        };
        Ok(known.is_none_or(|known| known.command.node_id == self.attachment.node().id))
    }
}

/// What came of something; `None`, after a while, if the store was away and it is to be done again.
async fn waited<T>(outcome: Result<T, impl Into<AttachError>>) -> Result<Option<T>, End> {
    match outcome.map_err(Into::into) {
        Ok(value) => Ok(Some(value)),
        Err(AttachError::Store(StoreError::Unavailable(_))) => {
            tokio::time::sleep(RETRY).await;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
