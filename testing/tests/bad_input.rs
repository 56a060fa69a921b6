//! What strangers and broken servers send: a close within bounded time and memory, and nobody else notices.

use std::time::{Duration, Instant};

use moonbridge_protocol::frame;
use moonbridge_testing::network::Up;
use moonbridge_testing::peer::{Backend, Kind, Player, Served};
use moonbridge_testing::process::SOON;
use moonbridge_testing::wire::{self, Ending, Wire};
use serde_json::json;
use tokio::net::TcpListener;

/// What a test measures damage by: a player who plays on.
struct Bystander {
    backend: Backend,
    player: Player,
    up: Up,
    lines: usize,
}

async fn bystander() -> Bystander {
    let (mut backend, port) = Backend::serve(Kind::Npm, "one", json!({})).await;
    let up = Up::start(&["--backend", &format!("one=127.0.0.1:{port}")]).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Bystander", json!({}));
    player.in_world().await;
    backend.joined("Bystander").await;
    Bystander { backend, player, up, lines: 0 }
}

impl Bystander {
    /// A line goes up and comes down; returns how long that took.
    async fn talks(&mut self) -> Duration {
        let started = Instant::now();
        self.lines += 1;
        let line = format!("line {}", self.lines);
        self.player.say(&line).await;
        self.backend.chat(&line).await;
        self.backend.command("chat", json!({ "text": line, "player": "Bystander" })).await;
        self.player.chat(&line).await;
        started.elapsed()
    }

    /// Nobody was hurt and nothing panicked.
    async fn well(mut self) {
        self.talks().await;
        self.player.assert_well();
        let lines = self.up.process.lines();
        let bad: Vec<_> = lines
            .iter()
            .filter(|line| line.contains("panicked") || line.contains("stack backtrace") || line.contains("RUST_BACKTRACE"))
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
        assert_eq!(self.up.stop().await, 0);
    }
}

fn framed(id: i32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, id, |out| out.extend_from_slice(payload));
    out
}

/// Bytes that are wrong wherever a frame is due before play.
fn garbage() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a length that never ends", vec![0xff; 16]),
        ("a negative length", vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
        ("a length of two megabytes", vec![0xff, 0xff, 0x7f]),
        ("a frame with an id that never ends", vec![0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("an unknown packet", framed(0x7b, b"what")),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("noise", (0..4096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect()),
        ("empty frames", vec![0; 4096]),
        ("a string longer than its packet", framed(0, &[5, 0xff, 0xff, 0x03, b'x'])),
        ("a string that is not UTF-8", framed(0, &[5, 3, 0xff, 0xfe, 0xfd, 0x63, 0xdd, 2])),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_before_play_is_answered_by_a_close() {
    let by = bystander().await;
    let mut begun = Vec::new();
    for (phase, next) in [("handshake", None), ("status", Some(1)), ("login", Some(2))] {
        for (what, bytes) in garbage() {
            let mut wire = Wire::connect(by.up.listen).await.expect("it listens");
            if let Some(next) = next {
                wire.handshake(5, "localhost", next).await.expect("it reads");
            }
            // It may be closed already while this is being written.
            let _ = wire.write(&bytes).await;
            begun.push((phase, what, wire));
        }
    }
    // All at the same time: 15 s for a login, 5 s for a handshake.
    let deadline = Instant::now() + Duration::from_secs(25);
    for (phase, what, mut wire) in begun {
        let ending = wire.ending(deadline.saturating_duration_since(Instant::now())).await;
        assert!(matches!(ending, Ending::Closed(_)), "{what} in {phase}: still open\n{}", by.up.process.log());
    }
    by.well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_packet_is_waited_for_and_given_up() {
    let by = bystander().await;
    let hello = framed(0, &wire::handshake(5, "localhost", 25565, 2));
    let start = framed(0, &wire::string("Halfway"));
    let mut begun = Vec::new();
    for cut in [1, 5, hello.len() - 1, hello.len(), hello.len() + 1, hello.len() + start.len() - 1] {
        let mut wire = Wire::connect(by.up.listen).await.expect("it listens");
        wire.write(&[hello.as_slice(), &start].concat()[..cut]).await.expect("it reads");
        begun.push((cut, wire));
    }
    let deadline = Instant::now() + Duration::from_secs(25);
    for (cut, mut wire) in begun {
        let ending = wire.ending(deadline.saturating_duration_since(Instant::now())).await;
        assert!(matches!(ending, Ending::Closed(_)), "{cut} bytes: still open");
    }
    by.well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_play_ends_that_session_alone() {
    let mut by = bystander().await;
    // Ids are not looked at: one that cannot be read passes like any other that nobody knows.
    let bad = [vec![0xff; 16], vec![0xff, 0xff, 0xff, 0xff, 0x0f], vec![0x80, 0x80, 0x80, 0x00], vec![0; 100_000]];
    for (index, bytes) in bad.into_iter().enumerate() {
        let name = format!("Bad{index}");
        let (mut player, _) = Wire::join(by.up.listen, "localhost", &name).await.expect("a login");
        let _ = player.write(&bytes).await;
        let ending = player.ending(SOON).await;
        assert!(matches!(ending, Ending::Closed(_)), "{index}: still open");
        by.backend.left(&name).await;
        by.talks().await;
    }
    by.well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_frames_in_play_pass_untouched() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let up = Up::start(&["--backend", &format!("raw={}", listener.local_addr().expect("bound"))]).await;
    let address = up.listen;
    let joining = tokio::spawn(async move { Wire::join(address, "localhost", "Alice").await });
    let mut backend = Wire::accept(&listener).await.expect("it is dialled");
    backend.login().await.expect("a login");
    backend.login_success("Alice").await.expect("it reads");
    backend.join_game(1, 0).await.expect("it reads");
    let (mut player, join) = joining.await.expect("no panic").expect("a login");
    assert_eq!(join, wire::join_game(1, 0), "unmodified");

    let strange = [
        (0x7f, b"unknown id".to_vec()),
        (-5, b"negative id".to_vec()),
        (i32::MIN, b"very negative id".to_vec()),
        (1_000_000, b"large id".to_vec()),
        (0x38, b"\xff\xff\xff a tab list entry that is none".to_vec()),
        (0x3f, vec![0xff; 40]),
        (0x21, vec![0x5a; 70_000]),
        (0x26, (0..frame::MAX_FRAME - 1).map(|at| (at % 251) as u8).collect()),
        (0x02, wire::string("{\"text\":\"after all that\"}")),
    ];
    let sent = strange.clone();
    let sending = tokio::spawn(async move {
        for (id, payload) in sent {
            backend.send(id, &payload).await?;
        }
        anyhow::Ok(backend)
    });
    for (id, payload) in &strange {
        let (came, bytes) = player.receive().await.expect("a frame");
        assert_eq!((came, bytes.len()), (*id, payload.len()));
        assert!(bytes == *payload, "frame {id} was changed");
    }
    let mut backend = sending.await.expect("no panic").expect("it reads");
    // The node has told it of the plugin channel.
    let register = [wire::string("REGISTER"), b"\x00\x0aBungeeCord".to_vec()].concat();
    assert_eq!(backend.receive().await.expect("a frame"), (0x17, register));
    // And the other way, where a mod's frames are as strange; empty ones are dropped.
    let strange = [
        (0x7f, b"unknown".to_vec()),
        (-5, b"negative".to_vec()),
        (0x02, vec![1; 9]),
        (0x55, vec![7; 300_000]),
        (0x01, wire::string("done")),
    ];
    let sent = strange.clone();
    let sending = tokio::spawn(async move {
        for (id, payload) in sent {
            player.write(&[0, 0]).await?;
            player.send(id, &payload).await?;
        }
        anyhow::Ok(player)
    });
    for (id, payload) in &strange {
        assert!(backend.receive().await.expect("a frame") == (*id, payload.clone()), "frame {id} was changed");
    }
    let _player = sending.await.expect("no panic").expect("it reads");
    assert_eq!(up.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_silent_connections_cost_little_and_nobody() {
    const MANY: usize = 5_000;
    raise_open_files();
    let mut by = bystander().await;
    let before = by.up.process.resident();
    let mut silent = Vec::with_capacity(MANY);
    let opening = Instant::now();
    for index in 0..MANY {
        silent.push(Wire::connect(by.up.listen).await.unwrap_or_else(|error| panic!("connection {index}: {error:#}")));
        if index % 500 == 0 {
            let took = by.talks().await;
            assert!(took < Duration::from_secs(5), "a line took {took:?} beside {index} silent connections");
        }
    }
    let peak = by.up.process.resident();
    assert!(peak < before + (100 << 20), "{} MiB for {MANY} connections", (peak - before) >> 20);
    let deadline = Instant::now() + Duration::from_secs(20);
    for (index, wire) in silent.iter_mut().enumerate() {
        let ending = wire.ending(deadline.saturating_duration_since(Instant::now())).await;
        assert!(
            matches!(ending, Ending::Closed(_)),
            "connection {index} is still open, {:?} after the first was opened",
            opening.elapsed()
        );
    }
    let lines = by.up.process.lines().len();
    assert!(lines < MANY / 10, "{lines} lines of log");
    by.well().await;
}

/// 5,000 sockets here and 5,000 in the node, which inherits the limit.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the hard limit anybody may");
    assert!(limit.current.is_none_or(|current| current >= 6_000), "this machine allows only {limit:?} open files");
}

/// A backend that does wrong at any step of a player's first login: the next is tried, or the reason told.
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_fails_in_the_middle_of_a_login_is_passed_over() {
    let (mut good, good_port) = Backend::serve(Kind::Npm, "good", json!({})).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let up = Up::start(&[
        "--backend",
        &format!("bad={}", listener.local_addr().expect("bound")),
        "--backend",
        &format!("good=127.0.0.1:{good_port}"),
    ])
    .await;
    let bad: Vec<(&str, Vec<u8>)> = [("nothing", Vec::new())].into_iter().chain(garbage()).collect();
    for (index, (what, bytes)) in bad.into_iter().enumerate() {
        if ["a length of two megabytes", "empty frames", "HTTP", "TLS"].contains(&what) {
            // To a player these may be the beginning of something long: the deadline decides (another test).
            continue;
        }
        let name = format!("P{index}");
        let mut player = Player::join(Kind::Npm, up.listen.port(), &name, json!({}));
        let mut backend = Wire::accept(&listener).await.expect("it is dialled");
        backend.login().await.expect("a login");
        let _ = backend.write(&bytes).await;
        drop(backend);
        player.in_world().await;
        good.joined(&name).await;
        player.assert_well();
    }
    // After Login Success, before Join Game: the next is tried as well, for the player has not seen a world yet.
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Late", json!({}));
    let mut backend = Wire::accept(&listener).await.expect("it is dialled");
    backend.login().await.expect("a login");
    backend.login_success("Late").await.expect("it reads");
    drop(backend);
    player.in_world().await;
    good.joined("Late").await;
    player.assert_well();
    let stalled = good.all().iter().filter(|served| matches!(served, Served::Error { .. })).count();
    assert_eq!(stalled, 0, "{}", good.log());
}
