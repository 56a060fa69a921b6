//! The scripted player: does what a 1.7.10 client does without anybody at its keyboard.

use std::io;
use std::time::Duration;

use moonbridge_protocol::frame::MAX_FRAME;
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::login::{self, LoginClientbound};
use moonbridge_protocol::play::{self, ClientSettings, JoinGame, Respawn};
use moonbridge_protocol::version::{Clientbound, Version, World};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::PATIENCE;
use super::report::{Event, Report};
use crate::failure::{Failure, Outcome};
use crate::framed::{Framed, OwnedFrame};

/// The client asks unasked each second while it shows "Downloading terrain".
const TERRAIN_TICK: Duration = Duration::from_secs(1);

/// What to do about a listener in online mode.
const ONLINE_MODE: &str = "the server wants an online-mode login, and a probe has no account: probe an offline listener of the node, \
     such as one more on loopback ([[listeners]] with authentication = \"offline\")";

/// A new client's settings.
const SETTINGS: ClientSettings<'static> =
    ClientSettings { locale: "en_US", view_distance: 8, chat: 0, chat_colours: true, difficulty: 1, cape: true };

/// A player's connection and what has become of it so far.
pub(super) struct Player {
    framed: Framed,
    version: &'static Version,
    name: String,
    report: Report,
    /// Join Game has come.
    joined: bool,
    /// A position has come: the player is in the world, and the hold has begun.
    in_world: bool,
    /// "Downloading terrain" is shown: a world has been announced and no position of it has come.
    terrain: bool,
    /// A chunk of the world announced last has come.
    chunk: bool,
    world_changes: u32,
    keep_alives: u32,
}

impl Player {
    /// A player that is about to log in.
    pub(super) fn new(stream: TcpStream, version: &'static Version, name: String, report: Report) -> Self {
        let framed = Framed::new(stream);
        Player {
            framed,
            version,
            name,
            report,
            joined: false,
            in_world: false,
            terrain: false,
            chunk: false,
            world_changes: 0,
            keep_alives: 0,
        }
    }

    /// Logs in, gets into the world before `deadline`, and stays for `hold`.
    pub(super) async fn run(mut self, host: &str, port: u16, deadline: Instant, hold: Duration) -> Outcome {
        let result = tokio::select! {
            result = self.log_in(host, port) => result,
            () = sleep_until(deadline) => Err(Ended::Silence("the login took longer than 20 s, which is when a client gives up")),
        };
        let result = match result {
            Ok(()) => self.play(deadline, hold).await,
            Err(ended) => Err(ended),
        };
        match result {
            Ok(()) => Ok(()),
            Err(ended) => self.tell(ended),
        }
    }

    async fn log_in(&mut self, host: &str, port: u16) -> Result<(), Ended> {
        let mut out = Vec::new();
        handshake::put(&mut out, &Handshake { protocol: self.version.protocol, host, port, next: Next::Login });
        login::put_login_start(&mut out, &self.name);
        self.framed.send(&out).await?;
        let event = Event::new("handshake", format!("{} as {}", self.version.name, self.name));
        self.report.event(event.with("protocol", self.version.protocol).with("host", host).with("name", self.name.as_str()))?;
        let frame = self.framed.next(MAX_FRAME).await?.ok_or(Ended::Closed)?;
        match LoginClientbound::of(frame.id) {
            LoginClientbound::LoginSuccess => {
                let (uuid, name) = login::read_login_success(&frame.payload).map_err(garbage)?;
                let event = Event::new("login-success", format!("{name} {uuid}"));
                Ok(self.report.event(event.with("name", name).with("uuid", uuid))?)
            }
            LoginClientbound::Disconnect => Err(match login::read_disconnect(&frame.payload) {
                Ok(reason) => Ended::Kicked(reason.plain()),
                Err(error) => garbage(error),
            }),
            LoginClientbound::EncryptionRequest => Err(Ended::Refused(ONLINE_MODE)),
            LoginClientbound::SetCompression => Err(Ended::Refused("the server sent Set Compression, which 1.7 does not know")),
            LoginClientbound::Unknown(id) => Err(Ended::Garbage(format!("packet {id:#x} during the login"))),
        }
    }

    async fn play(&mut self, deadline: Instant, hold: Duration) -> Result<(), Ended> {
        let mut terrain = interval(TERRAIN_TICK);
        terrain.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent = Instant::now() + PATIENCE;
        let mut leave: Option<Instant> = None;
        loop {
            if self.in_world {
                let leave = *leave.get_or_insert_with(|| Instant::now() + hold);
                if leave <= Instant::now() {
                    return Ok(self.stayed(hold)?);
                }
            }
            let wake = leave.unwrap_or(deadline).min(silent);
            tokio::select! {
                frame = self.framed.next(MAX_FRAME) => {
                    silent = Instant::now() + PATIENCE;
                    self.take(frame?.ok_or(Ended::Closed)?).await?;
                }
                _ = terrain.tick(), if self.terrain => {
                    let mut out = Vec::new();
                    play::put_keep_alive_serverbound(&mut out, self.version, 0);
                    self.framed.send(&out).await?;
                }
                () = sleep_until(wake) => {
                    if wake == silent {
                        return Err(Ended::Silence("nothing came for 20 s, which is when a client gives up"));
                    }
                    if leave.is_none() {
                        return Err(Ended::Silence("not in the world after 20 s: no Join Game with a position came"));
                    }
                }
            }
        }
    }

    fn stayed(&mut self, hold: Duration) -> Outcome {
        if hold.is_zero() {
            return Ok(());
        }
        let text = format!("{} world changes, {} keep-alives answered", self.world_changes, self.keep_alives);
        self.report.event(Event::new("stayed", text).with("world_changes", self.world_changes).with("keep_alives", self.keep_alives))
    }

    /// Takes one frame as the client does.
    async fn take(&mut self, frame: OwnedFrame) -> Result<(), Ended> {
        let Ok(id) = u8::try_from(frame.id) else { return Ok(()) };
        let version = self.version;
        match version.clientbound(id) {
            Clientbound::KeepAlive => {
                let asked = play::read_keep_alive(version, &frame.payload).map_err(garbage)?;
                self.keep_alives += 1;
                let mut out = Vec::new();
                play::put_keep_alive_serverbound(&mut out, version, asked);
                self.framed.send(&out).await?;
            }
            Clientbound::JoinGame => {
                let join = JoinGame::read(version, &frame.payload).map_err(garbage)?;
                let name = if self.joined { "world-change" } else { "join-game" };
                self.world(name, "join-game", join.dimension)?;
                self.joined = true;
                self.introduce().await?;
            }
            Clientbound::Respawn => {
                let respawn = Respawn::read(version, &frame.payload).map_err(garbage)?;
                self.world("world-change", "respawn", respawn.dimension)?;
            }
            Clientbound::Chat => {
                // A line that cannot be read is no reason to leave.
                if let Ok(text) = play::read_chat(&frame.payload) {
                    let text = text.plain();
                    self.report.event(Event::new("chat", text.as_str()).with("text", text.as_str()))?;
                }
            }
            Clientbound::Disconnect => return Err(Ended::Kicked(play::read_disconnect(&frame.payload).plain())),
            _ if id == version.world_id(World::MapChunk) || id == version.world_id(World::MapChunkBulk) => self.chunk(&frame.payload)?,
            _ if id == version.world_id(World::PositionAndLook) => self.position(&frame.payload).await?,
            _ => {}
        }
        Ok(())
    }

    /// A world has been announced.
    fn world(&mut self, name: &'static str, packet: &'static str, dimension: i32) -> Outcome {
        if name == "world-change" {
            self.world_changes += 1;
        }
        self.terrain = true;
        self.chunk = false;
        let event = Event::new(name, format!("{packet}, dimension {dimension}"));
        self.report.event(event.with("packet", packet).with("dimension", dimension))
    }

    /// A chunk of the world has come.
    fn chunk(&mut self, payload: &[u8]) -> Outcome {
        if std::mem::replace(&mut self.chunk, true) {
            return Ok(());
        }
        self.report.event(Event::new("first-chunk", format!("{} bytes", payload.len())).with("bytes", payload.len()))
    }

    /// What the client sends by itself after Join Game.
    async fn introduce(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        SETTINGS.put(&mut out, self.version);
        // Raw UTF-8 without a length on 1.7.
        play::put_plugin_message_serverbound(&mut out, self.version, "MC|Brand", b"vanilla");
        self.framed.send(&out).await
    }

    async fn position(&mut self, payload: &[u8]) -> Result<(), Ended> {
        let at = play::read_position_and_look(payload).map_err(garbage)?;
        let mut out = Vec::new();
        play::put_position_and_look_serverbound(&mut out, self.version, at);
        self.framed.send(&out).await?;
        if std::mem::replace(&mut self.terrain, false) {
            let event = Event::new("in-world", format!("at {:.1} {:.1} {:.1}", at.x, at.y, at.z));
            self.report.event(event.with("x", at.x).with("y", at.y).with("z", at.z))?;
            self.in_world |= self.joined;
        }
        Ok(())
    }

    /// Reports how it ended, if that was not by itself.
    fn tell(mut self, ended: Ended) -> Outcome {
        let (name, text) = match ended {
            Ended::Kicked(reason) => ("kicked", reason),
            Ended::Closed => ("closed", "the server closed the connection without a reason".to_owned()),
            Ended::Silence(text) => ("timed-out", text.to_owned()),
            Ended::Refused(text) => ("refused", text.to_owned()),
            Ended::Garbage(text) => ("garbage", text),
            Ended::Lost(error) => ("lost", error.to_string()),
            Ended::Output(failure) => return Err(failure),
        };
        let phase = match (self.in_world, self.joined) {
            (true, _) => "in the world",
            (false, true) => "while joining",
            (false, false) => "during the login",
        };
        self.report.event(Event::new(name, format!("{text} ({phase})")).with("reason", text.as_str()).with("phase", phase))?;
        Err(Failure::failed(format!("{name} {phase}: {text}")))
    }
}

/// Why the player did not stay.
enum Ended {
    /// By a Disconnect, with its reason as plain text.
    Kicked(String),
    /// The server closed between two frames.
    Closed,
    /// The client's patience ran out.
    Silence(&'static str),
    /// The server wants what a probe cannot do.
    Refused(&'static str),
    /// The server sent what a client cannot read.
    Garbage(String),
    /// The connection broke.
    Lost(io::Error),
    /// Our own output failed.
    Output(Failure),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData { Ended::Garbage(error.to_string()) } else { Ended::Lost(error) }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Ended::Output(failure)
    }
}

fn garbage(error: impl std::fmt::Display) -> Ended {
    Ended::Garbage(format!("unreadable packet: {error}"))
}
