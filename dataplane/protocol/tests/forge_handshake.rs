//! Forge's handshake as state machines: ours against models of a client and of servers, whatever is delivered when, and
//! whoever dies in between.

use std::collections::BTreeSet;

use moonbridge_protocol::channels::Channels;
use moonbridge_protocol::forge::candidate::{Candidate, ClientFacts, Rejection};
use moonbridge_protocol::forge::lead::Lead;
use moonbridge_protocol::forge::live::Live;
use moonbridge_protocol::forge::message::{Message, ServerHello};
use moonbridge_protocol::forge::mods::ModList;
use moonbridge_protocol::forge::phase::{ClientPhase, ServerPhase};
use moonbridge_protocol::forge::tracker::{Tracker, Unmovable, Way};
use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::play::{JoinGame, PluginMessage, read_disconnect};
use moonbridge_protocol::switch::{put_enter, put_enter_forge};
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{Clientbound, Serverbound, Version};
use proptest::prelude::*;

use self::client::{Client, Said};
use self::server::{Kind, Server};

#[path = "forge_model/client.rs"]
mod client;
#[path = "forge_model/server.rs"]
mod server;

type Mods = Vec<(String, String)>;
type Ids = Vec<(String, i32)>;

fn varint(out: &mut Vec<u8>, value: usize) {
    moonbridge_protocol::wire::put_varint(out, value as i32);
}

/// The strings (and numbers) of a list, for the models.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number(&mut self) -> usize {
        let mut value = 0;
        for shift in 0.. {
            let byte = self.0[0];
            self.0 = &self.0[1..];
            value |= usize::from(byte & 0x7f) << (7 * shift);
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn text(&mut self) -> String {
        let length = self.number();
        let text = String::from_utf8(self.0[..length].to_vec()).expect("UTF-8");
        self.0 = &self.0[length..];
        text
    }
}

fn mods_of(fields: &[u8]) -> Mods {
    let mut fields = Fields(fields);
    (0..fields.number()).map(|_| (fields.text(), fields.text())).collect()
}

fn ids_of(fields: &[u8]) -> Ids {
    let mut fields = Fields(fields);
    (0..fields.number()).map(|_| (fields.text(), fields.number() as i32)).collect()
}

fn mods(list: &[(&str, &str)]) -> Mods {
    list.iter().map(|(id, version)| ((*id).to_owned(), (*version).to_owned())).collect()
}

/// Those of the client; it alone has the map.
fn client_mods() -> Mods {
    mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("craft", "2"), ("map", "1")])
}

fn ids(first: i32) -> Ids {
    [("minecraft:stone", 1), ("craft:anvil", first), ("craft:bench", first + 1)]
        .iter()
        .map(|(name, id)| (format!("\u{1}{name}"), *id))
        .collect()
}

/// The network: two servers whose ids are the same, one whose are not, one in a far dimension, two without Forge, one with a mod
/// in another version, one with a mod more, one that refuses everybody.
fn network() -> Vec<Kind> {
    let common = &[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("craft", "2"), ("admin", "5")];
    let forge =
        Kind { forge: true, mods: mods(common), unchecked: ["admin".to_owned()].into(), ids: ids(500), dimension: 0, refuses: false };
    let vanilla = Kind { forge: false, mods: Mods::new(), ids: Ids::new(), ..forge.clone() };
    vec![
        forge.clone(),
        Kind { dimension: -1, ..forge.clone() },
        Kind { ids: ids(900), dimension: 7, ..forge.clone() },
        Kind { dimension: 1_000, ..forge.clone() },
        vanilla.clone(),
        Kind { dimension: 1, ..vanilla },
        Kind {
            mods: mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("craft", "3")]),
            unchecked: ["craft".to_owned()].into(),
            ..forge.clone()
        },
        Kind { mods: mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("craft", "2"), ("more", "1")]), ..forge.clone() },
        Kind { refuses: true, ..forge },
    ]
}

const VANILLA: usize = 4;

/// Choices that are shrunk with the bytes they come from.
struct Choices<'a>(&'a [u8], usize);

impl Choices<'_> {
    fn next(&mut self, below: usize) -> usize {
        let byte = self.0[self.1 % self.0.len()];
        self.1 += 1;
        // The same bytes say something else the next time around.
        (usize::from(byte) + self.1 / self.0.len()) % below
    }

    fn chance(&mut self, of: usize) -> bool {
        self.next(of) == 0
    }
}

/// A frame of a server's as the node sees it.
enum Seen {
    Handshake(Vec<u8>),
    Join(JoinGame),
    Kick(Text),
    Other,
}

fn seen(frame: &[u8]) -> Seen {
    let version = Version::newest();
    let read = frame::first(frame, MAX_FRAME).expect("well-formed").expect("whole");
    match version.clientbound(read.id as u8) {
        Clientbound::PluginMessage => match PluginMessage::read_clientbound(read.payload).expect("readable") {
            PluginMessage { channel: "FML|HS", data } => Seen::Handshake(data.to_vec()),
            _ => Seen::Other,
        },
        Clientbound::JoinGame => Seen::Join(JoinGame::read(version, read.payload).expect("readable")),
        Clientbound::Disconnect => Seen::Kick(read_disconnect(read.payload)),
        _ => Seen::Other,
    }
}

/// A session: the real client and its server with the node between them.
struct Session {
    client: Client,
    tracker: Tracker,
    channels: Channels,
    current: Server,
    to_client: Vec<u8>,
    /// Join Games that the client has not answered with Client Settings.
    unanswered: u32,
    /// The client's messages that went to a candidate of a live handshake.
    live: Option<Server>,
}

/// Why a transfer did not happen.
#[derive(Debug, Clone, PartialEq)]
enum Failed {
    Died,
    Rejected(Rejection),
    Unmovable(Unmovable),
    Live,
}

impl Session {
    fn new(kind: &Kind) -> Session {
        Session {
            client: Client::new(&client_mods(), &["map"]),
            tracker: Tracker::new(false),
            channels: Channels::default(),
            current: Server::new(kind, usize::MAX),
            to_client: Vec::new(),
            unanswered: 0,
            live: None,
        }
    }

    /// Something happens that has nothing to do with a transfer; false: there is nothing left to happen.
    fn step(&mut self, choices: &mut Choices<'_>) -> Result<bool, String> {
        match choices.next(4) {
            0 if !self.to_client.is_empty() => {
                let length = 1 + choices.next(self.to_client.len().min(200));
                let bytes: Vec<u8> = self.to_client.drain(..length).collect();
                self.client.read(&bytes)?;
                if self.to_client.is_empty() {
                    assert!(self.client.is_between_frames());
                    assert_eq!(self.client.phase, self.tracker.client() as u8, "what is known of a client that has read everything");
                }
            }
            1 => {
                self.client.tick()?;
            }
            2 if !self.client.said.is_empty() => self.client_says(),
            3 if !self.current.out.is_empty() => self.server_says(),
            _ if self.to_client.is_empty() && self.client.said.is_empty() && self.current.out.is_empty() => return self.client.tick(),
            _ => {}
        }
        Ok(true)
    }

    fn settle(&mut self, choices: &mut Choices<'_>) -> Result<(), String> {
        while self.step(choices)? {}
        Ok(())
    }

    fn server_says(&mut self) {
        let Some(frame) = self.current.send() else { return };
        match seen(&frame) {
            Seen::Handshake(data) => self.tracker.clientbound(&data),
            Seen::Join(_) => {
                self.tracker.joined();
                self.unanswered += 1;
            }
            _ => {}
        }
        self.to_client.extend(frame);
    }

    fn client_says(&mut self) {
        match self.client.said.pop_front().expect("something") {
            Said::Settings => {
                self.unanswered -= 1;
                if self.unanswered == 0 {
                    self.tracker.entered();
                }
            }
            Said::Plugin(channel, data) => {
                let to = self.live.as_mut().unwrap_or(&mut self.current);
                if channel == "FML|HS" {
                    if self.tracker.serverbound(&data) == Way::On {
                        to.read(&channel, &data);
                    }
                } else {
                    self.channels.register(&data);
                    if self.channels.has("FML|HS") {
                        self.tracker.is_forge_client();
                    }
                    to.read(&channel, &data);
                }
            }
        }
    }

    /// Moves the client, as a node does; `Err(Err(_))`: the client has thrown.
    fn transfer(&mut self, kind: &Kind, lives: usize, skip_equal: bool, choices: &mut Choices<'_>) -> Result<Lead, Result<Failed, String>> {
        let version = Version::newest();
        let candidate = Server::new(kind, lives);
        let (held, join, dimension, lead) = match ClientFacts::of(version, &self.tracker, &self.channels, true) {
            Some(facts) => {
                let (candidate, held, join, server) = self.enter(facts, candidate, choices)?;
                let lead = loop {
                    match Lead::plan(&self.tracker, &candidate, &join, skip_equal) {
                        Ok(lead) => break lead,
                        Err(why) if why.passes() => {
                            if !self.step(choices).map_err(Err)? {
                                return Err(Ok(Failed::Unmovable(why)));
                            }
                        }
                        Err(why) => return Err(Ok(Failed::Unmovable(why))),
                    }
                };
                let dimension = candidate.dimension(&join);
                self.current = server;
                (held, join, dimension, lead)
            }
            None => {
                let (held, join, dimension) = self.live(candidate, choices)?;
                (held, join, dimension, Lead::Live)
            }
        };
        // The cutover: one piece, whatever becomes of the candidate from here on.
        let mut out = Vec::new();
        lead.begin(&mut out, version, &mut self.tracker);
        for frame in held {
            match seen(&frame) {
                Seen::Handshake(data) if !lead.see(&data, &mut self.tracker) => {}
                _ => out.extend(frame),
            }
        }
        lead.end(&mut out, version, &mut self.tracker);
        if self.tracker.is_forge() {
            put_enter_forge(&mut out, version, &join, dimension, self.tracker.override_dimension())
        } else {
            put_enter(&mut out, version, &join, true)
        }
        self.tracker.joined();
        self.unanswered += 1;
        self.to_client.extend(out);
        Ok(lead)
    }

    /// A candidate up to its Join Game, with the node as the client.
    #[allow(clippy::type_complexity)]
    fn enter(
        &mut self,
        facts: ClientFacts,
        mut server: Server,
        choices: &mut Choices<'_>,
    ) -> Result<(Candidate, Vec<Vec<u8>>, JoinGame, Server), Result<Failed, String>> {
        let mut candidate = Candidate::new(facts);
        let mut held = Vec::new();
        loop {
            for _ in 0..choices.next(4) {
                self.step(choices).map_err(Err)?;
            }
            let Some(frame) = server.send() else { return Err(Ok(Failed::Died)) };
            let rejected = |rejection| Ok(Failed::Rejected(rejection));
            match seen(&frame) {
                Seen::Join(join) => {
                    candidate.joined().map_err(rejected)?;
                    return Ok((candidate, held, join, server));
                }
                Seen::Kick(said) => return Err(rejected(candidate.refused(said))),
                Seen::Handshake(data) => {
                    let mut answers = Vec::new();
                    candidate.see(&data, &mut answers).map_err(rejected)?;
                    deliver(&answers, &mut server);
                    held.push(frame);
                }
                Seen::Other => held.push(frame),
            }
        }
    }

    /// A candidate up to its Join Game, with the real client.
    #[allow(clippy::type_complexity)]
    fn live(&mut self, server: Server, choices: &mut Choices<'_>) -> Result<(Vec<Vec<u8>>, JoinGame, i32), Result<Failed, String>> {
        let version = Version::newest();
        let mut live = loop {
            match Live::new(&self.tracker, true) {
                Ok(live) => break live,
                Err(why) if why.passes() && self.step(choices).map_err(Err)? => {}
                Err(why) => return Err(Ok(Failed::Unmovable(why))),
            }
        };
        self.live = Some(server);
        let mut held = Vec::new();
        for _ in 0..10_000 {
            self.step(choices).map_err(Err)?;
            let server = self.live.as_mut().expect("a candidate");
            if (server.out.is_empty() || choices.chance(2)) && !server.is_dead() {
                continue;
            }
            let frame = server.send();
            let gone = match frame.as_deref().map(seen) {
                Some(Seen::Join(join)) => {
                    self.current = self.live.take().expect("a candidate");
                    let dimension = live.dimension(&join);
                    return Ok((held, join, dimension));
                }
                Some(Seen::Handshake(data)) => live.from_candidate(&data, &mut self.to_client, version, &mut self.tracker).is_err(),
                Some(Seen::Other) => {
                    held.extend(frame);
                    false
                }
                Some(Seen::Kick(_)) | None => true,
            };
            let current = (self.tracker.is_handshaking(), self.tracker.watches_clientbound());
            assert_eq!(current, (false, false), "the server that it is on has nothing to do with it");
            if gone {
                live.failed(&mut self.to_client, version, &mut self.tracker);
                // What the client still says to it goes to nobody.
                while !(self.to_client.is_empty() && self.client.said.is_empty()) {
                    self.step(choices).map_err(Err)?;
                }
                self.live = None;
                return Err(Ok(Failed::Live));
            }
        }
        panic!("a live handshake that does not end");
    }

    /// The client is in the world of its server, with that one's ids.
    fn is_well(&self) {
        let kind = &self.current.kind;
        assert_eq!(self.client.dimension, Some(kind.dimension));
        if kind.forge {
            assert_eq!(self.client.ids.as_ref(), Some(&kind.ids));
        }
        assert_eq!(self.tracker.client() as u8, self.client.phase);
    }
}

/// The frames of a client (or of the node in its place) to a server.
fn deliver(mut frames: &[u8], server: &mut Server) {
    let version = Version::newest();
    while let Some(frame) = frame::first(frames, MAX_FRAME).expect("well-formed") {
        assert_eq!(version.serverbound(frame.id as u8), Serverbound::PluginMessage);
        let message = PluginMessage::read_serverbound(frame.payload).expect("readable");
        server.read(message.channel, message.data);
        frames = &frames[frame.whole.len()..];
    }
}

proptest! {
    /// A client logs in somewhere and is moved about; servers die at any frame. It never throws, is always in the world of the
    /// server that it is said to be on, and has that one's ids.
    #[test]
    fn a_client_survives_any_journey(
        first in 0usize..6,
        moves in prop::collection::vec((0usize..9, prop::option::weighted(0.3, 0usize..12), any::<bool>(), 0usize..40), 1..12),
        bytes in prop::collection::vec(any::<u8>(), 64),
    ) {
        let network = network();
        let mut choices = Choices(&bytes, 0);
        let mut session = Session::new(&network[first]);
        // It may be moved before it is anywhere; a node waits for its first world.
        while !session.current.joined || session.client.dimension.is_none() {
            session.step(&mut choices).map_err(TestCaseError::fail)?;
        }
        for (to, lives, skip_equal, steps) in moves {
            let before = session.current.kind.clone();
            let stuck = !matches!(session.tracker.client(), ClientPhase::Done | ClientPhase::Hello);
            match session.transfer(&network[to], lives.unwrap_or(usize::MAX), skip_equal, &mut choices) {
                Ok(lead) => {
                    prop_assert!(to < 6, "a server that does not take the client");
                    prop_assert!(!stuck || lead == Lead::Vanilla);
                }
                Err(Err(thrown)) => return Err(TestCaseError::fail(thrown)),
                Err(Ok(failed)) => {
                    prop_assert_eq!(session.current.kind.dimension, before.dimension);
                    let to = &network[to];
                    if lives.is_none() && to.forge && !to.refuses && to.mods == network[0].mods {
                        prop_assert!(matches!(failed, Failed::Unmovable(Unmovable::Stuck(_))) || stuck, "{:?}", failed);
                    }
                }
            }
            for _ in 0..steps {
                session.step(&mut choices).map_err(TestCaseError::fail)?;
            }
        }
        session.settle(&mut choices).map_err(TestCaseError::fail)?;
        session.is_well();
    }

    /// What a tracker and a candidate are told in any order, direction and number, they bear; what a client would throw at, no
    /// candidate gets past.
    #[test]
    fn anything_may_be_said_at_any_time(messages in prop::collection::vec((0usize..14, any::<bool>()), 0..40)) {
        let mut list = Vec::new();
        Message::ModList(ModList::of([("Forge", "10.13.4.1614")]).fields()).write(&mut list);
        let said: [&[u8]; 14] = [
            &[], &[0], &[0, 2], &[0, 2, 0, 0, 0, 9], &[1], &[1, 2], &list, &[2, 5, 1], &[3, 0], &[3, 9], &[0xff, 2], &[0xff], &[0xfe, 0], &[77, 1],
        ];
        let mut tracker = Tracker::new(true);
        tracker.serverbound(&list);
        let mut candidate = Candidate::new(ClientFacts::of(Version::newest(), &tracker, &Channels::default(), true).expect("known mods"));
        let mut rejected = false;
        let mut model = Client::new(&mods(&[("Forge", "10.13.4.1614")]), &[]);
        let mut thrown = false;
        for (which, clientbound) in messages {
            if !clientbound {
                tracker.serverbound(said[which]);
                continue;
            }
            tracker.clientbound(said[which]);
            let mut frame = Vec::new();
            moonbridge_protocol::play::put_plugin_message_clientbound(&mut frame, Version::newest(), "FML|HS", said[which]);
            // The model reads no further than it is told; what is cut short is left to the readers' tests.
            let short = matches!(which, 0 | 1 | 2 | 4 | 7 | 9 | 11);
            if !rejected {
                rejected = candidate.see(said[which], &mut Vec::new()).is_err();
                if !thrown && !short {
                    thrown = model.read(&frame).is_err();
                    prop_assert!(rejected || !thrown, "a candidate got past a message that a client throws at");
                }
                thrown |= short;
            }
        }
        let _ = (tracker.may_reset(), tracker.waits_for(), tracker.watches_clientbound(), tracker.is_handshaking());
        prop_assert!(!tracker.finish(&mut Vec::new(), Version::newest()) || tracker.client() == ClientPhase::Done);
    }
}

fn at_ease() -> Vec<u8> {
    (0..64).map(|number| number as u8).collect()
}

fn settled(kind: &Kind, choices: &mut Choices<'_>) -> Session {
    let mut session = Session::new(kind);
    session.settle(choices).expect("a client that does not throw");
    session.is_well();
    session
}

#[test]
fn a_first_login_is_followed() {
    let bytes = at_ease();
    let mut choices = Choices(&bytes, 0);
    let session = settled(&network()[3], &mut choices);
    assert!(session.tracker.is_forge() && !session.tracker.is_handshaking() && !session.tracker.watches_clientbound());
    assert_eq!((session.tracker.client(), session.tracker.server()), (ClientPhase::Done, ServerPhase::Done));
    assert_eq!(session.tracker.mods().expect("mods").len(), 4);
    assert_eq!(session.tracker.override_dimension(), 1_000);
    assert_eq!(session.tracker.may_reset(), Ok(()));
}

#[test]
fn what_a_client_goes_through_depends_on_what_it_has_taken() {
    let network = network();
    let bytes = at_ease();
    let mut choices = Choices(&bytes, 0);
    let mut session = settled(&network[0], &mut choices);
    for (to, skip_equal, lead) in [
        (1, true, Lead::Skip),
        (0, false, Lead::Reset),
        (2, true, Lead::Reset),
        (VANILLA, true, Lead::Vanilla),
        (2, true, Lead::Skip),
        (0, true, Lead::Reset),
        // The same ids, but a dimension that Join Game cannot say.
        (3, true, Lead::Reset),
        (1, true, Lead::Skip),
        (3, true, Lead::Skip),
        (VANILLA + 1, true, Lead::Vanilla),
        (3, false, Lead::Reset),
    ] {
        assert_eq!(session.transfer(&network[to], usize::MAX, skip_equal, &mut choices), Ok(lead), "to {to}");
        session.settle(&mut choices).expect("a client that does not throw");
        session.is_well();
        assert!(session.client.terrain_reset, "no \"Downloading terrain\" for ever");
    }
    let hellos = session.client.mod_messages.iter().filter(|said| **said == b"hello").count();
    assert_eq!(hellos, 10, "what each Forge server's mods said, once");
}

#[test]
fn a_server_with_other_mods_is_refused_with_the_difference() {
    let network = network();
    let bytes = at_ease();
    let mut choices = Choices(&bytes, 0);
    let mut session = settled(&network[0], &mut choices);
    let Err(Ok(Failed::Rejected(rejection))) = session.transfer(&network[6], usize::MAX, true, &mut choices) else { panic!("refused") };
    assert_eq!(rejection.reason(), "forge_mods_differ");
    assert_eq!(rejection.to_string(), "its mods are not the client's: in another version: craft (client 2, server 3)");
    let Err(Ok(Failed::Rejected(rejection))) = session.transfer(&network[7], usize::MAX, true, &mut choices) else { panic!("refused") };
    assert_eq!(rejection.reason(), "forge_refused");
    assert_eq!(rejection.to_string(), "it refused the player in its handshake (hello): Mod rejections [x]");
    session.settle(&mut choices).expect("a client that does not throw");
    session.is_well();
}

#[test]
fn a_first_handshake_after_a_vanilla_server_is_the_clients_own() {
    let network = network();
    let bytes = at_ease();
    let mut choices = Choices(&bytes, 0);
    let mut session = settled(&network[VANILLA], &mut choices);
    assert!(session.tracker.is_forge(), "its channels say so");
    assert_eq!(session.tracker.mods(), None);
    assert_eq!(session.transfer(&network[3], usize::MAX, true, &mut choices), Ok(Lead::Live));
    session.settle(&mut choices).expect("a client that does not throw");
    session.is_well();
    assert_eq!(session.transfer(&network[2], usize::MAX, true, &mut choices), Ok(Lead::Reset));
    session.settle(&mut choices).expect("a client that does not throw");
    session.is_well();
}

#[test]
fn a_first_handshake_that_fails_leaves_the_client_where_it_is() {
    let network = network();
    let bytes = at_ease();
    let mut outcomes = BTreeSet::new();
    for lives in 0..10 {
        let mut choices = Choices(&bytes, lives);
        let mut session = settled(&network[VANILLA], &mut choices);
        if session.transfer(&network[2], lives, true, &mut choices).is_ok() {
            continue;
        }
        session.settle(&mut choices).expect("a client that does not throw");
        assert_eq!(session.client.dimension, Some(0));
        let again = session.transfer(&network[0], usize::MAX, true, &mut choices);
        match session.tracker.may_reset() {
            Err(why @ Unmovable::Stuck(phase)) => {
                assert_eq!(again, Err(Ok(Failed::Unmovable(why))));
                outcomes.insert(format!("stuck in {}", phase.name()));
            }
            _ => {
                session.settle(&mut choices).expect("a client that does not throw");
                session.is_well();
                outcomes.insert(format!("{:?}", again.expect("moved")));
            }
        }
        assert_eq!(session.transfer(&network[VANILLA + 1], usize::MAX, true, &mut choices), Ok(Lead::Vanilla), "it can still go there");
        session.settle(&mut choices).expect("a client that does not throw");
        session.is_well();
    }
    let outcomes: Vec<&str> = outcomes.iter().map(String::as_str).collect();
    assert_eq!(outcomes, ["Live", "Reset", "stuck in waiting_server_complete", "stuck in waiting_server_data"]);
}

#[test]
fn a_client_whose_first_handshake_stops_half_way_does_not_take_a_vanilla_server() {
    let mut tracker = Tracker::new(true);
    assert_eq!(tracker.may_join_vanilla(), Ok(()));
    tracker.clientbound(&[0, 2, 0, 0, 0, 0]);
    assert_eq!(tracker.may_join_vanilla(), Err(Unmovable::Stuck(ClientPhase::WaitingServerData)));
    let mut connected = Tracker::new(true);
    connected.joined();
    connected.clientbound(&[0xfe, 0]);
    connected.clientbound(&[0, 2, 0, 0, 0, 0]);
    assert_eq!((connected.client(), connected.may_join_vanilla()), (ClientPhase::WaitingServerData, Ok(())));
}

#[test]
fn a_candidate_names_what_is_wrong() {
    let version = Version::newest();
    let mut tracker = Tracker::new(false);
    let channels = Channels::default();
    assert_eq!(ClientFacts::of(version, &tracker, &channels, true), None, "nobody knows what it is");
    tracker.joined();
    tracker.entered();
    let mut vanilla = Candidate::new(ClientFacts::of(version, &tracker, &channels, true).expect("no Forge client"));
    assert_eq!(vanilla.see(&[0, 2, 0, 0, 0, 0], &mut Vec::new()), Err(Rejection::NoForge));
    assert_eq!((vanilla.joined(), vanilla.is_forge()), (Ok(()), false));
    tracker.is_forge_client();
    assert_eq!(ClientFacts::of(version, &tracker, &channels, true), None, "only the client knows its mods");
    let mut list = Vec::new();
    Message::ModList(ModList::of([("Forge", "10.13.4.1614")]).fields()).write(&mut list);
    assert_eq!(tracker.serverbound(&list), Way::On);
    let new = || Candidate::new(ClientFacts::of(version, &tracker, &channels, true).expect("known mods"));

    let mut candidate = new();
    let out_of_order = Rejection::OutOfOrder { message: "ModIdData", phase: ClientPhase::Hello };
    assert_eq!(candidate.see(&[3, 0], &mut Vec::new()), Err(out_of_order));
    assert!(matches!(candidate.see(&[0, 2, 0], &mut Vec::new()), Err(Rejection::Unreadable { .. })));
    let mut out = Vec::new();
    candidate.see(&[0, 2, 0, 0, 0, 9], &mut out).expect("a hello");
    let frame = frame::first(&out, MAX_FRAME).expect("well-formed").expect("a Client Hello");
    assert_eq!(PluginMessage::read_serverbound(frame.payload).expect("readable").data, [1, 2]);
    let rest = frame::first(&out[frame.whole.len()..], MAX_FRAME).expect("well-formed").expect("a Mod List");
    assert_eq!(PluginMessage::read_serverbound(rest.payload).expect("readable").data, list);
    assert_eq!(candidate.joined(), Err(Rejection::Incomplete(ClientPhase::WaitingServerData)));
    assert_eq!(candidate.refused(Text::legacy("no")).to_string(), "it refused the player in its handshake (hello): no");
    let repeated = Rejection::OutOfOrder { message: "ServerHello", phase: ClientPhase::WaitingServerData };
    assert_eq!(candidate.see(&[0, 2, 0, 0, 0, 9], &mut Vec::new()), Err(repeated));
    candidate.see(&list, &mut Vec::new()).expect("the same mods");
    assert!(matches!(candidate.see(&[3, 9], &mut Vec::new()), Err(Rejection::Unreadable { message: "ModIdData", .. })));
    candidate.see(&[3, 0], &mut Vec::new()).expect("no ids at all");
    assert_eq!(candidate.joined(), Ok(()), "the node can end it with acks");
    // In place of an ack: a client reads it before it looks no further.
    for unreadable in [&[3, 5][..], &[2, 5]] {
        assert!(matches!(candidate.see(unreadable, &mut Vec::new()), Err(Rejection::Unreadable { .. })), "{unreadable:?}");
    }
    assert_eq!(candidate.server(), ServerPhase::Complete);
    assert_eq!(candidate.see(&[77], &mut Vec::new()).map_err(|error| error.reason()), Err("forge_garbage"));

    // A server of FML's protocol 1 says no dimension.
    let mut old = new();
    old.see(&[0, 1], &mut Vec::new()).expect("a hello");
    let join = JoinGame { entity_id: 1, gamemode: 0, dimension: 7, difficulty: 0, max_players: 1, level_type: String::new() };
    assert_eq!(old.dimension(&join), 7);
}

/// Its first server dies in the handshake: where that is over but for acks, the node ends it.
#[test]
fn a_handshake_whose_server_dies_is_ended_if_that_takes_acks_alone() {
    let version = Version::newest();
    let mut list = Vec::new();
    Message::ModList(ModList::of([("Forge", "10.13.4.1614")]).fields()).write(&mut list);
    let said: [&[u8]; 5] = [&[0, 2, 0, 0, 0, 0], &list, &[3, 0], &[0xff, 2], &[0xff, 3]];
    for dies in 0..=said.len() {
        let mut tracker = Tracker::new(true);
        let mut client = Client::new(&mods(&[("Forge", "10.13.4.1614")]), &[]);
        let mut out = Vec::new();
        for data in &said[..dies] {
            tracker.clientbound(data);
            moonbridge_protocol::play::put_plugin_message_clientbound(&mut out, version, "FML|HS", data);
        }
        let done = tracker.finish(&mut out, version);
        tracker.new_server();
        client.read(&out).expect("a client that does not throw");
        assert_eq!((done, client.phase), (dies >= 3, tracker.client() as u8));
        assert!(!tracker.is_handshaking() && tracker.watches_clientbound());
        let expected = match tracker.client() {
            ClientPhase::Done => Err(Unmovable::Entering),
            phase => Err(Unmovable::Stuck(phase)),
        };
        assert_eq!(tracker.may_reset(), expected);
        if done {
            // It has had the time to get there.
            tracker.entered();
            assert_eq!(tracker.may_reset(), Ok(()));
        }
        let mut live = Live::new(&tracker, true);
        if dies == 0 {
            let live = live.as_mut().expect("nothing has begun yet");
            let mut out = Vec::new();
            live.from_candidate(said[0], &mut out, version, &mut tracker).expect("a first handshake");
            assert_eq!(frame::first(&out, MAX_FRAME).expect("well-formed").expect("whole").whole.len(), out.len(), "no reset");
        }
    }
}

#[test]
fn a_client_that_waits_for_a_handshake_is_not_reset() {
    let mut list = Vec::new();
    Message::ModList(ModList::of([("Forge", "10.13.4.1614")]).fields()).write(&mut list);
    let mut tracker = Tracker::new(true);
    tracker.serverbound(&list);
    let mut candidate = Candidate::new(ClientFacts::of(Version::newest(), &tracker, &Channels::default(), true).expect("known mods"));
    let join = JoinGame { entity_id: 1, gamemode: 0, dimension: 0, difficulty: 0, max_players: 1, level_type: String::new() };
    assert_eq!(Lead::plan(&tracker, &candidate, &join, true), Ok(Lead::Vanilla));
    let mut out = Vec::new();
    let said: [&[u8]; 3] = [&[0, 2, 0, 0, 0, 0], &list, &[3, 0]];
    for data in said {
        candidate.see(data, &mut out).expect("in order");
    }
    assert_eq!(Lead::plan(&tracker, &candidate, &join, true), Ok(Lead::Onward));
    out.clear();
    Lead::Onward.begin(&mut out, Version::newest(), &mut tracker);
    assert!(out.is_empty());
    assert!(said.iter().all(|data| Lead::Onward.see(data, &mut tracker)));
    Lead::Onward.end(&mut out, Version::newest(), &mut tracker);
    let acks: Vec<u8> = out.iter().copied().filter(|byte| *byte < 4).collect();
    assert_eq!((tracker.client(), acks.ends_with(&[3])), (ClientPhase::Done, true), "the acks that the candidate did not send");
    for answer in [&[1, 2][..], &list, &[0xff, 2], &[0xff, 3], &[0xff, 4], &[0xff, 5]] {
        assert_eq!(tracker.serverbound(answer), Way::Nowhere);
    }
    assert_eq!(tracker.serverbound(&[0xff, 5]), Way::On);
}

#[test]
fn a_client_is_reset_only_when_that_is_safe() {
    let mut tracker = Tracker::new(true);
    let say = |tracker: &mut Tracker, message: &Message<'_>| {
        let mut data = Vec::new();
        message.write(&mut data);
        tracker.clientbound(&data);
    };
    assert_eq!(tracker.may_reset(), Err(Unmovable::Stuck(ClientPhase::Hello)), "nothing has begun");
    say(&mut tracker, &Message::ServerHello(ServerHello { protocol: 2, dimension: 3 }));
    assert_eq!(tracker.may_reset(), Err(Unmovable::Handshaking(ClientPhase::WaitingServerData)));
    assert_eq!(tracker.waits_for(), "the client's ModList");
    let old = ModList::of([("Forge", "10.13.0.1208")]);
    let new = ModList::of([("Forge", "10.13.4.1614")]);
    let mut list = Vec::new();
    Message::ModList(old.fields()).write(&mut list);
    assert_eq!(tracker.serverbound(&list), Way::On);
    for (message, waits_for) in [
        (Message::ModList(old.fields()), "the server's ModIdData"),
        (Message::ModIdData(&[0]), "the server's first acknowledgement"),
        (Message::Ack { phase: 2 }, "the server's second acknowledgement"),
        (Message::Ack { phase: 3 }, "the server's Join Game"),
    ] {
        say(&mut tracker, &message);
        assert_eq!(tracker.waits_for(), waits_for);
    }
    tracker.joined();
    tracker.entered();
    assert_eq!(tracker.may_reset(), Err(Unmovable::NoReset), "build 1208");
    list.clear();
    Message::ModList(new.fields()).write(&mut list);
    assert_eq!(tracker.serverbound(&list), Way::On);
    assert_eq!(tracker.may_reset(), Ok(()));
    tracker.joined();
    assert_eq!(tracker.may_reset(), Err(Unmovable::Entering), "a second reset before the client has entered its world");
    tracker.entered();
    say(&mut tracker, &Message::Reset);
    assert_eq!((tracker.client(), tracker.may_reset()), (ClientPhase::Hello, Err(Unmovable::Stuck(ClientPhase::Hello))));
    say(&mut tracker, &Message::Reset);
    assert_eq!(tracker.client(), ClientPhase::Error, "a client throws at a reset that is not for it");
}

/// A proxy behind the node resets the client in play, unseen: what the client says shows it.
#[test]
fn a_handshake_that_begins_in_play_is_noticed() {
    let bytes = at_ease();
    let mut choices = Choices(&bytes, 0);
    let mut session = settled(&network()[0], &mut choices);
    assert_eq!(session.tracker.serverbound(&[1, 2]), Way::On);
    assert_eq!(session.tracker.client(), ClientPhase::WaitingServerData);
    assert!(session.tracker.watches_clientbound());
    assert_eq!(session.tracker.may_reset().map_err(|why| why.reason()), Err("forge_handshake_under_way"));
    session.tracker.joined();
    assert!(!session.tracker.watches_clientbound());
}
