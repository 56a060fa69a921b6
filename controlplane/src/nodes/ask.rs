//! What sessions ask of the whole network, answered from what this replica knows of it: who is where, at once; moving and kicking
//! players, when the commands for it are written; texts and plugins' messages, when they are on their way.

mod changes;
mod tell;

use std::sync::Arc;

use futures::StreamExt;
use futures::future::Either;
use futures::stream::FuturesUnordered;
use moonbridge_proto::v1::{self, ask::Question, control_message};
use tokio::sync::mpsc;
use tonic::Status;

use super::stream::{End, Out};
use crate::replica::Replica;

/// Transfers and kicks of one node that are being written at once; more are not.
const CHANGES: usize = 256;
/// The most names for a completion.
const MAX_NAMES: usize = 100;
/// The longest name of a player or a backend that is looked for, in bytes.
const MAX_NAME: usize = 64;

/// Why nothing came of a question: see `AskAnswer` in `node.proto`.
type Problem = String;

const PLAYER_OFFLINE: &str = "player_offline";
const UNKNOWN_BACKEND: &str = "unknown_backend";
const BACKEND_DRAINED: &str = "backend_drained";
const BAD_REQUEST: &str = "bad_request";
const UNAVAILABLE: &str = "unavailable";

/// Answers a node's questions, in whatever order the answers come.
pub(super) async fn answer(replica: &Replica, out: &Out, mut asks: mpsc::Receiver<v1::Ask>) -> Result<(), End> {
    let mut changes = FuturesUnordered::new();
    loop {
        let (id, answer) = tokio::select! {
            ask = asks.recv() => {
                let Some(v1::Ask { id, origin, question }) = ask else {
                    return Err(Status::cancelled("the node's connection is gone").into());
                };
                match question {
                    Some(Question::Transfer(_) | Question::Kick(_)) if changes.len() == CHANGES => (id, Err(UNAVAILABLE.to_owned())),
                    Some(Question::Transfer(transfer)) => {
                        changes.push(Either::Left(async move { (id, changes::transfer(replica, &origin, transfer).await) }));
                        continue;
                    }
                    Some(Question::Kick(kick)) => {
                        changes.push(Either::Right(async move { (id, changes::kick(replica, &origin, kick).await) }));
                        continue;
                    }
                    Some(Question::Players(wanted)) => (id, players(replica, &wanted)),
                    Some(Question::Find(find)) => (id, self::find(replica, &find.player)),
                    Some(Question::Tell(told)) => (id, tell::tell(replica, told)),
                    Some(Question::Forward(forward)) => (id, tell::forward(replica, forward)),
                    None => (id, Err(BAD_REQUEST.to_owned())),
                }
            }
            Some(changed) = changes.next(), if !changes.is_empty() => changed,
        };
        let answer = answer.unwrap_or_else(|problem| v1::AskAnswer { problem, ..v1::AskAnswer::default() });
        out.send(control_message::Message::AskAnswer(v1::AskAnswer { id, ..answer })).await?;
    }
}

fn players(replica: &Replica, wanted: &v1::AskPlayers) -> Result<v1::AskAnswer, Problem> {
    let presence = &replica.presence;
    if let Some(prefix) = &wanted.prefix {
        let most = usize::try_from(wanted.limit).ok().filter(|limit| (1..MAX_NAMES).contains(limit)).unwrap_or(MAX_NAMES);
        let names = if prefix.len() > MAX_NAME { Vec::new() } else { presence.names_beginning(prefix, most) };
        return Ok(v1::AskAnswer { names, ..v1::AskAnswer::default() });
    }
    let mut backends = presence.backends();
    backends.extend(replica.snapshots.newest().iter().flat_map(|snapshot| snapshot.backends.keys().cloned()));
    if !wanted.backend.is_empty() {
        if !backends.contains(&wanted.backend) {
            return Err(UNKNOWN_BACKEND.to_owned());
        }
        backends.retain(|backend| *backend == wanted.backend);
    }
    let of = |backend: String| {
        let names = if wanted.names { presence.names_on(&backend) } else { Vec::new() };
        let players = if wanted.names { u32::try_from(names.len()).unwrap_or(u32::MAX) } else { presence.players_on(&backend) };
        v1::BackendPlayers { backend, players, names }
    };
    Ok(v1::AskAnswer { backends: backends.into_iter().map(of).collect(), ..v1::AskAnswer::default() })
}

fn find(replica: &Replica, player: &str) -> Result<v1::AskAnswer, Problem> {
    let session = online(replica, player)?;
    Ok(v1::AskAnswer { session: Some((*session).clone()), ..v1::AskAnswer::default() })
}

/// The player's session, as this replica knows: nobody's typing mistake makes it go through the store.
fn online(replica: &Replica, player: &str) -> Result<Arc<v1::Session>, Problem> {
    let known = if player.len() > MAX_NAME { None } else { replica.presence.find(player) };
    known.ok_or_else(|| PLAYER_OFFLINE.to_owned())
}

fn reached(reached: u32) -> v1::AskAnswer {
    v1::AskAnswer { reached, ..v1::AskAnswer::default() }
}
