//! The client and the server of our own: with each other they play, and what a real client throws at, they do not let pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moonbridge_protocol::frame;
use moonbridge_protocol::wire::put_string;
use moonbridge_testing::model::client::{Event, Install, Model, Phase};
use moonbridge_testing::model::drive::{Host, Over, Pace, Player};
use moonbridge_testing::model::messages::{HANDSHAKE, Ids, Mod, dimension_register, mod_list, mods, put_plugin, server_hello};
use moonbridge_testing::model::server::{Fault, Flow, How, Place, Served, Server, Setup};
use moonbridge_testing::model::{Broken, READ_TIMEOUT};
use moonbridge_testing::wire::{join_game, string};

fn pack() -> Vec<Mod> {
    mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("TConstruct", "1.7.10-1.8.8")])
}

/// A client and what it has said.
struct Client {
    model: Model,
    now: Instant,
    out: Vec<u8>,
}

impl Client {
    /// Past Login Success.
    fn new(install: Install) -> Client {
        let now = Instant::now();
        let mut client = Client { model: Model::new(install, now), now, out: Vec::new() };
        client.told(2, &[string("10920508-d5d8-3eed-93d2-92f193afe7d7"), string("Alice")].concat()).expect("well");
        client
    }

    fn vanilla() -> Client {
        Client::new(Install::vanilla("Alice"))
    }

    fn forge() -> Client {
        Client::new(Install::forge("Alice", pack()))
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.model.receive(self.now, bytes, &mut self.out)?;
        self.model.turn(self.now, &mut self.out)
    }

    fn told(&mut self, id: i32, payload: &[u8]) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, id, |out| out.extend_from_slice(payload));
        self.bytes(&bytes)
    }

    fn plugin(&mut self, channel: &str, data: &[u8]) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        put_plugin(&mut bytes, 0x3f, channel, data);
        self.bytes(&bytes)
    }

    fn hs(&mut self, data: &[u8]) -> Result<(), Broken> {
        self.plugin(HANDSHAKE, data)
    }

    /// All of a handshake.
    fn shake(&mut self, dimension: i32) {
        for message in [server_hello(Some(dimension)), mod_list(&pack()), Ids::of(3, 256).message(), vec![0xff, 2], vec![0xff, 3]] {
            self.hs(&message).expect("well");
        }
        assert_eq!(self.model.phase(), Some(Phase::Done));
    }

    fn join(&mut self, entity: i32, dimension: i8) -> Result<(), Broken> {
        self.told(1, &join_game(entity, dimension))
    }

    fn respawn(&mut self, dimension: i32) -> Result<(), Broken> {
        self.told(7, &[&dimension.to_be_bytes()[..], &[1, 0], &string("default")].concat())
    }

    fn position(&mut self) -> Result<(), Broken> {
        self.told(8, &[0; 33])
    }

    fn objective(&mut self, name: &str, mode: u8) -> Result<(), Broken> {
        self.told(0x3b, &[string(name), string("shown"), vec![mode]].concat())
    }

    fn team(&mut self, name: &str, mode: u8, players: &[&str]) -> Result<(), Broken> {
        let mut payload = [string(name), vec![mode]].concat();
        if matches!(mode, 0 | 2) {
            payload.extend_from_slice(&[0, 0, 0, 0]);
        }
        if matches!(mode, 0 | 3 | 4) {
            payload.extend_from_slice(&(players.len() as u16).to_be_bytes());
            players.iter().for_each(|player| put_string(&mut payload, player));
        }
        self.told(0x3e, &payload)
    }
}

fn crash(result: Result<(), Broken>, with: &str) {
    assert!(matches!(&result, Err(Broken::Crash(why)) if why.contains(with)), "{result:?} is no crash with {with:?}");
}

fn disconnect(result: Result<(), Broken>, with: &str) {
    assert!(matches!(&result, Err(Broken::Disconnect(why)) if why.contains(with)), "{result:?} is no disconnect with {with:?}");
}

/// Passes everything from one to the other, in pieces of so many bytes, until both are silent.
fn meet(install: Install, setup: Setup, piece: usize) -> (Model, Vec<Served>) {
    let now = Instant::now();
    let mut model = Model::new(install, now);
    let (mut server, _) = Server::new(Arc::new(setup), None);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    model.login("play", 25565, &mut up);
    while !up.is_empty() || !down.is_empty() {
        for part in std::mem::take(&mut up).chunks(piece) {
            assert_eq!(server.receive(now, part, &mut down), Flow::Open);
        }
        server.tick(now, &mut down);
        for part in std::mem::take(&mut down).chunks(piece) {
            model.receive(now, part, &mut up).expect("well");
            model.turn(now, &mut up).expect("well");
        }
    }
    (model, server.take_events())
}

#[test]
fn they_play_with_each_other_however_the_bytes_are_cut() {
    let setup = Setup::forge("modded", 500, pack(), &Ids::of_bytes(450_000, 256));
    let (whole, served) = meet(Install::forge("Alice", pack()), setup.clone(), usize::MAX);
    let (cut, cut_served) = meet(Install::forge("Alice", pack()), setup.clone(), 7);
    // What the connection's thread does may come before or after what the game's does.
    let sorted = |mut events: Vec<String>| {
        events.sort();
        events
    };
    let [whole_events, cut_events] = [&whole, &cut].map(|model| sorted(model.events().iter().map(|event| format!("{event:?}")).collect()));
    assert_eq!(whole_events, cut_events);
    let [whole_served, cut_served] =
        [&served, &cut_served].map(|served| sorted(served.iter().map(|served| format!("{served:?}")).collect()));
    assert_eq!(whole_served, cut_served);
    assert!(whole.is_in_world());
    assert_eq!((whole.phase(), whole.ids(), whole.dimension(), whole.entity_id()), (Some(Phase::Done), setup.ids(), Some(500), Some(1)));
    assert_eq!((whole.tab().collect::<Vec<_>>(), whole.objectives(), whole.teams()), (vec!["§amodded"], vec!["kills"], vec!["red"]));
    let acks: Vec<u8> = served.iter().filter_map(|served| if let Served::Ack(number) = served { Some(*number) } else { None }).collect();
    assert_eq!(acks, [2, 3, 4, 5]);
    assert!(served.contains(&Served::Handshake { host: "play\0FML\0".into() }));
    assert!(served.contains(&Served::KeepAlive { known: true }) && served.contains(&Served::Settings));
    assert!(!served.iter().any(|served| matches!(served, Served::Unregistered { .. } | Served::Threw(_))));

    for (install, setup) in [
        (Install::vanilla("Alice"), Setup::vanilla("vanilla", -1)),
        (Install::forge("Alice", pack()), Setup::vanilla("vanilla", -1)),
        (Install { acks: [Some(2), None, Some(4), Some(5)], ..Install::forge("Alice", pack()) }, setup.clone()),
        (Install { acks: [Some(2), Some(3), Some(0), Some(5)], ..Install::forge("Alice", pack()) }, setup),
    ] {
        let (model, served) = meet(install, setup.clone(), 100);
        assert!(model.is_in_world() && served.contains(&Served::Said(Place::World)));
        assert_eq!(model.dimension(), Some(setup.dimension));
        assert!(model.phase().is_none_or(|phase| phase == Phase::Done));
    }
}

/// What Velocity's two ways of switching do to a client (algorithms A and B), and what goes wrong with less.
#[test]
fn a_switch_of_worlds() {
    let mut client = Client::vanilla();
    client.join(1, 0).expect("well");
    assert!(!client.model.is_in_world());
    client.position().expect("well");
    assert!(client.model.is_in_world());
    client.objective("kills", 0).expect("well");
    // A: another dimension, then the real one.
    client.join(2, -1).expect("well");
    client.respawn(0).expect("well");
    client.objective("kills", 0).expect("a fresh scoreboard");
    client.position().expect("well");
    assert!(client.model.is_in_world());
    assert_eq!((client.model.entity_id(), client.model.dimension(), client.model.joins()), (Some(2), Some(0), 2));
    // B: the real one, another, the real one.
    client.join(3, 1).expect("well");
    client.respawn(0).expect("well");
    client.respawn(1).expect("well");
    client.position().expect("well");
    assert!(client.model.is_in_world());
    assert_eq!(client.model.dimension(), Some(1));
    // A Respawn to where the player is reloads nothing.
    client.respawn(1).expect("well");
    assert!(client.model.is_in_world());
    // A Join Game alone: the screen stays.
    client.join(4, 0).expect("well");
    let stuck = client.position();
    assert!(matches!(&stuck, Err(Broken::Hang(_))), "{stuck:?}");
}

#[test]
fn a_scoreboard_that_is_carried_over() {
    let mut client = Client::vanilla();
    crash(client.objective("kills", 0), "before Join Game");
    let mut client = Client::vanilla();
    client.join(1, 0).expect("well");
    client.objective("kills", 0).expect("well");
    client.team("red", 0, &["Anna"]).expect("well");
    client.respawn(-1).expect("well");
    crash(client.objective("kills", 0), "already exists");
    crash(client.team("red", 0, &[]), "already exists");
    client.team("blue", 0, &["Anna"]).expect("Anna moves there");
    crash(client.team("red", 4, &["Anna"]), "on another team");
    client.team("blue", 4, &["Anna"]).expect("well");
    client.team("red", 1, &[]).expect("well");
    crash(client.team("red", 1, &[]), "NullPointerException");
    client.team("red", 3, &["Anna"]).expect("passed over");
    client.team("red", 0, &[]).expect("it was removed");
    client.objective("kills", 2).expect("well");
    client.objective("kills", 1).expect("well");
    crash(client.objective("kills", 1), "NullPointerException");
    crash(client.told(0x3d, &[&[7][..], &string("kills")].concat()), "ArrayIndexOutOfBounds");
    client.join(2, 0).expect("well");
    assert!(client.model.objectives().is_empty() && client.model.teams().is_empty());
}

/// The tab list outlives every world, and goes by the raw name.
#[test]
fn a_tab_list() {
    let mut client = Client::vanilla();
    client.told(0x38, &[string("§aAnna"), vec![1, 0, 20]].concat()).expect("well");
    client.join(1, 0).expect("well");
    client.told(0x38, &[string("Anna"), vec![0, 0, 20]].concat()).expect("well");
    assert_eq!(client.model.tab().collect::<Vec<_>>(), ["§aAnna"]);
    client.told(0x38, &[string("§aAnna"), vec![0, 0, 20]].concat()).expect("well");
    assert_eq!(client.model.tab().count(), 0);
}

#[test]
fn dimensions_that_are_not_a_byte() {
    for (dimension, byte) in [(500, -12), (-2000, 48)] {
        // Not told of it: as on Velocity, with the byte or with the number.
        let mut client = Client::forge();
        client.shake(0);
        crash(client.join(1, byte), "provider type for dimension");
        let mut client = Client::forge();
        client.shake(dimension);
        crash(client.join(1, byte), &format!("dimension {dimension}"));
        let mut client = Client::forge();
        client.shake(dimension);
        client.plugin("FORGE", &dimension_register(dimension)).expect("well");
        client.join(1, byte).expect("well");
        client.position().expect("well");
        assert_eq!(client.model.dimension(), Some(dimension));
        // The rest of algorithm B.
        client.respawn(0).expect("well");
        client.respawn(dimension).expect("well");
        client.position().expect("well");
        assert_eq!((client.model.dimension(), client.model.is_in_world()), (Some(dimension), true));
        crash(client.respawn(i32::from(byte)), "provider type for dimension");
    }
    // A vanilla client has three.
    let mut client = Client::vanilla();
    crash(client.join(1, 7), "dimension 7");
}

#[test]
fn resets() {
    let mut client = Client::forge();
    disconnect(client.hs(&[0xfe, 0]), "ClassCastException");
    let mut client = Client::forge();
    client.shake(0);
    client.join(1, 0).expect("well");
    assert!(client.model.ids().is_some());
    client.hs(&[0xfe, 0]).expect("well");
    assert_eq!((client.model.phase(), client.model.ids()), (Some(Phase::Hello), None));
    // A server without Forge is next: the client stays where it is, and needs no other reset.
    client.join(2, -1).expect("well");
    assert_eq!(client.model.phase(), Some(Phase::Hello));
    client.shake(0);
    // It is told again what it has: nothing comes of it.
    client.hs(&server_hello(Some(0))).expect("well");
    assert_eq!(client.model.phase(), Some(Phase::Done));
    let mut old = Client::new(Install { knows_reset: false, ..Install::forge("Alice", pack()) });
    old.shake(0);
    disconnect(old.hs(&[0xfe, 0]), "Undefined message");
    // In every phase but the last.
    let messages = [server_hello(Some(0)), mod_list(&pack()), Ids::of(3, 256).message()];
    for count in 1..=messages.len() {
        let mut client = Client::forge();
        messages[..count].iter().for_each(|message| client.hs(message).expect("well"));
        // Where it waits for an ack, whatever comes is one.
        let result = client.hs(&[0xfe, 0]);
        if count == 3 { assert_eq!(client.model.phase(), Some(Phase::Complete)) } else { disconnect(result, "ClassCastException") }
    }
}

/// The second handshake ends while the game has not yet heard that the first has.
#[test]
fn two_handshakes_in_one_tick() {
    let mut client = Client::forge();
    let mut bytes = Vec::new();
    let handshake = [server_hello(Some(0)), mod_list(&pack()), Ids::of(3, 256).message(), vec![0xff, 2], vec![0xff, 3]];
    for data in handshake.iter().chain([&vec![0xfe, 0]]).chain(&handshake) {
        put_plugin(&mut bytes, 0x3f, HANDSHAKE, data);
    }
    disconnect(client.bytes(&bytes), "Attempt to double complete");
    let mut client = Client::forge();
    client.shake(0);
    client.hs(&[0xfe, 0]).expect("well");
    client.shake(0);
}

/// A client with mods that began on a server without: it is done, takes no Server Hello, but does take a reset.
#[test]
fn a_modded_client_that_began_on_a_vanilla_server() {
    let mut client = Client::forge();
    client.join(1, 0).expect("well");
    assert_eq!(client.model.phase(), Some(Phase::Done));
    client.hs(&server_hello(Some(0))).expect("ignored");
    assert_eq!(client.model.phase(), Some(Phase::Done));
    client.hs(&[0xfe, 0]).expect("well");
    client.shake(0);
    // A Join Game in the middle of its first handshake.
    let mut client = Client::forge();
    client.hs(&server_hello(Some(0))).expect("well");
    disconnect(client.join(1, 0), "Join Game in WaitingServerData");
}

#[test]
fn mods_and_ids_that_do_not_fit() {
    let mut client = Client::forge();
    client.hs(&server_hello(Some(0))).expect("well");
    disconnect(client.hs(&mod_list(&mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614")]))), "Mod rejections [TConstruct]");
    let mut client = Client::forge();
    client.hs(&server_hello(Some(0))).expect("well");
    client.hs(&mod_list(&pack())).expect("well");
    disconnect(client.hs(&Ids { domain: "Natura".into(), ..Ids::of(1, 300) }.message()), "Fatally missing");
    for message in [vec![], vec![4], vec![0, 2, 0], vec![0], vec![2, 0]] {
        disconnect(Client::forge().hs(&message), "");
    }
}

#[test]
fn what_no_client_takes() {
    crash(Client::vanilla().position(), "before Join Game");
    crash(Client::vanilla().plugin("MC|Brand", b"x"), "before Join Game");
    disconnect(Client::vanilla().told(0x41, &[]), "Bad packet id 65");
    disconnect(Client::vanilla().told(-5, &[]), "Bad packet id -5");
    disconnect(Client::vanilla().told(2, &string("no JSON")), "cannot be read");
    disconnect(Client::vanilla().plugin("mod", &[0; 40_000]), "cannot be read");
    Client::forge().plugin("mod", &[0; 40_000]).expect("well");
    disconnect(Client::vanilla().bytes(&[0x80, 0x80, 0x80, 1]), "CorruptedFrame");
    Client::vanilla().bytes(&[0, 0x80, 0]).expect("empty frames are passed over");
    let mut modded = Client::new(Install { packets: [300].into(), ..Install::forge("Alice", pack()) });
    modded.told(300, &[1]).expect("well");
    assert!(modded.model.events().contains(&Event::Packet { id: 300 }));
}

#[test]
fn silence_and_the_terrain_screen() {
    let mut client = Client::vanilla();
    client.join(1, 0).expect("well");
    client.out.clear();
    client.now += Duration::from_secs(1);
    client.model.turn(client.now, &mut client.out).expect("well");
    assert_eq!(client.out, [5, 0, 0, 0, 0, 0], "a keep-alive of id 0 a second");
    client.now += READ_TIMEOUT;
    let silent = client.model.turn(client.now, &mut client.out);
    disconnect(silent, "Timed out");
}

#[test]
fn servers_take_nothing_out_of_order() {
    let setup = Arc::new(Setup::forge("modded", 0, pack(), &Ids::of(3, 256)));
    let mut model = Model::new(Install::forge("Alice", pack()), Instant::now());
    let mut login = Vec::new();
    model.login("play", 1, &mut login);
    let (mut server, _) = Server::new(setup.clone(), None);
    let mut out = Vec::new();
    assert_eq!(server.receive(Instant::now(), &login, &mut out), Flow::Open);
    let mut bytes = Vec::new();
    model.plugin(HANDSHAKE, &[0xff, 2], &mut bytes);
    assert_eq!(server.receive(Instant::now(), &bytes, &mut out), Flow::Close);
    assert!(matches!(server.take_events().last(), Some(Served::Threw(why)) if why.contains("ClassCastException")));
    // Mods that the server misses.
    let mut other = Model::new(Install::forge("Alice", mods(&[("Forge", "1")])), Instant::now());
    let (mut server, _) = Server::new(setup, None);
    let (mut up, mut down) = (login, Vec::new());
    while !up.is_empty() {
        server.receive(Instant::now(), &std::mem::take(&mut up), &mut down);
        other.receive(Instant::now(), &std::mem::take(&mut down), &mut up).expect("well");
    }
    assert_eq!(other.kicked(), Some("Mod rejections [FML, Forge, TConstruct]"));
    model.turn(Instant::now(), &mut out).expect("well");
}

/// On connections of TCP, with faults at every place.
#[tokio::test]
async fn over_tcp() {
    let host = Host::start(Setup::forge("modded", -2000, pack(), &Ids::of_bytes(2_000_000, 256))).await;
    let install = || Install { channels: vec!["TC".into()], ..Install::forge("Alice", pack()) };
    for pace in [Pace::AtOnce, Pace::Ticks] {
        let alice = Player::join_at(pace, host.address, "play", install()).await;
        alice.is_on(&host.setup()).await;
        alice.say("up");
        host.chat("up").await;
        alice.plugin("TC", b"registered");
        host.say("down");
        host.plugin("TC", b"back");
        alice.until("the line", |model| model.events().contains(&Event::Chat("down".into())).then_some(())).await;
        let back = Event::Plugin { channel: "TC".into(), data: b"back".to_vec() };
        alice.until("the message", |model| model.events().contains(&back).then_some(())).await;
        alice.assert_well();
        host.assert_well();
        host.kick("bye");
        assert_eq!(alice.ended().await, Over::Closed);
        assert_eq!(alice.with(|model| model.kicked().map(str::to_owned)).as_deref(), Some("bye"));
    }
    let alice = Player::join(host.address, "play", Install { channels: Vec::new(), ..install() }).await;
    alice.is_on(&host.setup()).await;
    alice.plugin("TC", b"unregistered");
    host.until("the message", |_, served| matches!(served, Served::Unregistered { .. }).then_some(())).await;

    for place in Place::ALL {
        for how in [How::Stall, How::Die, How::Refuse("full".into())] {
            let fault = Fault { place, how: how.clone() };
            host.set(|setup| {
                *setup = Setup::forge("modded", 0, pack(), &Ids::of(3, 256));
                setup.fault = Some(fault.clone());
            });
            let alice = Player::join(host.address, "play", install()).await;
            host.until("the place", |_, served| (*served == Served::Stopped(place)).then_some(())).await;
            host.forget_events();
            match how {
                How::Stall | How::Hold => assert_eq!(alice.over(), None),
                How::Die => assert_eq!(alice.ended().await, Over::Closed),
                How::Refuse(_) => {
                    assert_eq!(alice.ended().await, Over::Closed);
                    if place > Place::Connection {
                        assert_eq!(
                            alice.with(|model| model.kicked().map(str::to_owned)).as_deref(),
                            Some("full"),
                            "{place:?}\n{}",
                            alice.log()
                        );
                    }
                }
            }
        }
    }
}
