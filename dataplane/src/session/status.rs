//! Server-list pings.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::snapshot::Settings;
use moonbridge_protocol::legacy_ping::{self, LegacyPing};
use moonbridge_protocol::status::{self, ModInfo, Status};
use moonbridge_protocol::version::{self, Version};
use tokio::time::Instant;

use super::STRANGER_FRAME;
use super::handshake::Hello;
use crate::conn::Conn;
use crate::error::{Phase, SessionError, Trouble};
use crate::node::Node;

/// A ping asks once and measures once; clients that repeat themselves get so many answers.
const REQUESTS: usize = 4;

/// How long the client gets to read the last answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers a modern client's pings until it goes.
pub(super) async fn serve(mut conn: Conn, node: &Arc<Node>, hello: &Hello) -> Result<(), SessionError> {
    let deadline = Instant::now() + node.config.timeouts.handshake;
    let result = async {
        for _ in 0..REQUESTS {
            let frame = match conn.frame(STRANGER_FRAME, deadline).await {
                Err(Trouble::Closed) => return Ok(()),
                frame => frame?,
            };
            let mut answer = Vec::new();
            match frame.id {
                version::STATUS => {
                    let mods = node.mod_infos.shown(node, &hello.host).await;
                    put_response(&mut answer, node, hello.protocol, mods.as_deref());
                }
                version::PING => {
                    let number = status::read_ping(&frame.payload).map_err(|error| Trouble::Field { packet: "ping", error })?;
                    status::put_pong(&mut answer, number);
                    conn.write(&answer, deadline).await?;
                    return Ok(());
                }
                id => return Err(Trouble::Unexpected { id, expected: "a status request or a ping" }),
            }
            conn.write(&answer, deadline).await?;
        }
        Ok(())
    };
    let result = result.await.map_err(|trouble| SessionError::player(Phase::Status, trouble));
    conn.finish(&[], PATIENCE).await;
    result
}

fn put_response(out: &mut Vec<u8>, node: &Node, asked: i32, mods: Option<&ModInfo>) {
    let settings = settings(node);
    // A client whose version is served sees its own; any other sees which are.
    let version = Version::of(asked).unwrap_or_else(Version::newest);
    let status = Status {
        version_name: if Version::of(asked).is_some() { version.name } else { Version::supported() },
        protocol: version.protocol,
        max: settings.max_players,
        online: node.players(),
        sample: &[],
        description: &settings.motd,
        favicon: settings.favicon.as_deref(),
    };
    status.put_response_with(out, mods);
}

/// Answers a client older than 1.7.
pub(super) async fn answer_legacy(conn: Conn, node: &Node, ping: &LegacyPing) -> Result<(), SessionError> {
    let settings = settings(node);
    let answer = legacy_ping::response(
        ping.kind,
        Version::newest().protocol,
        Version::supported(),
        &settings.motd,
        node.players(),
        settings.max_players,
    );
    conn.finish(&answer, PATIENCE).await;
    Ok(())
}

fn settings(node: &Node) -> Settings {
    node.snapshot.load().as_ref().map(|snapshot| snapshot.settings.clone()).unwrap_or_default()
}
