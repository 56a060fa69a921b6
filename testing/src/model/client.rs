//! A 1.7.10 client as a state machine.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::wire::{Reader, WireError, put_string, put_varint};
use serde_json::Value;

use super::forge_client::Forge;
pub use super::forge_client::Phase;
use super::messages::{HANDSHAKE, Mod, put_plugin, read_plugin};
use super::scoreboard::{Scoreboard, Trouble};
use super::{Broken, READ_TIMEOUT};

/// What a player has installed.
#[derive(Debug, Clone)]
pub struct Install {
    /// The player's name.
    pub name: String,
    /// `None`: a client without Forge.
    pub mods: Option<Vec<Mod>>,
    /// Whether its build of Forge knows Handshake Reset (1209 and later do).
    pub knows_reset: bool,
    /// Whether it appends `\0FML\0` to the handshake's host (builds from November 2014 on).
    pub marked: bool,
    /// The channels of its mods.
    pub channels: Vec<String>,
    /// What it sends to acknowledge in phases 2 to 5; `None`: nothing.
    pub acks: [Option<u8>; 4],
    /// Dimensions that it knows of itself.
    pub dimensions: BTreeSet<i32>,
    /// Ids of packets that its mods have added.
    pub packets: BTreeSet<i32>,
}

impl Install {
    /// A client without Forge.
    pub fn vanilla(name: &str) -> Install {
        Install {
            name: name.into(),
            mods: None,
            knows_reset: false,
            marked: false,
            channels: Vec::new(),
            acks: [Some(2), Some(3), Some(4), Some(5)],
            dimensions: BTreeSet::from([-1, 0, 1]),
            packets: BTreeSet::new(),
        }
    }

    /// A client with a late Forge and these mods.
    pub fn forge(name: &str, mods: Vec<Mod>) -> Install {
        Install { mods: Some(mods), knows_reset: true, marked: true, ..Install::vanilla(name) }
    }
}

/// What a client noticed.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Login Success.
    LoggedIn {
        /// As it was written.
        uuid: String,
    },
    /// Forge's handshake has come here.
    Phase(Phase),
    /// Server Hello, and the dimension that is in force from here on.
    Hello {
        /// 0: none.
        dimension: i32,
    },
    /// The server's mods, which fit.
    ServerMods(Vec<(String, String)>),
    /// Mod Id Data, which fits.
    Ids {
        /// Of the message.
        bytes: usize,
        /// Of its bytes, see [`super::server::Setup::ids`].
        hash: u64,
    },
    /// Handshake Reset was obeyed.
    Reset,
    /// Join Game.
    Joined {
        /// The player's.
        entity_id: i32,
        /// Of the world that it made of it.
        dimension: i32,
    },
    /// Respawn.
    Respawned {
        /// Its own.
        dimension: i32,
    },
    /// "Downloading terrain" has gone.
    InWorld,
    /// A line of chat, as plain text.
    Chat(String),
    /// A plugin message, but for the handshake's.
    Plugin {
        /// Its channel.
        channel: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// A packet of a mod's.
    Packet {
        /// Its id.
        id: i32,
    },
    /// Disconnect.
    Kicked(String),
}

/// The world that is shown.
#[derive(Debug, Clone)]
struct World {
    dimension: i32,
    /// `thePlayer.dimension`, by which a Respawn is judged: not the same as the world's after a Join Game with an override.
    player_dimension: i32,
    entity_id: i32,
    /// Since when "Downloading terrain" is shown, and how many keep-alives that screen has sent.
    terrain: Option<(Instant, u32)>,
    scoreboard: Scoreboard,
}

/// What waits for the game's thread.
#[derive(Debug, Clone)]
enum Queued {
    Packet(i32, Vec<u8>),
    HandshakeComplete,
}

/// A client.
#[derive(Debug)]
pub struct Model {
    install: Install,
    forge: Option<Forge>,
    playing: bool,
    came: Vec<u8>,
    heard: Instant,
    queue: VecDeque<Queued>,
    world: Option<World>,
    /// `doneLoadingTerrain`, which outlives a Join Game.
    done_loading: bool,
    tab: BTreeSet<String>,
    dimensions: BTreeSet<i32>,
    joins: u32,
    events: Vec<Event>,
    kicked: Option<String>,
}

impl Model {
    /// A client that connects at `now`.
    pub fn new(install: Install, now: Instant) -> Model {
        Model {
            forge: install.mods.is_some().then(Forge::new),
            dimensions: install.dimensions.clone(),
            install,
            playing: false,
            came: Vec::new(),
            heard: now,
            queue: VecDeque::new(),
            world: None,
            done_loading: false,
            tab: BTreeSet::new(),
            joins: 0,
            events: Vec::new(),
            kicked: None,
        }
    }

    /// Appends handshake and Login Start.
    pub fn login(&self, host: &str, port: u16, out: &mut Vec<u8>) {
        let marker = if self.install.marked { "\0FML\0" } else { "" };
        frame::put(out, 0, |out| {
            put_varint(out, 5);
            put_string(out, &format!("{host}{marker}"));
            out.extend_from_slice(&port.to_be_bytes());
            put_varint(out, 2);
        });
        frame::put(out, 0, |out| put_string(out, &self.install.name));
    }

    /// Appends a line of chat.
    pub fn say(&self, text: &str, out: &mut Vec<u8>) {
        frame::put(out, 0x01, |out| put_string(out, text));
    }

    /// Appends a plugin message.
    pub fn plugin(&self, channel: &str, data: &[u8], out: &mut Vec<u8>) {
        put_plugin(out, 0x17, channel, data);
    }

    /// Takes bytes as the connection's thread does: keep-alives, disconnects and Forge's handshake are dealt with at once, the rest waits for
    /// [`Model::turn`]. What the client says to it is appended to `out`.
    ///
    /// # Errors
    /// If a real client would not play on; it is of no use afterwards.
    pub fn receive(&mut self, now: Instant, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.heard = now;
        let mut came = std::mem::take(&mut self.came);
        came.extend_from_slice(bytes);
        let mut rest = came.as_slice();
        loop {
            match frame::first(rest, MAX_FRAME) {
                Ok(Some(frame)) => {
                    rest = &rest[frame.whole.len()..];
                    if !frame.is_empty() {
                        self.packet(frame.id, frame.payload, out)?;
                    }
                }
                Ok(None) => break,
                Err(error) => return Err(Broken::Disconnect(format!("CorruptedFrameException: {error}"))),
            }
        }
        let taken = came.len() - rest.len();
        came.drain(..taken);
        self.came = came;
        Ok(())
    }

    fn packet(&mut self, id: i32, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if !self.playing {
            return self.login_packet(id, payload);
        }
        match id {
            0x00 => {
                let reader = Reader::new(payload);
                if reader.rest().len() != 4 {
                    return Err(unreadable(id));
                }
                frame::put(out, 0x00, |out| out.extend_from_slice(payload));
            }
            0x40 => {
                let reason = Reader::new(payload).string(32_767).map_err(|_| unreadable(id))?;
                self.kick(plain(reason).ok_or_else(|| unreadable(id))?);
            }
            0x3f => {
                let (channel, data) = read_plugin(payload, self.forge.is_some()).ok_or_else(|| unreadable(id))?;
                match &mut self.forge {
                    Some(forge) if channel == HANDSHAKE => {
                        if forge.told(&self.install, data, out, &mut self.events)? {
                            self.queue.push_back(Queued::HandshakeComplete);
                        }
                    }
                    Some(_) if matches!(channel, "REGISTER" | "UNREGISTER") => {
                        self.events.push(Event::Plugin { channel: channel.to_owned(), data: data.to_vec() });
                    }
                    _ => self.queue.push_back(Queued::Packet(id, payload.to_vec())),
                }
            }
            0x01..=0x3e => {
                if id == 0x01
                    && let Some(forge) = &mut self.forge
                {
                    forge.join_game(&self.install, out, &mut self.events)?;
                }
                self.queue.push_back(Queued::Packet(id, payload.to_vec()));
            }
            _ if self.install.packets.contains(&id) => self.events.push(Event::Packet { id }),
            _ => return Err(Broken::Disconnect(format!("IOException: Bad packet id {id}"))),
        }
        Ok(())
    }

    fn login_packet(&mut self, id: i32, payload: &[u8]) -> Result<(), Broken> {
        let mut reader = Reader::new(payload);
        match id {
            0x00 => {
                let reason = reader.string(32_767).map_err(|_| unreadable(id))?;
                self.kick(plain(reason).ok_or_else(|| unreadable(id))?);
                Ok(())
            }
            0x02 => {
                let uuid = reader.string(36).map_err(|_| unreadable(id))?.to_owned();
                let name = reader.string(16).map_err(|_| unreadable(id))?;
                if uuid.len() != 36 || name != self.install.name {
                    return Err(Broken::Disconnect(format!("Login Success for {name:?}, {uuid:?}")));
                }
                self.playing = true;
                self.events.push(Event::LoggedIn { uuid });
                Ok(())
            }
            _ => Err(Broken::Disconnect(format!("packet {id} during login"))),
        }
    }

    fn kick(&mut self, reason: String) {
        self.events.push(Event::Kicked(reason.clone()));
        self.kicked.get_or_insert(reason);
    }

    /// One turn of the game's thread (20 a second on a real client): what has come is looked at, "Downloading terrain" says that it is alive,
    /// silence is noticed.
    ///
    /// # Errors
    /// As [`Model::receive`].
    pub fn turn(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), Broken> {
        while let Some(queued) = self.queue.pop_front() {
            match queued {
                Queued::HandshakeComplete => {
                    if let Some(forge) = &mut self.forge {
                        forge.completed()?;
                    }
                }
                Queued::Packet(id, payload) => self.play(now, id, &payload, out).map_err(|trouble| match trouble {
                    Trouble::Broken(broken) => broken,
                    Trouble::Unreadable(error) => Broken::Disconnect(format!("packet {id:#04x} cannot be read: {error}")),
                })?,
            }
        }
        if let Some(World { terrain: Some((since, said)), .. }) = &mut self.world
            && now.duration_since(*since) >= Duration::from_secs(u64::from(*said) + 1)
        {
            // GuiDownloadTerrain.updateScreen: every 20 ticks.
            *said += 1;
            frame::put(out, 0x00, |out| out.extend_from_slice(&[0; 4]));
        }
        if self.kicked.is_none() && now.saturating_duration_since(self.heard) > READ_TIMEOUT {
            return Err(Broken::Disconnect("Timed out".into()));
        }
        Ok(())
    }

    fn play(&mut self, now: Instant, id: i32, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Trouble> {
        let mut reader = Reader::new(payload);
        match id {
            0x01 => return self.join_game(now, &mut reader, out),
            0x02 => {
                let line = reader.string(32_767)?;
                reader.finish()?;
                let line = plain(line).ok_or(Trouble::Unreadable(WireError::NotUtf8))?;
                self.events.push(Event::Chat(line));
                return Ok(());
            }
            0x38 => {
                let (name, online) = (reader.string(16)?.to_owned(), reader.bool()?);
                reader.i16()?;
                reader.finish()?;
                if online {
                    self.tab.insert(name)
                } else {
                    self.tab.remove(&name)
                };
                return Ok(());
            }
            0x3a => return Ok(()),
            0x3f => return self.plugin_message(payload),
            _ => {}
        }
        // All others reach for the world or the player in it.
        let Some(world) = &mut self.world else {
            return Err(Trouble::Broken(Broken::Crash(format!("NullPointerException: packet {id:#04x} before Join Game"))));
        };
        match id {
            0x07 => {
                let dimension = reader.i32()?;
                reader.u8()?;
                reader.u8()?;
                reader.string(16)?;
                reader.finish()?;
                if dimension != world.player_dimension {
                    exists(dimension, &self.dimensions)?;
                    // The scoreboard goes along, and so does the entity id.
                    self.done_loading = false;
                    world.dimension = dimension;
                    world.player_dimension = dimension;
                    world.terrain = Some((now, 0));
                }
                self.events.push(Event::Respawned { dimension });
            }
            0x08 => {
                let (x, eyes, z) = (reader.f64()?, reader.f64()?, reader.f64()?);
                let look = reader.bytes(9)?;
                reader.finish()?;
                frame::put(out, 0x06, |out| {
                    for coordinate in [x, eyes - 1.62, eyes, z] {
                        out.extend_from_slice(&coordinate.to_be_bytes());
                    }
                    out.extend_from_slice(look);
                });
                if !self.done_loading {
                    self.done_loading = true;
                    world.terrain = None;
                    self.events.push(Event::InWorld);
                } else if world.terrain.is_some() {
                    return Err(Trouble::Broken(Broken::Hang(
                        "a second Join Game without a Respawn: \"Downloading terrain\" stays".into(),
                    )));
                }
            }
            0x3b => world.scoreboard.objective(payload)?,
            0x3c => world.scoreboard.score(payload)?,
            0x3d => world.scoreboard.display(payload)?,
            0x3e => world.scoreboard.team(payload)?,
            _ => {}
        }
        Ok(())
    }

    fn join_game(&mut self, now: Instant, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Trouble> {
        let entity_id = reader.i32()?;
        reader.u8()?;
        let byte = i32::from(reader.i8()?);
        reader.u8()?;
        reader.u8()?;
        reader.string(16)?;
        reader.finish()?;
        // NetworkDispatcher.getOverrideDimension: the world is made for that one, whatever the packet says; the player's own number is the packet's.
        let dimension = match &self.forge {
            Some(Forge { override_dimension, .. }) if *override_dimension != 0 => *override_dimension,
            _ => byte,
        };
        exists(dimension, &self.dimensions)?;
        self.world =
            Some(World { dimension, player_dimension: byte, entity_id, terrain: Some((now, 0)), scoreboard: Scoreboard::default() });
        self.joins += 1;
        self.events.push(Event::Joined { entity_id, dimension });
        frame::put(out, 0x15, |out| {
            put_string(out, "en_GB");
            out.extend_from_slice(&[10, 0, 1, 2, 1]);
        });
        put_plugin(out, 0x17, "MC|Brand", if self.forge.is_some() { b"fml,forge" } else { b"vanilla" });
        Ok(())
    }

    fn plugin_message(&mut self, payload: &[u8]) -> Result<(), Trouble> {
        let Some((channel, data)) = read_plugin(payload, true) else { return Err(Trouble::Unreadable(WireError::Truncated)) };
        if channel == "MC|Brand" && self.world.is_none() {
            return Err(Trouble::Broken(Broken::Crash("NullPointerException: MC|Brand before Join Game".into())));
        }
        if channel == "FORGE" && self.forge.is_some() && data.first() == Some(&1) {
            let mut reader = Reader::new(&data[1..]);
            self.dimensions.insert(reader.i32()?);
            reader.i32()?;
        }
        self.events.push(Event::Plugin { channel: channel.to_owned(), data: data.to_vec() });
        Ok(())
    }
}

/// What a test asks of it.
impl Model {
    /// Whose it is.
    pub fn install(&self) -> &Install {
        &self.install
    }

    /// Everything that it noticed, from the beginning.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether the player is in a world and sees it.
    pub fn is_in_world(&self) -> bool {
        self.world.as_ref().is_some_and(|world| world.terrain.is_none())
    }

    /// The dimension of the world that is shown, or will be.
    pub fn dimension(&self) -> Option<i32> {
        self.world.as_ref().map(|world| world.dimension)
    }

    /// The player's entity id, as the last Join Game said.
    pub fn entity_id(&self) -> Option<i32> {
        self.world.as_ref().map(|world| world.entity_id)
    }

    /// How many Join Games there were.
    pub fn joins(&self) -> u32 {
        self.joins
    }

    /// Where Forge's handshake stands; `None` without Forge.
    pub fn phase(&self) -> Option<Phase> {
        self.forge.as_ref().map(|forge| forge.phase)
    }

    /// Which ids are in force, by the hash of their message; `None`: the client's own.
    pub fn ids(&self) -> Option<u64> {
        self.forge.as_ref().and_then(|forge| forge.ids)
    }

    /// The tab list, by the raw names.
    pub fn tab(&self) -> impl Iterator<Item = &str> {
        self.tab.iter().map(String::as_str)
    }

    /// Names of the scoreboard's objectives.
    pub fn objectives(&self) -> Vec<&str> {
        self.world.as_ref().map(|world| world.scoreboard.objectives().collect()).unwrap_or_default()
    }

    /// Names of the scoreboard's teams.
    pub fn teams(&self) -> Vec<&str> {
        self.world.as_ref().map(|world| world.scoreboard.teams().collect()).unwrap_or_default()
    }

    /// The reason of the first Disconnect.
    pub fn kicked(&self) -> Option<&str> {
        self.kicked.as_deref()
    }
}

fn unreadable(id: i32) -> Broken {
    Broken::Disconnect(format!("packet {id:#04x} cannot be read"))
}

/// `WorldProvider.getProviderForDimension`.
fn exists(dimension: i32, known: &BTreeSet<i32>) -> Result<(), Trouble> {
    if known.contains(&dimension) {
        return Ok(());
    }
    let what = format!("RuntimeException: Could not get provider type for dimension {dimension}, does not exist");
    Err(Trouble::Broken(Broken::Crash(what)))
}

/// The plain text of a chat component; `None` if it is none.
fn plain(json: &str) -> Option<String> {
    fn text(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => out.push_str(text),
            Value::Array(parts) => parts.iter().for_each(|part| text(part, out)),
            Value::Object(parts) => {
                for key in ["text", "translate", "extra"] {
                    parts.get(key).into_iter().for_each(|part| text(part, out));
                }
            }
            _ => {}
        }
    }
    let mut out = String::new();
    text(&serde_json::from_str(json).ok()?, &mut out);
    Some(out)
}
