//! Claims of a node's logins: answered when the sessions that they displaced have ended; and the node's own sessions that were
//! displaced, told to it.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use moonbridge_proto::v1::{self, control_message};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;

use super::stream::{End, Out};
use crate::replica::Replica;
use crate::store::StoreRevision;

/// How long the end of a session that was displaced is awaited: then the login goes on.
const PATIENCE: Duration = Duration::from_secs(2);
/// Logins that may wait at once; no more claims are taken on meanwhile.
const WAITING: usize = 4_096;

/// A claim that is in the store.
pub(super) struct Held {
    pub(super) session: String,
    pub(super) revision: StoreRevision,
    pub(super) after: Vec<String>,
}

/// Answers each claim when its time has come. How many players the other nodes have is as of the claim then, so that whoever was
/// displaced is not in it any more.
pub(super) async fn answer(replica: &Replica, node: &str, out: &Out, mut claims: mpsc::Receiver<Held>) -> Result<(), End> {
    let mut waiting = FuturesUnordered::new();
    loop {
        tokio::select! {
            claim = claims.recv(), if waiting.len() < WAITING => match claim {
                Some(Held { session, revision, after }) => waiting.push(async move {
                    if timeout(PATIENCE, replica.presence.ended(revision, &after)).await.is_err() {
                        tracing::warn!(session, after = after.join(" "), "what this session displaced does not end in time: it goes on");
                    }
                    session
                }),
                None => return Err(Status::cancelled("the node's connection is gone").into()),
            },
            Some(session_id) = waiting.next(), if !waiting.is_empty() => {
                let players_elsewhere = replica.presence.players_elsewhere(node);
                out.send(control_message::Message::ClaimAnswer(v1::ClaimAnswer { session_id, held: true, players_elsewhere, permissions: None })).await?;
            }
        }
    }
}

/// Tells the node which of its sessions are to end.
pub(super) async fn tell_displaced(replica: &Replica, node: &str, out: &Out) -> Result<(), End> {
    let mut changes = replica.presence.players_changed();
    let mut told = HashSet::new();
    loop {
        let displaced = replica.presence.displaced_on(node);
        told.retain(|session| displaced.contains(session));
        for session_id in displaced {
            if told.insert(session_id.clone()) {
                out.send(control_message::Message::Displaced(v1::Displaced { session_id })).await?;
            }
        }
        // The sender lives as long as the replica.
        changes.changed().await.map_err(|_| Status::internal("presence is gone"))?;
    }
}
