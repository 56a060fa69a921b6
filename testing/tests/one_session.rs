//! One session a player, whatever node and replica it comes to: the newest login wins, or is refused.
//!
//! The backends refuse a name that is connected already, and no test lets them: the earlier session has always gone there first.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use moonbridge_proto::v1;
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_testing::etcd::Etcd;
use moonbridge_testing::network::{Plane, Up, folder};
use moonbridge_testing::peer::{Backend, Kind, Player, Served};
use moonbridge_testing::process::SOON;
use moonbridge_testing::wire::{self, Ending, Wire};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tonic::transport::Channel;

/// Longer than anything but a dead node's end takes.
const LEASE: &str = "10s";
const ELSEWHERE: &str = "You logged in from another location.";
const CONNECTED: &str = "You are already connected to this network.";

/// A backend that refuses a name twice.
async fn backend() -> (Backend, u16) {
    Backend::serve(Kind::Npm, "one", json!({ "once": true })).await
}

async fn configure(replica: &Plane, port: u16) {
    replica.cli().ok(&["backend", "set", "one", "--address", &format!("127.0.0.1:{port}")]).await;
    replica.cli().ok(&["route", "set", "*", "--backends", "one"]).await;
}

fn on_etcd(etcd: &Etcd, lease: &str) -> String {
    format!("lease = \"{lease}\"\n[store.etcd]\nendpoints = [\"{}\"]\nprefix = \"/test/\"\n", etcd.url())
}

fn node_of(replica: &Plane) -> String {
    format!("control = [\"{}\"]\nworkers = 2\n", replica.url())
}

/// The backend has never seen a player twice at once.
fn assert_in_turn(backend: &Backend) {
    let all = backend.all();
    assert!(!all.iter().any(|served| matches!(served, Served::AlreadyConnected { .. })), "{}", backend.log());
}

/// What a server list shows of players online.
async fn online(listen: SocketAddr) -> u64 {
    let mut list = Wire::connect(listen).await.expect("it listens");
    list.handshake(5, "localhost", 1).await.expect("it reads");
    list.send(0, &[]).await.expect("it reads");
    let (_, answer) = list.receive().await.expect("a status");
    let start = answer.iter().position(|byte| *byte == b'{').expect("JSON");
    let status: Value = serde_json::from_slice(&answer[start..]).expect("JSON");
    status["players"]["online"].as_u64().expect("a number")
}

/// Looks at the player list and the server lists all the time: neither ever shows more than one player.
struct Lookout(JoinHandle<()>, Arc<AtomicUsize>);

impl Lookout {
    async fn begin(control: String, lists: Vec<SocketAddr>) -> Lookout {
        let channel = Channel::from_shared(control).expect("a URL").connect().await.expect("the replica");
        let mut admin = AdminServiceClient::new(channel);
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let looking = tokio::spawn(async move {
            loop {
                let listed = admin.list_players(v1::ListPlayersRequest::default()).await.expect("a list").into_inner().players;
                assert!(listed.len() <= 1, "the player is listed twice: {listed:?}");
                for list in &lists {
                    let online = online(*list).await;
                    assert!(online <= 1, "{list} counts {online}");
                }
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Lookout(looking, looks)
    }

    /// Panics if it has seen too much.
    async fn end(self) {
        assert!(self.1.load(Ordering::Relaxed) >= 10, "it hardly looked");
        if self.0.is_finished() {
            self.0.await.expect("all was well");
        } else {
            self.0.abort();
        }
    }
}

/// The player joins, joins again elsewhere, and once more where it was first.
async fn newest_wins(backend: &mut Backend, control: String, nodes: [SocketAddr; 2]) -> Player {
    let lookout = Lookout::begin(control, nodes.to_vec()).await;
    let mut first = Player::join(Kind::Npm, nodes[0].port(), "Alice", json!({}));
    first.in_world().await;
    let mut conns = vec![backend.joined("Alice").await];
    for node in [nodes[1], nodes[0], nodes[0]] {
        // The name in other letters is another account offline, and the same name.
        let name = if conns.len() == 2 { "ALICE" } else { "Alice" };
        let mut next = Player::join(Kind::Npm, node.port(), name, json!({}));
        next.in_world().await;
        assert_eq!(first.kicked().await, (ELSEWHERE.to_owned(), "play".to_owned()));
        conns.push(backend.joined(name).await);
        assert_in_turn(backend);
        next.say("it is me").await;
        backend.chat("it is me").await;
        next.assert_well();
        first = next;
    }
    // Those of players: nodes look at backends, too.
    let end = |served| if let Served::End { conn, joined: true, .. } = served { Some(conn) } else { None };
    let ends = backend.all().into_iter().filter_map(end);
    assert_eq!(ends.collect::<Vec<_>>(), conns[..3], "each went as the next one came");
    first.assert_well();
    lookout.end().await;
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_login_wins_on_one_node() {
    let (mut backend, port) = backend().await;
    let data = folder();
    let replica = Plane::replica("only", &format!("[store.embedded]\ndata_dir = \"{}\"\n", data.path().join("store").display())).await;
    configure(&replica, port).await;
    let node = Plane::node("edge", &node_of(&replica)).await;
    let mut last = newest_wins(&mut backend, replica.url(), [node.listen; 2]).await;
    let rows = replica.cli().until(&["player", "list"], |rows| rows.len() == 1).await;
    assert_eq!(rows[0]["name"], "Alice");
    replica.cli().ok(&["player", "kick", "alice", "enough"]).await;
    assert_eq!(last.kicked().await.0, "enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_login_wins_on_two_nodes_of_one_replica() {
    let (mut backend, port) = backend().await;
    let data = folder();
    let replica = Plane::replica("only", &format!("[store.embedded]\ndata_dir = \"{}\"\n", data.path().join("store").display())).await;
    configure(&replica, port).await;
    let (a, b) = (Plane::node("a", &node_of(&replica)).await, Plane::node("b", &node_of(&replica)).await);
    newest_wins(&mut backend, replica.url(), [a.listen, b.listen]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_login_wins_on_two_nodes_of_two_replicas() {
    let etcd = Etcd::start().await.expect("etcd");
    let (mut backend, port) = backend().await;
    let (one, two) = (Plane::replica("one", &on_etcd(&etcd, LEASE)).await, Plane::replica("two", &on_etcd(&etcd, LEASE)).await);
    configure(&one, port).await;
    let (a, b) = (Plane::node("a", &node_of(&one)).await, Plane::node("b", &node_of(&two)).await);
    newest_wins(&mut backend, two.url(), [a.listen, b.listen]).await;
}

/// What became of one of many logins.
async fn log_in(listen: SocketAddr, name: &str) -> Option<Wire> {
    let mut player = Wire::connect(listen).await.expect("it listens");
    player.handshake(5, "localhost", 2).await.expect("it reads");
    // It may be told to go while it is still being let in.
    let _ = player.send(0, &wire::string(name)).await;
    match player.receive().await {
        Ok((2, _)) => Some(player),
        Ok((0, reason)) => {
            assert!(String::from_utf8_lossy(&reason).contains(ELSEWHERE), "{reason:?}");
            None
        }
        other => panic!("neither Login Success nor a reason: {other:?}"),
    }
}

/// Twenty logins of one name at once, on two nodes of two replicas: one is left.
#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_logins_at_once_one_stays() {
    let etcd = Etcd::start().await.expect("etcd");
    let (backend, port) = backend().await;
    let (one, two) = (Plane::replica("one", &on_etcd(&etcd, LEASE)).await, Plane::replica("two", &on_etcd(&etcd, LEASE)).await);
    configure(&one, port).await;
    let (a, b) = (Plane::node("a", &node_of(&one)).await, Plane::node("b", &node_of(&two)).await);
    let lookout = Lookout::begin(one.url(), vec![a.listen, b.listen]).await;
    for _ in 0..3 {
        let logins: Vec<_> = (0..20).map(|index| tokio::spawn(log_in([a.listen, b.listen][index % 2], "Alice"))).collect();
        let mut admitted = Vec::new();
        for login in logins {
            admitted.extend(login.await.expect("no panic"));
        }
        assert!(!admitted.is_empty());
        // All but one of those that were let in are told to go.
        let told = admitted.len() - 1;
        let mut endings = JoinSet::new();
        for mut player in admitted {
            endings.spawn(async move { player.ending(SOON).await });
        }
        for _ in 0..told {
            let Some(Ok(Ending::Closed(bytes))) = endings.join_next().await else { panic!("two are left") };
            assert!(wire::reason(&bytes).is_some_and(|reason| reason.contains(ELSEWHERE)), "{bytes:?}");
        }
        let cli = one.cli();
        tokio::select! {
            _ = cli.until(&["player", "list"], |rows| rows.len() == 1) => {}
            ended = endings.join_next() => panic!("the last one does not stay: {ended:?}"),
        }
        assert!(endings.try_join_next().is_none(), "the last one stays");
        assert_in_turn(&backend);
        // It goes as its connection is dropped.
        drop(endings);
        one.cli().until(&["player", "list"], <[Value]>::is_empty).await;
    }
    lookout.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_login_is_refused_if_that_is_the_policy() {
    let (mut backend, port) = backend().await;
    let up = Up::start(&["--backend", &format!("one=127.0.0.1:{port}"), "--duplicate-login", "refuse"]).await;
    let mut first = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    first.in_world().await;
    for name in ["Alice", "alice"] {
        let mut second = Player::join(Kind::Npm, up.listen.port(), name, json!({}));
        assert_eq!(second.kicked().await, (CONNECTED.to_owned(), "login".to_owned()));
    }
    first.assert_well();
    first.command("quit", json!({})).await;
    backend.left("Alice").await;
    up.cli.until(&["player", "list"], <[Value]>::is_empty).await;
    let mut third = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    third.in_world().await;
    assert_in_turn(&backend);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_gives_its_players_free_at_once_or_with_its_lease() {
    let etcd = Etcd::start().await.expect("etcd");
    let (mut backend, port) = backend().await;
    let replica = Plane::replica("one", &on_etcd(&etcd, LEASE)).await;
    configure(&replica, port).await;
    let (mut a, b) = (Plane::node("a", &node_of(&replica)).await, Plane::node("b", &node_of(&replica)).await);
    let mut first = Player::join(Kind::Npm, a.listen.port(), "Alice", json!({}));
    first.in_world().await;
    a.process.kill().await;
    backend.left("Alice").await;
    // The newest wins: the dead node is waited for, but not as long as its lease.
    let began = Instant::now();
    let (second, _) = Wire::join(b.listen, "localhost", "Alice").await.expect("let in");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let rows = replica.cli().rows(&["player", "list"]).await;
    assert!(rows.iter().all(|row| row["node"] == "b"), "{rows:?}");
    assert_in_turn(&backend);

    // Refuse: until the lease has ended, the player may still be there.
    let strict = Plane::replica("strict", &format!("{}[settings]\nduplicate_login = \"refuse\"\n", on_etcd(&etcd, LEASE))).await;
    let mut c = Plane::node("c", &node_of(&strict)).await;
    let mut bob = Player::join(Kind::Npm, c.listen.port(), "Bob", json!({}));
    bob.in_world().await;
    strict.cli().until(&["node", "list"], |rows| rows.iter().all(|row| row["revision"] == rows[0]["revision"])).await;
    c.process.kill().await;
    let mut early = Player::join(Kind::Npm, b.listen.port(), "Bob", json!({}));
    assert_eq!(early.kicked().await, (CONNECTED.to_owned(), "login".to_owned()));
    strict.cli().until(&["node", "list"], |rows| !rows.iter().any(|row| row["name"] == "c")).await;
    let mut late = Player::join(Kind::Npm, b.listen.port(), "Bob", json!({}));
    late.in_world().await;
    drop(second);
    assert_in_turn(&backend);
}

/// With the control plane away a player is unique per node; of two nodes' sessions the later one stays once it is back.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_to_be_with_the_control_plane_away_is_reconciled() {
    // It takes a name twice.
    let (mut backend, port) = Backend::serve(Kind::Npm, "one", json!({})).await;
    let data = folder();
    let mut replica = Plane::replica("only", &format!("[store.embedded]\ndata_dir = \"{}\"\n", data.path().join("store").display())).await;
    configure(&replica, port).await;
    let (a, b) = (Plane::node("a", &node_of(&replica)).await, Plane::node("b", &node_of(&replica)).await);
    let mut bob = Player::join(Kind::Npm, a.listen.port(), "Bob", json!({}));
    bob.in_world().await;
    replica.process.kill().await;
    // On one node the newest wins all the same.
    let mut before = Player::join(Kind::Npm, a.listen.port(), "Alice", json!({}));
    before.in_world().await;
    let mut earlier = Player::join(Kind::Npm, a.listen.port(), "Alice", json!({}));
    earlier.in_world().await;
    assert_eq!(before.kicked().await.0, ELSEWHERE);
    let mut later = Player::join(Kind::Npm, b.listen.port(), "Alice", json!({}));
    later.in_world().await;
    later.say("two of me").await;
    backend.chat("two of me").await;
    earlier.assert_well();
    replica.restart().await;
    assert_eq!(earlier.kicked().await, (ELSEWHERE.to_owned(), "play".to_owned()));
    let rows = replica.cli().until(&["player", "list"], |rows| rows.len() == 2).await;
    let on = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| row["node"].clone());
    assert_eq!((on("Alice"), on("Bob")), (Some(json!("b")), Some(json!("a"))), "{rows:?}");
    tokio::time::timeout(SOON, async {
        while online(a.listen).await != 2 || online(b.listen).await != 2 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("both nodes count both players, once each");
    later.assert_well();
    bob.assert_well();
}
