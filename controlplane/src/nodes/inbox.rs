//! What a node reports, put into the store in the order it came. A store that is away is waited for, for as
//! long as the stream stays up without it (`keep_lease`).

use std::time::Duration;

use moonbridge_proto::v1::{self, CommandState, control_message};
use tokio::sync::mpsc;
use tonic::Status;

use super::claims::Held;
use super::permissions::Players;
use super::stream::{End, Out};
use crate::commands::{self, Step};
use crate::presence::{AttachError, Attachment, Claimed};
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
    Claim(v1::Claim),
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
    pub(super) holding: Holding,
    pub(super) players: &'a Players,
    /// Where claims go on from here: see [`super::claims`].
    pub(super) claims: mpsc::Sender<Held>,
}

/// What the node holds, as its acks and nacks say; the next write of its record brings it, whether or not the store was away when they
/// came.
#[derive(Default)]
pub(super) struct Holding {
    pub(super) revision: Option<v1::Revision>,
    pub(super) refused: Option<v1::Revision>,
    pub(super) refused_for: Vec<v1::FieldError>,
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
            let (mut updates, mut claims) = (Vec::new(), Vec::new());
            for item in items.drain(..) {
                if !matches!(item, Item::Command(_)) {
                    self.commands(std::mem::take(&mut updates)).await?;
                }
                if !matches!(item, Item::Claim(_)) {
                    self.claim(std::mem::take(&mut claims)).await?;
                }
                match item {
                    Item::Command(update) => updates.push(update),
                    Item::Claim(claim) => claims.push(claim),
                    Item::Events(events) => self.events(events).await?,
                    Item::Node(reported) => self.set_node(*reported).await?,
                    Item::InForce(revision) => {
                        tracing::debug!(node = self.attachment.node().name, revision = revision.number, "the snapshot is in force");
                        self.holding = Holding { revision: Some(revision), ..Holding::default() };
                        self.set_node(self.attachment.node().clone()).await?;
                    }
                    Item::Nack(nack) => {
                        self.refused(nack);
                        self.set_node(self.attachment.node().clone()).await?;
                    }
                    Item::Goodbye => {
                        if let Err(error) = self.replica.store.lease_revoke(self.attachment.lease()).await {
                            let node = &self.attachment.node().name;
                            tracing::debug!(node, %error, "cannot revoke the lease: it runs out by itself");
                        }
                        return Err(End::Goodbye);
                    }
                }
            }
            self.commands(updates).await?;
            self.claim(claims).await?;
        }
    }

    /// Claims players, in the order of the node's messages, so that the end of a session that came first has freed its player.
    async fn claim(&mut self, claims: Vec<v1::Claim>) -> Result<(), End> {
        if claims.is_empty() {
            return Ok(());
        }
        let policy = self.replica.snapshots.settings().duplicate_login;
        let outcomes = loop {
            if let Some(outcomes) = waited(self.attachment.claim(&*self.replica.store, &claims, policy).await).await? {
                break outcomes;
            }
        };
        for (session, claimed) in outcomes {
            match claimed {
                Claimed::Held { revision, after } => {
                    let claim = claims.iter().find(|claim| claim.session_id == session).cloned().unwrap_or_default();
                    let player = self.players.claimed(&session, &claim.player_uuid);
                    let held = Held { session, player, name: claim.player, revision, after };
                    self.claims.send(held).await.map_err(|_| Status::cancelled("the node's connection is gone"))?;
                }
                Claimed::Refused | Claimed::Displaced => {
                    let refused = v1::ClaimAnswer { session_id: session, ..v1::ClaimAnswer::default() };
                    self.out.send(control_message::Message::ClaimAnswer(refused)).await?;
                }
            }
        }
        Ok(())
    }

    async fn events(&mut self, events: v1::SessionEvents) -> Result<(), End> {
        while waited(self.attachment.set_sessions(&*self.replica.store, &events.events).await).await?.is_none() {}
        self.players.changed(&events.events);
        let ack = v1::EventsAck { sequence: events.sequence };
        Ok(self.out.send(control_message::Message::EventsAck(ack)).await?)
    }

    fn refused(&mut self, mut nack: v1::Nack) {
        nack.errors.truncate(MAX_MISTAKES);
        let revision = nack.revision.as_ref().map_or(0, |revision| revision.number);
        let mistakes = snapshots::shown(&nack.errors);
        let node = &self.attachment.node().name;
        tracing::error!(node, revision, mistakes, "the node refuses the snapshot and keeps the one before");
        (self.holding.refused, self.holding.refused_for) = (nack.revision, nack.errors);
    }

    /// Writes the node's record, with what the node holds: a report may be older than its last ack. It is not waited for while the
    /// store is away: the next report brings it.
    async fn set_node(&mut self, node: v1::Node) -> Result<(), End> {
        let Holding { revision, refused, refused_for } = &self.holding;
        let node = v1::Node { revision: revision.clone(), refused: refused.clone(), refused_for: refused_for.clone(), ..node };
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
