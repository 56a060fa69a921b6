//! The first backend: the route's candidates in turn, until one takes the player.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use moonbridge_proto::routing::Usable;
use moonbridge_proto::snapshot::Snapshot;
use moonbridge_protocol::login as packets;
use moonbridge_protocol::text::Text;
use tokio::time::Instant;

use super::authenticate::{interrupted, still_silent};
use super::claim;
use super::login::Turned;
use crate::backend::{self, Entered, Limits, Player, Refusal, Until};
use crate::conn::Conn;
use crate::error::{Kind, Phase, SessionError, Side};
use crate::node::Node;
use crate::registry::Registration;

/// Enters the first backend that takes the player, and only then sends the player its Login Success. Gives the backend's
/// name and connection.
///
/// A candidate that fails here has not sent its own Login Success, so it holds no session. All share one deadline, each
/// getting an equal part of what is left, so that one that stalls does not cost the player the others.
pub(super) async fn first_backend(
    conn: &mut Conn,
    node: &Arc<Node>,
    snapshot: &Snapshot,
    player: &Player,
    registration: &mut Registration,
    deadline: Instant,
) -> Result<(String, Entered), Turned> {
    let decision = snapshot.route(&player.host, registration.permissions.entry(node));
    if decision.route.is_none() {
        let text = format!("There is no server for {:?} on this network.", decision.host);
        return Err(Turned::new(Phase::Connect, Side::Control, Kind::Refused, &text));
    }
    let usable: Vec<_> = decision.usable().collect();
    if usable.is_empty() {
        let any = |why| decision.candidates.iter().any(|candidate| candidate.why == why);
        let why = if any(Usable::Drained) {
            "No server takes new players at the moment."
        } else if !any(Usable::Restricted) {
            "No server is set up for this address."
        } else if registration.permissions.are_known(node) {
            "You do not have permission to join this server."
        } else {
            "This network cannot tell at the moment whether you have permission to join this server. Please try again later."
        };
        return Err(Turned::new(Phase::Connect, Side::Control, Kind::Refused, why));
    }
    let mut first: Option<Refusal> = None;
    for (index, backend) in usable.iter().enumerate() {
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / (usable.len() - index) as u32;
        let limits = Limits { connect: node.config.timeouts.connect, deadline: now + share, held: 0, budget: node.transfer_budget.clone() };
        let mut entering = pin!(backend::enter(backend, player, Until::LoginSuccess, limits));
        let gone = tokio::select! {
            entered = &mut entering => Ok(entered),
            turned = interrupted(conn, Phase::Connect, deadline) => Err(turned),
            () = registration.to_end() => Err(claim::ended(registration)),
        };
        let entered = match gone {
            Ok(entered) => entered,
            Err(turned) => {
                // It may hold a session by now, and must have let go of it before the player's next login gets there.
                backend::abandon(entering).await;
                return Err(turned);
            }
        };
        match entered {
            Ok(entered) => {
                return match succeed(conn, player, deadline).await {
                    Ok(()) => Ok((backend.name.clone(), entered)),
                    Err(turned) => {
                        backend::abandon(ready(Ok(entered))).await;
                        Err(turned)
                    }
                };
            }
            Err(refusal) => {
                tracing::info!(
                    player = player.name,
                    backend = backend.name,
                    reason = refusal.reason,
                    detail = refusal.detail,
                    "a backend did not take the player"
                );
                // The first that said something, or else the first.
                if first.as_ref().is_none_or(|first| first.text.is_none() && refusal.text.is_some()) {
                    first = Some(refusal);
                }
            }
        }
    }
    Err(turned_away(first))
}

/// Sends the player its Login Success.
async fn succeed(conn: &mut Conn, player: &Player, deadline: Instant) -> Result<(), Turned> {
    still_silent(conn)?;
    let mut success = Vec::new();
    packets::put_login_success(&mut success, player.version, player.uuid, &player.name);
    let sent = conn.write(&success, deadline).await;
    sent.map_err(|trouble| Turned { text: None, error: SessionError::player(Phase::Connect, trouble) })
}

/// The player is told what a backend said, if any said anything.
fn turned_away(first: Option<Refusal>) -> Turned {
    let (reason, detail, text) = first.map_or(("no_backend", String::new(), None), |first| (first.reason, first.detail, first.text));
    Turned {
        text: Some(text.unwrap_or_else(|| Text::legacy("No server could be reached. Please try again later."))),
        error: SessionError::new(Phase::Connect, Side::Backend, Kind::Refused, format!("{reason}: {detail}")),
    }
}
