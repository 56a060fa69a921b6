//! Follows a real client and the server that it talks to: where the handshake is, what the client has said and taken, and
//! whether the client may be moved.
//!
//! A client advances with the messages that it is sent, in order, and it is sent what passes here: so where it is, or will be
//! by the time that it reads what comes next, is known without its acks, in which clients differ.

use std::sync::Arc;

use crate::version::Version;

use super::ids::Fingerprint;
use super::message::Message;
use super::mods::{ModList, ModListDifference};
use super::phase::{ClientPhase, ServerPhase};

/// What becomes of a client's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It goes to the server.
    On,
    /// It answers the node itself, and goes nowhere.
    Nowhere,
}

/// Why a Forge client cannot be moved to a Forge server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unmovable {
    /// A handshake is under way: it can be when that has ended.
    #[error("a Forge handshake is under way ({})", .0.name())]
    Handshaking(ClientPhase),
    /// The client has not yet been seen to process its last Join Game. A reset now could make it complete two handshakes at
    /// once, at which it disconnects.
    #[error("the client has not entered its world yet")]
    Entering,
    /// A handshake has stopped half-way and cannot be ended: the client can neither be reset nor begin another.
    #[error("the client's Forge handshake has stopped half-way ({}), and it cannot begin another before it joins again", .0.name())]
    Stuck(ClientPhase),
    /// The client's build is too old for a reset.
    #[error("the client's Forge is older than build {}, and cannot begin a second handshake", super::mods::FIRST_WITH_RESET)]
    NoReset,
}

impl Unmovable {
    /// For outcomes: one of a bounded set.
    pub fn reason(&self) -> &'static str {
        match self {
            Unmovable::Handshaking(_) => "forge_handshake_under_way",
            Unmovable::Entering => "forge_entering",
            Unmovable::Stuck(_) => "forge_stuck",
            Unmovable::NoReset => "forge_no_reset",
        }
    }

    /// Whether waiting helps.
    pub fn passes(&self) -> bool {
        matches!(self, Unmovable::Handshaking(_) | Unmovable::Entering)
    }
}

/// A client's handshake, and what is known of the client by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracker {
    client: ClientPhase,
    server: ServerPhase,
    /// The client has said something on the channel, or is known by its host mark or its channels.
    forge: bool,
    protocol: u8,
    mods: Option<Arc<ModList>>,
    /// What the server under way has said. Boxed, as the next: there are thousands of trackers, most of them of vanilla players.
    offered: Option<Box<Offered>>,
    /// What the client has taken, from all servers together and of the last one.
    accepted: Option<Box<Accepted>>,
    /// Of the last Server Hello; the client keeps it.
    override_dimension: i32,
    /// The current server has sent Join Game.
    joined: bool,
    /// The handshake under way is with a candidate, not with the current server.
    live: bool,
    /// The handshake under way has begun in play, unseen.
    unseen: bool,
    /// The client has been done before: a Join Game no longer makes the server a vanilla one.
    connected: bool,
    /// The client has sent a last ack before: it will again.
    answers: bool,
    /// The client has processed its last Join Game.
    entered: bool,
    /// The client has been in a world. On the way there it says its channels, which show whether it is a Forge client.
    known: bool,
    owed: Owed,
    /// The client has said the last ack of its newest handshake.
    acked: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Offered {
    mods: Option<ModListDifference>,
    ids: Option<Fingerprint>,
}

/// What a client has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) mods: ModListDifference,
    pub(super) ids: Option<Fingerprint>,
}

/// Answers to the node that are still to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Owed {
    #[default]
    None,
    /// All of them.
    Introduction,
    /// Those after Client Hello.
    Acks,
}

impl Tracker {
    /// The tracker of a client that has just got Login Success. `marked`: its host had Forge's mark
    /// ([`crate::host::VirtualHost::forge_marker`]).
    pub fn new(marked: bool) -> Tracker {
        Tracker {
            client: ClientPhase::Hello,
            server: ServerPhase::Start,
            forge: marked,
            protocol: super::message::PROTOCOL,
            mods: None,
            offered: None,
            accepted: None,
            override_dimension: 0,
            joined: false,
            live: false,
            unseen: false,
            connected: false,
            answers: false,
            entered: false,
            known: false,
            owed: Owed::None,
            acked: true,
        }
    }

    /// Notes a message that the client is sent: its server's, as it passes, or one of the node's own.
    pub fn clientbound(&mut self, data: &[u8]) {
        // One that cannot be read makes the client throw.
        let message = Message::read(data).unwrap_or(Message::Unknown(0));
        self.tell(&message);
    }

    /// Notes a message that the client is sent.
    pub(super) fn tell(&mut self, message: &Message<'_>) {
        self.server = self.server.said(message);
        let was = self.client;
        self.client = was.told(message).0;
        match (was, message) {
            (ClientPhase::Hello, Message::ServerHello(hello)) => {
                self.acked = false;
                self.offered = None;
                // With protocol 1 the client keeps what it has.
                if hello.protocol as i8 > 1 {
                    self.override_dimension = hello.dimension;
                }
            }
            (ClientPhase::WaitingServerData, Message::ModList(fields)) => {
                let mods = ModList::read(fields).ok().zip(self.mods.as_ref());
                self.offered().mods = mods.map(|(server, client)| ModListDifference::between(client, &server));
            }
            (ClientPhase::WaitingServerComplete, Message::ModIdData(fields)) => self.offered().ids = Fingerprint::of(fields).ok(),
            _ => {}
        }
        if was == ClientPhase::Complete && self.client == ClientPhase::Done {
            self.done();
        }
    }

    /// The client has come to the end of a handshake with a Forge server, and keeps what that offered.
    fn done(&mut self) {
        self.connected = true;
        self.unseen = false;
        let Offered { mods, ids } = self.offered.take().map(|offered| *offered).unwrap_or_default();
        let mut taken = self.accepted.take().map(|accepted| accepted.mods).unwrap_or_default();
        taken.merge(mods.unwrap_or_default());
        self.accepted = Some(Box::new(Accepted { mods: taken, ids }));
    }

    fn offered(&mut self) -> &mut Offered {
        self.offered.get_or_insert_default()
    }

    /// Notes a message of the client's, and says where it goes.
    pub fn serverbound(&mut self, data: &[u8]) -> Way {
        self.forge = true;
        let message = Message::read(data);
        match message {
            Ok(Message::ClientHello { protocol }) => self.protocol = protocol,
            Ok(Message::ModList(fields)) => {
                // It is constant: that of a client that changes its mind is taken once more all the same.
                if let Ok(mods) = ModList::read(fields) {
                    self.mods = Some(Arc::new(mods));
                }
            }
            _ => {}
        }
        let owed = self.owed;
        match message {
            Ok(Message::ClientHello { .. }) if owed == Owed::Introduction => self.owed = Owed::Acks,
            Ok(Message::ClientHello { .. }) if self.client == ClientPhase::Done => {
                // Something behind the server has reset it and begun again, unseen.
                self.client = ClientPhase::WaitingServerData;
                self.server = ServerPhase::Hello;
                self.offered = None;
                self.owed = Owed::None;
                self.unseen = true;
                return Way::On;
            }
            Ok(Message::Ack { phase }) if phase == ClientPhase::Complete as u8 => {
                self.answers = true;
                self.acked = true;
                if owed == Owed::Acks {
                    self.owed = Owed::None;
                }
            }
            _ => {}
        }
        if owed == Owed::None { Way::On } else { Way::Nowhere }
    }

    /// The client's channels name [`super::HANDSHAKE`]: it is a Forge client, even if it has never met a Forge server.
    pub fn is_forge_client(&mut self) {
        self.forge = true;
    }

    /// Notes a Join Game that the client is sent. A client that has never been done takes the server for a vanilla one by it.
    pub fn joined(&mut self) {
        self.joined = true;
        self.entered = false;
        self.live = false;
        self.unseen = false;
        self.server = ServerPhase::Done;
        if !self.connected {
            let was = self.client;
            self.client = was.joined();
            if was == ClientPhase::Complete {
                self.done();
            }
            self.connected = self.client == ClientPhase::Done;
        }
    }

    /// The client has processed its last Join Game: it has sent Client Settings that answer this one, or has had the time.
    pub fn entered(&mut self) {
        self.entered = true;
        self.known = true;
    }

    /// The current server is another one from here on, and has sent nothing yet. If the one before has died in a handshake, see
    /// [`Tracker::finish`], too.
    pub fn new_server(&mut self) {
        self.joined = false;
        self.live = false;
        self.unseen = false;
        self.server = ServerPhase::Start;
        self.offered = None;
    }

    /// A handshake with a candidate begins; the current server stays.
    pub(super) fn live(&mut self) {
        self.live = true;
        self.server = ServerPhase::Start;
        self.offered = None;
    }

    /// It has ended without a Join Game.
    pub(super) fn not_live(&mut self) {
        self.live = false;
        self.server = if self.joined { ServerPhase::Done } else { ServerPhase::Start };
        self.offered = None;
    }

    /// Appends what ends a handshake that no server ends any more, as far as that takes acks alone: the client has taken the
    /// ids then. Says whether the client is done now.
    pub fn finish(&mut self, out: &mut Vec<u8>, version: &Version) -> bool {
        for server in [ServerPhase::WaitingCAck, ServerPhase::Complete] {
            let due = match server {
                ServerPhase::WaitingCAck => ClientPhase::PendingComplete,
                _ => ClientPhase::Complete,
            };
            if self.client == due {
                let ack = Message::Ack { phase: server as u8 };
                ack.put_clientbound(out, version);
                self.tell(&ack);
            }
        }
        self.client == ClientPhase::Done
    }

    /// The client's answers to a handshake that the node itself has led go nowhere.
    pub(super) fn owes(&mut self) {
        self.owed = Owed::Introduction;
    }

    /// What the client still answers in a handshake whose server is gone goes nowhere.
    pub(super) fn owes_acks(&mut self) {
        if self.owed == Owed::None && !self.acked {
            self.owed = Owed::Acks;
        }
    }

    /// Whether the client is a Forge client, as far as is known.
    pub fn is_forge(&self) -> bool {
        self.forge
    }

    /// Whether it is known that the client is no Forge client.
    pub fn is_vanilla(&self) -> bool {
        self.known && !self.forge
    }

    /// Where the client is, once it has read what it was sent.
    pub fn client(&self) -> ClientPhase {
        self.client
    }

    /// Where its server is.
    pub fn server(&self) -> ServerPhase {
        self.server
    }

    /// Whether a handshake with the current server is under way: it has begun, and the server has not sent Join Game.
    pub fn is_handshaking(&self) -> bool {
        !self.live && !self.joined && self.is_under_way()
    }

    fn is_under_way(&self) -> bool {
        !matches!(self.server, ServerPhase::Start | ServerPhase::Done)
    }

    /// Whether the current server's plugin messages have to be seen: not in play, unless a handshake begins there.
    pub fn watches_clientbound(&self) -> bool {
        !self.joined || self.unseen
    }

    /// The client's mods, once it has said them. They do not change while it is connected.
    pub fn mods(&self) -> Option<&Arc<ModList>> {
        self.mods.as_ref()
    }

    /// The FML protocol that the client speaks.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The dimension that the client puts in Join Game's place, if it is not 0: what the last Server Hello said.
    pub fn override_dimension(&self) -> i32 {
        self.override_dimension
    }

    pub(super) fn accepted(&self) -> Option<&Accepted> {
        self.accepted.as_deref()
    }

    /// Whether the client can be reset now, so that it begins a handshake anew. Whether an unknown build knows a reset is not
    /// known; it is taken to (those that do not are older than any that is still in use).
    pub fn may_reset(&self) -> Result<(), Unmovable> {
        match self.client {
            ClientPhase::Done if self.mods.as_ref().is_some_and(|mods| !mods.knows_reset()) => Err(Unmovable::NoReset),
            ClientPhase::Done if !self.entered || (self.owed != Owed::None && self.answers) => Err(Unmovable::Entering),
            ClientPhase::Done => Ok(()),
            phase if self.is_under_way() => Err(Unmovable::Handshaking(phase)),
            phase => Err(Unmovable::Stuck(phase)),
        }
    }

    /// Whether the client takes a vanilla server's Join Game. One whose first handshake has stopped half-way disconnects.
    pub fn may_join_vanilla(&self) -> Result<(), Unmovable> {
        match self.client.joined() {
            ClientPhase::Error if !self.connected => Err(Unmovable::Stuck(self.client)),
            _ => Ok(()),
        }
    }

    /// Whether the client's answers to a handshake that the node has led, or that nobody leads any more, are still to come.
    pub fn is_owed(&self) -> bool {
        self.owed != Owed::None
    }

    /// What the handshake waits for, for people.
    pub fn waits_for(&self) -> &'static str {
        match self.client {
            ClientPhase::Start | ClientPhase::Hello => "the server's ServerHello",
            ClientPhase::WaitingServerData if self.mods.is_none() => "the client's ModList",
            ClientPhase::WaitingServerData => "the server's ModList",
            ClientPhase::WaitingServerComplete => "the server's ModIdData",
            ClientPhase::PendingComplete => "the server's first acknowledgement",
            ClientPhase::Complete => "the server's second acknowledgement",
            ClientPhase::Done => "the server's Join Game",
            ClientPhase::Error => "nothing: the client does not take what it was sent",
        }
    }
}
