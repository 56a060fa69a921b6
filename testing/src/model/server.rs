//! A 1.7.10 server as a state machine, with Forge or without, that stops wherever it is told to.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::wire::{Reader, put_string};

use super::forge_client::hash;
use super::messages::{
    ACK, CLIENT_HELLO, HANDSHAKE, Ids, MOD_LIST, Mod, dimension_register, mod_list, put_plugin, read_mods, read_plugin, register, rejected,
    server_hello,
};

/// What a server is.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its name, for messages.
    pub name: String,
    /// `None`: a server without Forge.
    pub forge: Option<Forge>,
    /// Where players come to.
    pub dimension: i32,
    /// The entity id of whoever comes.
    pub entity_id: i32,
    /// Names in the tab list, raw.
    pub tab: Vec<String>,
    /// An objective of the scoreboard.
    pub objective: Option<String>,
    /// A team, with all of `tab` in it.
    pub team: Option<String>,
    /// Where it stops.
    pub fault: Option<Fault>,
    /// A keep-alive is sent this often.
    pub keep_alive: Duration,
}

/// What a server with Forge is.
#[derive(Debug, Clone)]
pub struct Forge {
    /// Its mods.
    pub mods: Vec<Mod>,
    /// Mod Id Data.
    pub ids: IdData,
    /// The channels of its mods.
    pub channels: Vec<String>,
    /// Whether Server Hello has a dimension (FML's protocol 2).
    pub says_dimension: bool,
}

/// The message, and what tells it apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdData {
    message: Arc<[u8]>,
    hash: u64,
}

impl IdData {
    /// That of these ids.
    pub fn of(ids: &Ids) -> IdData {
        let message = ids.message();
        IdData { hash: hash(&message), message: message.into() }
    }
}

/// Where a server stops: in place of what it would say there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// In place of what.
    pub place: Place,
    /// How.
    pub how: How,
}

/// What a server says, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// It closes as soon as it is connected to, or never reads.
    Connection,
    /// Login Success.
    Success,
    /// Server Hello.
    Hello,
    /// Its mods.
    Mods,
    /// Mod Id Data.
    Ids,
    /// The first ack, and dimensions on `FORGE`.
    Ack,
    /// The second ack.
    Complete,
    /// Join Game.
    Join,
    /// Whatever comes after the world has been shown.
    World,
}

impl Place {
    /// All, in order.
    pub const ALL: [Place; 9] =
        [Place::Connection, Place::Success, Place::Hello, Place::Mods, Place::Ids, Place::Ack, Place::Complete, Place::Join, Place::World];
}

/// How a server stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It says nothing more.
    Stall,
    /// It closes.
    Die,
    /// It says why, and closes. (Before Login Success as a login disconnect.)
    Refuse(String),
    /// It waits for [`Server::release`]. For places that a message of the player's leads to: Success, Mods, Ids, Complete.
    Hold,
}

impl Setup {
    /// A server without Forge.
    pub fn vanilla(name: &str, dimension: i32) -> Setup {
        Setup {
            name: name.into(),
            forge: None,
            dimension,
            entity_id: 1,
            tab: vec![format!("§a{name}")],
            objective: Some("kills".into()),
            team: Some("red".into()),
            fault: None,
            keep_alive: Duration::from_secs(2),
        }
    }

    /// A server with these mods and ids.
    pub fn forge(name: &str, dimension: i32, mods: Vec<Mod>, ids: &Ids) -> Setup {
        let forge = Forge { mods, ids: IdData::of(ids), channels: Vec::new(), says_dimension: true };
        Setup { forge: Some(forge), ..Setup::vanilla(name, dimension) }
    }

    /// What [`super::client::Model::ids`] says of a player on it; `None` without Forge.
    pub fn ids(&self) -> Option<u64> {
        self.forge.as_ref().map(|forge| forge.ids.hash)
    }
}

/// What a server noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Served {
    /// The handshake.
    Handshake {
        /// As it came.
        host: String,
    },
    /// Login Start.
    Login {
        /// The player's name.
        name: String,
    },
    /// This was said.
    Said(Place),
    /// This would have been said, had it not been told to stop.
    Stopped(Place),
    /// The client's mods.
    Mods(Vec<(String, String)>),
    /// The client acknowledged.
    Ack(u8),
    /// A line of chat.
    Chat(String),
    /// Client Settings.
    Settings,
    /// A plugin message, but for the handshake's on a server that has it.
    Plugin {
        /// Its channel.
        channel: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// A plugin message on a mod's channel that the player had not registered here.
    Unregistered {
        /// The channel.
        channel: String,
    },
    /// An answered keep-alive.
    KeepAlive {
        /// Whether this server had asked with this id and had no answer yet; always of id 0, which clients send unasked.
        known: bool,
    },
    /// Another packet.
    Packet {
        /// Its id.
        id: i32,
    },
    /// What came is none that a real server would take: it throws, and closes.
    Threw(String),
    /// The connection is over.
    Ended,
}

/// Whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Open,
    /// It is to be closed when what was said has been written.
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Handshake,
    LoginStart,
    /// Waits for the client's mods.
    Hello,
    /// Waits for an ack.
    WaitingCAck,
    /// Waits for another.
    Complete,
    Playing,
    /// It has stopped.
    Stopped,
}

/// Where to stop, by whose connection it is: asked once the player's name is known, so not for [`Place::Connection`].
pub type Choose = Box<dyn FnOnce(&str) -> Option<Fault> + Send>;

/// A server's side of one connection.
pub struct Server {
    setup: Arc<Setup>,
    choose: Option<Choose>,
    state: State,
    came: Vec<u8>,
    player: String,
    registered: HashSet<String>,
    asked: BTreeSet<i32>,
    next_ask: Option<Instant>,
    next_id: i32,
    /// Waits for [`Server::release`].
    held: bool,
    released: bool,
    events: Vec<Served>,
}

impl Server {
    /// Somebody has connected. With `choose` the setup's fault is passed over.
    pub fn new(setup: Arc<Setup>, choose: Option<Choose>) -> (Server, Flow) {
        let mut server = Server {
            setup,
            choose,
            state: State::Handshake,
            came: Vec::new(),
            player: String::new(),
            registered: HashSet::new(),
            asked: BTreeSet::new(),
            next_ask: None,
            next_id: 7,
            held: false,
            released: false,
            events: Vec::new(),
        };
        let flow = if server.reach(Place::Connection, &mut Vec::new()).is_some() { Flow::Open } else { server.stopped() };
        (server, flow)
    }

    /// What happened since this was last asked.
    pub fn take_events(&mut self) -> Vec<Served> {
        std::mem::take(&mut self.events)
    }

    /// Whether the player is in its world.
    pub fn is_playing(&self) -> bool {
        self.state == State::Playing
    }

    /// The player's name, once it has been said.
    pub fn player(&self) -> &str {
        &self.player
    }

    /// Appends a line of chat.
    pub fn say(&self, text: &str, out: &mut Vec<u8>) {
        put_text(out, 0x02, text);
    }

    /// Appends a Disconnect.
    pub fn kick(&self, reason: &str, out: &mut Vec<u8>) {
        put_text(out, 0x40, reason);
    }

    /// Takes bytes.
    pub fn receive(&mut self, now: Instant, bytes: &[u8], out: &mut Vec<u8>) -> Flow {
        let mut came = std::mem::take(&mut self.came);
        came.extend_from_slice(bytes);
        let mut rest = came.as_slice();
        let mut flow = Flow::Open;
        while flow == Flow::Open && !self.held {
            match frame::first(rest, MAX_FRAME) {
                Ok(Some(frame)) => {
                    if !frame.is_empty() {
                        flow = match self.packet(now, frame.id, frame.payload, out) {
                            Ok(flow) => flow,
                            Err(why) => self.throw(why),
                        };
                    }
                    // What it waits at is looked at once more.
                    if !self.held {
                        rest = &rest[frame.whole.len()..];
                    }
                }
                Ok(None) => break,
                Err(error) => flow = self.throw(error.to_string()),
            }
        }
        let taken = came.len() - rest.len();
        came.drain(..taken);
        self.came = came;
        flow
    }

    /// Goes on where it waited, as if there were no fault.
    pub fn release(&mut self, now: Instant, out: &mut Vec<u8>) -> Flow {
        self.held = false;
        self.released = true;
        self.receive(now, &[], out)
    }

    /// Time goes by: keep-alives.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<u8>) {
        if let Some(due) = self.next_ask
            && now >= due
        {
            self.next_ask = Some(now + self.setup.keep_alive);
            self.asked.insert(self.next_id);
            let id = self.next_id.to_be_bytes();
            frame::put(out, 0x00, |out| out.extend_from_slice(&id));
            self.next_id += 1;
        }
    }

    fn throw(&mut self, why: String) -> Flow {
        self.events.push(Served::Threw(why));
        self.state = State::Stopped;
        Flow::Close
    }

    /// `Some` if what is due at this place may be said.
    fn reach(&mut self, place: Place, out: &mut Vec<u8>) -> Option<()> {
        match &self.setup.fault {
            Some(Fault { place: at, how: How::Hold }) if *at == place && !self.released => {
                self.held = true;
                self.events.push(Served::Stopped(place));
                None
            }
            Some(fault) if fault.place == place && fault.how != How::Hold => {
                self.state = State::Stopped;
                self.next_ask = None;
                self.events.push(Served::Stopped(place));
                if let How::Refuse(reason) = &fault.how {
                    put_text(out, if place <= Place::Success { 0x00 } else { 0x40 }, reason);
                }
                None
            }
            _ => {
                self.events.push(Served::Said(place));
                Some(())
            }
        }
    }

    fn stopped(&self) -> Flow {
        match &self.setup.fault {
            Some(Fault { how: How::Stall | How::Hold, .. }) | None => Flow::Open,
            Some(_) => Flow::Close,
        }
    }

    fn packet(&mut self, now: Instant, id: i32, payload: &[u8], out: &mut Vec<u8>) -> Result<Flow, String> {
        let setup = self.setup.clone();
        let bad = |what: &'static str| move |error| format!("{what}: {error}");
        let mut reader = Reader::new(payload);
        match self.state {
            State::Stopped => Ok(self.stopped()),
            State::Handshake => {
                reader.varint().map_err(bad("handshake"))?;
                let host = reader.string(255).map_err(bad("handshake"))?.to_owned();
                self.events.push(Served::Handshake { host });
                self.state = State::LoginStart;
                Ok(Flow::Open)
            }
            State::LoginStart => {
                self.player = reader.string(16).map_err(bad("Login Start"))?.to_owned();
                self.events.push(Served::Login { name: self.player.clone() });
                if let Some(choose) = self.choose.take() {
                    self.setup = Arc::new(Setup { fault: choose(&self.player), ..(*setup).clone() });
                }
                let Some(()) = self.reach(Place::Success, out) else { return Ok(self.stopped()) };
                frame::put(out, 0x02, |out| {
                    put_string(out, "10920508-d5d8-3eed-93d2-92f193afe7d7");
                    put_string(out, &self.player);
                });
                let Some(forge) = &setup.forge else { return Ok(self.join(now, out)) };
                let Some(()) = self.reach(Place::Hello, out) else { return Ok(self.stopped()) };
                put_plugin(out, 0x3f, "REGISTER", &register(&forge.channels));
                put_plugin(out, 0x3f, HANDSHAKE, &server_hello(forge.says_dimension.then_some(setup.dimension)));
                self.state = State::Hello;
                Ok(Flow::Open)
            }
            _ if id == 0x17 => {
                // Forge's server takes its long form here, too.
                let (channel, data) = read_plugin(payload, setup.forge.is_some()).ok_or("a plugin message that cannot be read")?;
                match &setup.forge {
                    Some(forge) if channel == HANDSHAKE => self.handshake(now, forge, data, out),
                    _ => {
                        self.plugin(channel, data);
                        Ok(Flow::Open)
                    }
                }
            }
            State::Playing => {
                self.play(id, &mut reader)?;
                Ok(Flow::Open)
            }
            // NetHandlerPlayServer is there already; a player is not.
            _ => {
                self.events.push(Served::Packet { id });
                Ok(Flow::Open)
            }
        }
    }

    /// `FMLHandshakeServerState`.
    fn handshake(&mut self, now: Instant, forge: &Forge, data: &[u8], out: &mut Vec<u8>) -> Result<Flow, String> {
        let mut reader = Reader::new(data);
        let kind = reader.u8().map_err(|error| format!("an empty message: {error}"))?;
        if kind == ACK {
            self.events.push(Served::Ack(reader.u8().map_err(|error| error.to_string())?));
        }
        match self.state {
            State::Hello if kind == CLIENT_HELLO => {}
            State::Hello if kind == MOD_LIST => {
                let theirs = read_mods(&mut reader).ok_or("ModList cannot be read")?;
                let bad = rejected(&forge.mods, &theirs);
                self.events.push(Served::Mods(theirs));
                if let Some(why) = bad {
                    put_text(out, 0x40, &why);
                    self.state = State::Stopped;
                    return Ok(Flow::Close);
                }
                let Some(()) = self.reach(Place::Mods, out) else { return Ok(self.stopped()) };
                put_plugin(out, 0x3f, HANDSHAKE, &mod_list(&forge.mods));
                self.state = State::WaitingCAck;
            }
            State::Hello => return Err(format!("ClassCastException: message {kind:#04x} in HELLO")),
            State::WaitingCAck => {
                let Some(()) = self.reach(Place::Ids, out) else { return Ok(self.stopped()) };
                put_plugin(out, 0x3f, HANDSHAKE, &forge.ids.message);
                let Some(()) = self.reach(Place::Ack, out) else { return Ok(self.stopped()) };
                put_plugin(out, 0x3f, HANDSHAKE, &[ACK, 2]);
                put_plugin(out, 0x3f, "FORGE", &dimension_register(self.setup.dimension));
                self.state = State::Complete;
            }
            State::Complete => {
                let Some(()) = self.reach(Place::Complete, out) else { return Ok(self.stopped()) };
                put_plugin(out, 0x3f, HANDSHAKE, &[ACK, 3]);
                return Ok(self.join(now, out));
            }
            _ => {}
        }
        Ok(Flow::Open)
    }

    fn join(&mut self, now: Instant, out: &mut Vec<u8>) -> Flow {
        let Some(()) = self.reach(Place::Join, out) else { return self.stopped() };
        let setup = self.setup.clone();
        frame::put(out, 0x01, |out| {
            out.extend_from_slice(&setup.entity_id.to_be_bytes());
            // One byte, whatever the dimension.
            out.extend_from_slice(&[0, setup.dimension as u8, 1, 20]);
            put_string(out, "default");
        });
        put_plugin(out, 0x3f, "MC|Brand", setup.name.as_bytes());
        frame::put(out, 0x05, |out| out.extend_from_slice(&[0; 12]));
        frame::put(out, 0x39, |out| out.extend_from_slice(&[0; 9]));
        for name in &setup.tab {
            frame::put(out, 0x38, |out| {
                put_string(out, name);
                out.extend_from_slice(&[1, 0, 20]);
            });
        }
        if let Some(objective) = &setup.objective {
            frame::put(out, 0x3b, |out| {
                put_string(out, objective);
                put_string(out, &setup.name);
                out.push(0);
            });
        }
        if let Some(team) = &setup.team {
            frame::put(out, 0x3e, |out| {
                put_string(out, team);
                out.push(0);
                (0..3).for_each(|_| put_string(out, ""));
                out.push(0);
                out.extend_from_slice(&(setup.tab.len() as u16).to_be_bytes());
                setup.tab.iter().for_each(|name| put_string(out, name));
            });
        }
        frame::put(out, 0x08, |out| {
            for coordinate in [8.5f64, 65.62, 8.5] {
                out.extend_from_slice(&coordinate.to_be_bytes());
            }
            out.extend_from_slice(&[0; 8]);
            out.push(1);
        });
        let Some(()) = self.reach(Place::World, out) else { return self.stopped() };
        self.state = State::Playing;
        self.next_ask = Some(now);
        Flow::Open
    }

    fn plugin(&mut self, channel: &str, data: &[u8]) {
        let names = || data.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
        match channel {
            "REGISTER" => self.registered.extend(names()),
            "UNREGISTER" => self.registered.retain(|registered| names().all(|name| name != *registered)),
            _ if !channel.starts_with("MC|") && !self.registered.contains(channel) => {
                self.events.push(Served::Unregistered { channel: channel.into() });
            }
            _ => {}
        }
        self.events.push(Served::Plugin { channel: channel.into(), data: data.to_vec() });
    }

    fn play(&mut self, id: i32, reader: &mut Reader<'_>) -> Result<(), String> {
        let bad = |error| format!("packet {id:#04x}: {error}");
        let event = match id {
            0x00 => {
                let id = reader.i32().map_err(bad)?;
                Served::KeepAlive { known: self.asked.remove(&id) || id == 0 }
            }
            0x01 => Served::Chat(reader.string(100).map_err(bad)?.to_owned()),
            0x15 => Served::Settings,
            id => Served::Packet { id },
        };
        self.events.push(event);
        Ok(())
    }
}

fn put_text(out: &mut Vec<u8>, id: i32, text: &str) {
    frame::put(out, id, |out| put_string(out, &serde_json::json!({ "text": text }).to_string()));
}
