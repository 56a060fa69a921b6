//! What plugins are answered, and in which order.

use std::net::SocketAddr;
use std::time::Duration;

use moonbridge_protocol::bungeecord::java::read_text;
use moonbridge_protocol::wire::Reader;
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn what_the_node_knows_it_answers_itself() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = obeying(&[&lobby, &arena]);
    node.network.set_attached(false);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    let address: SocketAddr = node.registry.subscribe().0[0].address.parse().expect("an address");
    let port = |port: u16| u32::from(port).to_be_bytes();
    let expected = [
        (texts(&["IP"]), [texts(&["IP", "127.0.0.1"]), port(address.port()).to_vec()].concat()),
        (texts(&["UUID"]), texts(&["UUID", &offline_uuid("Steve").simple().to_string()])),
        (texts(&["GetServer"]), texts(&["GetServer", "lobby"])),
        (texts(&["GetServers"]), texts(&["GetServers", "arena, lobby"])),
        (
            texts(&["ServerIP", "Arena"]),
            [texts(&["ServerIP", "arena", "127.0.0.1"]), arena.address().port().to_be_bytes().to_vec()].concat(),
        ),
    ];
    for (request, answer) in expected {
        backend.ask(&request).await;
        assert_eq!(backend.plugins_hear().await, answer, "{}", String::from_utf8_lossy(&request));
    }
    backend.ask(&texts(&["ServerIP", "nowhere"])).await;
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn a_backend_s_address_is_looked_up() {
    let lobby = host("lobby").await;
    let address = format!("localhost:{}", lobby.address().port());
    let node = node_with(vec![("lobby".into(), lobby.address().to_string()), ("named".into(), address)], OnKick::Fallback, |_| {});
    plugin_channel(&node, "lobby", true);
    let (_player, mut backend) = enter(&node, &lobby).await;
    backend.ask(&texts(&["ServerIP", "named"])).await;
    let heard = backend.plugins_hear().await;
    let mut reader = Reader::new(&heard);
    let said: Vec<String> = (0..3).map(|_| read_text(&mut reader).expect("a text").into_owned()).collect();
    assert_eq!(said[..2], ["ServerIP", "named"]);
    assert!(["127.0.0.1", "0:0:0:0:0:0:0:1"].contains(&said[2].as_str()), "{said:?}");
    assert_eq!(reader.u16(), Ok(lobby.address().port()));
}

#[tokio::test]
async fn what_is_network_wide_the_network_is_asked_for() {
    let (lobby, pvp) = (host("lobby").await, host("pvp").await);
    let node = obeying(&[&lobby, &pvp]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    let count = |count: u32| count.to_be_bytes().to_vec();
    let backends = || v1::AskAnswer { backends: vec![on("lobby", &["Steve"]), on("pvp", &["Alex", "Bob"])], ..Default::default() };
    let uuid = offline_uuid("Bob").simple().to_string();
    let expected = [
        (&["PlayerCount", "ALL"][..], backends(), [texts(&["PlayerCount", "ALL"]), count(3)].concat()),
        (&["PlayerCount", "PvP"], backends(), [texts(&["PlayerCount", "pvp"]), count(2)].concat()),
        (&["PlayerCount", "pvp"], v1::AskAnswer::default(), [texts(&["PlayerCount", "pvp"]), count(0)].concat()),
        (&["PlayerList", "ALL"], backends(), texts(&["PlayerList", "ALL", "Steve, Alex, Bob"])),
        (&["PlayerList", "pvp"], backends(), texts(&["PlayerList", "pvp", "Alex, Bob"])),
        (&["PlayerList", "pvp"], v1::AskAnswer::default(), texts(&["PlayerList", "pvp", ""])),
        (&["GetPlayerServer", "BOB"], bob("pvp"), texts(&["GetPlayerServer", "BOB", "pvp"])),
        (&["GetPlayerServer", "Bob"], bob(""), texts(&["GetPlayerServer", "Bob", ""])),
        (&["GetPlayerServer", "Bob"], offline(), texts(&["GetPlayerServer", "Bob", ""])),
        (&["IPOther", "bob"], bob("pvp"), [texts(&["IPOther", "Bob", "192.0.2.7"]), count(54321)].concat()),
        (&["UUIDOther", "bob"], bob("pvp"), texts(&["UUIDOther", "Bob", &uuid])),
    ];
    for (request, answered, heard) in expected {
        backend.ask(&texts(request)).await;
        let ask = answer(&node, answered).await;
        assert_eq!(ask.origin, "backend lobby");
        assert_eq!(backend.plugins_hear().await, heard, "{request:?}");
    }
    // Nobody can be called so: that needs no question.
    backend.ask(&texts(&["GetPlayerServer", "no one"])).await;
    assert_eq!(backend.plugins_hear().await, texts(&["GetPlayerServer", "no one", ""]));

    for (request, answered) in [(["IPOther", "Bob"], offline()), (["UUIDOther", "Bob"], offline())] {
        backend.ask(&texts(&request)).await;
        answer(&node, answered).await;
    }
    for request in [["PlayerCount", "nowhere"], ["PlayerList", "nowhere"], ["UUIDOther", ""], ["IPOther", "no one"]] {
        backend.ask(&texts(&request)).await;
    }
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn without_the_control_plane_nothing_network_wide_is_said() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    node.network.set_attached(false);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    for request in [["PlayerCount", "ALL"], ["PlayerList", "lobby"], ["GetPlayerServer", "Bob"], ["IPOther", "Bob"], ["UUIDOther", "Bob"]] {
        backend.ask(&texts(&request)).await;
    }
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_questions() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    let (_player, mut backend) = enter(&node, &lobby).await;
    for request in [&["GetPlayerServer", "Bob"][..], &["GetServer"], &["GetPlayerServer", "Alex"], &["UUIDOther", "Alex"], &["GetServers"]]
    {
        backend.ask(&texts(request)).await;
    }
    let (bobs, alexs, uuids) = (asked(&node).await, asked(&node).await, asked(&node).await);
    for (ask, given) in [(alexs, bob("two")), (uuids, offline()), (bobs, bob("one"))] {
        node.network.answered(v1::AskAnswer { id: ask.id, ..given });
    }
    for heard in [&["GetPlayerServer", "Bob", "one"][..], &["GetServer", "lobby"], &["GetPlayerServer", "Alex", "two"]] {
        assert_eq!(backend.plugins_hear().await, texts(heard));
    }
    assert_eq!(backend.plugins_hear().await, texts(&["GetServers", "lobby"]));
}

#[tokio::test]
async fn ten_thousand_names_are_cut_to_what_a_message_takes() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    let (_player, mut backend) = enter(&node, &lobby).await;
    let names: Vec<String> = (0..10_000).map(|number| format!("Player{number:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    backend.ask(&texts(&["PlayerList", "ALL"])).await;
    answer(&node, v1::AskAnswer { backends: vec![on("lobby", &names)], ..Default::default() }).await;
    let heard = backend.plugins_hear().await;
    assert!(heard.len() <= MAX_SERVERBOUND_DATA && heard.len() > MAX_SERVERBOUND_DATA - 20, "{}", heard.len());
    let mut reader = Reader::new(&heard);
    assert_eq!((&*read_text(&mut reader).expect("text"), &*read_text(&mut reader).expect("text")), ("PlayerList", "ALL"));
    let listed = read_text(&mut reader).expect("a whole text");
    let listed: Vec<&str> = listed.split(", ").collect();
    assert_eq!(listed, names[..listed.len()]);

    // Many such answers go as fast as they are read.
    let began = Instant::now();
    for _ in 0..30 {
        backend.ask(&texts(&["PlayerList", "ALL"])).await;
    }
    let mut asks = Vec::new();
    for _ in 0..30 {
        asks.push(asked(&node).await);
    }
    for ask in asks {
        node.network.answered(v1::AskAnswer { id: ask.id, backends: vec![on("lobby", &names)], ..Default::default() });
    }
    for _ in 0..30 {
        assert_eq!(backend.plugins_hear().await, heard);
    }
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}
