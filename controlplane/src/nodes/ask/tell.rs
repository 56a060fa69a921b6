//! Questions that bring something to sessions elsewhere: texts for players, plugins' messages for other backends.

use moonbridge_proto::v1::{self, ask_forward::Where, delivery, player_text::Text};

use super::{BAD_REQUEST, Problem, UNKNOWN_BACKEND, online, reached};
use crate::deliveries::delivery;
use crate::replica::Replica;

/// The longest text, and the longest message of a plugin's: what fits a packet.
const MAX_BYTES: usize = 32_767;

pub(super) fn tell(replica: &Replica, tell: v1::AskTell) -> Result<v1::AskAnswer, Problem> {
    let written = tell.text.as_ref().and_then(|text| text.text.as_ref());
    let length = written.map_or(0, |(Text::Legacy(text) | Text::Json(text))| text.len());
    let Some(text) = tell.text.filter(|_| (1..=MAX_BYTES).contains(&length)) else { return Err(BAD_REQUEST.to_owned()) };
    if !tell.player.is_empty() {
        let session = online(replica, &tell.player)?;
        let is_on_its_way = send(replica, &session.node_id, delivery::To::SessionId(session.id.clone()), delivery::What::Text(text));
        return Ok(reached(is_on_its_way.into()));
    }
    for node in replica.presence.nodes() {
        send(replica, &node, delivery::To::Everybody(true), delivery::What::Text(text.clone()));
    }
    Ok(reached(replica.presence.players()))
}

/// Each backend gets it once, through one of the players there: without any it cannot be told.
pub(super) fn forward(replica: &Replica, forward: v1::AskForward) -> Result<v1::AskAnswer, Problem> {
    let v1::AskForward { r#where, from, data } = forward;
    if data.is_empty() || data.len() > MAX_BYTES {
        return Err(BAD_REQUEST.to_owned());
    }
    let snapshot = replica.snapshots.newest().unwrap_or_default();
    let listens = |backend: &str| snapshot.backends.get(backend).is_some_and(|backend| !backend.plugin_channel_off);
    let to_backend = |backend: &str| {
        let nodes = replica.presence.nodes_on(backend);
        // Rather one that it goes straight to.
        let node = nodes.iter().find(|node| replica.deliveries.has(node)).or(nodes.first());
        let message = || delivery::What::PluginMessage(data.clone());
        node.is_some_and(|node| send(replica, node, delivery::To::Backend(backend.to_owned()), message()))
    };
    match r#where {
        Some(Where::Player(player)) => {
            let session = online(replica, &player)?;
            let (to, message) = (delivery::To::SessionId(session.id.clone()), delivery::What::PluginMessage(data));
            Ok(reached((listens(&session.backend) && send(replica, &session.node_id, to, message)).into()))
        }
        Some(Where::Backend(backend)) if !snapshot.backends.contains_key(&backend) => Err(UNKNOWN_BACKEND.to_owned()),
        Some(Where::Backend(backend)) => Ok(reached((listens(&backend) && to_backend(&backend)).into())),
        Some(Where::Everywhere(true)) => {
            let others = replica.presence.backends().into_iter().filter(|backend| *backend != from && listens(backend));
            Ok(reached(others.map(|backend| u32::from(to_backend(&backend))).sum()))
        }
        Some(Where::Everywhere(false)) | None => Err(BAD_REQUEST.to_owned()),
    }
}

fn send(replica: &Replica, node: &str, to: delivery::To, what: delivery::What) -> bool {
    replica.deliveries.send(node, replica.presence.lease_of(node), delivery(to, what))
}
