//! Messages that are cut off or whose lengths lie: nothing happens, and nothing breaks.

use super::vectors::{hex, vectors};
use super::*;

/// Off and on again: what is said from here on is counted anew.
async fn begin_anew(node: &Node, player: &mut Peer, backend: &mut Peer) {
    plugin_channel(node, "lobby", false);
    nothing_passed(player, backend).await;
    switch_on(node, player, backend).await;
}

#[tokio::test]
async fn what_is_cut_off_at_any_byte_is_ignored() {
    let (lobby, pvp) = (host("lobby").await, host("pvp").await);
    let node = obeying(&[&lobby, &pvp]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    for vector in vectors("requests.json") {
        let mut whole = hex(&vector["bytes"]);
        // Bytes behind the last field may be cut off.
        match vector["what"].as_str() {
            Some("Connect, and more behind it") => whole.truncate(whole.len() - 4),
            Some("Forward to one, with bytes beyond its length") => whole.truncate(21),
            _ => {}
        }
        begin_anew(&node, &mut player, &mut backend).await;
        for end in 0..whole.len() {
            backend.ask(&whole[..end]).await;
        }
        nothing_passed(&mut player, &mut backend).await;
        assert_eq!(node.network.take(10), [], "{}", vector["what"]);
    }
}

#[tokio::test]
async fn lengths_that_lie_and_bytes_that_are_no_request_are_ignored() {
    let (lobby, pvp) = (host("lobby").await, host("pvp").await);
    let node = obeying(&[&lobby, &pvp]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    for vector in vectors("refused.json") {
        backend.ask(&hex(&vector["bytes"])).await;
    }
    for vector in vectors("requests.json") {
        let whole = hex(&vector["bytes"]);
        // The first length is of the message's name, the second of the field behind it.
        let second = 2 + usize::from(whole[0]) * 256 + usize::from(whole[1]);
        for (at, lie) in [(0, 0), (0, 0x7fff), (0, 0xffff), (second, 0x7fff), (second, 0xffff_u16)] {
            let mut lying = whole.clone();
            if let Some(length) = lying.get_mut(at..at + 2) {
                length.copy_from_slice(&lie.to_be_bytes());
                backend.ask(&lying).await;
            }
        }
    }
    nothing_passed(&mut player, &mut backend).await;
    assert_eq!(node.network.take(10), []);

    // The same of the plugin message itself: then it is none of the channel's, and the player's.
    let mut frame = Vec::new();
    packets::put_plugin_message_clientbound(&mut frame, v5(), "BungeeCord", &texts(&["GetServer"]));
    let payload = &frame[2..];
    for end in 0..payload.len() {
        backend.send_frame(0x3f, &payload[..end]).await;
        let (kind, passed) = player.clientbound().await;
        assert_eq!((kind, passed.payload.as_slice()), (Clientbound::PluginMessage, &payload[..end]));
    }
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn the_longest_messages_come_through() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    let text = "x".repeat(MAX_SERVERBOUND_DATA - 2 - "Message".len() - 2 - "Bob".len() - 2);
    backend.ask(&texts(&["Message", "Bob", &text])).await;
    assert!(matches!(asked(&node).await.question, Some(Question::Tell(_))));
    // 32,767 bytes to forward leave no room for what the channel is called: nothing is said rather than a part.
    let forward = |length: u16| [texts(&["Forward", "ALL", "Stats"]), length.to_be_bytes().to_vec(), vec![7; length.into()]].concat();
    backend.ask(&forward(0x7fff)).await;
    let longest = MAX_SERVERBOUND_DATA as u16 - 2 - 5 - 2;
    backend.ask(&forward(longest)).await;
    let Some(Question::Forward(forwarded)) = asked(&node).await.question else { panic!("not forwarded") };
    assert_eq!(forwarded.data.len(), MAX_SERVERBOUND_DATA);
    nothing_passed(&mut player, &mut backend).await;
}
