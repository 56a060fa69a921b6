//! Online mode from outside: real clients prove who they are, backends are told, and everything goes over an encrypted connection.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use moonbridge_protocol::frame;
use moonbridge_testing::network::{Plane, Up, folder};
use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use moonbridge_testing::session_server::SessionServer;
use moonbridge_testing::wire::{self, Wire};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

async fn backend(kind: Kind, name: &str) -> (Backend, String) {
    let (backend, port) = Backend::serve(kind, name, json!({ "keepAliveMs": 500 })).await;
    (backend, format!("{name}=127.0.0.1:{port}"))
}

async fn online(sessions: &SessionServer, backends: &[&str]) -> Up {
    let url = sessions.url();
    let mut arguments = vec!["--online", "--session-server", &url, "--forwarding", "legacy"];
    arguments.extend(backends.iter().flat_map(|backend| ["--backend", backend]));
    Up::start(&arguments).await
}

/// A replica and a node in online mode, with this in the node's configuration besides.
struct Apart {
    replica: Plane,
    node: Plane,
    _data: tempfile::TempDir,
}

async fn apart(sessions: &SessionServer, server: &str, backends: &[(&str, u16)]) -> Apart {
    let data = folder();
    let replica = Plane::replica("only", &format!("[store.embedded]\ndata_dir = \"{}\"\n", data.path().join("store").display())).await;
    for (name, port) in backends {
        replica.cli().ok(&["backend", "set", name, "--address", &format!("127.0.0.1:{port}")]).await;
    }
    let names: Vec<&str> = backends.iter().map(|(name, _)| *name).collect();
    replica.cli().ok(&["route", "set", "*", "--backends", &names.join(",")]).await;
    let node = node("edge", &replica, sessions, server).await;
    Apart { replica, node, _data: data }
}

async fn node(name: &str, replica: &Plane, sessions: &SessionServer, server: &str) -> Plane {
    let (control, url) = (replica.url(), sessions.url());
    let config = format!("control = [\"{control}\"]\nauthentication = \"online\"\n[session_server]\nurl = \"{url}\"\n{server}");
    Plane::node(name, &config).await
}

async fn logs_in(player: Kind, backends: Kind) {
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let (mut one, argument) = backend(backends, "one").await;
    let up = online(&sessions, &[&argument]).await;
    // Spelled as the account is, not as the player has it.
    let mut alice = Player::join(player, up.listen.port(), "aLICE", sessions.online(&account));
    let uuid = if player == Kind::Quarry4 { account.undashed() } else { account.uuid.to_string() };
    let login = alice.expect("Login Success", |seen| matches!(seen, Seen::Login { .. }).then(|| seen.clone())).await;
    assert_eq!(login, Seen::Login { uuid, name: "Alice".to_owned() });
    alice.in_world().await;
    one.joined("Alice").await;
    let told = one.eventually("what is forwarded", |served| matches!(served, Served::Forwarded { .. }).then(|| served.clone())).await;
    let Served::Forwarded { host, address, uuid, properties, token, .. } = told else { unreachable!("it was looked for") };
    assert_eq!((host.as_str(), address.as_str(), uuid, token), ("127.0.0.1", "127.0.0.1", account.undashed(), None));
    assert_eq!(properties, account.properties, "to the byte");
    let row = up.cli.until(&["player", "list"], |rows| rows.len() == 1).await.remove(0).to_string();
    assert!(row.contains("Alice") && row.contains(&account.uuid.to_string()), "{row}");

    alice.say("up").await;
    one.chat("up").await;
    one.say("down").await;
    alice.chat("down").await;
    let long: String = (0..30_000_u32).map(|at| format!("{:02x}", at * 7 % 251)).collect();
    alice.command("plugin", json!({ "channel": "mod:long", "hex": long })).await;
    one.expect("a long message", |served| matches!(served, Served::Plugin { hex, .. } if *hex == long).then_some(())).await;
    one.command("plugin", json!({ "channel": "mod:long", "hex": long })).await;
    alice.expect("a long message", |seen| matches!(seen, Seen::Plugin { hex, .. } if *hex == long).then_some(())).await;
    for _ in 0..3 {
        let known = one.expect("an answer", |served| if let Served::KeepAlive { known, .. } = served { Some(*known) } else { None }).await;
        assert!(known);
    }
    alice.assert_well();
    let asked = sessions.asked("aLICE");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].value("ip"), None, "only where it is configured");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_npm_player_is_who_the_session_server_says() {
    logs_in(Kind::Npm, Kind::Npm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarry_player_is_who_the_session_server_says() {
    logs_in(Kind::Quarry, Kind::Npm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_of_protocol_4_is_who_the_session_server_says() {
    logs_in(Kind::Quarry4, Kind::Quarry4).await;
}

/// Every word for a player reaches it in a form that it can read.
async fn reads(player: Kind) {
    let sessions = SessionServer::start().await;
    let (alice, bob, carl) = (sessions.account("Alice"), sessions.account("Bob"), sessions.account("Carl"));
    let (mut one, argument) = backend(Kind::Npm, "one").await;
    let (mut two, other) = backend(Kind::Npm, "two").await;
    let up = online(&sessions, &[&argument, &other]).await;
    let port = up.listen.port();

    let mut stranger = alice.clone();
    stranger.access_token = "forged".to_owned();
    let mut forged = Player::join(player, port, "Alice", sessions.online(&stranger));
    if player == Kind::Npm {
        // It gives up by itself.
        forged.end().await;
        let mut options = sessions.online(&stranger);
        options["online"]["skipJoin"] = json!(true);
        forged = Player::join(player, port, "Alice", options);
    }
    let (reason, phase) = forged.kicked().await;
    assert!(reason.contains("not authenticated") && phase == "login", "{reason} in {phase}");
    forged.end().await;

    let mut playing = Player::join(player, port, "Alice", sessions.online(&alice));
    playing.in_world().await;
    one.joined("Alice").await;
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    up.cli.ok(&["player", "message", "Alice", "maintenance at noon"]).await;
    playing.chat("maintenance at noon").await;
    one.command("kick", json!({ "reason": "restarting" })).await;
    two.joined("Alice").await;
    playing
        .expect("why", |seen| matches!(seen, Seen::Chat { text, .. } if text.contains("restarting") && text.contains("two")).then_some(()))
        .await;
    playing.say("still here").await;
    two.chat("still here").await;

    let mut kicked = Player::join(player, port, "Bob", sessions.online(&bob));
    kicked.in_world().await;
    up.cli.until(&["player", "list"], |rows| rows.len() == 2).await;
    up.cli.ok(&["player", "kick", "Bob", "see you"]).await;
    assert_eq!(kicked.kicked().await, ("see you".to_owned(), "play".to_owned()));
    kicked.end().await;

    for refusing in [&mut one, &mut two] {
        refusing.set(json!({ "refuse": "members only" })).await;
    }
    let mut refused = Player::join(player, port, "Bob", sessions.online(&bob));
    let (reason, phase) = refused.kicked().await;
    assert!(reason.contains("members only") && phase == "login", "{reason} in {phase}");

    let nodes = up.cli.rows(&["node", "list"]).await;
    up.cli.ok(&["node", "drain", nodes[0]["name"].as_str().expect("a name")]).await;
    let mut late = Player::join(player, port, "Carl", sessions.online(&carl));
    let (reason, phase) = late.kicked().await;
    assert!(reason.contains("restart") || reason.contains("drain") || reason.contains("moment"), "{reason}");
    assert_eq!(phase, "login");

    playing.assert_well();
    assert_eq!(up.stop().await, 0);
    let (reason, phase) = playing.kicked().await;
    assert!(!reason.is_empty() && phase == "play", "{reason} in {phase}");
    playing.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_npm_player_reads_what_it_is_told() {
    reads(Kind::Npm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarry_player_reads_what_it_is_told() {
    reads(Kind::Quarry).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn players_on_two_nodes() {
    let sessions = SessionServer::start().await;
    let (mut one, one_port) = Backend::serve(Kind::Npm, "one", json!({})).await;
    let (mut two, two_port) = Backend::serve(Kind::Npm, "two", json!({ "dimension": -1 })).await;
    let net = apart(&sessions, "", &[("one", one_port), ("two", two_port)]).await;
    let second = node("second", &net.replica, &sessions, "").await;
    let mut players = Vec::new();
    for (kind, node, name) in [(Kind::Npm, &net.node, "Alice"), (Kind::Quarry, &second, "Bob")] {
        let account = sessions.account(name);
        let mut player = Player::join(kind, node.listen.port(), name, sessions.online(&account));
        player.in_world().await;
        one.joined(name).await;
        players.push((player, account));
    }
    net.replica.cli().until(&["player", "list"], |rows| rows.len() == 2).await;
    for (player, account) in &mut players {
        let name = account.name.as_str();
        let ran = net.replica.cli().ok(&["transfer", "start", name, "--to", "two"]).await;
        assert!(ran.said().contains("succeeded"), "{ran:?}");
        two.joined(name).await;
        player.say(&format!("{name} is here")).await;
        two.chat(&format!("{name} is here")).await;
        player.assert_well();
    }
    // The two nodes have keys of their own, and accounts are the same at both.
    let (mut again, account) = players.remove(0);
    again.command("quit", json!({})).await;
    again.end().await;
    net.replica.cli().until(&["player", "list"], |rows| rows.len() == 1).await;
    let mut moved = Player::join(Kind::Npm, second.listen.port(), "Alice", sessions.online(&account));
    let uuid = moved.expect("Login Success", |seen| if let Seen::Login { uuid, .. } = seen { Some(uuid.clone()) } else { None }).await;
    assert_eq!(uuid, account.uuid.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_server_is_told_the_players_address_where_that_is_configured() {
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let (_one, port) = Backend::serve(Kind::Npm, "one", json!({})).await;
    let net = apart(&sessions, "send_client_address = true\n", &[("one", port)]).await;
    let mut here = Player::join(Kind::Npm, net.node.listen.port(), "Alice", sessions.online(&account));
    here.in_world().await;
    assert_eq!(sessions.asked("Alice")[0].value("ip"), Some("127.0.0.1"));
    here.command("quit", json!({})).await;
    here.end().await;

    // Who joins from one address and plays from another is somebody else in between.
    let mut options = sessions.online(&account);
    options["online"]["from"] = json!("127.0.0.2");
    let mut between = Player::join(Kind::Npm, net.node.listen.port(), "Alice", options);
    let (reason, phase) = between.kicked().await;
    assert!(reason.contains("not authenticated") && phase == "login", "{reason} in {phase}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_keeps_its_connections_to_the_session_server() {
    let sessions = SessionServer::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    // Twenty players are there until this test ends.
    let _serving = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut playing = Vec::new();
        while let Ok(mut backend) = Wire::accept_any(&listener).await {
            let (_, name) = backend.login().await?;
            backend.login_success(&name).await?;
            backend.join_game(1, 0).await?;
            playing.push(backend);
        }
        anyhow::Ok(())
    }));
    let net = apart(&sessions, "concurrency = 2\n", &[("one", port)]).await;
    let mut players = Vec::new();
    for index in 0..5 {
        let account = sessions.account(&format!("P{index}"));
        players.push(Wire::join_online(net.node.listen, &sessions, &account).await.expect("a login"));
    }
    assert_eq!(sessions.connections(), 1, "one after the other");
    let many = (5..20).map(|index| {
        let account = sessions.account(&format!("P{index}"));
        let (sessions, address) = (&sessions, net.node.listen);
        async move { Wire::join_online(address, sessions, &account).await.expect("a login") }
    });
    players.extend(futures::future::join_all(many).await);
    // Two are in use at a time; a third may have been begun when one of them was just coming back.
    assert!(sessions.connections() <= 8, "{} connections for twenty questions, two at a time", sessions.connections());
    net.replica.cli().until(&["player", "list"], |rows| rows.len() == 20).await;
}

/// Whatever is encrypted, in whatever pieces, is the same on the other side.
#[tokio::test(flavor = "multi_thread")]
async fn frames_of_every_length_pass_both_ways() {
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let up = online(&sessions, &[&format!("raw={}", listener.local_addr().expect("bound"))]).await;
    let serving = async {
        let mut backend = Wire::accept(&listener).await?;
        let (_, name) = backend.login().await?;
        backend.login_success(&name).await?;
        backend.join_game(1, 0).await?;
        anyhow::Ok(backend)
    };
    let (backend, player) = tokio::join!(serving, Wire::join_online(up.listen, &sessions, &account));
    let mut backend = backend.expect("it is dialled and logged in to");
    let (mut player, join) = player.expect("a login");
    assert_eq!(join, wire::join_game(1, 0), "unmodified");

    let lengths =
        (0..40).chain([127, 128, 1_499, 1_500, 16_383, 16_384, 65_534, 65_535, 65_536, 300_000]).chain((0..200).map(|at| at * 13));
    let frames: Vec<Vec<u8>> =
        lengths.chain([frame::MAX_FRAME - 2]).map(|length| (0..length).map(|at| (at * 31 + length) as u8).collect()).collect();
    for downwards in [true, false] {
        let (from, to) = if downwards { (&mut backend, &mut player) } else { (&mut player, &mut backend) };
        let sending = async {
            for frame in &frames {
                from.send(0x70, frame).await?;
            }
            anyhow::Ok(())
        };
        let receiving = async {
            for (number, frame) in frames.iter().enumerate() {
                let came = to.receive_id(0x70).await;
                let came = came.unwrap_or_else(|error| panic!("frame {number}, downwards {downwards}: {error:#}\n{}", up.process.log()));
                if number % 16 == 0 {
                    // A sign of life: whoever says nothing for half a minute is taken for dead.
                    to.send(0x71, &[]).await.expect("it reads");
                }
                assert!(came == *frame, "frame {number} of {} bytes was changed (downwards: {downwards})", frame.len());
            }
        };
        let (sent, ()) = tokio::join!(sending, receiving);
        sent.expect("it reads");
    }
    assert_eq!(up.stop().await, 0);
    let bytes = match player.ending(Duration::from_secs(10)).await {
        wire::Ending::Closed(bytes) => bytes,
        wire::Ending::Open => panic!("it stays open"),
    };
    assert!(wire::reason(&bytes).is_some(), "a reason, encrypted");
}

/// On IPv6, so that an address of that kind is seen to get through.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_may_have_listeners_of_both_kinds() {
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let (mut one, port) = Backend::serve(Kind::Npm, "one", json!({})).await;
    let more = "send_client_address = true\n[[listeners]]\nlisten = \"[::1]:0\"\nauthentication = \"online\"\n\
                [[listeners]]\nlisten = \"127.0.0.1:0\"\nauthentication = \"offline\"\n";
    let net = apart(&sessions, more, &[("one", port)]).await;
    net.replica.cli().ok(&["backend", "set", "one", "--address", &format!("127.0.0.1:{port}"), "--forwarding", "legacy"]).await;
    let mut cursor = 0;
    let mut next = async || {
        let port = |line: &str| {
            line.contains("listening").then(|| line.split_once("listen=")?.1.split_once(' ')?.0.rsplit_once(':')?.1.parse::<u16>().ok())?
        };
        net.node.process.line_from(&mut cursor, Duration::from_secs(5), "a listener", port).await
    };
    let (_, six, offline) = (next().await, next().await, next().await);

    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, six));
    let (_alice, _) = Wire::join_online(six, &sessions, &account).await.expect("a login");
    one.joined("Alice").await;
    let forwarded =
        |served: &Served| if let Served::Forwarded { address, uuid, .. } = served { Some((address.clone(), uuid.clone())) } else { None };
    assert_eq!(one.eventually("what is forwarded", forwarded).await, ("::1".to_owned(), account.undashed()));
    assert_eq!(sessions.asked("Alice")[0].value("ip"), Some("::1"));

    let mut bob = Player::join(Kind::Npm, offline, "Bob", json!({}));
    bob.in_world().await;
    one.joined("Bob").await;
    assert!(sessions.asked("Bob").is_empty());
}

/// Who left is not counted, who is there is, and the server list needs no proof.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_list_is_for_everybody() {
    let sessions = SessionServer::start().await;
    let account = sessions.account("Alice");
    let (_one, argument) = backend(Kind::Npm, "one").await;
    let up = online(&sessions, &[&argument]).await;
    let mut asking = Player::join(Kind::Npm, up.listen.port(), "Asker", json!({ "status": true }));
    asking.expect("the server list entry", |seen| matches!(seen, Seen::Status { .. }).then_some(())).await;
    let mut alice = Player::join(Kind::Quarry, up.listen.port(), "Alice", sessions.online(&account));
    alice.in_world().await;
    alice.command("kill", json!({})).await;
    up.cli.until(&["player", "list"], <[Value]>::is_empty).await;
    assert_eq!(sessions.asked("Alice").len(), 1);
}
