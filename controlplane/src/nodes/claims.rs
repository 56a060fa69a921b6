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
use uuid::Uuid;

use super::permissions::{self, Players};
use super::stream::{End, Out};
use crate::permissions::players::saw_player;
use crate::replica::Replica;
use crate::store::StoreRevision;

/// How long the end of a session that was displaced is awaited, and what its player has of its own: then the login goes on.
const PATIENCE: Duration = Duration::from_secs(2);
/// Logins that may wait at once; no more claims are taken on meanwhile.
const WAITING: usize = 4_096;

/// Logins that are noted at once; more are not, for their names may be noted the next time.
const SEEN: usize = 64;

/// A claim that is in the store.
pub(super) struct Held {
    pub(super) session: String,
    /// Who is watched already.
    pub(super) player: Option<Uuid>,
    pub(super) name: String,
    pub(super) revision: StoreRevision,
    pub(super) after: Vec<String>,
}

/// Answers each claim when its time has come. How many players the other nodes have is as of then, so that whoever was displaced is not
/// in it any more.
pub(super) async fn answer(
    replica: &Replica,
    node: &str,
    players: &Players,
    out: &Out,
    mut claims: mpsc::Receiver<Held>,
) -> Result<(), End> {
    let (mut waiting, mut seen) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            claim = claims.recv(), if waiting.len() < WAITING => match claim {
                Some(held) => {
                    if let Some(player) = held.player.filter(|_| seen.len() < SEEN) {
                        seen.push(saw(replica, held.name.clone(), player));
                    }
                    waiting.push(settle(replica, held));
                }
                None => return Err(Status::cancelled("the node's connection is gone").into()),
            },
            Some(()) = seen.next(), if !seen.is_empty() => {}
            Some((held, permissions)) = waiting.next(), if !waiting.is_empty() => {
                let Held { session: session_id, player, .. } = held;
                let (players_elsewhere, is_known) = (replica.presence.players_elsewhere(node), permissions.is_some());
                let answer = v1::ClaimAnswer { session_id, held: true, players_elsewhere, permissions };
                out.send(control_message::Message::ClaimAnswer(answer)).await?;
                if let Some(player) = player.filter(|_| !is_known) {
                    players.read(player);
                }
            }
        }
    }
}

/// Notes who has this name. No login waits for it.
async fn saw(replica: &Replica, name: String, player: Uuid) {
    if let Err(error) = saw_player(&*replica.store, &name, player).await {
        tracing::debug!(name, %player, %error, "cannot note who logs in under this name");
    }
}

/// Waits until whoever was displaced has ended, and reads meanwhile what the player has of its own; neither for ever.
async fn settle(replica: &Replica, held: Held) -> (Held, Option<v1::UserPermissions>) {
    let ended = async {
        if timeout(PATIENCE, replica.presence.ended(held.revision, &held.after)).await.is_err() {
            let (session, after) = (&held.session, held.after.join(" "));
            tracing::warn!(session, after, "what this session displaced does not end in time: it goes on");
        }
    };
    let permissions = async {
        match timeout(PATIENCE, permissions::read(replica, held.player?)).await {
            Ok(Ok(permissions)) => return Some(permissions),
            Ok(Err(error)) => tracing::warn!(player = held.name, %error, "cannot read a player's permissions: it logs in without them"),
            Err(_) => tracing::warn!(player = held.name, "the store does not give a player's permissions in time: it logs in without them"),
        }
        None
    };
    let ((), permissions) = tokio::join!(ended, permissions);
    (held, permissions)
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
