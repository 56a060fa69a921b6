//! Nodes' streams on the embedded store: pushes, presence, leases.

use moonbridge_proto::v1;
use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::node_message::Message as Up;
use moonbridge_proto::v1::session_event::Event;
use tempfile::tempdir;
use tonic::Code;

use crate::support::{Hello, Replica, eventually, nodes, open, players, revision_of, session, set_backend, soon, up};

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_store_gives_an_empty_snapshot_and_every_change_a_delta() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = Hello::new("edge").attach(&replica).await;
    let Down::Snapshot(first) = node.push().await else { panic!("expected a snapshot") };
    assert!(first.backends.is_empty() && first.routes.is_empty());
    // Not before the first was answered.
    set_backend(&mut admin, "one").await;
    node.send(Up::Ack(first.revision.clone().expect("a revision"))).await;
    let Down::Delta(delta) = node.push().await else { panic!("expected a delta") };
    assert_eq!((delta.from, delta.set_backends.len()), (first.revision, 1));
    let set = delta.to.expect("a revision");
    node.send(Up::Ack(set.clone())).await;
    // A removal moves the number as well.
    admin.remove_backend(v1::RemoveBackendRequest { name: "one".to_owned(), force: false }).await.expect("removed");
    let Down::Delta(delta) = node.push().await else { panic!("expected a delta") };
    assert_eq!(delta.removed_backends, ["one"]);
    let removed = delta.to.expect("a revision");
    assert!(removed.number > set.number);
    node.send(Up::Ack(removed.clone())).await;
    eventually("the revision in the list", async || {
        nodes(&mut admin).await.into_iter().find(|listed| listed.revision.as_ref() == Some(&removed))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_push_is_sent_whole_once_then_left_until_there_is_another_and_the_refusal_is_seen() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = Hello::new("edge").attach(&replica).await;
    node.take_push().await;
    set_backend(&mut admin, "one").await;
    let delta = node.push().await;
    assert!(matches!(delta, Down::Delta(_)));
    let nack = |revision: &v1::Revision| {
        let errors = vec![v1::FieldError { path: "backends[0].address".to_owned(), problem: "bad".to_owned() }];
        Up::Nack(v1::Nack { revision: Some(revision.clone()), errors })
    };
    let refused = revision_of(&delta);
    node.send(nack(&refused)).await;
    let whole = node.push().await;
    assert!(matches!(&whole, Down::Snapshot(snapshot) if snapshot.revision.as_ref() == Some(&refused)), "{whole:?}");
    node.send(nack(&refused)).await;
    let listed = eventually("the refusal in the list", async || {
        nodes(&mut admin).await.into_iter().find(|node| node.refused.as_ref() == Some(&refused))
    })
    .await;
    assert_eq!(listed.refused_for[0].path, "backends[0].address");
    set_backend(&mut admin, "two").await;
    let next = node.push().await;
    assert!(revision_of(&next).number > refused.number, "the refused one is not sent a third time");
    node.send(Up::Ack(revision_of(&next))).await;
    eventually("the refusal to be over", async || nodes(&mut admin).await.into_iter().find(|node| node.refused.is_none())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_gets_only_what_it_lacks() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "one").await;
    let hello = Hello::new("edge");
    let mut node = hello.attach(&replica).await;
    assert!(!node.welcome.lease_resumed);
    let held = node.take_push().await;
    let lease = node.welcome.lease_id;
    node.vanish();

    let again = Hello { lease, held: Some(held.clone()), ..hello.clone() };
    let mut node = again.attach(&replica).await;
    assert!(node.welcome.lease_resumed);
    assert_eq!(node.welcome.lease_id, lease);
    // It holds the newest: the first push is of the next change.
    set_backend(&mut admin, "two").await;
    let Down::Delta(delta) = node.push().await else { panic!("expected a delta") };
    assert_eq!((delta.from, delta.set_backends.len()), (Some(held.clone()), 1));
    node.vanish();

    // Behind, but not far: a delta again. Of another store, or ahead: all.
    let mut node = again.attach(&replica).await;
    assert!(matches!(node.push().await, Down::Delta(_)));
    node.vanish();
    for strange in [v1::Revision { store_id: "other".to_owned(), ..held.clone() }, v1::Revision { number: 1 << 40, ..held }] {
        let mut node = Hello { held: Some(strange), ..again.clone() }.attach(&replica).await;
        assert!(matches!(node.push().await, Down::Snapshot(_)));
        node.vanish();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn presence_is_what_the_node_says_and_everybody_is_told_the_count() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let (ann, bob) = (session("Ann", "one"), session("Bob", "one"));
    let hello = Hello::new("edge").sessions([ann.clone(), bob.clone()]);
    let mut node = hello.attach(&replica).await;
    assert_eq!(players(&mut admin).await, ["Ann", "Bob"]);
    let count = |wanted| move |message| matches!(message, Down::Status(status) if status.players_elsewhere == wanted).then_some(());
    let mut other = Hello::new("other").attach(&replica).await;
    other.next("two players", count(2)).await;
    node.next("none elsewhere", count(0)).await;

    let cid = session("Cid", "two");
    let moved = v1::Session { backend: "two".to_owned(), ..ann.clone() };
    let ended = v1::SessionEnded { id: bob.id.clone(), reason: "quit".to_owned() };
    node.events([Event::Set(moved.clone()), Event::Ended(ended), Event::Set(cid.clone())]).await;
    let on_two = v1::ListPlayersRequest { backend: "two".to_owned(), ..v1::ListPlayersRequest::default() };
    let on_two = admin.list_players(on_two).await.expect("players").into_inner().players;
    assert_eq!(on_two.len(), 2);
    assert!(on_two.iter().all(|session| session.node_name == "edge" && session.node_id == node.id));
    for by in ["aNN", &ann.player_uuid, &ann.player_uuid.replace('-', "")] {
        let request = v1::ListPlayersRequest { player: by.to_owned(), ..v1::ListPlayersRequest::default() };
        let found = admin.list_players(request).await.expect("players").into_inner().players;
        assert_eq!(found.iter().map(|session| session.player.as_str()).collect::<Vec<_>>(), ["Ann"], "{by}");
    }
    // A Hello replaces all.
    let lease = node.welcome.lease_id;
    node.vanish();
    let _node = Hello { lease, ..hello.sessions([cid]) }.attach(&replica).await;
    assert_eq!(players(&mut admin).await, ["Cid"]);
    other.next("one player", count(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sessions_come_and_go() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let all: Vec<_> = (0..1_000).map(|index| session(&format!("p{index}"), "one")).collect();
    let mut node = Hello::new("edge").sessions(all.clone()).attach(&replica).await;
    assert_eq!(count(&mut admin).await, 1_000);
    let ended = |session: &v1::Session| Event::Ended(v1::SessionEnded { id: session.id.clone(), reason: String::new() });
    node.events(all.iter().skip(1).map(ended)).await;
    assert_eq!(count(&mut admin).await, 1);
}

async fn count(admin: &mut moonbridge_proto::v1::admin_service_client::AdminServiceClient<tonic::transport::Channel>) -> usize {
    let mut request = v1::ListPlayersRequest { page_size: 300, ..v1::ListPlayersRequest::default() };
    let mut count = 0;
    loop {
        let page = admin.list_players(request.clone()).await.expect("players").into_inner();
        count += page.players.len();
        if page.next_page_token.is_empty() {
            return count;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_stream_of_a_node_wins() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let hello = Hello::new("edge").sessions([session("Ann", "one")]);
    let older = hello.attach(&replica).await;
    let mut newer = Hello { lease: older.welcome.lease_id, ..hello.sessions([session("Bob", "one")]) }.attach(&replica).await;
    let end = older.end().await.expect("a status");
    assert_eq!(end.code(), Code::Aborted, "{end:?}");
    newer.events([Event::Set(session("Cid", "one"))]).await;
    assert_eq!(players(&mut admin).await, ["Bob", "Cid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_is_gone_after_its_lease_and_one_that_leaves_at_once() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let dies = Hello::new("dies").sessions([session("Ann", "one")]).attach(&replica).await;
    let lease = std::time::Duration::from_secs(dies.welcome.lease_seconds.into());
    dies.vanish();
    let died = std::time::Instant::now();
    assert_eq!(players(&mut admin).await, ["Ann"], "not before its lease");
    eventually("the end of its presence", async || nodes(&mut admin).await.is_empty().then_some(())).await;
    assert!(players(&mut admin).await.is_empty());
    assert!(died.elapsed() > lease / 3);
    drop(replica);

    // With a lease that nobody could wait for.
    let folder = tempdir().expect("a folder");
    let store = moonbridge_controlplane::config::StoreConfig::Embedded { data_dir: folder.path().to_owned() };
    let config = moonbridge_controlplane::Config { lease: std::time::Duration::from_secs(600), ..crate::support::config(store) };
    let replica = Replica::start(config).await;
    let mut admin = replica.admin().await;
    Hello::new("leaves").attach(&replica).await.leave().await;
    assert!(nodes(&mut admin).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_loses_its_stream_then_its_presence() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let node = Hello::new("edge").attach(&replica).await;
    node.fall_silent();
    let end = node.end().await.expect("a status");
    assert_eq!(end.code(), Code::DeadlineExceeded, "{end:?}");
    eventually("the end of its presence", async || nodes(&mut admin).await.is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_speaks_out_of_turn_is_refused() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let refused = async |first| {
        let (_messages, mut incoming) = open(&replica, first).await.expect("a stream");
        soon("the refusal", incoming.message()).await.expect_err("refused")
    };
    let no_hello = refused(up(Up::Heartbeat(v1::Heartbeat { node: None }))).await;
    assert_eq!(no_hello.code(), Code::InvalidArgument, "{no_hello:?}");
    let no_node = refused(up(Up::Hello(v1::Hello::default()))).await;
    assert!(no_node.message().contains("hello.node"), "{no_node:?}");
    let bad_id = Hello { id: "../x".to_owned(), ..Hello::new("edge") };
    let bad_id = bad_id.try_attach(&replica).await.err().expect("refused");
    assert!(bad_id.message().contains("hello.node.id"), "{bad_id:?}");
    let node = Hello::new("edge").attach(&replica).await;
    node.send(Up::Hello(v1::Hello::default())).await;
    assert_eq!(node.end().await.expect("a status").code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_tells_the_nodes_and_no_two_nodes_share_a_lease() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let (one, two) = (Hello::new("one"), Hello::new("two"));
    let node = one.attach(&replica).await;
    let lease = node.welcome.lease_id;
    replica.stop().await;
    let end = node.end().await.expect("a status");
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");

    // The number that a node gives may be another node's: it gets a lease of its own.
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let second = two.attach(&replica).await;
    let first = Hello { lease: second.welcome.lease_id, ..one.clone() }.attach(&replica).await;
    assert!(!first.welcome.lease_resumed);
    assert_ne!(first.welcome.lease_id, second.welcome.lease_id);
    first.leave().await;
    assert_eq!(nodes(&mut admin).await.into_iter().map(|node| node.name).collect::<Vec<_>>(), ["two"]);
    // The embedded store forgets leases.
    let first = Hello { lease, ..one }.attach(&replica).await;
    assert!(!first.welcome.lease_resumed);
}
