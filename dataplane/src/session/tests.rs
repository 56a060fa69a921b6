//! Sessions from outside: what a scripted player and scripted backends see of the node between them.

mod allocations;
mod commands;
mod completion;
mod deliveries;
mod online;
mod permissions;
mod plugin_channel;
mod sizes;
mod stage;

use std::time::Duration;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_protocol::play::{self as packets, PluginMessage};
use moonbridge_protocol::tab_list::put_player_list_item;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{Clientbound, Serverbound};
use moonbridge_protocol::walk::HOLD;
use moonbridge_protocol::{frame, login};

use self::stage::*;

const SETTINGS: i32 = 0x15;
const POSITION: i32 = 0x04;
const FROM_A_MOD: i32 = -5;

#[tokio::test]
async fn frames_of_every_kind_pass_both_ways() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    for (id, size) in [(FROM_A_MOD, 0), (200, 10), (POSITION, 33), (0x50, HOLD + 1000), (0x7f, frame::MAX_FRAME - 10)] {
        let payload: Vec<u8> = (0..size).map(|index| index as u8).collect();
        let (sent, received) = tokio::join!(player.send_frame(id, &payload), backend.frame());
        assert_eq!(((), received.id, received.payload == payload), (sent, id, true), "serverbound {id} of {size} bytes");
        let (sent, received) = tokio::join!(backend.send_frame(id, &payload), player.frame());
        assert_eq!(((), received.id, received.payload == payload), (sent, id, true), "clientbound {id} of {size} bytes");
    }
}

#[tokio::test]
async fn keep_alives_go_back_to_who_asked_with_the_id_it_asked() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    let mut asked = Vec::new();
    for id in [7, 7, -1] {
        backend.send(|out| packets::put_keep_alive_clientbound(out, v5(), id)).await;
        let (kind, frame) = player.clientbound().await;
        assert_eq!(kind, Clientbound::KeepAlive);
        asked.push(packets::read_keep_alive(v5(), &frame.payload).expect("an id"));
    }
    assert!(asked.iter().all(|&id| id != 0) && asked[0] != asked[1], "{asked:?}");
    // In another order, with the unasked 0 of "Downloading terrain" between.
    for (answer, expected) in [(asked[2], -1), (0, 0), (asked[0], 7), (asked[1], 7)] {
        player.send(|out| packets::put_keep_alive_serverbound(out, v5(), answer)).await;
        let (kind, frame) = backend.serverbound().await;
        assert_eq!((kind, packets::read_keep_alive(v5(), &frame.payload)), (Serverbound::KeepAlive, Ok(expected)));
    }
}

#[tokio::test]
async fn a_transfer_moves_the_world_and_loses_nothing() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    old.send(|out| put_player_list_item(out, v5(), "§aAlex", true, 5)).await;
    player.frame().await;
    old.send(|out| packets::put_keep_alive_clientbound(out, v5(), 77)).await;
    let late = packets::read_keep_alive(v5(), &player.frame().await.payload).expect("an id");
    player.send(|out| assert!(packets::put_plugin_message_serverbound(out, v5(), "REGISTER", b"mod:a\0mod:b"))).await;
    player.say("before").await;
    assert_eq!(old.serverbound().await.0, Serverbound::PluginMessage);
    old.is_told("before").await;

    let moved = transfer(&node, "arena");
    let mut new = arena.accept().await;
    // Before its Join Game, a candidate asks, and says things that must come first.
    new.send(|out| packets::put_keep_alive_clientbound(out, v5(), 5)).await;
    let (kind, frame) = new.serverbound().await;
    assert_eq!((kind, packets::read_keep_alive(v5(), &frame.payload)), (Serverbound::KeepAlive, Ok(5)));
    new.send_frame(FROM_A_MOD, b"early").await;
    old.show("still here").await;
    player.hears("still here").await;
    player.say("to the old").await;
    old.is_told("to the old").await;
    new.send(|out| {
        join(9).put(out, v5());
        packets::put_chat(out, v5(), &Text::legacy("welcome"));
    })
    .await;

    let (kind, frame) = player.clientbound().await;
    assert_eq!(kind, Clientbound::PlayerListItem);
    assert_eq!(frame.payload, [&[7][..], "§aAlex".as_bytes(), &[0, 0, 0]].concat().as_slice(), "name, offline, ping 0");
    assert_eq!(player.frame().await.id, FROM_A_MOD);
    player.joins(9, -1).await;
    player.respawns(0).await;
    player.hears("welcome").await;
    let outcome = outcome(moved).await;
    assert!(outcome.succeeded, "{outcome:?}");
    let phases: Vec<_> = outcome.result.phases.iter().map(|phase| phase.phase.as_str()).collect();
    assert_eq!(phases, ["dial", "login", "pause", "cutover", "replay"]);
    assert_eq!(node.registry.subscribe().0[0].backend, "arena");

    // The channels first; then what is not of the old world.
    let (_, frame) = new.serverbound().await;
    let register = PluginMessage::read_serverbound(&frame.payload).expect("a plugin message");
    assert_eq!((register.channel, register.data), ("REGISTER", &b"mod:a\0mod:b"[..]));
    player.send_frame(POSITION, &[0; 33]).await;
    player.send(|out| packets::put_keep_alive_serverbound(out, v5(), late)).await;
    player.say("between").await;
    player.send_frame(FROM_A_MOD, b"mine").await;
    new.is_told("between").await;
    assert_eq!(new.frame().await.id, FROM_A_MOD);
    player.send_frame(SETTINGS, b"settings").await;
    player.send_frame(POSITION, &[1; 33]).await;
    assert_eq!(new.serverbound().await.0, Serverbound::ClientSettings);
    assert_eq!(new.frame().await.payload, [1; 33], "after the fence the player moves again");

    // The old backend got its answer from the node, and its end; what it still says in chat arrives.
    let (kind, frame) = old.serverbound().await;
    assert_eq!((kind, packets::read_keep_alive(v5(), &frame.payload)), (Serverbound::KeepAlive, Ok(77)));
    old.ends().await;
    old.send_frame(0x21, b"a chunk of the old world").await;
    old.show("last words").await;
    player.hears("last words").await;
    new.show("and on").await;
    player.hears("and on").await;
}

#[tokio::test]
async fn settings_for_an_earlier_world_do_not_lift_the_fence_of_a_later() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |config| config.timeouts.fence = PATIENCE);
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    player.send_frame(SETTINGS, b"login").await;
    old.frame().await;
    let _middle = move_to(&node, &arena, &mut player, 9).await;
    let mut new = move_to(&node, &lobby, &mut player, 10).await;
    // The client answers two Join Games, one after the other; only after the second does it speak of the last world.
    player.send_frame(SETTINGS, b"arena").await;
    player.send_frame(POSITION, &[2; 33]).await;
    player.send_frame(SETTINGS, b"lobby").await;
    player.send_frame(POSITION, &[3; 33]).await;
    for expected in [&b"arena"[..], b"lobby", &[3; 33]] {
        assert_eq!(new.frame().await.payload, expected);
    }
}

#[tokio::test]
async fn a_login_under_way_is_told_of_the_shutdown() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut silent, mut player) = (connect(&node).await, connect(&node).await);
    player.greet("Steve", 5).await;
    let _stalled = lobby.hear().await;
    node.shutdown.cancel();
    let kick = player.frame().await;
    assert!(login::read_disconnect(&kick.payload).expect("a reason").plain().contains("restarting"));
    silent.ends().await;
}

#[tokio::test]
async fn without_settings_the_fence_falls_and_what_is_known_is_replayed() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |config| config.timeouts.fence = Duration::from_millis(100));
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    player.send_frame(SETTINGS, b"mine").await;
    old.frame().await;
    let mut new = move_to(&node, &arena, &mut player, 9).await;
    let (kind, frame) = new.serverbound().await;
    assert_eq!((kind, frame.payload.as_slice()), (Serverbound::ClientSettings, &b"mine"[..]));
    player.send_frame(POSITION, &[1; 33]).await;
    assert_eq!(new.frame().await.payload, [1; 33]);
}

#[tokio::test]
async fn a_candidate_that_fails_costs_nothing() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |config| config.timeouts.transfer = Duration::from_millis(500));
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;

    let refused = transfer(&node, "arena");
    arena.hear().await.send(|out| login::put_disconnect(out, &Text::legacy("§cnot today"))).await;
    let result = outcome(refused).await.result;
    assert_eq!(result.reason, "login_refused");
    assert!(result.detail.contains("not today"), "{}", result.detail);

    let kicked = transfer(&node, "arena");
    let mut candidate = arena.accept().await;
    candidate.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("full"))).await;
    candidate.ends().await;
    drop(candidate);
    assert_eq!(outcome(kicked).await.result.reason, "login_refused");

    let garbage = transfer(&node, "arena");
    arena.hear().await.send(|out| out.extend_from_slice(&[0xff; 8])).await;
    assert_eq!(outcome(garbage).await.result.reason, "backend_garbage");

    let closed = transfer(&node, "arena");
    drop(arena.hear().await);
    assert_eq!(outcome(closed).await.result.reason, "candidate_closed");

    let stalled = transfer(&node, "arena");
    let _stalled = arena.hear().await;
    let twice = transfer(&node, "arena");
    assert_eq!(outcome(twice).await.result.reason, "transfer_in_progress");
    assert_eq!(outcome(stalled).await.result.reason, "login_stalled");

    assert_eq!(outcome(transfer(&node, "lobby")).await.result.reason, "already_there");
    assert_eq!(outcome(transfer(&node, "nowhere")).await.result.reason, "unknown_backend");
    drop(arena);
    assert_eq!(outcome(transfer(&node, "arena")).await.result.reason, "dial_failed");

    player.say("still here").await;
    backend.is_told("still here").await;
    backend.show("so am I").await;
    player.hears("so am I").await;
}

#[tokio::test]
async fn a_kick_falls_back_and_says_why() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    old.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("lobby restarts"))).await;
    player.say("meanwhile").await;
    player.send_frame(POSITION, &[0; 33]).await;
    old.ends().await;
    drop(old);
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, -1).await;
    player.respawns(0).await;
    player.hears("You were moved to arena: lobby restarts").await;
    new.is_told("meanwhile").await;

    // When nobody is left, the first reason is the one that is shown.
    new.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("arena, too"))).await;
    drop(new);
    let (kind, frame) = player.clientbound().await;
    assert_eq!(kind, Clientbound::Disconnect);
    assert_eq!(packets::read_disconnect(&frame.payload).plain(), "lobby restarts");
    player.ends().await;
}

#[tokio::test]
async fn a_kick_before_the_first_world_falls_back_without_a_respawn() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut player, mut old) = log_in(&node, &lobby, "Steve").await;
    old.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("not on the list"))).await;
    drop(old);
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, 0).await;
    player.hears("You were moved to arena: not on the list").await;
    player.send_frame(POSITION, &[1; 33]).await;
    assert_eq!(new.frame().await.payload, [1; 33], "there is no old world to fence off");
}

#[tokio::test]
async fn where_a_kick_disconnects_the_reason_is_shown() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Disconnect, |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    backend.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("out"))).await;
    let (kind, frame) = player.clientbound().await;
    assert_eq!((kind, packets::read_disconnect(&frame.payload).plain().as_str()), (Clientbound::Disconnect, "out"));
    player.ends().await;
}

#[tokio::test]
async fn a_backend_that_dies_inside_a_long_frame_costs_the_session() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    backend
        .send(|out| {
            moonbridge_protocol::wire::put_varint(out, 200_000);
            out.extend_from_slice(&[0x26; 100_000]);
        })
        .await;
    // The half of it arrives without the rest: it is cut through.
    while player.0.inbox().len() < 100_000 {
        assert_ne!(player.0.fill(usize::MAX).await.expect("readable"), 0);
    }
    drop(backend);
    player.ends().await;
}

#[tokio::test]
async fn a_transfer_waits_for_a_long_frame_and_gives_up_if_it_stalls() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |config| config.timeouts.pause = Duration::from_millis(200));
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    backend
        .send(|out| {
            moonbridge_protocol::wire::put_varint(out, 200_000);
            out.extend_from_slice(&[0x26; 100_000]);
        })
        .await;
    while player.0.inbox().len() < 100_000 {
        assert_ne!(player.0.fill(usize::MAX).await.expect("readable"), 0);
    }
    let stalled = transfer(&node, "arena");
    arena.accept().await.send(|out| join(9).put(out, v5())).await;
    player.say("held").await;
    assert_eq!(outcome(stalled).await.result.reason, "frame_stalled");
    backend.is_told("held").await;

    let moved = transfer(&node, "arena");
    let mut new = arena.accept().await;
    new.send(|out| join(10).put(out, v5())).await;
    player.say("held again").await;
    backend.send(|out| out.extend_from_slice(&[0x26; 100_000])).await;
    assert_eq!(player.frame().await.id, 0x26, "the long frame, whole");
    player.joins(10, -1).await;
    assert!(outcome(moved).await.succeeded);
    // Said just when the candidate arrived: to the old backend or, held, to the new one, but to one.
    player.say("after").await;
    match backend.0.frame(frame::MAX_FRAME, tokio::time::Instant::now() + PATIENCE).await {
        Ok(told) => assert_eq!(v5().serverbound(told.id as u8), Serverbound::Chat),
        Err(_) => new.is_told("held again").await,
    }
    new.is_told("after").await;
}

#[tokio::test]
async fn the_next_backend_is_tried_when_one_stalls_closes_or_refuses() {
    let (stalls, closes, takes) = (host("stalls").await, host("closes").await, host("takes").await);
    let node = node(&[&stalls, &closes, &takes], OnKick::Fallback, |config| config.timeouts.login = Duration::from_millis(900));
    let mut player = connect(&node).await;
    player.greet("Steve", 5).await;
    let _stalled = stalls.hear().await;
    drop(closes.hear().await);
    let _taken = takes.accept().await;
    assert_eq!(player.frame().await.id, 2, "Login Success");
    let mut late = connect(&node).await;
    late.greet("Alex", 5).await;
    let _stalled = stalls.hear().await;
    closes.hear().await.send(|out| login::put_disconnect(out, &Text::legacy("closed for today"))).await;
    drop(takes);
    let kick = late.frame().await;
    assert_eq!((kick.id, login::read_disconnect(&kick.payload).expect("a reason").plain()), (0, "closed for today".into()));
    late.ends().await;
}

#[tokio::test]
async fn strangers_are_turned_away_with_a_reason() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |config| config.timeouts.handshake = Duration::from_millis(300));
    for (name, protocol, expected) in
        [("Steve", 47, "supports Minecraft 1.7.2 to 1.7.10"), ("has space", 5, "not valid"), ("", 5, "not valid")]
    {
        let mut stranger = connect(&node).await;
        stranger.greet(name, protocol).await;
        let kick = stranger.frame().await;
        let reason = login::read_disconnect(&kick.payload).expect("a reason").plain();
        assert!(kick.id == 0 && reason.contains(expected), "{reason}");
        stranger.ends().await;
    }
    let mut long = connect(&node).await;
    long.greet(&"x".repeat(10_000), 5).await;
    assert_eq!(
        login::read_disconnect(&long.frame().await.payload).expect("a reason").plain(),
        "Your client sent a login that cannot be read."
    );
    let garbage: [&[u8]; 4] = [&[0xff; 64], b"GET / HTTP/1.1\r\n\r\n", &[0x01, 0x7f], &[]];
    for bytes in garbage {
        let mut stranger = connect(&node).await;
        stranger.send(|out| out.extend_from_slice(bytes)).await;
        stranger.ends().await;
    }
}

#[tokio::test]
async fn a_flood_of_empty_frames_ends_the_session_and_a_few_do_not_reach_the_backend() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    player.send(|out| out.extend_from_slice(&[0; 50])).await;
    player.say("after").await;
    backend.is_told("after").await;
    player.send(|out| out.extend_from_slice(&[0; 500])).await;
    let (kind, frame) = player.clientbound().await;
    assert_eq!(kind, Clientbound::Disconnect);
    assert!(packets::read_disconnect(&frame.payload).plain().contains("too many empty packets"));
    player.ends().await;
    backend.ends().await;
}

#[tokio::test]
async fn shutdown_tells_the_players() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (mut player, _backend) = play(&node, &lobby, "Steve").await;
    node.registry.close();
    let (kind, frame) = player.clientbound().await;
    assert_eq!(kind, Clientbound::Disconnect);
    assert!(packets::read_disconnect(&frame.payload).plain().contains("restarting"));
}

#[tokio::test]
async fn a_player_whose_backend_dies_does_not_wait_long_for_a_candidate_that_stalls() {
    let (lobby, arena, stalls) = (host("lobby").await, host("arena").await, host("stalls").await);
    let node = node(&[&lobby, &arena, &stalls], OnKick::Fallback, |config| config.timeouts.connect = Duration::from_millis(500));
    let (mut player, old) = play(&node, &lobby, "Steve").await;
    let moved = transfer(&node, "stalls");
    let _stalled = stalls.hear().await;
    drop(old);
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    // The node's own questions, while there is nobody else to ask.
    let mut seen = player.clientbound().await.0;
    while seen == Clientbound::KeepAlive {
        seen = player.clientbound().await.0;
    }
    assert_eq!(seen, Clientbound::JoinGame);
    player.respawns(0).await;
    let outcome = outcome(moved).await;
    assert_eq!((outcome.succeeded, outcome.result.reason.as_str()), (false, "login_stalled"), "{outcome:?}");
}

#[tokio::test]
async fn a_session_in_play_is_small() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |_| {});
    let (_player, served) = (tokio::net::TcpStream::connect(lobby.address()).await.expect("connect"), lobby.hear_raw().await);
    let place = std::sync::Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().expect("a place");
    let arrival = super::Arrival { stream: served.0, address: served.1, place, authenticator: None };
    let future = super::serve(node, arrival);
    let (serve, play) = (size_of_val(&future), size_of::<super::play::Play>());
    // The task of a connection lives as long as its session, with play boxed beside it. Of play's bytes 248 are Forge's tracker, and 240
    // are for commands, completions and the plugin channel.
    assert!(serve <= 256 && play <= 1920, "serve {serve}, play {play}");
}

#[tokio::test]
async fn a_kick_is_read_though_nothing_can_be_written_any_more() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    // Closing with the player's line unread resets the connection right behind the kick.
    player.say("never read").await;
    while old.0.inbox().is_empty() {
        assert_ne!(old.0.fill(1).await.expect("readable"), 0);
    }
    old.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("banned for a reason"))).await;
    drop(old);
    player.say("into the void").await;
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, -1).await;
    player.respawns(0).await;
    player.hears("You were moved to arena: banned for a reason").await;
}

#[tokio::test]
async fn a_backend_that_falls_silent_before_its_first_world_is_left() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |config| config.timeouts.login = Duration::from_millis(300));
    let (mut player, _silent) = log_in(&node, &lobby, "Steve").await;
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    let join = loop {
        match player.clientbound().await {
            // While no backend serves it, the node does.
            (Clientbound::KeepAlive, _) => {}
            (kind, frame) => break (kind, frame.payload[..6].to_vec()),
        }
    };
    assert_eq!(join, (Clientbound::JoinGame, vec![0, 0, 0, 9, 0, 0]), "as it is: there was no world before");
    player.hears("You were moved to arena: lobby does not answer").await;
}

#[tokio::test]
async fn a_player_whose_backend_is_silent_is_asked_by_the_node_and_then_moved() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |config| config.timeouts.backend_read = Duration::from_secs(3));
    let (mut player, _silent) = play(&node, &lobby, "Steve").await;
    let (kind, frame) = player.clientbound().await;
    assert_eq!(kind, Clientbound::KeepAlive);
    let id = packets::read_keep_alive(v5(), &frame.payload).expect("an id");
    player.send(|out| packets::put_keep_alive_serverbound(out, v5(), id)).await;
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    loop {
        match player.clientbound().await {
            (Clientbound::KeepAlive, _) => {}
            (kind, frame) => {
                assert_eq!((kind, &frame.payload[..4]), (Clientbound::JoinGame, &[0, 0, 0, 9][..]));
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_player_that_hangs_up_is_gone_though_its_backend_takes_nothing() {
    let lobby = host("lobby").await;
    let node = node(&[&lobby], OnKick::Fallback, |config| config.timeouts.login = Duration::from_millis(200));
    let (mut player, _stuck) = play(&node, &lobby, "Steve").await;
    // Until nothing more goes in: the way to the backend is full.
    let block = vec![0; 60_000];
    let mut out = Vec::new();
    frame::put(&mut out, 0x50, |out| out.extend_from_slice(&block));
    while player.0.write(&out, tokio::time::Instant::now() + Duration::from_millis(300)).await.is_ok() {}
    drop(player);
    let ended = async {
        while !node.registry.is_empty() {
            node.registry.changed().await;
        }
    };
    crate::timer::timeout(PATIENCE, ended).await.expect("the session has ended");
}

#[tokio::test]
async fn what_was_under_way_to_a_slow_backend_still_gets_there_after_a_transfer() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut player, mut slow) = play(&node, &lobby, "Steve").await;
    // More than the sockets hold, unread by the backend for longer than it may linger once it has everything.
    let mut sent = 0;
    let mut out = Vec::new();
    frame::put(&mut out, 0x50, |out| out.extend_from_slice(&[1; 60_000]));
    while player.0.write(&out, tokio::time::Instant::now() + Duration::from_millis(300)).await.is_ok() {
        sent += 1;
    }
    let moved = transfer(&node, "arena");
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, -1).await;
    assert!(outcome(moved).await.succeeded);
    crate::timer::sleep(super::play::LINGER + Duration::from_millis(500)).await;
    let mut received = 0;
    while let Ok(frame) = slow.0.frame(frame::MAX_FRAME, tokio::time::Instant::now() + PATIENCE).await {
        assert_eq!(frame.id, 0x50);
        received += 1;
    }
    // The rest went to the new backend, a frame cut by the writer's deadline among it.
    assert!(received > 0 && received <= sent + 1, "{received} of {sent}");
    let mut rest = 0;
    while received + rest < sent {
        assert_eq!(new.frame().await.id, 0x50);
        rest += 1;
    }
}

#[tokio::test]
async fn a_player_that_takes_nothing_is_moved_all_the_same() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |config| config.timeouts.transfer = Duration::from_millis(800));
    let (_player, mut old) = play(&node, &lobby, "Steve").await;
    // Its backend sends without end, the player reads nothing: the cutover waits behind what the socket has not taken.
    let mut out = Vec::new();
    frame::put(&mut out, 0x50, |out| out.extend_from_slice(&[1; 60_000]));
    let writer = tokio::spawn(async move { while old.0.write(&out, tokio::time::Instant::now() + PATIENCE).await.is_ok() {} });
    let moved = transfer(&node, "arena");
    let mut new = arena.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    let outcome = outcome(moved).await;
    assert!(outcome.succeeded, "{outcome:?}");
    assert_eq!(node.registry.subscribe().0[0].backend, "arena");
    writer.abort();
}
