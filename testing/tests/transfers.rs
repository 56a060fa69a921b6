//! Players are moved between backends, there and back, and nothing is lost: world, tab list, channels, keep-alives, chat.

use std::collections::BTreeSet;
use std::time::Duration;

use moonbridge_testing::network::Up;
use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use moonbridge_testing::session_server::{Account, SessionServer};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// What a journey is made of.
struct Journey {
    player: Kind,
    /// Whether the player sends Client Settings after a Join Game, as the real client does.
    vanilla: bool,
    backends: Kind,
    /// Whether the player proves who it is and is encrypted, and backends are told.
    online: bool,
    round_trips: usize,
    /// How long the whole takes at least.
    lasts: Duration,
}

const OFFLINE: Journey =
    Journey { player: Kind::Npm, vanilla: true, backends: Kind::Npm, online: false, round_trips: 4, lasts: Duration::from_secs(10) };
const ONLINE: Journey = Journey { online: true, round_trips: 10, lasts: Duration::from_secs(12), ..OFFLINE };

/// The main test: 20 round trips while a minute of keep-alives goes by.
#[tokio::test(flavor = "multi_thread")]
async fn a_player_goes_there_and_back_twenty_times() {
    journey(Journey { round_trips: 20, lasts: Duration::from_secs(62), ..OFFLINE }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quarry_player_and_backends() {
    journey(Journey { player: Kind::Quarry, backends: Kind::Quarry, ..OFFLINE }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quarry_player_on_npm_backends() {
    journey(Journey { player: Kind::Quarry, ..OFFLINE }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protocol_4() {
    journey(Journey { player: Kind::Quarry4, backends: Kind::Quarry4, ..OFFLINE }).await;
}

/// No Client Settings come: the player's old world ends by the time limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_no_settings() {
    journey(Journey { vanilla: false, round_trips: 2, lasts: Duration::from_secs(12), ..OFFLINE }).await;
}

/// Twenty transfers, and at each backend the same UUID and skin.
#[tokio::test(flavor = "multi_thread")]
async fn an_online_player_keeps_its_uuid_and_skin() {
    journey(ONLINE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_online_quarry_player_keeps_its_uuid_and_skin() {
    journey(Journey { player: Kind::Quarry, ..ONLINE }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_online_player_of_protocol_4_keeps_its_uuid_and_skin() {
    journey(Journey { player: Kind::Quarry4, backends: Kind::Quarry4, ..ONLINE }).await;
}

/// Each line of chat, of either side, is one of these apart.
const PACE: Duration = Duration::from_millis(40);

async fn journey(journey: Journey) {
    // Equal keep-alive ids on both sides: an answer that goes astray is answered "known" by nobody else.
    let one = json!({ "dimension": 0, "entityId": 100, "tab": ["§aAnna", "Ben"], "objective": "kills", "keepAliveBase": 7 });
    let two = json!({ "dimension": -1, "entityId": 100, "tab": ["§cCarla"], "keepAliveBase": 7 });
    let (mut one, one_port) = Backend::serve(journey.backends, "one", one).await;
    let (mut two, two_port) = Backend::serve(journey.backends, "two", two).await;
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let (url, backends) = (sessions.url(), [format!("one=127.0.0.1:{one_port}"), format!("two=127.0.0.1:{two_port}")]);
    let mut arguments = vec!["--backend", &backends[0], "--backend", &backends[1]];
    let mut options = json!({});
    if journey.online {
        arguments.extend(["--online", "--session-server", &url, "--forwarding", "legacy"]);
        options = sessions.online(&account);
    }
    options["vanilla"] = json!(journey.vanilla);
    let up = Up::start(&arguments).await;
    let mut player = Player::join(journey.player, up.listen.port(), "Alice", options);
    player.in_world().await;
    one.joined("Alice").await;
    player.command("register", json!({ "channels": ["mod:a", "mod:b"] })).await;
    one.expect("the player's channels", |served| {
        matches!(served, Served::Plugin { channel, hex, .. } if channel == "REGISTER" && hex != NODES_CHANNEL).then_some(())
    })
    .await;

    let started = Instant::now();
    let every = journey.lasts / u32::try_from(2 * journey.round_trips).expect("few") * 9 / 10;
    let mut moves = interval(every);
    moves.set_missed_tick_behavior(MissedTickBehavior::Delay);
    moves.tick().await;
    let mut chat = interval(PACE);
    let mut lines = 0;
    // Moves run beside the chat, which never waits for them.
    let cli = up.cli.clone();
    let mut moving = tokio::spawn(async move {
        for trip in 0..2 * journey.round_trips {
            moves.tick().await;
            let to = if trip % 2 == 0 { "two" } else { "one" };
            let ran = cli.run(&["transfer", "start", "Alice", "--to", to]).await;
            assert_eq!(ran.code, 0, "transfer {trip}: {ran:?}");
            assert!(ran.said().contains("succeeded"), "{ran:?}");
        }
    });
    let mut moved = false;
    while !moved || started.elapsed() < journey.lasts {
        tokio::select! {
            _ = chat.tick() => {
                player.say(&format!("up {lines}")).await;
                one.say(&format!("one {lines}")).await;
                two.say(&format!("two {lines}")).await;
                lines += 1;
            }
            result = &mut moving, if !moved => {
                if let Err(error) = result {
                    panic!("{error}\n{}{}{}{}", player.log(), one.log(), two.log(), up.process.log());
                }
                moved = true;
            }
        }
    }

    // The last lines of each way: everything before them has come, if it has not been lost.
    player.say("up end").await;
    one.chat("up end").await;
    one.say("one end").await;
    player.chat("one end").await;
    // The player may hear it before this test has read that it was said.
    one.eventually("its last line", |served| matches!(served, Served::Said { text, .. } if text == "one end").then_some(())).await;
    player.assert_well();

    check_worlds(&player, &one, &two, journey.round_trips);
    check_chat_up(&one, &two, lines);
    check_chat_down(&player, &[&one, &two], journey.backends == Kind::Npm);
    check_channels(&[&one, &two]);
    check_keep_alives(&player, &[&one, &two], journey.lasts);
    if journey.online {
        check_identity(&[&one, &two], &account, 2 * journey.round_trips + 1);
        assert_eq!(sessions.asked("Alice").len(), 1, "a transfer is no login");
    }
    assert_eq!(up.stop().await, 0);
    let (reason, phase) = player.kicked().await;
    assert_eq!(phase, "play", "a node that is shut down says so: {reason:?}");
}

/// The client's world is the current backend's after each move, and its tab list too.
fn check_worlds(player: &Player, one: &Backend, two: &Backend, round_trips: usize) {
    let joined = |backend: &Backend| backend.all().iter().filter(|served| matches!(served, Served::Joined { .. })).count();
    assert_eq!((joined(one), joined(two)), (round_trips + 1, round_trips));
    let mut online = BTreeSet::new();
    let (mut joins, mut respawned, mut world) = (0, Vec::new(), None);
    for seen in player.all() {
        match seen {
            Seen::Join { dimension, .. } => {
                joins += 1;
                if joins > 1 {
                    assert!(online.is_empty(), "still in the tab list at Join Game {joins}: {online:?}");
                }
                world = Some(dimension);
            }
            Seen::Respawn { dimension } => {
                assert_ne!(world, Some(dimension), "a Respawn into the same dimension reloads nothing");
                world = Some(dimension);
                respawned.push(dimension);
            }
            Seen::Tab { name, online: true } => assert!(online.insert(name)),
            Seen::Tab { name, online: false } => assert!(online.remove(&name), "{name} was not shown"),
            _ => {}
        }
    }
    assert_eq!(joins, 2 * round_trips + 1);
    assert_eq!(respawned, [-1, 0].repeat(round_trips));
    assert_eq!(online, BTreeSet::from(["§aAnna".to_owned(), "Ben".to_owned()]));
}

/// Every line of the player's came to exactly one backend, and to each in order.
fn check_chat_up(one: &Backend, two: &Backend, lines: usize) {
    let mut all = Vec::new();
    for backend in [one, two] {
        let numbers: Vec<usize> = backend
            .all()
            .iter()
            .filter_map(|served| if let Served::Chat { text, .. } = served { text.strip_prefix("up ")?.parse().ok() } else { None })
            .collect();
        assert!(numbers.is_sorted(), "out of order: {numbers:?}");
        assert!(!numbers.is_empty());
        all.extend(numbers);
    }
    all.sort_unstable();
    assert_eq!(all, (0..lines).collect::<Vec<_>>(), "the player's lines, each exactly once");
}

/// Every line that a backend wrote to the player came exactly once, in order. `exact`: even the one written in the instant of a cutover.
fn check_chat_down(player: &Player, backends: &[&Backend], exact: bool) {
    let heard: Vec<String> =
        player.all().iter().filter_map(|seen| if let Seen::Chat { text, .. } = seen { Some(text.clone()) } else { None }).collect();
    for (backend, name) in backends.iter().zip(["one", "two"]) {
        let heard: Vec<&str> = heard.iter().map(String::as_str).filter(|text| text.starts_with(name)).collect();
        let said: Vec<(u32, String)> = backend
            .all()
            .iter()
            .filter_map(|served| if let Served::Said { conn, text } = served { Some((*conn, text.clone())) } else { None })
            .collect();
        let mut heard = heard.into_iter().peekable();
        let mut count = 0;
        for (index, (conn, text)) in said.iter().enumerate() {
            if heard.peek() == Some(&text.as_str()) {
                heard.next();
                count += 1;
                continue;
            }
            // quarry itself loses what it has not written when the other side closes (clients/README.md): on a busy machine that may
            // be several lines, always the last of their connection.
            let mut rest = said[index..].iter().take_while(|(on, _)| on == conn);
            let is_end = rest.all(|(_, text)| heard.peek() != Some(&text.as_str()));
            assert!(!exact && is_end, "{name} said {text:?} on connection {conn}; the player heard {:?} next", heard.peek());
        }
        assert!(count > said.len() / 2, "of {} lines {count} came", said.len());
        assert_eq!(heard.next(), None, "heard, but not said (or said once, heard twice)");
        assert!(count > 10, "only {count} lines came from {name}");
    }
}

/// What a node itself registers at a backend: `BungeeCord`.
const NODES_CHANNEL: &str = "42756e676565436f7264";

/// On each new connection the player's channels come before anything else of its plugin messages.
fn check_channels(backends: &[&Backend]) {
    for backend in backends {
        let all = backend.all();
        for conn in all.iter().filter_map(|served| if let Served::Joined { conn, .. } = served { Some(*conn) } else { None }) {
            let mut plugins = all.iter().filter_map(|served| match served {
                Served::Plugin { conn: on, channel, hex, .. } if *on == conn && hex != NODES_CHANNEL => {
                    Some((channel.as_str(), hex.as_str()))
                }
                _ => None,
            });
            // The first connection saw the player register them, after its brand.
            let register = if conn == 1 { plugins.find(|(channel, _)| *channel == "REGISTER") } else { plugins.next() };
            let (channel, hex) = register.unwrap_or_else(|| panic!("no channels on connection {conn}: {}", backend.log()));
            assert_eq!(channel, "REGISTER", "connection {conn}");
            let named: BTreeSet<Vec<u8>> = bytes(hex).split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
            assert!(named.contains(b"mod:a".as_slice()) && named.contains(b"mod:b".as_slice()), "{named:?}");
        }
    }
}

/// Every answer went to the backend that had asked, the player was never without, and no connection was left waiting.
fn check_keep_alives(player: &Player, backends: &[&Backend], lasted: Duration) {
    for backend in backends {
        for served in backend.all() {
            match served {
                Served::KeepAlive { id, known, .. } => assert!(known || id == 0, "an answer to nothing this backend asked: {id}"),
                Served::End { unanswered, joined: true, .. } => assert!(unanswered <= 1, "{unanswered} keep-alives were not answered"),
                Served::Error { message, .. } => panic!("{message}"),
                _ => {}
            }
        }
    }
    let ids: Vec<i64> = player.all().iter().filter_map(|seen| if let Seen::KeepAlive { id } = seen { Some(*id) } else { None }).collect();
    assert!(!ids.contains(&0), "0 is the id of answers that nobody asked for");
    assert!(ids.len() as u64 >= lasted.as_secs() / 3, "{} keep-alives in {lasted:?}", ids.len());
}

/// Each time a backend was told the same of the player: what the session server says.
fn check_identity(backends: &[&Backend], account: &Account, times: usize) {
    let mut told = 0;
    for served in backends.iter().flat_map(|backend| backend.all()) {
        if let Served::Forwarded { address, uuid, properties, token, .. } = served {
            assert_eq!((address.as_str(), uuid, token), ("127.0.0.1", account.undashed(), None));
            assert_eq!(properties, account.properties);
            told += 1;
        }
    }
    assert_eq!(told, times);
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal")).collect()
}
