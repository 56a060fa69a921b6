//! Versions as data: the one place where packet numbers stand.
//!
//! A [`Version`] maps the numbers of one protocol to the few packet *kinds* that a session looks into; every other number is
//! `Other` and passes untouched. Protocols 4 and 5 have the same numbers for all of them (they differ in Spawn Player, which
//! nobody here reads, and in how Login Success writes a UUID). Source of the numbers: minecraft.wiki, "Protocol version 5",
//! checked in the tests against the npm package `minecraft-data`.

use std::fmt;

use uuid::Uuid;

use crate::walk::WatchSet;

/// Handshake, the first packet of a modern client.
pub const HANDSHAKE: i32 = 0x00;

/// Status, both ways: the request and its answer.
pub const STATUS: i32 = 0x00;
/// Status, both ways: ping and pong.
pub const PING: i32 = 0x01;

/// Login, serverbound: Login Start.
pub const LOGIN_START: i32 = 0x00;
/// Login, clientbound: Disconnect.
pub const LOGIN_DISCONNECT: i32 = 0x00;
/// Login, clientbound: Encryption Request.
pub const ENCRYPTION_REQUEST: i32 = 0x01;
/// Login, serverbound: Encryption Response.
pub const ENCRYPTION_RESPONSE: i32 = 0x01;
/// Login, clientbound: Login Success.
pub const LOGIN_SUCCESS: i32 = 0x02;
/// Login, clientbound: Set Compression, which no version below 1.8 knows.
pub const SET_COMPRESSION: i32 = 0x03;

/// Clientbound packets of the play phase that a session looks into or sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clientbound {
    /// Keep Alive: a question with an id.
    KeepAlive,
    /// Join Game: the player is in a world.
    JoinGame,
    /// Chat: a text component.
    Chat,
    /// Respawn: another dimension.
    Respawn,
    /// Player List Item: one line of the tab list.
    PlayerListItem,
    /// Tab Complete: what a word may go on as.
    TabComplete,
    /// Plugin Message: a channel and its bytes.
    PluginMessage,
    /// Disconnect: the reason.
    Disconnect,
    /// Everything else.
    Other,
}

/// Serverbound packets of the play phase that a session looks into or sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Serverbound {
    /// Keep Alive: the answer, or a sign of life with id 0.
    KeepAlive,
    /// Chat: a line as typed.
    Chat,
    /// Tab Complete: the words so far.
    TabComplete,
    /// Client Settings: also what a client sends when it has processed Join Game.
    ClientSettings,
    /// Plugin Message: a channel and its bytes.
    PluginMessage,
    /// Anything that speaks of the world the player is in: moves, entities, blocks, windows, respawning.
    OldWorld,
    /// Everything else.
    Other,
}

/// Packets that the limbo and the probe speak, and a session never looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum World {
    /// Clientbound Spawn Position.
    SpawnPosition,
    /// Clientbound Player Position And Look.
    PositionAndLook,
    /// Clientbound Map Chunk (Chunk Data).
    MapChunk,
    /// Clientbound Map Chunk Bulk: several columns in one packet.
    MapChunkBulk,
    /// Clientbound Player Abilities.
    Abilities,
    /// Serverbound Player Position And Look.
    PositionAndLookServerbound,
}

/// What [`Version::clientbound_id`] and [`Version::serverbound_id`] say of a kind that is not one packet. No packet of any
/// version has this number, and no [`WatchSet`] can hold it.
pub const NO_ID: u8 = u8::MAX;

/// One protocol version.
pub struct Version {
    /// The number in the handshake.
    pub protocol: i32,
    /// The releases that speak it.
    pub name: &'static str,
    /// Whether Login Success and the status sample write a UUID with dashes.
    dashed_uuids: bool,
    numbers: &'static Numbers,
}

static VERSIONS: [Version; 2] = [
    Version { protocol: 4, name: "1.7.2–1.7.5", dashed_uuids: false, numbers: &NUMBERS_1_7 },
    Version { protocol: 5, name: "1.7.6–1.7.10", dashed_uuids: true, numbers: &NUMBERS_1_7 },
];

impl Version {
    /// Every version that is supported, oldest first.
    pub const ALL: &'static [Version] = &VERSIONS;

    /// The version with this protocol number, if it is supported.
    pub fn of(protocol: i32) -> Option<&'static Version> {
        VERSIONS.iter().find(|version| version.protocol == protocol)
    }

    /// What is supported, for messages to people.
    pub const fn supported() -> &'static str {
        "1.7.2 to 1.7.10"
    }

    /// The newest version that is supported: what a status answer names to a client of an unsupported version.
    pub fn newest() -> &'static Version {
        &VERSIONS[VERSIONS.len() - 1]
    }

    /// What the clientbound packet with this id is. For ids of more than one varint byte there is nothing to ask: `Other`.
    #[inline]
    pub fn clientbound(&self, id: u8) -> Clientbound {
        self.numbers.clientbound.get(usize::from(id)).copied().unwrap_or(Clientbound::Other)
    }

    /// What the serverbound packet with this id is.
    #[inline]
    pub fn serverbound(&self, id: u8) -> Serverbound {
        self.numbers.serverbound.get(usize::from(id)).copied().unwrap_or(Serverbound::Other)
    }

    /// The id of a clientbound packet; [`NO_ID`] for `Other`.
    #[inline]
    pub fn clientbound_id(&self, kind: Clientbound) -> u8 {
        self.numbers.clientbound_ids[kind as usize]
    }

    /// The id of a serverbound packet; [`NO_ID`] for `OldWorld` and `Other`, which are many.
    #[inline]
    pub fn serverbound_id(&self, kind: Serverbound) -> u8 {
        self.numbers.serverbound_ids[kind as usize]
    }

    /// The id of a packet of the limbo or the probe.
    pub fn world_id(&self, kind: World) -> u8 {
        self.numbers.world_ids[kind as usize]
    }

    /// The ids of all clientbound packets of these kinds.
    pub fn watch_clientbound(&self, kinds: &[Clientbound]) -> WatchSet {
        watch(|id| kinds.contains(&self.clientbound(id)))
    }

    /// The ids of all serverbound packets of these kinds.
    pub fn watch_serverbound(&self, kinds: &[Serverbound]) -> WatchSet {
        watch(|id| kinds.contains(&self.serverbound(id)))
    }

    /// A UUID as this version's Login Success and status sample write it.
    pub fn uuid_text(&self, uuid: Uuid) -> String {
        if self.dashed_uuids { uuid.hyphenated().to_string() } else { uuid.simple().to_string() }
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.protocol == other.protocol
    }
}

impl Eq for Version {}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({}, {})", self.protocol, self.name)
    }
}

fn watch(mut wanted: impl FnMut(u8) -> bool) -> WatchSet {
    (0..128).filter(|&id| wanted(id)).fold(WatchSet::default(), WatchSet::with)
}

/// Both directions of look-up, made at compile time from the lists below.
struct Numbers {
    clientbound: [Clientbound; 128],
    serverbound: [Serverbound; 128],
    clientbound_ids: [u8; Clientbound::Other as usize + 1],
    serverbound_ids: [u8; Serverbound::Other as usize + 1],
    world_ids: [u8; World::PositionAndLookServerbound as usize + 1],
}

static NUMBERS_1_7: Numbers = Numbers::of(
    &[
        (0x00, Clientbound::KeepAlive),
        (0x01, Clientbound::JoinGame),
        (0x02, Clientbound::Chat),
        (0x07, Clientbound::Respawn),
        (0x38, Clientbound::PlayerListItem),
        (0x3a, Clientbound::TabComplete),
        (0x3f, Clientbound::PluginMessage),
        (0x40, Clientbound::Disconnect),
    ],
    &[
        (0x00, Serverbound::KeepAlive),
        (0x01, Serverbound::Chat),
        (0x14, Serverbound::TabComplete),
        (0x15, Serverbound::ClientSettings),
        (0x17, Serverbound::PluginMessage),
    ],
    // Use Entity (02) to Abilities (13), and Client Status (16).
    &[(0x02, 0x13), (0x16, 0x16)],
    &[
        (0x05, World::SpawnPosition),
        (0x08, World::PositionAndLook),
        (0x21, World::MapChunk),
        (0x26, World::MapChunkBulk),
        (0x39, World::Abilities),
        (0x06, World::PositionAndLookServerbound),
    ],
);

impl Numbers {
    /// Fails to compile if a number is given twice or a kind has no number.
    const fn of(
        clientbound: &[(u8, Clientbound)],
        serverbound: &[(u8, Serverbound)],
        old_world: &[(u8, u8)],
        world: &[(u8, World)],
    ) -> Numbers {
        let mut numbers = Numbers {
            clientbound: [Clientbound::Other; 128],
            serverbound: [Serverbound::Other; 128],
            clientbound_ids: [NO_ID; Clientbound::Other as usize + 1],
            serverbound_ids: [NO_ID; Serverbound::Other as usize + 1],
            world_ids: [NO_ID; World::PositionAndLookServerbound as usize + 1],
        };
        let mut index = 0;
        while index < clientbound.len() {
            let (id, kind) = clientbound[index];
            assert!(matches!(numbers.clientbound[id as usize], Clientbound::Other), "a clientbound id is given twice");
            numbers.clientbound[id as usize] = kind;
            numbers.clientbound_ids[kind as usize] = id;
            index += 1;
        }
        let mut index = 0;
        while index < serverbound.len() {
            let (id, kind) = serverbound[index];
            assert!(matches!(numbers.serverbound[id as usize], Serverbound::Other), "a serverbound id is given twice");
            numbers.serverbound[id as usize] = kind;
            numbers.serverbound_ids[kind as usize] = id;
            index += 1;
        }
        let mut index = 0;
        while index < old_world.len() {
            let (mut id, last) = old_world[index];
            while id <= last {
                assert!(matches!(numbers.serverbound[id as usize], Serverbound::Other), "a serverbound id is given twice");
                numbers.serverbound[id as usize] = Serverbound::OldWorld;
                id += 1;
            }
            index += 1;
        }
        let mut index = 0;
        while index < world.len() {
            let (id, kind) = world[index];
            numbers.world_ids[kind as usize] = id;
            index += 1;
        }
        assert!(clientbound.len() == Clientbound::Other as usize, "a clientbound kind has no number");
        assert!(serverbound.len() == Serverbound::OldWorld as usize, "a serverbound kind has no number");
        assert!(world.len() == numbers.world_ids.len(), "a world kind has no number");
        numbers
    }
}
