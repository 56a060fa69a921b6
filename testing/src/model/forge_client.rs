//! A client's side of Forge's handshake. It runs on the connection's own thread, ahead of whatever waits for the game's.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use moonbridge_protocol::wire::Reader;

use super::Broken;
use super::client::{Event, Install};
use super::messages::{
    ACK, CLIENT_HELLO, HANDSHAKE, MOD_IDS, MOD_LIST, RESET, SERVER_HELLO, mod_list, put_plugin, read_ids, read_mods, register, rejected,
};

/// Where the handshake stands (`FMLHandshakeClientState`; by its ordinals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Waits for Server Hello, or a Join Game.
    Hello = 1,
    /// Has said its mods.
    WaitingServerData = 2,
    /// Has taken the server's.
    WaitingServerComplete = 3,
    /// Has taken the ids.
    PendingComplete = 4,
    /// Has been acknowledged once.
    Complete = 5,
    /// Plays.
    Done = 6,
}

/// The dispatcher's view (`NetworkDispatcher.ConnectionState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Awaiting,
    /// The handshake is over; the game's thread does not know yet.
    Complete,
    Connected,
}

#[derive(Debug, Clone)]
pub(crate) struct Forge {
    pub(crate) phase: Phase,
    link: Link,
    /// What the last Server Hello said: it stays until the next.
    pub(crate) override_dimension: i32,
    /// Which ids are in force; `None`: the client's own (frozen).
    pub(crate) ids: Option<u64>,
}

impl Forge {
    pub(crate) fn new() -> Forge {
        Forge { phase: Phase::Hello, link: Link::Awaiting, override_dimension: 0, ids: None }
    }

    fn go(&mut self, phase: Phase, events: &mut Vec<Event>) {
        self.phase = phase;
        events.push(Event::Phase(phase));
    }

    fn acknowledge(&self, install: &Install, out: &mut Vec<u8>) {
        if let Some(number) = install.acks.get(self.phase as usize - 2).copied().flatten() {
            put_plugin(out, 0x17, HANDSHAKE, &[ACK, number]);
        }
    }

    /// A message on `FML|HS`; says whether the game's thread is to be told that the handshake is over.
    pub(crate) fn told(&mut self, install: &Install, data: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) -> Result<bool, Broken> {
        let mods = install.mods.as_deref().unwrap_or_default();
        let unreadable = |what: &str| Broken::Disconnect(format!("IndexOutOfBoundsException in {what}"));
        let mut reader = Reader::new(data);
        let kind = reader.u8().map_err(|_| unreadable("an empty message"))?;
        if !matches!(kind, SERVER_HELLO | CLIENT_HELLO | MOD_LIST | MOD_IDS | ACK | RESET) || (kind == RESET && !install.knows_reset) {
            return Err(Broken::Disconnect(format!("Undefined message for discriminator {kind} in channel {HANDSHAKE}")));
        }
        let expect = |wanted: u8, phase: Phase| {
            let what = format!("ClassCastException: message {kind:#04x} in {phase:?}");
            if kind == wanted { Ok(()) } else { Err(Broken::Disconnect(what)) }
        };
        match self.phase {
            Phase::Hello => {
                expect(SERVER_HELLO, self.phase)?;
                let protocol = reader.i8().map_err(|_| unreadable("ServerHello"))?;
                if protocol > 1 {
                    self.override_dimension = reader.i32().map_err(|_| unreadable("ServerHello"))?;
                }
                events.push(Event::Hello { dimension: self.override_dimension });
                put_plugin(out, 0x17, "REGISTER", &register(&install.channels));
                put_plugin(out, 0x17, HANDSHAKE, &[CLIENT_HELLO, 2]);
                put_plugin(out, 0x17, HANDSHAKE, &mod_list(mods));
                self.go(Phase::WaitingServerData, events);
            }
            Phase::WaitingServerData => {
                expect(MOD_LIST, self.phase)?;
                let theirs = read_mods(&mut reader).ok_or_else(|| unreadable("ModList"))?;
                if let Some(why) = rejected(mods, &theirs) {
                    return Err(Broken::Disconnect(why));
                }
                events.push(Event::ServerMods(theirs));
                self.acknowledge(install, out);
                self.go(Phase::WaitingServerComplete, events);
            }
            Phase::WaitingServerComplete => {
                expect(MOD_IDS, self.phase)?;
                let knows = |domain: &str| domain == "minecraft" || mods.iter().any(|own| own.id == domain);
                if let Err(missing) = read_ids(&mut reader, knows).ok_or_else(|| unreadable("ModIdData"))? {
                    return Err(Broken::Disconnect(format!("Fatally missing blocks and items: {missing}")));
                }
                let hash = hash(data);
                self.ids = Some(hash);
                events.push(Event::Ids { bytes: data.len(), hash });
                self.acknowledge(install, out);
                self.go(Phase::PendingComplete, events);
            }
            // From here on it looks at nothing but that something came.
            Phase::PendingComplete => {
                self.acknowledge(install, out);
                self.go(Phase::Complete, events);
            }
            Phase::Complete => {
                self.link = Link::Complete;
                self.acknowledge(install, out);
                self.go(Phase::Done, events);
                return Ok(true);
            }
            Phase::Done if kind == RESET => {
                self.ids = None;
                events.push(Event::Reset);
                self.go(Phase::Hello, events);
            }
            Phase::Done => {}
        }
        Ok(false)
    }

    /// A Join Game has come (`NetworkDispatcher.handleVanilla`): before any handshake it ends it, as a server without Forge's. Once connected,
    /// never again: after a reset a Join Game changes nothing.
    pub(crate) fn join_game(&mut self, install: &Install, out: &mut Vec<u8>, events: &mut Vec<Event>) -> Result<(), Broken> {
        if self.link != Link::Awaiting {
            return Ok(());
        }
        if self.phase != Phase::Hello {
            return Err(Broken::Disconnect(format!("NullPointerException: Join Game in {:?}", self.phase)));
        }
        put_plugin(out, 0x17, "REGISTER", &register(&install.channels));
        self.link = Link::Connected;
        self.go(Phase::Done, events);
        Ok(())
    }

    /// The game's thread hears that the handshake is over (`NetworkDispatcher.completeHandshake`).
    pub(crate) fn completed(&mut self) -> Result<(), Broken> {
        if self.link == Link::Connected {
            return Err(Broken::Disconnect("FMLNetworkException: Attempt to double complete!".into()));
        }
        self.link = Link::Connected;
        Ok(())
    }
}

/// What tells ids apart.
pub(crate) fn hash(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}
