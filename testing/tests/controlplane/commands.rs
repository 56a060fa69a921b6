//! Commands on the embedded store: made, dispatched, waited for, ended.

use moonbridge_proto::v1::command::Action;
use moonbridge_proto::v1::{self, CommandState};
use tempfile::tempdir;
use tonic::Code;

use crate::support::{Hello, Replica, command, eventually, players, refused, session, set_backend, soon, transfer, update};

/// A replica with two backends, and a node with Ann and Bob on the first.
async fn network(folder: &std::path::Path) -> (Replica, Hello) {
    let replica = Replica::embedded(folder).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "one").await;
    set_backend(&mut admin, "two").await;
    (replica, Hello::new("edge").sessions([session("Ann", "one"), session("Bob", "one")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_goes_through_its_states_and_a_watcher_sees_them() {
    let folder = tempdir().expect("a folder");
    let (replica, hello) = network(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = hello.attach(&replica).await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = v1::StartTransfersRequest { traceparent: traceparent.to_owned(), ..transfer(&["aNN"], "two") };
    let started = admin.start_transfers(request).await.expect("started").into_inner();
    assert!(started.refused.is_empty());
    let id = started.commands[0].id.clone();
    let mut watch = admin.watch_commands(v1::WatchCommandsRequest { ids: vec![id.clone()] }).await.expect("a watch").into_inner();

    let sent = node.command().await;
    assert_eq!((sent.id.as_str(), sent.state(), sent.origin.as_str()), (id.as_str(), CommandState::Dispatched, "test"));
    let Some(Action::Transfer(action)) = &sent.action else { panic!("expected a transfer") };
    assert_eq!((action.player.as_str(), action.from.as_str(), action.to.as_str()), ("Ann", "one", "two"));
    assert_eq!(action.session_id, hello.sessions[0].id);
    // The node goes on below the dispatch's span, which is of the caller's trace.
    assert_ne!(sent.traceparent, traceparent);
    assert_eq!(sent.traceparent.get(..35), traceparent.get(..35));
    node.report(&id, CommandState::Running, "").await;
    eventually("running", async || (command(&mut admin, &id).await.state() == CommandState::Running).then_some(())).await;
    node.report(&id, CommandState::Succeeded, "ok").await;
    let acknowledged = |message| matches!(message, v1::control_message::Message::CommandAck(ack) if ack.id == id).then_some(());
    node.next("ack of the command", acknowledged).await;

    let mut seen = Vec::new();
    while let Some(change) = soon("the watch's end", watch.message()).await.expect("no error") {
        seen.push(change.state());
    }
    assert_eq!(seen.last(), Some(&CommandState::Succeeded));
    assert!(seen.is_sorted() && seen.contains(&CommandState::Running), "{seen:?}");
    let ended = command(&mut admin, &id).await;
    assert_eq!(ended.result.map(|result| result.reason).as_deref(), Some("ok"));
    // A watch of what has ended says so and ends.
    let mut watch = admin.watch_commands(v1::WatchCommandsRequest { ids: vec![id.clone()] }).await.expect("a watch").into_inner();
    assert_eq!(soon("the state", watch.message()).await.expect("no error").map(|change| change.state()), Some(CommandState::Succeeded));
    assert!(soon("the end", watch.message()).await.expect("no error").is_none());
    refused(admin.watch_commands(v1::WatchCommandsRequest { ids: vec!["none".to_owned()] }).await, Code::NotFound, &["none"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_transferred_is_refused_at_once_with_the_reason() {
    let folder = tempdir().expect("a folder");
    let (replica, hello) = network(folder.path()).await;
    let mut admin = replica.admin().await;
    let _node = hello.attach(&replica).await;
    let asking = admin.clone();
    let reasons = async |request| {
        let answer = asking.clone().start_transfers(request).await.expect("an answer").into_inner();
        let refused: Vec<_> = answer.refused.into_iter().map(|refusal| (refusal.player, refusal.reason)).collect();
        (answer.commands.len(), refused)
    };
    let refusal = |player: &str, reason: &str| (player.to_owned(), reason.to_owned());
    // One command a player, however often named.
    let bob = &hello.sessions[1].player_uuid;
    assert_eq!(reasons(transfer(&["ann", "ANN", "Nobody", bob], "two")).await, (2, vec![refusal("Nobody", "player_offline")]));
    assert_eq!(reasons(transfer(&["Ann"], "one")).await, (0, vec![refusal("Ann", "already_there")]));
    assert_eq!(reasons(transfer(&["Ann"], "nowhere")).await, (0, vec![refusal("Ann", "unknown_backend")]));
    let drain = v1::DrainBackendRequest { name: "two".to_owned(), drained: true };
    admin.drain_backend(drain).await.expect("drained");
    let all = v1::StartTransfersRequest { from: "one".to_owned(), ..transfer(&[], "two") };
    let (made, mut refused_players) = reasons(all).await;
    refused_players.sort();
    assert_eq!((made, refused_players), (0, vec![refusal("Ann", "backend_drained"), refusal("Bob", "backend_drained")]));

    refused(admin.start_transfers(transfer(&[], "two")).await, Code::InvalidArgument, &["players"]);
    let both = v1::StartTransfersRequest { from: "one".to_owned(), ..transfer(&["Ann"], "two") };
    refused(admin.start_transfers(both).await, Code::InvalidArgument, &["from"]);
    let nowhere = v1::StartTransfersRequest { from: "nowhere".to_owned(), ..transfer(&[], "two") };
    refused(admin.start_transfers(nowhere).await, Code::NotFound, &["nowhere"]);
    let long = v1::StartTransfersRequest { deadline_seconds: 100_000, ..transfer(&["Ann"], "two") };
    refused(admin.start_transfers(long).await, Code::InvalidArgument, &["deadline_seconds"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_on_a_backend_is_moved_in_batches() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "one").await;
    set_backend(&mut admin, "two").await;
    let sessions: Vec<_> = (0..300).map(|index| session(&format!("p{index}"), "one")).collect();
    let mut node = Hello::new("edge").sessions(sessions).attach(&replica).await;
    let all = v1::StartTransfersRequest { from: "one".to_owned(), ..transfer(&[], "two") };
    // The view is a little behind the store.
    let commands = eventually("everybody", async || {
        let listed = admin.list_backends(v1::ListBackendsRequest::default()).await.expect("backends").into_inner().backends;
        if listed[0].players < 300 {
            return None;
        }
        Some(admin.start_transfers(all.clone()).await.expect("started").into_inner().commands)
    })
    .await;
    assert_eq!(commands.len(), 300);
    let ids: Vec<_> = commands.into_iter().map(|command| command.id).collect();
    let mut watch = admin.watch_commands(v1::WatchCommandsRequest { ids: ids.clone() }).await.expect("a watch").into_inner();
    for _ in 0..300 {
        let command = node.command().await;
        node.report(&command.id, CommandState::Running, "").await;
        node.report(&command.id, CommandState::Succeeded, "ok").await;
    }
    let mut ended = std::collections::HashSet::new();
    while let Some(change) = soon("the watch's end", watch.message()).await.expect("no error") {
        if change.state() == CommandState::Succeeded {
            ended.insert(change.id);
        }
    }
    assert_eq!(ended.len(), 300);
    let request = v1::ListCommandsRequest { kind: "kick".to_owned(), ..v1::ListCommandsRequest::default() };
    assert!(admin.list_commands(request).await.expect("commands").into_inner().commands.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn kicks_messages_and_drains_are_waited_for() {
    let folder = tempdir().expect("a folder");
    let (replica, hello) = network(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = hello.attach(&replica).await;
    let mut other = admin.clone();
    let kick = v1::KickPlayerRequest { player: "ann".to_owned(), reason: "bye".to_owned(), traceparent: String::new() };
    let kicked = tokio::spawn(async move { other.kick_player(kick).await });
    let sent = node.command().await;
    assert!(matches!(&sent.action, Some(Action::Kick(action)) if action.player == "Ann" && action.reason == "bye"), "{sent:?}");
    node.report(&sent.id, CommandState::Succeeded, "ok").await;
    let kicked = soon("the kick", kicked).await.expect("no panic").expect("kicked").into_inner();
    assert_eq!((kicked.state(), kicked.id), (CommandState::Succeeded, sent.id));

    let mut other = admin.clone();
    let message = v1::MessagePlayerRequest { player: "Bob".to_owned(), text: "hi".to_owned(), traceparent: String::new() };
    let told = tokio::spawn(async move { other.message_player(message).await });
    let sent = node.command().await;
    node.report(&sent.id, CommandState::Failed, "session_gone").await;
    let told = soon("the message", told).await.expect("no panic").expect("an outcome").into_inner();
    assert_eq!((told.state(), told.result.map(|result| result.reason).as_deref()), (CommandState::Failed, Some("session_gone")));

    let mut other = admin.clone();
    let drain = |node: &str| v1::DrainNodeRequest { node: node.to_owned(), drained: true };
    let by_name = drain("edge");
    let drained = tokio::spawn(async move { other.drain_node(by_name).await });
    let sent = node.command().await;
    node.report(&sent.id, CommandState::Succeeded, "ok").await;
    assert_eq!(soon("the drain", drained).await.expect("no panic").expect("drained").into_inner().state(), CommandState::Succeeded);

    let nobody = v1::KickPlayerRequest { player: "Nobody".to_owned(), ..v1::KickPlayerRequest::default() };
    refused(admin.kick_player(nobody).await, Code::NotFound, &["Nobody", "player list"]);
    refused(admin.drain_node(drain("none")).await, Code::NotFound, &["none", "node list"]);
    let twin = Hello::new("edge").attach(&replica).await;
    refused(admin.drain_node(drain("edge")).await, Code::FailedPrecondition, &[&node.id, &twin.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overdue_command_expires_and_a_late_report_changes_nothing() {
    let folder = tempdir().expect("a folder");
    let (replica, hello) = network(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = hello.attach(&replica).await;
    let request = v1::StartTransfersRequest { deadline_seconds: 1, ..transfer(&["Ann"], "two") };
    let id = admin.start_transfers(request).await.expect("started").into_inner().commands.remove(0).id;
    let mut watch = admin.watch_commands(v1::WatchCommandsRequest { ids: vec![id.clone()] }).await.expect("a watch").into_inner();
    node.command().await;
    let mut last = None;
    while let Some(change) = soon("the watch's end", watch.message()).await.expect("no error") {
        last = Some(change);
    }
    let last = last.expect("a change");
    assert_eq!((last.state(), last.result.map(|result| result.reason).as_deref()), (CommandState::Expired, Some("expired")));
    // It is acknowledged all the same, so that the node may forget it.
    node.report(&id, CommandState::Succeeded, "ok").await;
    let acknowledged = |message| matches!(message, v1::control_message::Message::CommandAck(ack) if ack.id == id).then_some(());
    node.next("ack of the command", acknowledged).await;
    assert_eq!(command(&mut admin, &id).await.state(), CommandState::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_sent_again_to_a_node_that_comes_back_and_its_results_in_the_hello_count() {
    let folder = tempdir().expect("a folder");
    let (replica, hello) = network(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = hello.attach(&replica).await;
    let started = admin.start_transfers(transfer(&["Ann", "Bob"], "two")).await.expect("started").into_inner();
    let (first, second) = (node.command().await.id, node.command().await.id);
    node.report(&first, CommandState::Running, "").await;
    eventually("running", async || (command(&mut admin, &first).await.state() == CommandState::Running).then_some(())).await;
    let lease = node.welcome.lease_id;
    node.vanish();
    assert_eq!(players(&mut admin).await.len(), 2);

    let commands = vec![update(&first, CommandState::Succeeded, "ok")];
    let mut node = Hello { lease, commands, ..hello }.attach(&replica).await;
    let again = eventually("the second again", async || Some(node.command().await).filter(|command| command.id == second)).await;
    assert_eq!(again.state(), CommandState::Dispatched);
    eventually("the first's end", async || (command(&mut admin, &first).await.state() == CommandState::Succeeded).then_some(())).await;
    node.report(&second, CommandState::Succeeded, "ok").await;
    let ids = started.commands.into_iter().map(|command| command.id).collect();
    let mut watch = admin.watch_commands(v1::WatchCommandsRequest { ids }).await.expect("a watch").into_inner();
    while soon("the watch's end", watch.message()).await.expect("no error").is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_a_node_that_dies_fail_as_node_lost_and_a_stranger_cannot_end_them() {
    let folder = tempdir().expect("a folder");
    let (replica, hello) = network(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = hello.attach(&replica).await;
    let id = admin.start_transfers(transfer(&["Ann"], "two")).await.expect("started").into_inner().commands.remove(0).id;
    assert_eq!(node.command().await.id, id);
    let mut stranger = Hello::new("other").attach(&replica).await;
    stranger.report(&id, CommandState::Succeeded, "ok").await;
    stranger.events([]).await;
    assert_eq!(command(&mut admin, &id).await.state(), CommandState::Dispatched);
    node.vanish();
    let mut watch = admin.watch_commands(v1::WatchCommandsRequest { ids: vec![id] }).await.expect("a watch").into_inner();
    let mut last = None;
    while let Some(change) = soon("the watch's end", watch.message()).await.expect("no error") {
        last = Some(change);
    }
    let last = last.expect("a change");
    assert_eq!((last.state(), last.result.map(|result| result.reason).as_deref()), (CommandState::Failed, Some("node_lost")));
    assert!(players(&mut admin).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_gives_nodes_time_to_come_back_before_their_commands_fail() {
    let folder = tempdir().expect("a folder");
    let (replica, hello) = network(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = hello.attach(&replica).await;
    let started = admin.start_transfers(transfer(&["Ann"], "two")).await.expect("started").into_inner();
    assert_eq!(node.command().await.id, started.commands[0].id);
    node.vanish();
    replica.stop().await;

    // Presence is gone with the process; the command is not.
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = hello.attach(&replica).await;
    let again = node.command().await;
    assert_eq!(again.id, started.commands[0].id);
    node.report(&again.id, CommandState::Succeeded, "ok").await;
    eventually("its end", async || (command(&mut admin, &again.id).await.state() == CommandState::Succeeded).then_some(())).await;
    // One whose node never comes back fails in the end.
    let id = admin.start_transfers(transfer(&["Bob"], "two")).await.expect("started").into_inner().commands.remove(0).id;
    node.vanish();
    replica.stop().await;
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let ended = eventually("its end", async || Some(command(&mut admin, &id).await).filter(|command| command.result.is_some())).await;
    assert_eq!(ended.result.map(|result| result.reason).as_deref(), Some("node_lost"));
}
