//! `moonbridge player`.

use moonbridge_proto::v1;
use serde::Serialize;
use serde_json::{Value, json};

use super::commands::{self, Ended};
use super::{Session, text_or_null};
use crate::args::{Format, PlayerVerb};
use crate::control::{PAGE, pages, refused};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};
use crate::time::{ago, rfc3339};

const COLUMNS: &[&str] = &["name", "uuid", "backend", "node", "host", "address", "online"];
const SHOW: &[&str] =
    &["name", "uuid", "backend", "node", "node_id", "host", "address", "protocol", "session", "started", "online", "trace_id"];

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: PlayerVerb) -> Outcome {
    match verb {
        PlayerVerb::List { backend, node } => list(session, backend, node).await,
        PlayerVerb::Show { player } => show(session, player).await,
        PlayerVerb::Kick { player, reason } => kick(session, player, reason).await,
        PlayerVerb::Message { player, text } => message(session, player, text).await,
    }
}

async fn find(session: &Session, player: String, backend: String, node: String) -> Outcome<Vec<v1::Session>> {
    let admin = session.admin.clone();
    pages(async |page_token| {
        let (player, backend, node) = (player.clone(), backend.clone(), node.clone());
        let request = v1::ListPlayersRequest { page_size: PAGE, page_token, player, backend, node };
        let page = admin.clone().list_players(request).await?.into_inner();
        Ok((page.players, page.next_page_token))
    })
    .await
}

async fn list(session: Session, backend: Option<String>, node: Option<String>) -> Outcome {
    let players = find(&session, String::new(), backend.unwrap_or_default(), node.unwrap_or_default()).await?;
    let mut listing = Listing::new(COLUMNS);
    for player in players {
        let online = ago(player.started_unix_ms);
        listing.push([
            json!(player.player),
            json!(player.player_uuid),
            text_or_null(player.backend),
            json!(player.node_name),
            text_or_null(player.host),
            text_or_null(player.address),
            json!(online),
        ]);
    }
    listing.print(session.output, "no players are online")
}

/// A player as JSON and YAML have it: the newest session, and beside it what else runs under the name.
#[derive(Serialize)]
struct Shown<N, O> {
    #[serde(flatten)]
    newest: N,
    older: Vec<O>,
}

/// Shows every session of a player, the newest first: that is the one that kick, message and transfer take.
async fn show(session: Session, player: String) -> Outcome {
    let mut players = find(&session, player.clone(), String::new(), String::new()).await?;
    if players.is_empty() {
        return Err(Failure::failed(format!("no player {player} is online; `moonbridge player list` shows who is")));
    }
    // Of two of the same millisecond, the last found: as the control plane chooses.
    players.reverse();
    players.sort_by_key(|player| std::cmp::Reverse(player.started_unix_ms));
    if session.output != Format::Table {
        let mut things = Listing::new(SHOW);
        players.iter().for_each(|player| things.push(shown(player)));
        let mut records = things.records().into_iter();
        let Some(newest) = records.next() else { return Ok(()) };
        return output::document(session.output, &Shown { newest, older: records.collect() });
    }
    if players.len() > 1 {
        let count = players.len();
        output::line(&format!("{count} sessions, the newest first; kick, message and transfer take the newest"))?;
    }
    for (index, player) in players.iter().enumerate() {
        if players.len() > 1 {
            output::line(&format!("\n{} of {}", index + 1, players.len()))?;
        }
        let mut thing = Listing::new(SHOW);
        thing.push(shown(player));
        thing.print_one(session.output)?;
    }
    Ok(())
}

fn shown(player: &v1::Session) -> [Value; 12] {
    [
        json!(player.player),
        json!(player.player_uuid),
        text_or_null(&player.backend),
        json!(player.node_name),
        json!(player.node_id),
        text_or_null(&player.host),
        text_or_null(&player.address),
        json!(player.protocol),
        json!(player.id),
        json!(rfc3339(player.started_unix_ms)),
        json!(ago(player.started_unix_ms)),
        text_or_null(&player.trace_id),
    ]
}

async fn kick(mut session: Session, player: String, reason: String) -> Outcome {
    let request = v1::KickPlayerRequest { player: player.clone(), reason, traceparent: String::new() };
    let command = session.admin.kick_player(request).await.map_err(refused)?.into_inner();
    finish(session, command, &player, "is disconnected").await
}

async fn message(mut session: Session, player: String, text: String) -> Outcome {
    let request = v1::MessagePlayerRequest { player: player.clone(), text, traceparent: String::new() };
    let command = session.admin.message_player(request).await.map_err(refused)?.into_inner();
    finish(session, command, &player, "has got the message").await
}

async fn finish(mut session: Session, command: v1::Command, player: &str, done: &str) -> Outcome {
    let command = commands::outcome(&mut session, command).await?;
    let mut thing = Listing::new(commands::COLUMNS);
    thing.push(commands::row(&command));
    match Ended::of(&command) {
        Some(Ended::Succeeded) => session.done(&format!("{player} {done}"), &thing),
        _ => {
            thing.print_if_program(session.output)?;
            Err(Failure::failed(format!("{player}: {}", commands::why(&command))))
        }
    }
}
