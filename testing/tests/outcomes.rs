//! Transfers that cannot be, kicks and deaths: each ends in one outcome, and the player is told or notices nothing.

use std::time::Duration;

use moonbridge_testing::network::{Ran, Up, dead_port};
use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use moonbridge_testing::wire::{self, Ending, Wire};
use serde_json::{Value, json};
use tokio::net::TcpListener;

struct Two {
    one: Backend,
    two: Backend,
    player: Player,
    up: Up,
}

/// Alice on `one`, and `two` beside it.
async fn two() -> Two {
    let (mut one, one_port) = Backend::serve(Kind::Npm, "one", json!({ "dimension": 0 })).await;
    let (two, two_port) = Backend::serve(Kind::Npm, "two", json!({ "dimension": 0 })).await;
    let up = Up::start(&["--backend", &format!("one=127.0.0.1:{one_port}"), "--backend", &format!("two=127.0.0.1:{two_port}")]).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    player.in_world().await;
    one.joined("Alice").await;
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    Two { one, two, player, up }
}

async fn refused(up: &Up, to: &str, reason: &str) -> Ran {
    let ran = up.cli.run(&["transfer", "start", "Alice", "--to", to]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.said().contains(reason), "to {to}: expected {reason}, got {ran:?}");
    ran
}

impl Two {
    /// The player is where it was and can talk both ways.
    async fn unmoved(&mut self, line: &str) {
        self.player.say(line).await;
        self.one.chat(line).await;
        self.one.say(line).await;
        self.player.chat(line).await;
        self.player.assert_well();
        let joins = self.player.all().iter().filter(|seen| matches!(seen, Seen::Join { .. })).count();
        assert_eq!(joins, 1, "{}", self.player.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_cannot_be_leaves_the_player_where_it_is() {
    let mut net = two().await;
    let up = &net.up;
    refused(up, "nowhere", "unknown_backend").await;
    refused(up, "one", "already_there").await;
    up.cli.ok(&["backend", "drain", "two"]).await;
    refused(up, "two", "backend_drained").await;
    up.cli.ok(&["backend", "undrain", "two"]).await;
    let nobody = up.cli.run(&["transfer", "start", "Nobody", "--to", "two"]).await;
    assert_eq!(nobody.code, 1, "{nobody:?}");
    assert!(nobody.said().contains("Nobody"), "{nobody:?}");
    net.unmoved("after the refusals").await;

    net.two.set(json!({ "refuse": "members only" })).await;
    let ran = refused(&net.up, "two", "login_refused").await;
    assert!(ran.said().contains("members only"), "{ran:?}");
    for (place, reason) in [("login", "candidate_closed"), ("success", "candidate_closed")] {
        net.two.set(json!({ "refuse": null, "close": place })).await;
        refused(&net.up, "two", reason).await;
    }
    for place in ["accept", "login", "success"] {
        net.two.set(json!({ "close": null, "garbage": place })).await;
        refused(&net.up, "two", "backend_garbage").await;
    }
    net.two.set(json!({ "garbage": null })).await;
    net.unmoved("after the bad candidates").await;

    let (_socket, dead) = dead_port();
    net.up.cli.ok(&["backend", "set", "dead", "--address", &format!("127.0.0.1:{dead}")]).await;
    refused(&net.up, "dead", "dial_failed").await;
    net.up.cli.ok(&["backend", "set", "lost", "--address", "no-such-host.invalid:25565"]).await;
    refused(&net.up, "lost", "dial_failed").await;
    net.unmoved("after the dead").await;

    // After all that a good one goes through.
    net.up.cli.ok(&["transfer", "start", "Alice", "--to", "two"]).await;
    net.two.joined("Alice").await;
    net.player.say("at last").await;
    net.two.chat("at last").await;
    net.player.assert_well();
}

/// The command's row once it is terminal.
async fn outcome(up: &Up, id: &str) -> (String, String) {
    let rows = up.cli.until(&["transfer", "list"], |rows| rows.iter().any(|row| row["id"] == id && !row["reason"].is_null())).await;
    let row = rows.into_iter().find(|row| row["id"] == id).expect("waited for");
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    (text("state"), text("reason"))
}

async fn start_without_waiting(up: &Up, to: &str) -> String {
    let ran = up.cli.ok(&["transfer", "start", "Alice", "--to", to, "--no-wait", "-o", "json"]).await;
    find_id(&ran.json()).unwrap_or_else(|| panic!("no id in {ran:?}"))
}

fn find_id(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => fields.get("id").and_then(Value::as_str).map(str::to_owned).or_else(|| fields.values().find_map(find_id)),
        Value::Array(values) => values.iter().find_map(find_id),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_transfer_is_refused_while_one_is_under_way_and_a_player_may_leave_meanwhile() {
    let mut net = two().await;
    let slow = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    net.up.cli.ok(&["backend", "set", "slow", "--address", &slow.local_addr().expect("bound").to_string()]).await;

    // The candidate says nothing: the transfer is under way for as long as this test likes.
    let first = start_without_waiting(&net.up, "slow").await;
    let mut candidate = Wire::accept(&slow).await.expect("it is dialled");
    candidate.login().await.expect("it is logged in to");
    refused(&net.up, "two", "transfer_in_progress").await;
    net.unmoved("while it lasts").await;
    candidate.login_success("Alice").await.expect("it reads");
    candidate.send(0x40, &wire::string("\"not today\"")).await.expect("it reads");
    assert_eq!(outcome(&net.up, &first).await, ("failed".to_owned(), "login_refused".to_owned()));
    net.unmoved("when it has failed").await;

    let second = start_without_waiting(&net.up, "slow").await;
    let mut candidate = Wire::accept(&slow).await.expect("it is dialled");
    candidate.login().await.expect("it is logged in to");
    net.player.command("quit", json!({})).await;
    net.one.left("Alice").await;
    let (state, reason) = outcome(&net.up, &second).await;
    assert_eq!(state, "failed");
    assert!(["player_left", "session_gone"].contains(&reason.as_str()), "{reason}");
    candidate.ending(Duration::from_secs(20)).await;
    net.up.cli.until(&["player", "list"], <[Value]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_player_does_during_a_transfer_comes_after_it() {
    let mut net = two().await;
    let slow = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    net.up.cli.ok(&["backend", "set", "slow", "--address", &slow.local_addr().expect("bound").to_string()]).await;
    let id = start_without_waiting(&net.up, "slow").await;
    let mut candidate = Wire::accept(&slow).await.expect("it is dialled");
    candidate.login().await.expect("it is logged in to");
    candidate.login_success("Alice").await.expect("it reads");
    // Anything may come before Join Game, keep-alives too: those are answered at once.
    candidate.send(0x3f, &[wire::string("early"), vec![0, 2, 0xca, 0xfe]].concat()).await.expect("it reads");
    candidate.send(0x00, &77_i32.to_be_bytes()).await.expect("it reads");
    assert_eq!(candidate.receive_id(0x00).await.expect("an answer"), 77_i32.to_be_bytes());
    // The old backend serves on while the candidate takes its time.
    net.unmoved("before the cutover").await;
    candidate.join_game(4242, 0).await.expect("it reads");
    candidate.send(0x02, &wire::string("{\"text\":\"welcome\"}")).await.expect("it reads");
    net.player.chat("welcome").await;
    net.player.say("hello slow").await;
    assert_eq!(candidate.receive_id(0x01).await.expect("the player's line"), wire::string("hello slow"));
    assert_eq!(outcome(&net.up, &id).await, ("succeeded".to_owned(), "ok".to_owned()));
    let seen = net.player.all();
    let at = |wanted: &dyn Fn(&Seen) -> bool| seen.iter().position(wanted).expect("it has come");
    let early = at(&|seen| matches!(seen, Seen::Plugin { channel, .. } if channel == "early"));
    let join = at(&|seen| matches!(seen, Seen::Join { entity_id: 4242, .. }));
    let respawn = at(&|seen| matches!(seen, Seen::Respawn { dimension: 0 }));
    assert!(early < join && join < respawn, "{}", net.player.log());
    assert!(
        matches!(seen[join], Seen::Join { dimension, .. } if dimension != 0),
        "the dimension is flipped, then right: {}",
        net.player.log()
    );
    // Its keep-alives get through to the player now, and the answers back.
    candidate.send(0x00, &78_i32.to_be_bytes()).await.expect("it reads");
    assert_eq!(candidate.receive_id(0x00).await.expect("an answer"), 78_i32.to_be_bytes());
}

/// The next frame of the player's that is no keep-alive. (The node itself registers the plugin channel `BungeeCord`.)
async fn frame_of_players(backend: &mut Wire) -> (i32, Vec<u8>) {
    let register = [wire::string("REGISTER"), b"\x00\x0aBungeeCord".to_vec()].concat();
    loop {
        let (id, payload) = backend.receive().await.expect("a frame");
        if id != 0x00 && payload != register {
            return (id, payload);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_speaks_of_the_old_world_stays_there() {
    let (one, two) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let address = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    let up = Up::start(&["--backend", &format!("one={}", address(&one)), "--backend", &format!("two={}", address(&two))]).await;
    let listen = up.listen;
    let joining = tokio::spawn(async move { Wire::join(listen, "localhost", "Alice").await });
    let mut old = Wire::accept(&one).await.expect("it is dialled");
    old.login().await.expect("a login");
    old.login_success("Alice").await.expect("it reads");
    old.join_game(1, 0).await.expect("it reads");
    let (mut player, _) = joining.await.expect("no panic").expect("a login");
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;

    let id = start_without_waiting(&up, "two").await;
    let mut new = Wire::accept(&two).await.expect("it is dialled");
    new.login().await.expect("a login");
    // Up to the cutover all of the player's frames are the old backend's.
    let look = [0; 34];
    player.send(0x06, &look).await.expect("it reads");
    assert_eq!(frame_of_players(&mut old).await, (0x06, look.to_vec()));
    new.login_success("Alice").await.expect("it reads");
    new.join_game(2, -1).await.expect("it reads");
    player.receive_id(0x07).await.expect("the cutover's Respawn");

    // The player has not processed it yet: what it does is of the world before.
    let settings = [wire::string("en_GB"), vec![10, 0, 1, 2, 1]].concat();
    let brand = [wire::string("MC|Brand"), vec![0, 1, b'x']].concat();
    for (id, payload) in [
        (0x06, look.as_slice()),
        (0x02, &[0, 0, 0, 9, 1]),
        (0x0e, &[0; 9]),
        (0x01, &wire::string("hi")),
        (0x7f, b"mod"),
        (0x03, &[1]),
        (0x17, &brand),
        (0x15, &settings),
        (0x06, &look),
        (0x03, &[1]),
    ] {
        player.send(id, payload).await.expect("it reads");
    }
    for wanted in [0x01, 0x7f, 0x17, 0x15, 0x06, 0x03] {
        assert_eq!(frame_of_players(&mut new).await.0, wanted);
    }
    assert_eq!(outcome(&up, &id).await, ("succeeded".to_owned(), "ok".to_owned()));
    // The old connection was closed, with nothing more on it.
    assert_eq!(old.ending(Duration::from_secs(20)).await, Ending::Closed(Vec::new()));
}

/// Lines said while a long frame of the old backend's keeps the pause waiting: held, and then released to whom they are for.
async fn said_during_a_pause(frame_ends: bool) {
    const LONG: usize = 200_000;
    let (one, two) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let address = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    let up = Up::start(&["--backend", &format!("one={}", address(&one)), "--backend", &format!("two={}", address(&two))]).await;
    let listen = up.listen;
    let joining = tokio::spawn(async move { Wire::join(listen, "localhost", "Alice").await });
    let mut old = Wire::accept(&one).await.expect("it is dialled");
    old.login().await.expect("a login");
    old.login_success("Alice").await.expect("it reads");
    old.join_game(1, 0).await.expect("it reads");
    let (mut player, _) = joining.await.expect("no panic").expect("a login");
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;

    // Half of a frame that is too long to wait for in a buffer: it is cut through.
    let mut long = Vec::new();
    moonbridge_protocol::frame::put(&mut long, 0x70, |out| out.resize(out.len() + LONG, 0x5a));
    old.write(&long[..LONG / 2]).await.expect("it reads");
    player.peek(LONG / 4).await.expect("its beginning gets through");
    let id = start_without_waiting(&up, "two").await;
    let mut new = Wire::accept(&two).await.expect("it is dialled");
    new.login().await.expect("a login");
    new.login_success("Alice").await.expect("it reads");
    new.join_game(2, -1).await.expect("it reads");
    // Said one by one, so that some come before the pause and some in it. Each is at exactly one backend in the end.
    for number in 0..200 {
        player.send(0x01, &wire::string(&format!("line {number}"))).await.expect("it reads");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if frame_ends {
        old.write(&long[LONG / 2..]).await.expect("it reads");
    }
    let ended = outcome(&up, &id).await;
    let last = if frame_ends { &mut new } else { &mut old };
    player.send(0x01, &wire::string("the last")).await.expect("it reads");
    let mut at_last = Vec::new();
    while at_last.last() != Some(&wire::string("the last")) {
        at_last.push(last.receive_id(0x01).await.expect("a line"));
    }
    at_last.pop();
    let mut all = Vec::new();
    if frame_ends {
        assert_eq!(ended, ("succeeded".to_owned(), "ok".to_owned()));
        assert!(!at_last.is_empty(), "nothing was said in the pause: this test shows nothing");
        player.receive_id(0x07).await.expect("the cutover's Respawn");
        let Ending::Closed(rest) = old.ending(Duration::from_secs(20)).await else { panic!("the old connection stays open") };
        let mut rest = rest.as_slice();
        while let Some(frame) = moonbridge_protocol::frame::first(rest, usize::MAX).expect("frames") {
            all.extend((frame.id == 0x01).then(|| frame.payload.to_vec()));
            rest = &rest[frame.whole.len()..];
        }
    } else {
        assert_eq!(ended, ("failed".to_owned(), "frame_stalled".to_owned()));
        old.write(&long[LONG / 2..]).await.expect("it reads");
        assert_eq!(player.receive_id(0x70).await.expect("the long frame").len(), LONG);
    }
    all.extend(at_last);
    assert_eq!(all, (0..200).map(|number| wire::string(&format!("line {number}"))).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_during_a_pause_reaches_the_new_backend_in_order() {
    said_during_a_pause(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_during_a_pause_that_fails_reaches_the_old_backend_in_order() {
    said_during_a_pause(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kicked_player_falls_back_and_reads_why() {
    let mut net = two().await;
    net.one.command("kick", json!({ "reason": "restarting" })).await;
    net.two.joined("Alice").await;
    net.player
        .expect("the reason in chat", |seen| {
            matches!(seen, Seen::Chat { text, .. } if text.contains("restarting") && text.contains("two")).then_some(())
        })
        .await;
    net.player.say("still here").await;
    net.two.chat("still here").await;
    net.player.assert_well();
    net.up.cli.until(&["player", "list"], |rows| rows.len() == 1 && rows[0]["backend"] == "two").await;

    // The last one kicks too, before he has settled: nobody goes round in circles, and the first reason is the one shown.
    net.two.command("kick", json!({ "reason": "and I am full" })).await;
    let (reason, phase) = net.player.kicked().await;
    assert_eq!(phase, "play");
    assert!(reason.contains("restarting"), "{reason}");
    net.player.end().await;

    // Where the other refuses, the reason shown is that of the kick as well.
    net.two.set(json!({ "refuse": "not open yet" })).await;
    let mut bob = Player::join(Kind::Npm, net.up.listen.port(), "Bob", json!({}));
    bob.in_world().await;
    net.one.joined("Bob").await;
    net.one.command("kick", json!({ "reason": "the world is full of lava" })).await;
    let (reason, _) = bob.kicked().await;
    assert!(reason.contains("the world is full of lava"), "{reason}");
    bob.end().await;
    net.up.cli.until(&["player", "list"], <[Value]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_dies_costs_no_player() {
    let mut net = two().await;
    net.one.command("drop", json!({})).await;
    net.two.joined("Alice").await;
    net.player.say("that was close").await;
    net.two.chat("that was close").await;
    net.player.assert_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_speaks_nonsense_is_as_good_as_dead() {
    let mut net = two().await;
    net.one.command("bytes", json!({ "hex": "ffffffffffffffff" })).await;
    net.two.joined("Alice").await;
    net.player.say("that was strange").await;
    net.two.chat("that was strange").await;
    net.player.assert_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_may_say_that_a_kick_is_a_disconnect() {
    let mut net = two().await;
    net.up.cli.ok(&["route", "set", "*", "--backends", "one,two", "--on-kick", "disconnect"]).await;
    net.one.command("kick", json!({ "reason": "banned" })).await;
    assert_eq!(net.player.kicked().await, ("banned".to_owned(), "play".to_owned()));
    net.player.end().await;
    assert!(!net.two.all().iter().any(|served| matches!(served, Served::Connection { .. })), "{}", net.two.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_players_are_moved_at_once() {
    let net = two().await;
    let mut others = Vec::new();
    for index in 0..6 {
        let name = format!("P{index}");
        let mut player = Player::join(if index % 2 == 0 { Kind::Quarry } else { Kind::Npm }, net.up.listen.port(), &name, json!({}));
        player.in_world().await;
        others.push((name, player));
    }
    net.up.cli.until(&["player", "list"], |rows| rows.len() == 7).await;
    let ran = net.up.cli.ok(&["transfer", "start", "--from", "one", "--to", "two"]).await;
    assert!(ran.said().contains("7 succeeded, 0 failed"), "{ran:?}");
    for (name, player) in &mut others {
        player.say(&format!("{name} is here")).await;
        net.two
            .eventually("the line", |served| {
                matches!(served, Served::Chat { text, .. } if *text == format!("{name} is here")).then_some(())
            })
            .await;
        player.assert_well();
    }
    let rows = net.up.cli.rows(&["player", "list", "--backend", "two"]).await;
    assert_eq!(rows.len(), 7, "{rows:?}");
}
