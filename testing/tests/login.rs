//! Before play: the server list, logins, and which backend a player gets.

use moonbridge_testing::network::{Up, dead_port};
use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use moonbridge_testing::process::SOON;
use moonbridge_testing::wire::{self, Ending, Wire};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn status(kind: Kind, port: u16) -> Value {
    let mut asking = Player::join(kind, port, "Asker", json!({ "status": true }));
    asking.expect("the server list entry", |seen| if let Seen::Status { data } = seen { Some(data.clone()) } else { None }).await
}

async fn backend(name: &str) -> (Backend, String) {
    let (backend, port) = Backend::serve(Kind::Npm, name, json!({})).await;
    (backend, format!("{name}=127.0.0.1:{port}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_list_shows_the_motd_and_true_counts() {
    let (_one, argument) = backend("one").await;
    let up = Up::start(&["--backend", &argument]).await;
    for kind in [Kind::Npm, Kind::Quarry, Kind::Quarry4] {
        let data = status(kind, up.listen.port()).await;
        assert!(data["description"].is_string(), "1.7 may crash on a component: {data}");
        assert_eq!(data["players"]["online"], 0, "{data}");
        assert_eq!(data["version"]["protocol"], if kind == Kind::Quarry4 { 4 } else { 5 }, "{data}");
    }
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    player.in_world().await;
    assert_eq!(status(Kind::Npm, up.listen.port()).await["players"]["online"], 1);
    player.command("quit", json!({})).await;
    player.end().await;
    up.cli.until(&["player", "list"], <[Value]>::is_empty).await;
    assert_eq!(status(Kind::Npm, up.listen.port()).await["players"]["online"], 0);
    let ran = up.cli.ok(&["status", &up.listen.to_string()]).await;
    assert!(ran.stdout.contains('0'), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_older_than_1_7_get_their_server_list_entry() {
    let (_one, argument) = backend("one").await;
    let up = Up::start(&["--backend", &argument]).await;
    let host: Vec<u8> = "localhost".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let channel: Vec<u8> = "MC|PingHost".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let long = [&[0xfe, 0x01, 0xfa, 0, 11][..], &channel, &[0, 7 + 18, 74, 0, 9], &host, &[0, 0, 0x63, 0xdd]].concat();
    for (ping, fields) in [(vec![0xfe], 3), (vec![0xfe, 0x01], 6), (long, 6)] {
        let mut stream = TcpStream::connect(up.listen).await.expect("it listens");
        stream.write_all(&ping).await.expect("it reads");
        let mut answer = Vec::new();
        tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("an answer, then a close").expect("no reset");
        assert_eq!(answer.first(), Some(&0xff), "{ping:x?}: {answer:x?}");
        let units: Vec<u16> = answer[3..].chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        assert_eq!(usize::from(u16::from_be_bytes([answer[1], answer[2]])), units.len());
        let text = String::from_utf16(&units).expect("UTF-16");
        let parts: Vec<&str> = text.split(if fields == 6 { '\0' } else { '§' }).collect();
        assert_eq!(parts.len(), fields, "{text:?}");
        assert_eq!(parts[fields - 2], "0", "players online: {text:?}");
        if fields == 6 {
            assert_eq!(parts[0], "§1");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_version_is_told_what_is_supported() {
    let (_one, argument) = backend("one").await;
    let up = Up::start(&["--backend", &argument]).await;
    for protocol in [3, 47, 760, -1] {
        let mut list = Wire::connect(up.listen).await.expect("it listens");
        list.handshake(protocol, "localhost", 1).await.expect("it reads");
        list.send(0, &[]).await.expect("it reads");
        let (id, answer) = list.receive().await.expect("a status answer");
        assert_eq!(id, 0);
        assert!(String::from_utf8_lossy(&answer).contains("1.7"), "{answer:?}");
        list.send(1, &[1, 2, 3, 4, 5, 6, 7, 8]).await.expect("it reads");
        assert_eq!(list.receive().await.expect("a pong"), (1, vec![1, 2, 3, 4, 5, 6, 7, 8]));

        let mut login = Wire::connect(up.listen).await.expect("it listens");
        login.handshake(protocol, "localhost", 2).await.expect("it reads");
        login.send(0, &wire::string("Alice")).await.expect("it reads");
        let Ending::Closed(bytes) = login.ending(SOON).await else { panic!("protocol {protocol} is let in") };
        let reason = wire::reason(&bytes).expect("a reason");
        assert!(reason.contains("1.7.2") && reason.contains("1.7.10"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_in_either_protocol_gets_the_offline_uuid() {
    let (mut one, argument) = backend("one").await;
    let up = Up::start(&["--backend", &argument]).await;
    // The npm backend speaks protocol 5 alone.
    let mut alice = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    let login = alice.expect("Login Success", |seen| matches!(seen, Seen::Login { .. }).then(|| seen.clone())).await;
    assert_eq!(login, Seen::Login { uuid: "10920508-d5d8-3eed-93d2-92f193afe7d7".into(), name: "Alice".into() });
    one.joined("Alice").await;
    let rows = up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    let row = rows[0].to_string();
    assert!(row.contains("Alice") && row.contains("one"), "{row}");

    let (mut old, old_port) = Backend::serve(Kind::Quarry4, "old", json!({})).await;
    up.cli.ok(&["backend", "set", "old", "--address", &format!("127.0.0.1:{old_port}")]).await;
    up.cli.ok(&["route", "set", "old.example.net", "--backends", "old"]).await;
    let mut bob = Player::join(Kind::Quarry4, up.listen.port(), "Bob", json!({ "virtualHost": "old.example.net" }));
    let login = bob.expect("Login Success", |seen| matches!(seen, Seen::Login { .. }).then(|| seen.clone())).await;
    assert_eq!(login, Seen::Login { uuid: "faa5dca3c3d4354bae1bdde9e5a14b3b".into(), name: "Bob".into() }, "without dashes in protocol 4");
    old.joined("Bob").await;
    bob.say("hello").await;
    old.chat("hello").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_none_are_refused() {
    let (one, argument) = backend("one").await;
    let up = Up::start(&["--backend", &argument]).await;
    for name in ["", "with space", "seventeen_letters", "naïve", "a\nb", &"x".repeat(10_000)] {
        let mut login = Wire::connect(up.listen).await.expect("it listens");
        login.handshake(5, "localhost", 2).await.expect("it reads");
        login.send(0, &wire::string(name)).await.expect("it reads");
        let Ending::Closed(bytes) = login.ending(SOON).await else { panic!("{name:?} is let in") };
        assert!(bytes.is_empty() || wire::reason(&bytes).is_some(), "{name:?} is answered {bytes:?}");
    }
    assert!(!one.all().iter().any(|served| matches!(served, Served::LoginStart { .. })), "{}", one.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_decides_on_the_backend() {
    let (mut any, any_argument) = backend("any").await;
    let (mut exact, exact_argument) = backend("exact").await;
    // npm's server takes a handshake frame of 254 bytes for an old ping (clients/README.md); quarry's does not.
    let (mut suffix, suffix_port) = Backend::serve(Kind::Quarry, "suffix", json!({})).await;
    let suffix_argument = format!("suffix=127.0.0.1:{suffix_port}");
    let up = Up::start(&["--backend", &any_argument, "--backend", &exact_argument, "--backend", &suffix_argument]).await;
    up.cli.ok(&["route", "set", "*", "--backends", "any"]).await;
    up.cli.ok(&["route", "set", "play.example.net", "--backends", "exact"]).await;
    up.cli.ok(&["route", "set", "*.example.net", "--backends", "suffix"]).await;
    let hosts = ["localhost", "PLAY.example.net.", "a.b.example.net", "example.net", "play.example.net\0FML\0"];
    for (index, (host, to)) in hosts.into_iter().zip(["any", "exact", "suffix", "any", "exact"]).enumerate() {
        let name = format!("P{index}");
        let mut player = Player::join(Kind::Npm, up.listen.port(), &name, json!({ "virtualHost": host }));
        player.in_world().await;
        let backend = match to {
            "any" => &mut any,
            "exact" => &mut exact,
            _ => &mut suffix,
        };
        backend.joined(&name).await;
        if !host.contains('\0') {
            let ran = up.cli.ok(&["route", "test", host]).await;
            assert!(ran.stdout.contains(to), "{ran:?}");
        }
    }
    let shaken: Vec<String> = exact
        .all()
        .iter()
        .filter_map(|served| if let Served::Handshake { host, .. } = served { Some(host.clone()) } else { None })
        .collect();
    assert!(shaken.iter().any(|host| host.ends_with("\0FML\0")), "some Forge backends refuse without it: {shaken:?}");

    // 255 characters are a legal host, 256 are none.
    let long = format!("{}.example.net", "x".repeat(255 - 12));
    let (mut player, _) = Wire::join(up.listen, &long, "Long").await.expect("a host of 255 characters routes");
    suffix.joined("Long").await;
    player.send(1, &wire::string("hi")).await.expect("it reads");
    suffix.chat("hi").await;
    let mut longer = Wire::connect(up.listen).await.expect("it listens");
    longer.handshake(5, &format!("x{long}"), 2).await.expect("it reads");
    assert!(matches!(longer.ending(SOON).await, Ending::Closed(_)));
    // And one of 247 makes a frame that begins like an old client's ping.
    let (_player, _) =
        Wire::join(up.listen, &format!("{}.example.net", "y".repeat(247 - 12)), "Ping").await.expect("a host of 247 characters routes");
    suffix.joined("Ping").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_that_hold_no_session_are_passed_over() {
    let (_socket, dead) = dead_port();
    let (refusing, refusing_port) = Backend::serve(Kind::Npm, "refusing", json!({ "refuse": "the server is full" })).await;
    let (closing, closing_port) = Backend::serve(Kind::Npm, "closing", json!({ "close": "login" })).await;
    let (garbled, garbled_port) = Backend::serve(Kind::Npm, "garbled", json!({ "garbage": "login" })).await;
    let (drained, drained_argument) = backend("drained").await;
    let (mut good, good_argument) = backend("good").await;
    let arguments = [
        format!("dead=127.0.0.1:{dead}"),
        format!("refusing=127.0.0.1:{refusing_port}"),
        format!("closing=127.0.0.1:{closing_port}"),
        format!("garbled=127.0.0.1:{garbled_port}"),
        "nowhere=no-such-host.invalid:25565".to_owned(),
        drained_argument,
        good_argument,
    ];
    let arguments: Vec<&str> = arguments.iter().flat_map(|argument| ["--backend", argument.as_str()]).collect();
    let up = Up::start(&arguments).await;
    up.cli.ok(&["backend", "drain", "drained"]).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    player.in_world().await;
    good.joined("Alice").await;
    for tried in [&refusing, &closing, &garbled] {
        tried.eventually("a login", |served| matches!(served, Served::LoginStart { .. }).then_some(())).await;
    }
    assert!(!drained.all().iter().any(|served| matches!(served, Served::Connection { .. })));

    // When all fail the player is told why.
    up.cli.ok(&["route", "set", "all.example.net", "--backends", "dead,refusing,closing"]).await;
    let mut refused = Player::join(Kind::Npm, up.listen.port(), "Bob", json!({ "virtualHost": "all.example.net" }));
    let (reason, phase) = refused.kicked().await;
    assert_eq!(phase, "login");
    assert!(reason.contains("the server is full"), "the backend's own reason says more than ours: {reason}");
    // A candidate that is not there any more is passed over too; no route at all is said to be that.
    up.cli.ok(&["route", "remove", "*"]).await;
    let mut lost = Player::join(Kind::Npm, up.listen.port(), "Carl", json!({ "virtualHost": "elsewhere.example.org" }));
    let (reason, phase) = lost.kicked().await;
    assert_eq!(phase, "login");
    assert!(!reason.is_empty());
    player.assert_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn admins_see_message_and_kick_players() {
    let (mut one, argument) = backend("one").await;
    let up = Up::start(&["--backend", &argument]).await;
    let mut player = Player::join(Kind::Quarry, up.listen.port(), "Alice", json!({}));
    player.in_world().await;
    one.joined("Alice").await;
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    let shown = up.cli.ok(&["player", "show", "alice"]).await;
    assert!(shown.stdout.contains("10920508-d5d8-3eed-93d2-92f193afe7d7"), "{shown:?}");
    up.cli.ok(&["player", "message", "ALICE", "maintenance at noon"]).await;
    player.chat("maintenance at noon").await;
    up.cli.ok(&["player", "kick", "Alice", "see you"]).await;
    assert_eq!(player.kicked().await, ("see you".to_owned(), "play".to_owned()));
    up.cli.until(&["player", "list"], <[Value]>::is_empty).await;
    up.cli.run(&["player", "kick", "Alice"]).await.ended(1);

    // A drained node takes nobody new.
    let nodes = up.cli.rows(&["node", "list"]).await;
    let node = nodes[0]["name"].as_str().expect("a name").to_owned();
    up.cli.ok(&["node", "drain", &node]).await;
    let mut late = Player::join(Kind::Npm, up.listen.port(), "Bob", json!({}));
    late.expect("no login", |seen| matches!(seen, Seen::Kick { .. } | Seen::End { .. }).then_some(())).await;
    up.cli.ok(&["node", "undrain", &node]).await;
    let mut later = Player::join(Kind::Npm, up.listen.port(), "Carl", json!({}));
    later.in_world().await;
}

/// A backend that takes connections and says nothing costs its player some of the login's time, not the login.
#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_stalls_ends_within_the_logins_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (_good, good) = backend("good").await;
    let silent_argument = format!("silent={}", silent.local_addr().expect("bound"));
    let up = Up::start(&["--backend", &silent_argument, "--backend", &good]).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    let _held = Wire::accept(&silent).await.expect("it is tried");
    // The next backend, or the reason, before the client gives up at 20 s.
    player
        .expect_within(std::time::Duration::from_secs(19), "a world or a reason", |seen| match seen {
            Seen::Join { .. } => Some(()),
            Seen::Kick { text, .. } => {
                assert!(text.contains("silent"), "the reason names the backend: {text}");
                Some(())
            }
            _ => None,
        })
        .await;
}
