//! One connection to a limbo, phase by phase.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use moonbridge_protocol::handshake::{self, Next};
use moonbridge_protocol::login;
use moonbridge_protocol::name::{offline_uuid, valid_name};
use moonbridge_protocol::play::{self, JoinGame, Position};
use moonbridge_protocol::status::{self, Status};
use moonbridge_protocol::tab_list::put_player_list_item;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{Serverbound, Version, World};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Online, Shared};
use crate::framed::{Framed, OwnedFrame};

/// The longest frame taken before play, and in it: a serverbound plugin message has up to 32,767 bytes.
const LIMIT: usize = 40_000;

/// From the accept to Login Success, or to the end of a status exchange.
const BEFORE_PLAY: Duration = Duration::from_secs(10);

/// A 1.7.10 server asks every 40 ticks.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// A client that sends nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);

/// Survival without damage: blocks cannot be broken in adventure mode.
const ADVENTURE: u8 = 2;

/// Flags of Player Abilities: invulnerable, and may fly.
const ABILITIES: u8 = 1 | 4;

/// In the middle of the chunk at 0, 0, on the platform of stone at y = 64.
const SPAWN: Position = Position { x: 8.5, y: 65.0, z: 8.5, yaw: 0.0, pitch: 0.0, on_ground: true };

/// A player whose feet are below this has fallen off.
const FALLEN: f64 = 32.0;

/// A player that has logged in.
struct Player {
    version: &'static Version,
    name: String,
}

/// Serves a connection to its end.
pub(super) async fn serve(stream: TcpStream, shared: std::sync::Arc<Shared>, shutdown: CancellationToken) {
    let peer: Option<IpAddr> = stream.peer_addr().ok().map(|address| address.ip());
    let mut framed = Framed::new(stream);
    let before_play = tokio::select! {
        () = shutdown.cancelled() => return,
        result = timeout(BEFORE_PLAY, before_play(&mut framed, &shared)) => result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
    };
    let result = match before_play {
        Ok(Some(player)) => play(&mut framed, &player, &shared, &shutdown).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    framed.close().await;
    if let Err(error) = result {
        tracing::debug!(limbo = shared.name, ?peer, %error, "limbo connection ended");
    }
}

/// Handshake, then status or login. `None`: the connection has served its purpose.
async fn before_play(framed: &mut Framed, shared: &Shared) -> io::Result<Option<Player>> {
    let Some(frame) = framed.next(LIMIT).await? else { return Ok(None) };
    let (protocol, host, next) = {
        let hello = handshake::read(&frame.payload).map_err(invalid)?;
        (hello.protocol, hello.host.to_owned(), hello.next)
    };
    match next {
        Next::Status => answer_status(framed, protocol, shared).await.map(|()| None),
        Next::Login => log_in(framed, protocol, &host).await,
    }
}

async fn answer_status(framed: &mut Framed, protocol: i32, shared: &Shared) -> io::Result<()> {
    // The game asks once and pings once.
    for _ in 0..2 {
        let Some(frame) = framed.next(LIMIT).await? else { return Ok(()) };
        let mut out = Vec::new();
        if frame.payload.is_empty() {
            let version = Version::of(protocol).unwrap_or(Version::newest());
            let description = format!("MoonBridge limbo {}", shared.name);
            let status = Status {
                version_name: version.name,
                protocol: version.protocol,
                max: 100,
                online: shared.online.load(Ordering::Relaxed),
                sample: &[],
                description: &description,
                favicon: None,
            };
            status.put_response(&mut out);
        } else {
            let ping = status::read_ping(&frame.payload).map_err(invalid)?;
            status::put_pong(&mut out, ping);
        }
        framed.send(&out).await?;
    }
    Ok(())
}

async fn log_in(framed: &mut Framed, protocol: i32, host: &str) -> io::Result<Option<Player>> {
    let Some(frame) = framed.next(LIMIT).await? else { return Ok(None) };
    let name = login::read_login_start(&frame.payload).map_err(invalid)?.to_owned();
    let mut out = Vec::new();
    let refusal = match (Version::of(protocol), valid_name(&name)) {
        (None, _) => format!("This server speaks {} only", Version::supported()),
        (_, Err(error)) => error.to_string(),
        (Some(version), Ok(())) => {
            let uuid = forwarded_uuid(host).unwrap_or_else(|| offline_uuid(&name));
            login::put_login_success(&mut out, version, uuid, &name);
            framed.send(&out).await?;
            return Ok(Some(Player { version, name }));
        }
    };
    login::put_disconnect(&mut out, &Text::legacy(&refusal));
    framed.send(&out).await?;
    Ok(None)
}

/// The UUID in a host of BungeeCord's legacy form: host NUL address NUL UUID.
fn forwarded_uuid(host: &str) -> Option<Uuid> {
    host.split('\0').nth(2).and_then(|text| Uuid::try_parse(text).ok())
}

async fn play(framed: &mut Framed, player: &Player, shared: &Shared, shutdown: &CancellationToken) -> io::Result<()> {
    let version = player.version;
    let _online = Online::new(&shared.online);
    framed.send(&welcome(player, shared)).await?;
    let mut keep_alive = interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    let mut fallen = false;
    let mut id = 0;
    loop {
        let mut out = Vec::new();
        tokio::select! {
            () = shutdown.cancelled() => {
                play::put_disconnect(&mut out, version, &Text::legacy("The limbo is shutting down"));
                return framed.send(&out).await;
            }
            _ = keep_alive.tick() => {
                if heard.elapsed() > SILENCE {
                    play::put_disconnect(&mut out, version, &Text::legacy("Timed out"));
                    return framed.send(&out).await;
                }
                id += 1;
                play::put_keep_alive_clientbound(&mut out, version, id);
                if std::mem::take(&mut fallen) {
                    play::put_position_and_look(&mut out, version, SPAWN);
                }
            }
            frame = framed.next(LIMIT) => {
                let Some(frame) = frame? else { return Ok(()) };
                heard = Instant::now();
                match heard_from(version, &frame) {
                    Heard::Chat(text) => play::put_chat(&mut out, version, &Text::legacy(&format!("<{}> {text}", player.name))),
                    // It has no commands, but whoever waits for an answer is to get one.
                    Heard::Completion => play::put_tab_complete(&mut out, version, &[]),
                    Heard::Fallen => fallen = true,
                    Heard::Other => {}
                }
            }
        }
        if !out.is_empty() {
            framed.send(&out).await?;
        }
    }
}

/// What a player's frame says to a limbo.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// A chat line.
    Chat(String),
    /// How a word may go on.
    Completion,
    /// The player has fallen off the platform.
    Fallen,
    /// Nothing to us.
    Other,
}

fn heard_from(version: &Version, frame: &OwnedFrame) -> Heard {
    let Ok(id) = u8::try_from(frame.id) else { return Heard::Other };
    match version.serverbound(id) {
        Serverbound::Chat => play::read_chat_serverbound(&frame.payload).map_or(Heard::Other, |text| Heard::Chat(text.to_owned())),
        Serverbound::TabComplete => Heard::Completion,
        _ if id == version.world_id(World::PositionAndLookServerbound) => {
            let fallen = play::read_position_and_look_serverbound(&frame.payload).is_ok_and(|position| position.y < FALLEN);
            if fallen { Heard::Fallen } else { Heard::Other }
        }
        _ => Heard::Other,
    }
}

/// All that a client needs to be in the world, in the order that a 1.7.10 server sends it.
fn welcome(player: &Player, shared: &Shared) -> Vec<u8> {
    let version = player.version;
    let mut out = Vec::new();
    let join = JoinGame {
        entity_id: shared.entity(),
        gamemode: ADVENTURE,
        dimension: 0,
        difficulty: 0,
        max_players: 100,
        level_type: "flat".to_owned(),
    };
    join.put(&mut out, version);
    play::put_spawn_position(&mut out, version, SPAWN.x as i32, SPAWN.y as i32, SPAWN.z as i32);
    play::put_abilities(&mut out, version, ABILITIES, 0.05, 0.1);
    play::put_platform_chunk(&mut out, version, 0, 0, true);
    play::put_position_and_look(&mut out, version, SPAWN);
    put_player_list_item(&mut out, version, &player.name, true, 0);
    let text =
        format!("§eWelcome to the limbo §b{}§e. Move on with: §fmoonbridge transfer start {} --to BACKEND", shared.name, player.name);
    play::put_chat(&mut out, version, &Text::legacy(&text));
    out
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
