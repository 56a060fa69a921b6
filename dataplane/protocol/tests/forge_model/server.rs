//! A server of 1.7.10, with Forge or without, from its Login Success on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use moonbridge_protocol::forge::dimension::DimensionRegister;
use moonbridge_protocol::play::{self, JoinGame};
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::Version;

use super::{Ids, Mods, mods_of, varint};

/// What a server is.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) forge: bool,
    pub(crate) mods: Mods,
    /// Mods of which a client need not have the same version, or any.
    pub(crate) unchecked: BTreeSet<String>,
    pub(crate) ids: Ids,
    pub(crate) dimension: i32,
    /// Refuses whoever comes.
    pub(crate) refuses: bool,
}

pub(crate) struct Server {
    pub(crate) kind: Kind,
    phase: u8,
    /// Frames on their way to the client.
    pub(crate) out: VecDeque<Vec<u8>>,
    /// Sends so many frames and then no more: it is dead.
    pub(crate) lives: usize,
    pub(crate) joined: bool,
    pub(crate) registered: bool,
}

impl Server {
    pub(crate) fn new(kind: &Kind, lives: usize) -> Server {
        let mut server = Server { kind: kind.clone(), phase: 1, out: VecDeque::new(), lives, joined: false, registered: false };
        server.plugin("MC|Brand", b"fml,forge");
        if kind.forge {
            server.plugin("REGISTER", b"FML|HS\0FML\0FORGE");
            let mut hello = vec![0, 2];
            hello.extend(kind.dimension.to_be_bytes());
            server.plugin("FML|HS", &hello);
        } else {
            server.join();
        }
        server
    }

    /// The next frame, if it lives.
    pub(crate) fn send(&mut self) -> Option<Vec<u8>> {
        self.lives = self.lives.checked_sub(usize::from(!self.out.is_empty()))?;
        self.out.pop_front()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lives == 0
    }

    /// The client says something.
    pub(crate) fn read(&mut self, channel: &str, data: &[u8]) {
        if channel == "REGISTER" {
            self.registered = true;
        }
        if channel != "FML|HS" || !self.kind.forge {
            return;
        }
        match (self.phase, data[0]) {
            (1, 1) => {}
            (1, 2) => {
                assert!(self.registered, "channels come first");
                let theirs: BTreeMap<String, String> = mods_of(&data[1..]).into_iter().collect();
                let accepts = |(id, version): &(String, String)| self.kind.unchecked.contains(id) || theirs.get(id) == Some(version);
                if self.kind.refuses || !self.kind.mods.iter().all(accepts) {
                    let mut kick = Vec::new();
                    play::put_disconnect(&mut kick, Version::newest(), &Text::legacy("Mod rejections [x]"));
                    self.out.push_back(kick);
                    self.phase = 5;
                    return;
                }
                let mut list = vec![2];
                varint(&mut list, self.kind.mods.len());
                for text in self.kind.mods.iter().flat_map(|(id, version)| [id, version]) {
                    varint(&mut list, text.len());
                    list.extend(text.bytes());
                }
                self.plugin("FML|HS", &list);
                self.phase = 2;
            }
            (1, kind) => panic!("a server throws at {kind} in HELLO"),
            (2, _) => {
                let mut ids = vec![3];
                varint(&mut ids, self.kind.ids.len());
                for (name, id) in &self.kind.ids {
                    varint(&mut ids, name.len());
                    ids.extend(name.bytes());
                    varint(&mut ids, *id as usize);
                }
                ids.extend([0, 0]);
                self.plugin("FML|HS", &ids);
                self.plugin("FML|HS", &[0xff, 2]);
                let mut register = Vec::new();
                DimensionRegister { dimension: self.kind.dimension, provider: 0 }.write(&mut register);
                self.plugin("FORGE", &register);
                self.phase = 3;
            }
            (3, _) => {
                self.plugin("FML|HS", &[0xff, 3]);
                self.phase = 4;
                self.plugin("mod:a", b"hello");
                self.join();
            }
            _ => {}
        }
    }

    fn join(&mut self) {
        let mut join = Vec::new();
        let dimension = i32::from(self.kind.dimension as i8);
        JoinGame { entity_id: 7, gamemode: 8, dimension, difficulty: 1, max_players: 20, level_type: "flat".into() }
            .put(&mut join, Version::newest());
        self.out.push_back(join);
        self.joined = true;
    }

    fn plugin(&mut self, channel: &str, data: &[u8]) {
        let mut frame = Vec::new();
        assert!(play::put_plugin_message_clientbound(&mut frame, Version::newest(), channel, data));
        self.out.push_back(frame);
    }
}
