//! The tab key: what the backend and the node answer, and who gets which.

use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_proto::v1::{self, ask::Question};
use moonbridge_protocol::name::offline_uuid;
use moonbridge_protocol::play::{self as packets, TabComplete};
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{Clientbound, Serverbound};
use moonbridge_protocol::wire::put_varint;
use tokio::time::Instant;

use super::stage::*;
use crate::commands::Table;
use crate::config::Config;
use crate::node::Node;

/// A node that is attached for its sessions, on which everybody may do this besides.
async fn permitted(hosts: &[&Host], granted: &[&str]) -> (Arc<Node>, Peer, Peer) {
    let node = node(hosts, OnKick::Fallback, |_| {});
    node.network.set_attached(true);
    let (player, backend) = play(&node, hosts[0], "Steve").await;
    grant(&node, 1, granted);
    (node, player, backend)
}

fn grant(node: &Node, revision: u64, granted: &[&str]) {
    let nodes = granted.iter().map(|key| v1::PermissionNode { key: (*key).to_owned(), value: true, ..Default::default() });
    let uuid = offline_uuid("Steve").to_string();
    node.registry.set_permissions(v1::UserPermissions {
        player_uuid: uuid.clone(),
        revision: Some(v1::Revision { store_id: "test".into(), number: revision }),
        user: Some(v1::PermissionUser { uuid, nodes: nodes.collect(), ..Default::default() }),
        ..Default::default()
    });
}

impl Peer {
    /// The player presses the tab key.
    async fn tab(&mut self, typed: &str) {
        self.send(|out| packets::put_tab_complete_serverbound(out, v5(), typed)).await;
    }

    /// The next frame is a request for this.
    async fn completes(&mut self, typed: &str) {
        let (kind, frame) = self.serverbound().await;
        assert_eq!(kind, Serverbound::TabComplete, "{frame:?}");
        assert_eq!(packets::read_tab_complete_serverbound(&frame.payload), Ok(typed));
    }

    async fn suggest(&mut self, words: &[&str]) {
        self.send(|out| packets::put_tab_complete(out, v5(), words)).await;
    }

    /// The next frame has these words.
    async fn is_suggested(&mut self, words: &[&str]) {
        let (kind, frame) = self.clientbound().await;
        assert_eq!(kind, Clientbound::TabComplete, "{frame:?}");
        assert_eq!(TabComplete::read(&frame.payload).expect("words").words().collect::<Vec<_>>(), words);
    }
}

/// All that was sent before has been seen, and nothing of it came through on either side.
async fn nothing_passed(player: &mut Peer, backend: &mut Peer) {
    backend.show("mark").await;
    player.hears("mark").await;
    player.say("mark").await;
    backend.is_told("mark").await;
}

#[tokio::test]
async fn a_command_s_name_is_completed_by_the_backend_and_the_node() {
    let lobby = host("lobby").await;
    let (node, mut player, mut backend) = permitted(&[&lobby], &[]).await;
    let words: &[&str] = &["/save-all", "/server", "/seed"];
    // `/send` is not for everybody; `/server` stands there already.
    player.tab("/s").await;
    backend.completes("/s").await;
    backend.suggest(words).await;
    player.is_suggested(words).await;
    grant(&node, 2, &["moonbridge.command.send"]);
    for typed in ["/s", "/SE"] {
        player.tab(typed).await;
        backend.completes(typed).await;
        backend.suggest(&["/seed"]).await;
        player.is_suggested(&["/seed", "/server", "/send"]).await;
    }
    player.tab("/").await;
    backend.completes("/").await;
    backend.suggest(&["/help"]).await;
    player.is_suggested(&["/help", "/server", "/hub", "/send", "/ping"]).await;
}

#[tokio::test]
async fn what_is_not_the_node_s_passes() {
    let lobby = host("lobby").await;
    let (_node, mut player, mut backend) = permitted(&[&lobby], &[]).await;
    let long = format!("/s{}", "x".repeat(20_000));
    for (typed, words) in
        [("hel", &["hello", "help"][..]), ("", &[]), ("/x", &["/xp"]), ("/tp Bo", &["Bob"]), ("server ", &["a"]), (&long, &["b"])]
    {
        player.tab(typed).await;
        backend.completes(typed).await;
        backend.suggest(words).await;
        player.is_suggested(words).await;
    }
    // Nobody asked, or it is no answer at all.
    backend.suggest(&["out of the blue"]).await;
    player.is_suggested(&["out of the blue"]).await;
    player.tab("/s").await;
    backend.completes("/s").await;
    backend.send_frame(0x3a, &[9, 1]).await;
    assert_eq!(player.frame().await.payload, [9, 1]);
    player.send_frame(0x14, &[200]).await;
    assert_eq!(backend.frame().await.payload, [200]);
}

#[tokio::test]
async fn with_commands_off_completions_are_the_backend_s() {
    let lobby = host("lobby").await;
    let off = |config: &mut Config| config.commands.table = Arc::new(Table::EMPTY);
    let node = node(&[&lobby], OnKick::Fallback, off);
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &[]);
    for typed in ["/s", "/server "] {
        player.tab(typed).await;
        backend.completes(typed).await;
        backend.suggest(&["/s"]).await;
        player.is_suggested(&["/s"]).await;
    }
}

#[tokio::test]
async fn a_backend_that_does_not_answer_costs_a_second_and_its_late_answer_passes() {
    let lobby = host("lobby").await;
    let (_node, mut player, mut backend) = permitted(&[&lobby], &[]).await;
    player.tab("/s").await;
    backend.completes("/s").await;
    let asked = Instant::now();
    player.tab("/server ").await;
    player.tab("/p").await;
    player.is_suggested(&["/server"]).await;
    let waited = asked.elapsed();
    assert!(waited > Duration::from_millis(700) && waited < Duration::from_secs(5), "{waited:?}");
    // What waited for the answer goes on in the same moment.
    player.is_suggested(&["lobby"]).await;
    backend.completes("/p").await;
    backend.suggest(&["/seed"]).await;
    player.is_suggested(&["/seed"]).await;
    backend.suggest(&["/pardon"]).await;
    player.is_suggested(&["/pardon"]).await;
    // Nothing is owed any more: answers are the node's, too.
    player.tab("/p").await;
    backend.completes("/p").await;
    backend.suggest(&["/pardon"]).await;
    player.is_suggested(&["/pardon", "/ping"]).await;
}

#[tokio::test]
async fn one_request_is_outstanding_and_the_next_leaves_when_it_may() {
    let lobby = host("lobby").await;
    let (_node, mut player, mut backend) = permitted(&[&lobby], &[]).await;
    for typed in ["/s", "/p", "hel"] {
        player.tab(typed).await;
    }
    player.say("and on").await;
    backend.completes("/s").await;
    backend.is_told("and on").await;
    backend.suggest(&["/seed"]).await;
    player.is_suggested(&["/seed", "/server"]).await;
    backend.completes("/p").await;
    backend.suggest(&["/pardon"]).await;
    player.is_suggested(&["/pardon", "/ping"]).await;
    backend.completes("hel").await;
    backend.suggest(&["hello"]).await;
    player.is_suggested(&["hello"]).await;
}

#[tokio::test]
async fn arguments_of_the_node_s_commands_are_completed_by_the_node() {
    let (lobby, arena, vip) = (host("lobby").await, host("arena").await, host("vip").await);
    let all = ["find", "send", "kick", "glist", "moonbridge", "alert"].map(|name| format!("moonbridge.command.{name}"));
    let (node, mut player, mut backend) = permitted(&[&lobby, &arena, &vip], &[]).await;
    restrict(&node, "vip");
    // Where the player may go, and nothing of what it may not use.
    for (typed, words) in
        [("/server ", &["arena", "lobby"][..]), ("/SERVER A", &["arena"]), ("/server  ", &[]), ("/send ", &[]), ("/hub ", &[])]
    {
        player.tab(typed).await;
        player.is_suggested(words).await;
    }
    grant(&node, 2, &all.each_ref().map(String::as_str));
    for (typed, words) in [
        ("/send Bob ", &["arena", "lobby", "vip"][..]),
        ("/send Bob vip ", &[]),
        ("/glist ", &["all"]),
        ("/moonbridge p", &["permission"]),
        ("/alert l", &[]),
        ("/kick Bob ", &[]),
    ] {
        player.tab(typed).await;
        player.is_suggested(words).await;
    }
    for (typed, prefix, names, words) in [
        ("/find b", "b", &["Bob", "bill"][..], &["Bob", "bill"][..]),
        ("/kick ", "", &["Alex", "Bob"], &["Alex", "Bob"]),
        ("/send a", "a", &["Alex", "arena", "other"], &["all", "arena", "Alex"]),
    ] {
        player.tab(typed).await;
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let ask = answer(&node, v1::AskAnswer { names, ..Default::default() }).await;
        let expected = v1::AskPlayers { prefix: Some(prefix.into()), limit: 100, ..Default::default() };
        assert_eq!((ask.origin.as_str(), ask.question), ("player Steve", Some(Question::Players(expected))));
        player.is_suggested(words).await;
    }
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn no_more_than_a_hundred_words_are_suggested() {
    let lobby = host("lobby").await;
    let (node, mut player, _backend) = permitted(&[&lobby], &["moonbridge.command.find"]).await;
    player.tab("/find ").await;
    let names: Vec<String> = (0..1_000).map(|number| format!("Player{number}")).collect();
    answer(&node, v1::AskAnswer { names: names.clone(), ..Default::default() }).await;
    player.is_suggested(&names.iter().take(100).map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_network_that_does_not_answer_costs_a_second_and_nobody_s_order() {
    let lobby = host("lobby").await;
    let (node, mut player, mut backend) = permitted(&[&lobby], &["moonbridge.command.send"]).await;
    let asked_at = Instant::now();
    player.tab("/send l").await;
    let ask = asked(&node).await;
    player.tab("/server ").await;
    player.tab("hel").await;
    backend.completes("hel").await;
    backend.suggest(&["hello"]).await;
    backend.show("meanwhile").await;
    player.hears("meanwhile").await;
    player.is_suggested(&["lobby"]).await;
    let waited = asked_at.elapsed();
    assert!(waited > Duration::from_millis(700) && waited < Duration::from_secs(5), "{waited:?}");
    player.is_suggested(&["lobby"]).await;
    player.is_suggested(&["hello"]).await;
    // Too late.
    node.network.answered(v1::AskAnswer { id: ask.id, names: vec!["lola".into()], ..Default::default() });
    // Away, it answers at once.
    node.network.set_attached(false);
    player.tab("/send l").await;
    player.is_suggested(&["lobby"]).await;
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn a_new_backend_owes_nothing() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let (node, mut player, mut old) = permitted(&[&lobby, &arena], &[]).await;
    player.tab("/s").await;
    old.completes("/s").await;
    let mut new = move_to(&node, &arena, &mut player, 2).await;
    // The player has not come into its world: as ever, what it completes is left out.
    player.tab("/p").await;
    player.send_frame(0x15, b"\x05en_US\x08\x00\x01\x01\x01").await;
    assert_eq!(new.serverbound().await.0, Serverbound::ClientSettings);
    old.suggest(&["/seed"]).await;
    player.tab("/s").await;
    new.completes("/s").await;
    new.suggest(&["/seed", "/stop"]).await;
    player.is_suggested(&["/seed", "/stop", "/server"]).await;

    // Nor does the one after a fallback.
    player.tab("/s").await;
    new.completes("/s").await;
    new.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("arena restarts"))).await;
    new.ends().await;
    drop(new);
    let mut next = lobby.accept().await;
    next.send(|out| join(3).put(out, v5())).await;
    player.joins(3, -1).await;
    player.respawns(0).await;
    player.hears("You were moved to lobby: arena restarts").await;
    player.send_frame(0x15, b"\x05en_US\x08\x00\x01\x01\x01").await;
    assert_eq!(next.serverbound().await.0, Serverbound::ClientSettings);
    player.tab("/p").await;
    next.completes("/p").await;
    next.suggest(&["/pardon"]).await;
    player.is_suggested(&["/pardon", "/ping"]).await;
}

#[tokio::test]
async fn what_waits_does_so_for_the_end_of_a_long_frame() {
    let lobby = host("lobby").await;
    let (_node, mut player, mut backend) = permitted(&[&lobby], &[]).await;
    player.tab("/s").await;
    backend.completes("/s").await;
    player.tab("/p").await;
    player.tab("/server ").await;
    let long = |out: &mut Vec<u8>| {
        put_varint(out, 200_000);
        out.extend_from_slice(&[0x26; 100_000]);
    };
    player.send(long).await;
    while backend.0.inbox().len() < 100_000 {
        assert_ne!(backend.0.fill(usize::MAX).await.expect("readable"), 0);
    }
    backend.suggest(&["/seed"]).await;
    player.is_suggested(&["/seed", "/server"]).await;
    player.send(|out| out.extend_from_slice(&[0x26; 100_000])).await;
    assert_eq!(backend.frame().await.id, 0x26, "the long frame, whole");
    backend.completes("/p").await;
    // The other way: the node's words wait for the end of what the player is being sent.
    backend.send(long).await;
    while player.0.inbox().len() < 100_000 {
        assert_ne!(player.0.fill(usize::MAX).await.expect("readable"), 0);
    }
    backend.send(|out| out.extend_from_slice(&[0x26; 100_000])).await;
    backend.suggest(&["/pardon"]).await;
    assert_eq!(player.frame().await.id, 0x26, "the long frame, whole");
    player.is_suggested(&["/pardon", "/ping"]).await;
    player.is_suggested(&["lobby"]).await;
}

#[tokio::test]
async fn a_thousand_requests_at_once_break_nothing() {
    let lobby = host("lobby").await;
    let (node, mut player, mut backend) = permitted(&[&lobby], &["moonbridge.command.find"]).await;
    node.network.set_attached(false);
    for typed in ["/find a", "/s", "/server ", "hel"] {
        player.send(|out| (0..250).for_each(|_| packets::put_tab_complete_serverbound(out, v5(), typed))).await;
    }
    player.say("mark").await;
    while let (Serverbound::TabComplete, _) = backend.serverbound().await {}
    backend.show("mark").await;
    let mut answers = 0;
    while let (Clientbound::TabComplete, _) = player.clientbound().await {
        answers += 1;
    }
    assert!(answers > 0, "the node's own");
    player.say("still here").await;
    while let (Serverbound::TabComplete, _) = backend.serverbound().await {}
}

#[tokio::test]
async fn the_network_is_asked_only_so_often() {
    const PRESSED: usize = 60;
    let lobby = host("lobby").await;
    let (node, mut player, _backend) = permitted(&[&lobby], &["moonbridge.command.find"]).await;
    let began = Instant::now();
    player.send(|out| (0..PRESSED).for_each(|_| packets::put_tab_complete_serverbound(out, v5(), "/find B"))).await;
    let network = tokio::spawn(async move {
        loop {
            answer(&node, v1::AskAnswer { names: vec!["Bob".into()], ..Default::default() }).await;
        }
    });
    let mut named = 0;
    for _ in 0..PRESSED {
        let (kind, frame) = player.clientbound().await;
        assert_eq!(kind, Clientbound::TabComplete);
        named += usize::from(!TabComplete::read(&frame.payload).expect("words").is_empty());
    }
    network.abort();
    let allowed = 20.0 + 1.0 + 20.0 * began.elapsed().as_secs_f64();
    assert!(named >= 20 && named as f64 <= allowed, "{named} of {allowed}");
}
