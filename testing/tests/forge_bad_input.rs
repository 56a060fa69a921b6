//! Forge's messages truncated, oversized, out of order, repeated and in the wrong direction: candidates that say such are left, and what a player's
//! own server or client says passes untouched. A bystander plays on, and the node's memory stays where it was.

use moonbridge_protocol::frame;
use moonbridge_testing::model::client::Install;
use moonbridge_testing::model::drive::{Host, Player};
use moonbridge_testing::model::messages::{HANDSHAKE, Ids, Mod, mod_list, mods, put_plugin, register, server_hello};
use moonbridge_testing::model::server::{Served, Setup};
use moonbridge_testing::model::stage::Stage;
use moonbridge_testing::wire::{Wire, string};
use tokio::net::TcpListener;

fn pack() -> Vec<Mod> {
    mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("TConstruct", "1.7.10-1.8.8")])
}

/// What a server must not say, each after as many messages of a handshake as it should.
fn bad() -> Vec<(usize, Vec<u8>)> {
    let (hello, list, ids) = (server_hello(Some(0)), mod_list(&pack()), Ids::of(200, 256).message());
    let mut bad = vec![
        // Out of order, and in the wrong direction.
        (0, list.clone()),
        (0, ids.clone()),
        (0, vec![0xff, 2]),
        (0, vec![0xfe, 0]),
        (0, vec![1, 2]),
        (1, hello.clone()),
        (1, ids.clone()),
        (1, vec![0xff, 2]),
        (1, vec![0xfe, 0]),
        (1, vec![1, 2]),
        (2, hello.clone()),
        (2, list.clone()),
        (2, vec![0xff, 2]),
        (2, vec![0xfe, 0]),
        // Nothing, and what nobody knows.
        (0, vec![]),
        (0, vec![0x55, 1, 2, 3]),
        (1, vec![]),
        (1, vec![0x80]),
        (2, vec![4; 100_000]),
        // More promised than is there.
        (1, vec![2, 0xff, 0x7f]),
        (1, [&[2, 1, 0xff, 0x7f][..], &[b'a'; 10]].concat()),
        (1, vec![2, 0xff, 0xff, 0xff]),
        (2, vec![3, 0xff, 0xff, 0x7f]),
        (2, [&[3, 1, 0xff, 0x7f][..], &[b'a'; 10]].concat()),
        (2, vec![3, 1, 2, 0xff, 0xff]),
    ];
    // Truncated, at some places.
    bad.extend([1, 2, 3, 5].map(|length| (0, hello[..length].to_vec())));
    bad.extend([1, 2, 3, list.len() / 2, list.len() - 1].map(|length| (1, list[..length].to_vec())));
    bad.extend([1, 2, 3, ids.len() / 2].map(|length| (2, ids[..length].to_vec())));
    bad
}

fn plugin(channel: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_plugin(&mut bytes, 0x3f, channel, data);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_that_say_what_no_server_says() {
    let one = Host::start(Setup::forge("one", 0, pack(), &Ids::of(200, 256))).await;
    let bad_server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let stage = Stage::start(&[&one], "[timeouts]\ntransfer = \"3s\"\n").await;
    stage.cli().ok(&["backend", "set", "bad", "--address", &bad_server.local_addr().expect("bound").to_string()]).await;
    let player = stage.join(Install::forge("Alice", pack()), &one).await;
    let before = stage.node.process.resident();
    let good = [server_hello(Some(0)), mod_list(&pack())];
    for (after, message) in bad() {
        let mut admin = stage.admin();
        let asked = tokio::spawn(async move { admin.transfer("Alice", "bad").await });
        let mut server = Wire::accept(&bad_server).await.expect("it is dialled");
        let (_, name) = server.login().await.expect("a login");
        server.login_success(&name).await.expect("it reads");
        server.write(&plugin("REGISTER", &register(&[]))).await.expect("it reads");
        // Whoever has been left cannot be written to.
        for said in good[..after].iter().chain([&message]) {
            let _ = server.write(&plugin(HANDSHAKE, said)).await;
        }
        // What is cut short in a way that reads as something whole is waited for: then the server says Join Game, in the middle.
        let _ = server.join_game(9, 0).await;
        let moved = asked.await.expect("no panic");
        let shown = &message[..message.len().min(20)];
        assert!(!moved.succeeded && moved.reason.starts_with("forge_"), "{shown:x?} after {after}: {moved:?}");
        stage.plays(&player, &one, "unmoved").await;
    }
    assert_eq!(player.with(|model| model.joins()), 1);
    let grown = stage.node.process.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");
}

/// Between a player and its own server everything passes, byte by byte, however odd, in both directions and at any time.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_and_its_client_say_passes_untouched() {
    let bystanders = Host::start(Setup::vanilla("quiet", 0)).await;
    let odd = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let stage = Stage::start(&[&bystanders], "").await;
    stage.cli().ok(&["backend", "set", "odd", "--address", &odd.local_addr().expect("bound").to_string()]).await;
    stage.cli().ok(&["route", "set", "odd.example.net", "--backends", "odd"]).await;
    let bystander = stage.join(Install::vanilla("Bob"), &bystanders).await;
    for (after, message) in bad() {
        let mut player = Wire::connect(stage.listen()).await.expect("it listens");
        player.handshake(5, "odd.example.net\0FML\0", 2).await.expect("it reads");
        player.send(0, &string("Alice")).await.expect("it reads");
        let mut server = Wire::accept(&odd).await.expect("it is dialled");
        server.login().await.expect("a login");
        server.login_success("Alice").await.expect("it reads");
        player.receive_id(2).await.expect("Login Success");
        for said in [server_hello(Some(0)), mod_list(&pack())][..after].iter().chain([&message]) {
            server.write(&plugin(HANDSHAKE, said)).await.expect("it reads");
            let mut payload = Vec::new();
            put_plugin(&mut payload, 0x17, HANDSHAKE, said);
            player.write(&payload).await.expect("it reads");
            let wanted = |bytes: &[u8]| frame::first(bytes, frame::MAX_FRAME).expect("a frame").expect("whole").payload.to_vec();
            assert_eq!(player.receive().await.expect("the message"), (0x3f, wanted(&plugin(HANDSHAKE, said))));
            assert_eq!(server.receive().await.expect("the message"), (0x17, wanted(&payload)));
        }
        drop((player, server));
        stage.cli().until(&["player", "list"], |rows| rows.len() == 1).await;
        stage.plays(&bystander, &bystanders, "unmoved").await;
    }
}

/// The longest message that there can be, from a player to a server that will not like it: that is between the two.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_two_mebibytes_to_a_vanilla_server() {
    let host = Host::start(Setup::vanilla("plain", 0)).await;
    let other = Host::start(Setup { entity_id: 2, ..Setup::vanilla("other", 0) }).await;
    let stage = Stage::start(&[&host, &other], "").await;
    let bystander = stage.join(Install::vanilla("Bob"), &host).await;
    let player = stage.join(Install::forge("Alice", pack()), &host).await;
    player.plugin("REGISTER", b"mod");
    player.plugin("mod", &vec![7; 2_097_050]);
    // A real server closes at a length that it does not understand, and the player falls back.
    stage.plays(&player, &other, "fell back").await;
    host.until("what it says to that", |_, served| matches!(served, Served::Threw(_)).then_some(())).await;
    host.forget_events();
    stage.plays(&bystander, &host, "unmoved").await;
}

/// More channels than are kept: the first of them are told on.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_channels() {
    let (one, two) = (
        Host::start(Setup::forge("one", 0, pack(), &Ids::of(200, 256))).await,
        Host::start(Setup { entity_id: 2, ..Setup::forge("two", 0, pack(), &Ids::of(200, 700)) }).await,
    );
    let stage = Stage::start(&[&one, &two], "").await;
    let channels = (0..10_000).map(|number| format!("channel{number:05}")).collect();
    let before = stage.node.process.resident();
    let player: Player = stage.join(Install { channels, ..Install::forge("Alice", pack()) }, &one).await;
    for round in 0..10 {
        stage.moves(&player, if round % 2 == 0 { &two } else { &one }).await;
    }
    let grown = stage.node.process.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");
}
