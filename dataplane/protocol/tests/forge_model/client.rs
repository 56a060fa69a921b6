//! A Forge client of 1.7.10, as far as moving it is concerned: written from Forge's sources (build 1614), not from ours. Its
//! network thread reads frames as they come; its main thread lags behind. Whatever a real client throws at is an error.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::play::{JoinGame, PluginMessage, Respawn};
use moonbridge_protocol::version::{Clientbound, Version};

use super::{Ids, Mods, ids_of, mods_of, varint};

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Plugin(String, Vec<u8>),
    /// After Join Game.
    Settings,
}

enum Task {
    Complete,
    Join(JoinGame, i32),
    Respawn(i32),
    Dimension(i32),
    Mod(Vec<u8>),
}

pub(crate) struct Client {
    mods: Mods,
    /// Mods that it has and a server need not have.
    client_only: BTreeSet<String>,
    /// FMLHandshakeClientState's ordinal.
    pub(crate) phase: u8,
    /// NetworkDispatcher's state: a vanilla Join Game is one only before it.
    awaiting: bool,
    connected: bool,
    override_dimension: i32,
    main: VecDeque<Task>,
    dimensions: BTreeSet<i32>,
    pub(crate) dimension: Option<i32>,
    /// "Downloading terrain" goes away only if this was reset since Join Game.
    pub(crate) terrain_reset: bool,
    /// Of its blocks; `None`: those that it started with.
    pub(crate) ids: Option<Ids>,
    pub(crate) said: VecDeque<Said>,
    pub(crate) mod_messages: Vec<Vec<u8>>,
    /// Bytes that are not whole frames yet.
    waiting: Vec<u8>,
}

impl Client {
    pub(crate) fn new(mods: &Mods, client_only: &[&str]) -> Client {
        Client {
            mods: mods.clone(),
            client_only: client_only.iter().map(|id| (*id).to_owned()).collect(),
            phase: 1,
            awaiting: true,
            connected: false,
            override_dimension: 0,
            main: VecDeque::new(),
            dimensions: [-1, 0, 1].into(),
            dimension: None,
            terrain_reset: false,
            ids: None,
            said: VecDeque::new(),
            mod_messages: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// The network thread reads.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.waiting.extend_from_slice(bytes);
        while let Some(frame) = frame::first(&self.waiting, MAX_FRAME).map_err(|error| error.to_string())? {
            let (id, payload, length) = (frame.id, frame.payload.to_vec(), frame.whole.len());
            self.waiting.drain(..length);
            self.frame(id, &payload)?;
        }
        Ok(())
    }

    pub(crate) fn is_between_frames(&self) -> bool {
        self.waiting.is_empty()
    }

    fn frame(&mut self, id: i32, payload: &[u8]) -> Result<(), String> {
        let version = Version::newest();
        match version.clientbound(id as u8) {
            Clientbound::PluginMessage => {
                let message = PluginMessage::read_clientbound(payload).map_err(|error| error.to_string())?;
                match message.channel {
                    "FML|HS" => self.handshake(message.data)?,
                    "FORGE" if message.data[0] == 1 => {
                        let dimension = i32::from_be_bytes(message.data[1..5].try_into().expect("four bytes"));
                        self.main.push_back(Task::Dimension(dimension));
                    }
                    "REGISTER" => {}
                    _ => self.main.push_back(Task::Mod(message.data.to_vec())),
                }
            }
            Clientbound::JoinGame => {
                if self.awaiting {
                    // NetworkDispatcher.handleVanilla
                    match self.phase {
                        1 => {
                            self.register();
                            (self.phase, self.awaiting, self.connected) = (6, false, true);
                        }
                        4 => self.ack(),
                        5 => self.done(),
                        phase => return Err(format!("NullPointerException in phase {phase}")),
                    }
                }
                let join = JoinGame::read(version, payload).map_err(|error| error.to_string())?;
                self.main.push_back(Task::Join(join, self.override_dimension));
            }
            Clientbound::Respawn => {
                let respawn = Respawn::read(version, payload).map_err(|error| error.to_string())?;
                self.main.push_back(Task::Respawn(respawn.dimension));
            }
            _ => {}
        }
        Ok(())
    }

    fn handshake(&mut self, data: &[u8]) -> Result<(), String> {
        let kind = *data.first().ok_or("an empty message")?;
        if ![0, 1, 2, 3, 0xfe, 0xff].contains(&kind) {
            return Err(format!("Undefined message for discriminator {kind}"));
        }
        let cast = |wanted| if kind == wanted { Ok(()) } else { Err(format!("ClassCastException: message {kind}")) };
        match self.phase {
            1 => {
                cast(0)?;
                if data[1] > 1 {
                    self.override_dimension = i32::from_be_bytes(data[2..6].try_into().map_err(|_| "a short ServerHello")?);
                }
                self.register();
                self.say(vec![1, 2]);
                let mut list = vec![2];
                varint(&mut list, self.mods.len());
                for text in self.mods.iter().flat_map(|(id, version)| [id, version]) {
                    varint(&mut list, text.len());
                    list.extend(text.bytes());
                }
                self.say(list);
                self.phase = 2;
            }
            2 => {
                cast(2)?;
                let theirs: BTreeMap<String, String> = mods_of(&data[1..]).into_iter().collect();
                for (id, version) in &self.mods {
                    if theirs.get(id).map_or(!self.client_only.contains(id), |other| other != version) {
                        return Err(format!("Mod rejections [{id}]"));
                    }
                }
                self.ack();
            }
            3 => {
                cast(3)?;
                self.ids = Some(ids_of(&data[1..]));
                self.ack();
            }
            4 => self.ack(),
            5 => self.done(),
            6 if kind == 0xfe => {
                self.ids = None;
                self.phase = 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn done(&mut self) {
        self.ack();
        (self.awaiting, self.connected) = (false, false);
        self.main.push_back(Task::Complete);
    }

    fn ack(&mut self) {
        self.say(vec![0xff, self.phase]);
        self.phase += 1;
    }

    fn register(&mut self) {
        self.said.push_back(Said::Plugin("REGISTER".into(), b"FML|HS\0FML\0FORGE\0mod:a".to_vec()));
    }

    fn say(&mut self, data: Vec<u8>) {
        self.said.push_back(Said::Plugin("FML|HS".into(), data));
    }

    /// The main thread does one thing; false: there was nothing to do.
    pub(crate) fn tick(&mut self) -> Result<bool, String> {
        let Some(task) = self.main.pop_front() else { return Ok(false) };
        match task {
            Task::Complete if self.connected => return Err("Attempt to double complete!".into()),
            Task::Complete => self.connected = true,
            Task::Dimension(dimension) => {
                self.dimensions.insert(dimension);
            }
            Task::Join(join, override_dimension) => {
                let dimension = if override_dimension != 0 { override_dimension } else { i32::from(join.dimension as i8) };
                self.enter(dimension)?;
                self.terrain_reset = false;
                self.said.push_back(Said::Settings);
            }
            Task::Respawn(dimension) => {
                if self.dimension != Some(dimension) {
                    self.terrain_reset = true;
                }
                self.enter(dimension)?;
            }
            Task::Mod(data) => self.mod_messages.push(data),
        }
        Ok(true)
    }

    fn enter(&mut self, dimension: i32) -> Result<(), String> {
        if !self.dimensions.contains(&dimension) {
            return Err(format!("Could not get provider type for dimension {dimension}"));
        }
        self.dimension = Some(dimension);
        Ok(())
    }
}
