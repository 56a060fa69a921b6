//! Two equal replicas on one real etcd.

use std::time::{Duration, Instant};

use moonbridge_controlplane::Config;
use moonbridge_controlplane::config::StoreConfig;
use moonbridge_proto::v1::session_event::Event;
use moonbridge_proto::v1::{self, CommandState};
use moonbridge_testing::etcd::Etcd;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::support::{
    Hello, Replica, command, config, eventually, nodes, players, refused, revision_of, session, set_backend, soon, transfer,
};

fn on(url: String) -> Config {
    config(StoreConfig::Etcd { endpoints: vec![url], prefix: "/test/".to_owned() })
}

async fn replica(etcd: &Etcd) -> Replica {
    Replica::start(on(etcd.url())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn any_replica_takes_a_command_for_a_node_on_another() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (replica(&etcd).await, replica(&etcd).await);
    let (mut at_one, mut at_two) = (one.admin().await, two.admin().await);
    set_backend(&mut at_one, "lobby").await;
    set_backend(&mut at_one, "games").await;
    let mut node = Hello::new("edge").sessions([session("Ann", "lobby")]).attach(&two).await;
    assert_eq!(node.welcome.store_id, etcd_store(&one).await);
    assert_eq!(players(&mut at_one).await, ["Ann"]);

    let id = at_one.start_transfers(transfer(&["ann"], "games")).await.expect("started").into_inner().commands.remove(0).id;
    let mut watch = at_one.watch_commands(v1::WatchCommandsRequest { ids: vec![id.clone()] }).await.expect("a watch").into_inner();
    let sent = node.command().await;
    assert_eq!(sent.id, id);
    node.report(&id, CommandState::Running, "").await;
    node.report(&id, CommandState::Succeeded, "ok").await;
    let mut last = None;
    while let Some(change) = soon("the watch's end", watch.message()).await.expect("no error") {
        last = Some(change.state());
    }
    assert_eq!(last, Some(CommandState::Succeeded));
    // A call that waits, likewise.
    let kick = v1::KickPlayerRequest { player: "Ann".to_owned(), reason: String::new(), traceparent: String::new() };
    let mut other = at_one.clone();
    let kicked = tokio::spawn(async move { other.kick_player(kick).await });
    let sent = node.command().await;
    node.report(&sent.id, CommandState::Succeeded, "ok").await;
    assert_eq!(soon("the kick", kicked).await.expect("no panic").expect("kicked").into_inner().state(), CommandState::Succeeded);
    // Both count.
    let ended = Event::Ended(v1::SessionEnded { id: players_session(&mut at_two).await, reason: String::new() });
    node.events([ended]).await;
    assert!(players(&mut at_one).await.is_empty());
}

async fn etcd_store(replica: &Replica) -> String {
    let node = Hello::new("asks").attach(replica).await;
    let id = node.welcome.store_id.clone();
    node.leave().await;
    id
}

async fn players_session(admin: &mut moonbridge_proto::v1::admin_service_client::AdminServiceClient<tonic::transport::Channel>) -> String {
    admin.list_players(v1::ListPlayersRequest::default()).await.expect("players").into_inner().players.remove(0).id
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_a_replica_loses_no_presence_and_no_command() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (replica(&etcd).await, replica(&etcd).await);
    let mut at_two = two.admin().await;
    set_backend(&mut at_two, "lobby").await;
    set_backend(&mut at_two, "games").await;
    let hello = Hello::new("edge").sessions([session("Ann", "lobby")]);
    let mut node = hello.attach(&one).await;
    let held = node.take_push().await;
    let id = at_two.start_transfers(transfer(&["Ann"], "games")).await.expect("started").into_inner().commands.remove(0).id;
    assert_eq!(node.command().await.id, id);
    node.report(&id, CommandState::Running, "").await;
    eventually("running", async || (command(&mut at_two, &id).await.state() == CommandState::Running).then_some(())).await;

    one.kill();
    let lease = node.welcome.lease_id;
    assert!(node.end().await.is_some());
    assert_eq!(players(&mut at_two).await, ["Ann"], "presence is the node's, not the replica's");
    // The other replica knows the same revisions: nothing to push, and the command comes again.
    let mut node = Hello { lease, held: Some(held.clone()), ..hello }.attach(&two).await;
    assert!(node.welcome.lease_resumed);
    let again = node.command().await;
    assert_eq!((again.id.as_str(), again.state()), (id.as_str(), CommandState::Running));
    node.report(&id, CommandState::Succeeded, "ok").await;
    eventually("its end", async || (command(&mut at_two, &id).await.state() == CommandState::Succeeded).then_some(())).await;
    set_backend(&mut at_two, "more").await;
    let push = node.push().await;
    assert!(matches!(&push, v1::control_message::Message::Delta(delta) if delta.from.as_ref() == Some(&held)), "{push:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_stream_wins_across_replicas_and_a_lost_node_is_noticed_by_any() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (replica(&etcd).await, replica(&etcd).await);
    let mut at_one = one.admin().await;
    set_backend(&mut at_one, "lobby").await;
    set_backend(&mut at_one, "games").await;
    let hello = Hello::new("edge").sessions([session("Ann", "lobby")]);
    let older = hello.attach(&one).await;
    let newer = Hello { lease: older.welcome.lease_id, ..hello }.attach(&two).await;
    assert!(newer.welcome.lease_resumed);
    let end = older.end().await.expect("a status");
    assert_eq!(end.code(), Code::Aborted, "{end:?}");
    assert_eq!(players(&mut at_one).await, ["Ann"]);

    let id = at_one.start_transfers(transfer(&["Ann"], "games")).await.expect("started").into_inner().commands.remove(0).id;
    // Both the node and its replica go; the other ends what is left.
    newer.vanish();
    two.kill();
    let ended = eventually("its end", async || Some(command(&mut at_one, &id).await).filter(|command| command.result.is_some())).await;
    assert_eq!(ended.result.map(|result| result.reason).as_deref(), Some("node_lost"));
    assert!(nodes(&mut at_one).await.is_empty() && players(&mut at_one).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_store_frozen_no_call_hangs_and_all_recovers() {
    let etcd = Etcd::start().await.expect("etcd");
    let replica = replica(&etcd).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "lobby").await;
    let hello = Hello::new("edge").sessions([session("Ann", "lobby")]);
    let node = hello.attach(&replica).await;
    etcd.stop().expect("frozen");
    let began = Instant::now();
    refused(soon("an answer", admin.list_nodes(v1::ListNodesRequest::default())).await, Code::Unavailable, &["store is away"]);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    etcd.go_on().expect("going on");
    // Its lease may have run out meanwhile or not: attached again it is there, and told of changes.
    let lease = node.welcome.lease_id;
    node.vanish();
    let mut node = eventually("the node again", async || Hello { lease, ..hello.clone() }.try_attach(&replica).await.ok()).await;
    node.take_push().await;
    assert_eq!(players(&mut admin).await, ["Ann"]);
    set_backend(&mut admin, "games").await;
    node.take_push().await;
    let mut other = admin.clone();
    let kick = v1::KickPlayerRequest { player: "Ann".to_owned(), ..v1::KickPlayerRequest::default() };
    let kicked = tokio::spawn(async move { other.kick_player(kick).await });
    let sent = node.command().await;
    node.report(&sent.id, CommandState::Succeeded, "ok").await;
    assert_eq!(soon("the kick", kicked).await.expect("no panic").expect("kicked").into_inner().state(), CommandState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_store_away_for_a_moment_streams_stay_up_calls_say_unavailable_and_all_recovers() {
    let mut etcd = Etcd::start().await.expect("etcd");
    // Half of it is far more than etcd is away here.
    let replica = Replica::start(Config { lease: Duration::from_secs(60), ..on(etcd.url()) }).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "lobby").await;
    let mut node = Hello::new("edge").sessions([session("Ann", "lobby")]).attach(&replica).await;
    node.take_push().await;
    etcd.kill().expect("killed");
    refused(admin.list_nodes(v1::ListNodesRequest::default()).await, Code::Unavailable, &["store is away"]);
    let backend = v1::Backend { name: "x".to_owned(), address: "127.0.0.1:1".to_owned(), ..v1::Backend::default() };
    let set = v1::SetBackendRequest { backend: Some(backend), keep_drained: false };
    refused(soon("an answer", admin.set_backend(set)).await, Code::Unavailable, &["store is away"]);
    // The stream goes on: a sign of life comes, and what the node reports now is written when the store is back.
    let alive = |message| matches!(message, v1::control_message::Message::Heartbeat(_)).then_some(());
    node.next("sign of life", alive).await;
    let back = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        etcd.restart().await.expect("etcd is back");
    };
    let (bob, ()) = (session("Bob", "lobby"), ());
    tokio::join!(node.events([Event::Set(bob)]), back);
    assert_eq!(players(&mut admin).await, ["Ann", "Bob"]);
    // The views follow again: a change reaches the node on the same stream.
    set_backend(&mut admin, "games").await;
    node.take_push().await;
    let mut other = admin.clone();
    let kick = v1::KickPlayerRequest { player: "bob".to_owned(), ..v1::KickPlayerRequest::default() };
    let kicked = tokio::spawn(async move { other.kick_player(kick).await });
    let sent = node.command().await;
    node.report(&sent.id, CommandState::Succeeded, "ok").await;
    assert_eq!(soon("the kick", kicked).await.expect("no panic").expect("kicked").into_inner().state(), CommandState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_store_away_for_longer_nodes_are_sent_on_refused_at_once_and_back_when_it_is() {
    let mut etcd = Etcd::start().await.expect("etcd");
    let replica = replica(&etcd).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "lobby").await;
    let hello = Hello::new("edge").sessions([session("Ann", "lobby")]);
    let mut node = hello.attach(&replica).await;
    node.take_push().await;
    let lease = node.welcome.lease_id;
    etcd.kill().expect("killed");
    let away = Instant::now();
    let end = node.end().await.expect("a status");
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    assert!(end.message().contains("attach to another"), "{end:?}");
    assert!(away.elapsed() < Duration::from_secs(10), "{:?}", away.elapsed());
    let again = Hello { lease, ..hello };
    let asked = Instant::now();
    let refusal = again.try_attach(&replica).await.err().expect("refused");
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal:?}");
    assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
    etcd.restart().await.expect("etcd is back");
    let back = Instant::now();
    let mut node = eventually("the node again", async || again.try_attach(&replica).await.ok()).await;
    assert!(back.elapsed() < Duration::from_secs(10), "{:?}", back.elapsed());
    node.take_push().await;
    assert_eq!(players(&mut admin).await, ["Ann"]);
}

/// The names of the backends that a full snapshot holds.
fn backends(push: &v1::control_message::Message) -> Vec<&str> {
    let v1::control_message::Message::Snapshot(snapshot) = push else { panic!("expected a full snapshot, got {push:?}") };
    snapshot.backends.iter().map(|backend| backend.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_was_emptied_is_begun_with_anew_by_running_replicas() {
    let mut etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (replica(&etcd).await, replica(&etcd).await);
    let (mut at_one, mut at_two) = (one.admin().await, two.admin().await);
    set_backend(&mut at_one, "lobby").await;
    let hello = Hello::new("edge").sessions([session("Ann", "lobby")]);
    let mut node = hello.attach(&one).await;
    let held = node.take_push().await;
    let (store, lease) = (node.welcome.store_id.clone(), node.welcome.lease_id);
    etcd.wipe().expect("emptied");
    etcd.restart().await.expect("etcd is back");
    assert_eq!(node.end().await.expect("a status").code(), Code::Unavailable);
    // What a node does: it says hello again, with what it holds.
    let again = Hello { lease, held: Some(held), ..hello };
    let mut node = eventually("the node again", async || again.try_attach(&one).await.ok()).await;
    assert!(!node.welcome.lease_resumed);
    assert_ne!(node.welcome.store_id, store);
    let push = node.push().await;
    assert!(backends(&push).is_empty(), "{push:?}");
    node.send(v1::node_message::Message::Ack(revision_of(&push))).await;
    assert_eq!(eventually_players(&mut at_one, 1).await, ["Ann"]);
    // The other replica, too, and on the same store.
    assert_eq!(eventually_players(&mut at_two, 1).await, ["Ann"]);
    assert_eq!(etcd_store(&two).await, node.welcome.store_id);
    set_backend(&mut at_two, "games").await;
    node.take_push().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_restored_from_a_snapshot_reaches_running_replicas_and_their_nodes() {
    let mut etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (replica(&etcd).await, replica(&etcd).await);
    let (mut at_one, mut at_two) = (one.admin().await, two.admin().await);
    set_backend(&mut at_one, "lobby").await;
    etcd.save().await.expect("saved");
    set_backend(&mut at_one, "later").await;
    let hello = Hello::new("edge").sessions([session("Ann", "lobby")]);
    let mut node = hello.attach(&one).await;
    let held = node.take_push().await;
    let (store, lease) = (node.welcome.store_id.clone(), node.welcome.lease_id);
    etcd.restore().await.expect("restored");
    etcd.restart().await.expect("etcd is back");
    assert_eq!(node.end().await.expect("a status").code(), Code::Unavailable);
    let again = Hello { lease, held: Some(held.clone()), ..hello };
    let mut node = eventually("the node again", async || again.try_attach(&one).await.ok()).await;
    let push = node.push().await;
    assert_eq!(backends(&push), ["lobby"]);
    assert!(revision_of(&push).number < held.number, "{push:?}");
    // Whatever revision it comes to again, none of the old ones is taken for it.
    assert_ne!(node.welcome.store_id, store, "the restored store has an id of its own");
    assert_eq!(revision_of(&push).store_id, node.welcome.store_id);
    node.send(v1::node_message::Message::Ack(revision_of(&push))).await;
    assert_eq!(eventually_players(&mut at_one, 1).await, ["Ann"]);
    assert_eq!(eventually_players(&mut at_two, 1).await, ["Ann"]);
    assert_eq!(etcd_store(&two).await, node.welcome.store_id);
    set_backend(&mut at_two, "games").await;
    node.take_push().await;
}

/// The players, once there are so many; a replica that begins anew takes no calls for a moment.
async fn eventually_players(
    admin: &mut moonbridge_proto::v1::admin_service_client::AdminServiceClient<tonic::transport::Channel>,
    count: usize,
) -> Vec<String> {
    eventually("the players", async || {
        let answer = admin.list_players(v1::ListPlayersRequest::default()).await.ok()?.into_inner();
        let names: Vec<_> = answer.players.into_iter().map(|session| session.player).collect();
        (names.len() == count).then_some(names)
    })
    .await
}

/// The one replica that is cut off sends its node to the other, which goes on with its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_leaves_a_replica_that_is_cut_off_before_its_presence_ends() {
    let etcd = Etcd::start().await.expect("etcd");
    let link = Link::to(etcd.url()).await;
    let lease = Duration::from_secs(10);
    let cut_off = Replica::start(Config { lease, ..on(link.url()) }).await;
    let whole = Replica::start(Config { lease, ..on(etcd.url()) }).await;
    let mut admin = whole.admin().await;
    let hello = Hello::new("edge").sessions([session("Ann", "lobby")]);
    let node = hello.attach(&cut_off).await;
    let lease = node.welcome.lease_id;
    assert_eq!(players(&mut admin).await, ["Ann"]);
    link.cut();
    let end = node.end().await.expect("a status");
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    assert_eq!(players(&mut admin).await, ["Ann"], "there is time left");
    let node = Hello { lease, ..hello }.attach(&whole).await;
    assert!(node.welcome.lease_resumed);
    assert_eq!(players(&mut admin).await, ["Ann"]);
}

/// A way to etcd that can be cut: from then on nothing gets through it, and no connection is told.
struct Link {
    port: u16,
    cut: CancellationToken,
    task: JoinHandle<()>,
}

impl Link {
    async fn to(url: String) -> Self {
        let etcd = url.strip_prefix("http://").expect("http").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let link = listener.local_addr().expect("an address").port();
        let cut = CancellationToken::new();
        let is_cut = cut.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let (is_cut, etcd) = (is_cut.clone(), etcd.clone());
                connections.spawn(async move {
                    let pass = async {
                        let mut far = TcpStream::connect(etcd).await?;
                        tokio::io::copy_bidirectional(&mut near, &mut far).await
                    };
                    if is_cut.run_until_cancelled(pass).await.is_none() {
                        // Held open.
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { port: link, cut, task }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn cut(&self) {
        self.cut.cancel();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}
