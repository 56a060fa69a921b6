//! What sessions elsewhere have for this node's.

use std::sync::Arc;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_proto::v1::{self, delivery, player_text};
use moonbridge_protocol::frame;
use moonbridge_protocol::play::{self as packets, PluginMessage};
use moonbridge_protocol::version::{Clientbound, Serverbound};

use super::stage::*;
use crate::registry::{Delivered, SessionCommand};

fn text(to: delivery::To, text: player_text::Text) -> v1::Delivery {
    let what = delivery::What::Text(v1::PlayerText { text: Some(text) });
    v1::Delivery { to: Some(to), what: Some(what), ..v1::Delivery::default() }
}

fn everybody(line: &str) -> v1::Delivery {
    text(delivery::To::Everybody(true), player_text::Text::Legacy(line.to_owned()))
}

#[tokio::test]
async fn texts_are_shown_in_chat_in_order_with_all_that_is_in_them() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut player, _backend) = play(&node, &lobby, "Steve").await;
    let (sessions, _) = node.registry.subscribe();
    for number in 0..100 {
        assert_eq!(node.registry.deliver(everybody(&format!("§a{number}"))), 1);
    }
    let json = r#"{"text":"there","clickEvent":{"action":"run_command","value":"/hub"}}"#;
    let to = delivery::To::SessionId(sessions[0].id.clone());
    assert_eq!(node.registry.deliver(text(to, player_text::Text::Json(json.to_owned()))), 1);
    for number in 0..100 {
        player.hears(&number.to_string()).await;
    }
    let (kind, frame) = player.clientbound().await;
    let shown = packets::read_chat(&frame.payload).expect("chat");
    assert!(kind == Clientbound::Chat && shown.plain() == "there" && shown.to_json().contains("run_command"), "{shown:?}");
}

#[tokio::test]
async fn a_text_waits_for_the_end_of_a_long_frame() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    let mut long = Vec::new();
    frame::put(&mut long, 0x21, |out| out.extend_from_slice(&vec![7; 100_000]));
    let (head, tail) = long.split_at(80_000);
    backend.send(|out| out.extend_from_slice(head)).await;
    player.0.fill(70_000).await.expect("read");
    assert_eq!(node.registry.deliver(everybody("hello")), 1);
    player.say("on").await;
    backend.is_told("on").await;
    backend.send(|out| out.extend_from_slice(tail)).await;
    assert_eq!(player.frame().await.payload.len(), 100_000);
    player.hears("hello").await;
}

#[tokio::test]
async fn a_message_for_plugins_of_a_backend_that_the_player_has_just_left_goes_through_another_s_session() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut mover, _old) = play(&node, &lobby, "Steve").await;
    let _new = move_to(&node, &arena, &mut mover, 2).await;
    plugin_channel(&node, "lobby", true);
    let (_stayer, mut backend) = play(&node, &lobby, "Alex").await;
    let (sessions, _) = node.registry.subscribe();
    let gone = sessions.iter().find(|session| session.backend == "arena").expect("one has moved").id.parse().expect("a UUID");
    // As if it had been handed over before the player moved.
    let (to, data): (Arc<str>, Arc<[u8]>) = ("lobby".into(), (*b"hello").into());
    let message = SessionCommand::Deliver(Delivered::PluginMessage { backend: Some(to), data });
    assert!(node.registry.command(&gone, message).is_ok());
    loop {
        let (kind, frame) = backend.serverbound().await;
        assert_eq!(kind, Serverbound::PluginMessage);
        let message = PluginMessage::read_serverbound(&frame.payload).expect("a plugin message");
        if message.channel == "BungeeCord" {
            break assert_eq!(message.data, b"hello");
        }
        assert_eq!(message.channel, "REGISTER");
    }
}
