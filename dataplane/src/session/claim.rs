//! One session a player: claimed on this node first, then on the whole network, before any backend is dialled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use moonbridge_proto::snapshot::Snapshot;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::authenticate::interrupted;
use super::login::Turned;
use crate::backend::Player;
use crate::claims::Claimed;
use crate::conn::Conn;
use crate::error::{Kind, Phase, Side};
use crate::node::Node;
use crate::registry::Registration;
use crate::timer::timeout;

/// What a session that was displaced by a later login of its player is told.
pub(super) const DISPLACED: &str = "You logged in from another location.";

/// What a login is told that is refused for one.
const CONNECTED: &str = "You are already connected to this network.";

/// How long the end of a session that was displaced is awaited.
const END: Duration = Duration::from_secs(2);

/// How long the control plane's answer is awaited: it awaits the end of a session itself ([`END`]).
const ANSWER: Duration = Duration::from_secs(4);

/// Claims the player for this session, and waits until the session that had it has ended.
pub(super) async fn claim(
    node: &Arc<Node>,
    conn: &mut Conn,
    id: Uuid,
    player: &Player,
    snapshot: &Snapshot,
    deadline: Instant,
) -> Result<Registration, Turned> {
    let claimed = node.registry.claim(id, &player.name, &player.uuid, snapshot.settings.duplicate_login);
    let Claimed { mut registration, displaced } = claimed.map_err(|_| refused(CONNECTED))?;
    let mut settled = Box::pin(settle(node.clone(), id, player.name.clone(), displaced));
    let turned = tokio::select! {
        settled = &mut settled => return settled.map(|()| registration),
        () = registration.to_end() => ended(&registration),
        turned = interrupted(conn, Phase::Connect, deadline) => turned,
    };
    // It goes without having waited to the end: whoever comes next waits for it, and so for those before it.
    tokio::spawn(async move {
        let _ = settled.await;
        drop(registration);
    });
    Err(turned)
}

/// Waits until the sessions that were displaced here have ended, then claims the player on the network.
async fn settle(node: Arc<Node>, id: Uuid, player: String, displaced: Vec<oneshot::Receiver<()>>) -> Result<(), Turned> {
    if !displaced.is_empty() && timeout(END, join_all(displaced)).await.is_err() {
        tracing::warn!(player, "the player's earlier session does not end within {END:?}: the later one goes on");
    }
    ask(&node, &id).await
}

/// Claims the player on the network. While the control plane is away a player is unique per node only, until it is back.
async fn ask(node: &Node, id: &Uuid) -> Result<(), Turned> {
    let answer = match node.registry.ask(id) {
        Some(answer) => timeout(ANSWER, answer).await.ok().and_then(Result::ok),
        None => None,
    };
    match answer {
        Some(answer) if answer.held => {
            node.players_elsewhere.store(answer.players_elsewhere, Ordering::Relaxed);
            Ok(())
        }
        Some(_) => Err(refused(CONNECTED)),
        None if node.config.admit_without_control => {
            tracing::debug!(session = %id, "nobody but this node knows of the player's claim");
            Ok(())
        }
        None => Err(refused("This network takes no new players at the moment: its control plane is away.")),
    }
}

/// Why a session that logs in is to end.
pub(super) fn ended(registration: &Registration) -> Turned {
    match registration.is_displaced() {
        true => refused(DISPLACED),
        false => Turned::new(Phase::Connect, Side::Control, Kind::Closed, "The proxy is restarting. Please join again."),
    }
}

fn refused(text: &str) -> Turned {
    Turned::new(Phase::Connect, Side::Control, Kind::Refused, text)
}
