//! The plugin channel `BungeeCord`: what a backend's plugin asks for and gets.

mod answers;
mod garbage;
mod vectors;

use std::sync::Arc;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_proto::v1::{self, ask::Question, ask_forward::Where, ask_transfer::Who, player_text};
use moonbridge_protocol::bungeecord::java::put_text;
use moonbridge_protocol::name::offline_uuid;
use moonbridge_protocol::play::{self as packets, MAX_SERVERBOUND_DATA, PluginMessage};
use moonbridge_protocol::version::{Clientbound, Serverbound};
use moonbridge_protocol::wire::put_varint;

use super::stage::*;
use crate::node::Node;

/// What Java's `writeUTF` writes of each.
fn texts(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    texts.iter().for_each(|text| assert!(put_text(&mut out, text), "{text}"));
    out
}

/// A node, attached for its sessions, whose backends' plugins are obeyed.
fn obeying(hosts: &[&Host]) -> Arc<Node> {
    let node = node(hosts, OnKick::Fallback, |_| {});
    node.network.set_attached(true);
    hosts.iter().for_each(|host| plugin_channel(&node, &host.name, true));
    node
}

/// Logs a player in and into a world; the backend has been told of the channel.
async fn enter(node: &Arc<Node>, host: &Host) -> (Peer, Peer) {
    let (player, mut backend) = play(node, host, "Steve").await;
    backend.is_told_of_the_channel().await;
    (player, backend)
}

impl Peer {
    async fn ask(&mut self, data: &[u8]) {
        self.send(|out| assert!(packets::put_plugin_message_clientbound(out, v5(), "BungeeCord", data))).await;
    }

    async fn on_channel(&mut self, channel: &str) -> Vec<u8> {
        let (kind, frame) = self.serverbound().await;
        assert_eq!(kind, Serverbound::PluginMessage, "{frame:?}");
        let message = PluginMessage::read_serverbound(&frame.payload).expect("a plugin message");
        assert_eq!(message.channel, channel);
        message.data.to_vec()
    }

    /// What the plugins hear next.
    async fn plugins_hear(&mut self) -> Vec<u8> {
        self.on_channel("BungeeCord").await
    }

    async fn is_told_of_the_channel(&mut self) {
        assert_eq!(self.on_channel("REGISTER").await, b"BungeeCord");
    }
}

/// All that was sent before has been seen, and nothing of it came through on either side.
async fn nothing_passed(player: &mut Peer, backend: &mut Peer) {
    backend.show("mark").await;
    player.hears("mark").await;
    player.say("mark").await;
    backend.is_told("mark").await;
}

/// The lobby's channel is switched on while somebody plays there.
async fn switch_on(node: &Node, player: &mut Peer, backend: &mut Peer) {
    plugin_channel(node, "lobby", true);
    // The session sees it at the next occasion.
    player.say("look").await;
    let (first, second) = (backend.serverbound().await.0, backend.serverbound().await.0);
    assert!([(Serverbound::Chat, Serverbound::PluginMessage), (Serverbound::PluginMessage, Serverbound::Chat)].contains(&(first, second)));
}

/// A session elsewhere, on this backend.
fn bob(backend: &str) -> v1::AskAnswer {
    let session = v1::Session {
        player: "Bob".into(),
        player_uuid: offline_uuid("Bob").to_string(),
        backend: backend.into(),
        address: "192.0.2.7:54321".into(),
        ..Default::default()
    };
    v1::AskAnswer { session: Some(session), ..Default::default() }
}

fn offline() -> v1::AskAnswer {
    v1::AskAnswer { problem: "player_offline".into(), ..Default::default() }
}

fn on(backend: &str, names: &[&str]) -> v1::BackendPlayers {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    v1::BackendPlayers { backend: backend.into(), players: names.len() as u32, names }
}

#[tokio::test]
async fn a_backend_is_told_of_the_channel_when_it_has_given_the_player_a_world() {
    let (lobby, arena, silent) = (host("lobby").await, host("arena").await, host("silent").await);
    let node = obeying(&[&lobby, &arena, &silent]);
    plugin_channel(&node, "silent", false);
    let (mut player, mut backend) = log_in(&node, &lobby, "Steve").await;
    // Before that, it may be in the midst of Forge's handshake.
    backend.ask(&texts(&["GetServer"])).await;
    player.say("first").await;
    backend.is_told("first").await;
    backend.send(|out| join(1).put(out, v5())).await;
    assert_eq!(player.clientbound().await.0, Clientbound::JoinGame);
    backend.is_told_of_the_channel().await;
    assert_eq!(backend.plugins_hear().await, texts(&["GetServer", "lobby"]));

    player.send(|out| assert!(packets::put_plugin_message_serverbound(out, v5(), "REGISTER", b"mod:a"))).await;
    assert_eq!(backend.on_channel("REGISTER").await, b"mod:a");
    let mut backend = move_to(&node, &arena, &mut player, 2).await;
    assert_eq!(backend.on_channel("REGISTER").await, b"mod:a");
    backend.is_told_of_the_channel().await;
    let mut backend = move_to(&node, &silent, &mut player, 3).await;
    assert_eq!(backend.on_channel("REGISTER").await, b"mod:a");
    player.say("and no more").await;
    backend.is_told("and no more").await;
}

#[tokio::test]
async fn an_answer_for_a_backend_that_the_player_has_left_is_left_out() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = obeying(&[&lobby, &arena]);
    let (mut player, mut old) = enter(&node, &lobby).await;
    old.ask(&texts(&["GetPlayerServer", "Bob"])).await;
    let ask = asked(&node).await;
    let mut new = move_to(&node, &arena, &mut player, 2).await;
    new.is_told_of_the_channel().await;
    node.network.answered(v1::AskAnswer { id: ask.id, ..bob("pvp") });
    new.ask(&texts(&["GetServer"])).await;
    assert_eq!(new.plugins_hear().await, texts(&["GetServer", "arena"]), "and nothing before it");
    old.ends().await;
}

#[tokio::test]
async fn plugins_are_trusted_to_move_the_player_anywhere() {
    let (lobby, vip) = (host("lobby").await, host("vip").await);
    let node = obeying(&[&lobby, &vip]);
    restrict(&node, "vip");
    let (mut player, mut old) = enter(&node, &lobby).await;
    // As in BungeeCord, nothing comes of a name that there is not, and the player hears of what fails.
    old.ask(&texts(&["Connect", "nowhere"])).await;
    old.ask(&texts(&["Connect", "LOBBY"])).await;
    assert_eq!(player.clientbound().await.0, Clientbound::Chat);
    old.ask(&texts(&["Connect", "VIP"])).await;
    let mut new = vip.accept().await;
    new.send(|out| join(2).put(out, v5())).await;
    player.joins(2, -1).await;
    player.respawns(0).await;
    new.is_told_of_the_channel().await;
    old.ends().await;
}

/// As plugins do in `PlayerJoinEvent`.
#[tokio::test]
async fn a_player_that_has_only_just_come_is_moved_on() {
    let (lobby, arena, vip) = (host("lobby").await, host("arena").await, host("vip").await);
    let node = obeying(&[&lobby, &arena, &vip]);
    let (mut player, old) = enter(&node, &lobby).await;
    let moved = transfer(&node, "arena");
    let mut passed = arena.accept().await;
    passed
        .send(|out| {
            join(2).put(out, v5());
            for request in [["Connect", "nowhere"], ["Connect", "vip"]] {
                assert!(packets::put_plugin_message_clientbound(out, v5(), "BungeeCord", &texts(&request)));
            }
        })
        .await;
    player.joins(2, -1).await;
    player.respawns(0).await;
    assert!(outcome(moved).await.succeeded);
    let mut new = vip.accept().await;
    new.send(|out| join(3).put(out, v5())).await;
    player.joins(3, -1).await;
    player.respawns(0).await;
    new.is_told_of_the_channel().await;
    drop((old, passed));
}

#[tokio::test]
async fn a_reason_that_is_too_long_is_cut_and_kicks_all_the_same() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    let (_player, mut backend) = enter(&node, &lobby).await;
    // The last character would end beyond the 4,096 bytes.
    let (long, cut) = (format!("x{}", "é".repeat(3_000)), format!("x{}", "é".repeat(2_047)));
    let json = |text: &str| format!(r#"{{"text":"{text}","color":"red"}}"#);
    let legacy = |text: &str| player_text::Text::Legacy(text.to_owned());
    for (request, given, kicks_with) in [
        ("KickPlayer", long.clone(), legacy(&cut)),
        ("KickPlayerRaw", json(&long), legacy(&cut)),
        ("KickPlayerRaw", json("short"), player_text::Text::Json(json("short"))),
        ("KickPlayerRaw", "{".repeat(5_000), legacy("")),
    ] {
        backend.ask(&texts(&[request, "Bob", &given])).await;
        let text = Some(v1::PlayerText { text: Some(kicks_with) });
        assert_eq!(asked(&node).await.question, Some(Question::Kick(v1::AskKick { player: "Bob".into(), text })));
    }
}

#[tokio::test]
async fn only_the_current_backend_s_plugins_are_obeyed() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = obeying(&[&lobby, &arena]);
    let (mut player, mut old) = enter(&node, &lobby).await;
    let moved = transfer(&node, "arena");
    let mut new = arena.accept().await;
    // It has not got the player yet: what it says now is neither done nor shown.
    new.ask(&texts(&["GetServer"])).await;
    new.ask(&texts(&["KickPlayer", "Bob", "out"])).await;
    new.send(|out| join(2).put(out, v5())).await;
    player.joins(2, -1).await;
    player.respawns(0).await;
    assert!(outcome(moved).await.succeeded);
    new.is_told_of_the_channel().await;
    // Nor is what the one that was left still says.
    old.ask(&texts(&["KickPlayer", "Alex", "out"])).await;
    old.show("last words").await;
    player.hears("last words").await;
    nothing_passed(&mut player, &mut new).await;
    assert_eq!(node.network.take(10), []);
}

#[tokio::test]
async fn the_same_messages_from_a_player_reach_nobody() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    for request in [&["GetServer"][..], &["Connect", "lobby"], &["KickPlayer", "Bob", "out"], &["no such message"], &[]] {
        player.send(|out| assert!(packets::put_plugin_message_serverbound(out, v5(), "BungeeCord", &texts(request)))).await;
    }
    player.send(|out| assert!(packets::put_plugin_message_serverbound(out, v5(), "other", b"passes"))).await;
    assert_eq!(backend.on_channel("other").await, b"passes");
    nothing_passed(&mut player, &mut backend).await;
    assert_eq!(node.network.take(10), []);
}

#[tokio::test]
async fn a_player_that_gives_the_channel_up_takes_it_from_nobody() {
    let (lobby, silent) = (host("lobby").await, host("silent").await);
    let node = obeying(&[&lobby, &silent]);
    plugin_channel(&node, "silent", false);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    for given_up in [&b"BungeeCord"[..], b"one\0BungeeCord\0two"] {
        player.send(|out| assert!(packets::put_plugin_message_serverbound(out, v5(), "UNREGISTER", given_up))).await;
        assert_eq!(backend.on_channel("UNREGISTER").await, given_up);
        backend.is_told_of_the_channel().await;
    }
    let another = |out: &mut Vec<u8>| assert!(packets::put_plugin_message_serverbound(out, v5(), "UNREGISTER", b"BungeeCord2"));
    player.send(another).await;
    assert_eq!(backend.on_channel("UNREGISTER").await, b"BungeeCord2");
    nothing_passed(&mut player, &mut backend).await;
    let mut quiet = move_to(&node, &silent, &mut player, 2).await;
    player.send(|out| assert!(packets::put_plugin_message_serverbound(out, v5(), "UNREGISTER", b"BungeeCord"))).await;
    assert_eq!(quiet.on_channel("UNREGISTER").await, b"BungeeCord");
    nothing_passed(&mut player, &mut quiet).await;
}

#[tokio::test]
async fn switched_off_it_is_a_channel_like_any_other() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    let passes = async |player: &mut Peer, backend: &mut Peer| {
        let request = texts(&["GetServer"]);
        backend.ask(&request).await;
        let (kind, frame) = player.clientbound().await;
        assert_eq!(kind, Clientbound::PluginMessage);
        assert_eq!(PluginMessage::read_clientbound(&frame.payload).expect("a message").data, request);
        player.send(|out| assert!(packets::put_plugin_message_serverbound(out, v5(), "BungeeCord", &request))).await;
        assert_eq!(backend.plugins_hear().await, request);
    };
    passes(&mut player, &mut backend).await;
    // It may be switched while somebody plays.
    switch_on(&node, &mut player, &mut backend).await;
    backend.ask(&texts(&["GetServer"])).await;
    assert_eq!(backend.plugins_hear().await, texts(&["GetServer", "lobby"]));
    plugin_channel(&node, "lobby", false);
    passes(&mut player, &mut backend).await;
}

#[tokio::test]
async fn what_other_backends_forward_comes_on_the_channel() {
    let (lobby, silent) = (host("lobby").await, host("silent").await);
    let node = obeying(&[&lobby, &silent]);
    plugin_channel(&node, "silent", false);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    let delivery = |to: &str, data: &[u8]| v1::Delivery {
        id: String::new(),
        to: Some(v1::delivery::To::Backend(to.into())),
        what: Some(v1::delivery::What::PluginMessage(data.to_vec())),
    };
    let message = [texts(&["Stats"]), vec![0, 2, 0xff, 0x00]].concat();
    assert_eq!(node.registry.deliver(delivery("lobby", &message)), 1);
    assert_eq!(backend.plugins_hear().await, message);
    // Inside a frame that is on its way to the backend it waits for that one's end.
    player
        .send(|out| {
            put_varint(out, 200_000);
            out.extend_from_slice(&[0x26; 100_000]);
        })
        .await;
    while backend.0.inbox().len() < 100_000 {
        assert_ne!(backend.0.fill(usize::MAX).await.expect("readable"), 0);
    }
    assert_eq!(node.registry.deliver(delivery("lobby", b"waits")), 1);
    backend.ask(&texts(&["GetServer"])).await;
    backend.show("mark").await;
    player.hears("mark").await;
    player.send(|out| out.extend_from_slice(&[0x26; 100_000])).await;
    assert_eq!(backend.frame().await.id, 0x26, "the long frame, whole");
    assert_eq!(backend.plugins_hear().await, b"waits");
    assert_eq!(backend.plugins_hear().await, texts(&["GetServer", "lobby"]));
    // A backend that does not want any gets none.
    let mut quiet = move_to(&node, &silent, &mut player, 2).await;
    assert_eq!(node.registry.deliver(delivery("silent", &message)), 1);
    nothing_passed(&mut player, &mut quiet).await;
}

#[tokio::test]
async fn requests_wait_for_the_answers_of_others_and_only_so_many_are_taken_at_once() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    for _ in 0..40 {
        backend.ask(&texts(&["GetPlayerServer", "Bob"])).await;
    }
    backend.show("mark").await;
    player.hears("mark").await;
    let first = node.network.take(100);
    assert_eq!(first.len(), 32);
    first.iter().for_each(|ask| node.network.answered(v1::AskAnswer { id: ask.id, ..bob("pvp") }));
    for _ in 32..40 {
        answer(&node, bob("pvp")).await;
    }
    for _ in 0..40 {
        assert_eq!(backend.plugins_hear().await, texts(&["GetPlayerServer", "Bob", "pvp"]));
    }

    // A thousand in one moment are more than 400 and what the time allows.
    let request = texts(&["GetServer"]);
    backend
        .send(|out| {
            for _ in 0..1_000 {
                packets::put_plugin_message_clientbound(out, v5(), "BungeeCord", &request);
            }
        })
        .await;
    backend.show("mark").await;
    player.hears("mark").await;
    player.say("mark").await;
    let mut answers = 0;
    loop {
        let (kind, _) = backend.serverbound().await;
        match kind {
            Serverbound::PluginMessage => answers += 1,
            Serverbound::Chat => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((300..1_000).contains(&answers), "{answers}");
}
