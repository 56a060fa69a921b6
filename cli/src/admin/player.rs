//! `moonbridge player`.

use moonbridge_proto::v1;
use serde_json::{Value, json};

use super::commands::{self, Ended};
use super::{Session, text_or_null};
use crate::args::PlayerVerb;
use crate::control::{PAGE, pages, refused};
use crate::failure::{Failure, Outcome};
use crate::output::Listing;
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

async fn show(session: Session, player: String) -> Outcome {
    let found = find(&session, player.clone(), String::new(), String::new()).await?;
    // A player has one session.
    let Some(found) = found.first() else {
        return Err(Failure::failed(format!("no player {player} is online; `moonbridge player list` shows who is")));
    };
    let mut thing = Listing::new(SHOW);
    thing.push(shown(found));
    thing.print_one(session.output)
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
