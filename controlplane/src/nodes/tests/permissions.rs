//! What nodes are told of their players' permissions, on an embedded store that the test can take away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use moonbridge_proto::v1::{self, control_message};
use prost::Message;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use uuid::Uuid;

use super::{SOON, soon};
use crate::keys;
use crate::nodes::claims::{self, Held};
use crate::nodes::permissions::{Players, tell};
use crate::nodes::stream::{End, Out};
use crate::replica::Replica;
use crate::store::embedded::Embedded;
use crate::store::{Change, Committed, Entry, LeaseId, List, Page, Store, StoreError, StoreRevision, Txn, Watch};

/// The store, and how many users are read from it.
struct Watched {
    inner: Embedded,
    away: AtomicBool,
    hangs: AtomicBool,
    reading: AtomicUsize,
    /// How many were at once.
    most: AtomicUsize,
}

#[tonic::async_trait]
impl Store for Watched {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.inner.get(key).await
    }

    async fn list(&self, list: List) -> Result<Page, StoreError> {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("taken away".to_owned()));
        }
        if !list.prefix.starts_with(keys::PERMISSION_USERS) {
            return self.inner.list(list).await;
        }
        let reading = self.reading.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(reading, Ordering::SeqCst);
        // The others come to read meanwhile.
        tokio::task::yield_now().await;
        let page = self.inner.list(list).await;
        self.reading.fetch_sub(1, Ordering::SeqCst);
        page
    }

    async fn txn(&self, txn: Txn) -> Result<Committed, StoreError> {
        self.inner.txn(txn).await
    }

    async fn watch(&self, prefix: &str, from: StoreRevision) -> Result<Watch, StoreError> {
        self.inner.watch(prefix, from).await
    }

    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        self.inner.lease_grant(ttl).await
    }

    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.lease_keep_alive(lease).await
    }

    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.lease_revoke(lease).await
    }
}

/// A replica that follows users, and a node that it tells.
struct Stage {
    replica: Arc<Replica>,
    store: Arc<Watched>,
    players: Players,
    out: Out,
    told: mpsc::Receiver<Result<v1::ControlMessage, Status>>,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn of(hello: &v1::Hello) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = Embedded::open(folder.path()).expect("a store");
        let store = Arc::new(Watched {
            inner,
            away: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            reading: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let replica = Replica::new("replica".to_owned(), SOON, store.clone(), CancellationToken::new());
        let (sender, told) = mpsc::channel(8);
        Self { replica, store, players: Players::of(hello), out: Out { sender, patience: SOON }, told, _folder: folder }
    }

    async fn put(&self, key: String, value: Vec<u8>) -> StoreRevision {
        let changes = vec![Change::Put { key, value, lease: 0 }];
        match self.store.txn(Txn { compares: Vec::new(), changes }).await.expect("stored") {
            Committed::Yes(revision) => revision,
            Committed::Conflict => unreachable!("nothing is compared"),
        }
    }

    async fn set(&self, generation: &str, player: Uuid, permission: &str) -> StoreRevision {
        self.put(keys::permission_user(generation, player), user(player, permission).encode_to_vec()).await
    }
}

fn user(player: Uuid, permission: &str) -> v1::PermissionUser {
    let node = v1::PermissionNode { key: permission.to_owned(), value: true, ..v1::PermissionNode::default() };
    v1::PermissionUser { uuid: player.to_string(), nodes: vec![node], ..v1::PermissionUser::default() }
}

fn session(player: Uuid) -> v1::Session {
    v1::Session { id: player.to_string(), player_uuid: player.to_string(), ..v1::Session::default() }
}

fn hello(players: impl IntoIterator<Item = u128>) -> v1::Hello {
    let sessions = players.into_iter().map(|player| session(Uuid::from_u128(player))).collect();
    v1::Hello { sessions, ..v1::Hello::default() }
}

async fn message(told: &mut mpsc::Receiver<Result<v1::ControlMessage, Status>>) -> control_message::Message {
    soon(told.recv()).await.expect("a message").expect("no end").message.expect("not empty")
}

/// The next player that is told of, the revision, and its only permission.
async fn next(told: &mut mpsc::Receiver<Result<v1::ControlMessage, Status>>) -> (u128, StoreRevision, Option<String>) {
    let control_message::Message::Permissions(permissions) = message(told).await else { panic!("expected permissions") };
    read(permissions)
}

fn read(permissions: v1::UserPermissions) -> (u128, StoreRevision, Option<String>) {
    let player = Uuid::try_parse(&permissions.player_uuid).expect("a UUID").as_u128();
    let revision = permissions.revision.expect("a revision").number;
    (player, revision, permissions.user.map(|user| user.nodes[0].key.clone()))
}

/// Runs what tells a node for as long as the test takes.
async fn with(work: impl Future<Output = Result<(), End>>, test: impl Future<Output = ()>) {
    tokio::select! {
        _ = work => panic!("it ended"),
        () = test => {}
    }
}

#[tokio::test]
async fn after_a_hello_all_are_told_a_few_at_a_time_and_then_what_changes() {
    const PLAYERS: u128 = 200;
    let mut stage = Stage::of(&hello(1..=PLAYERS)).await;
    let [first, stranger] = [Uuid::from_u128(1), Uuid::from_u128(1_000)];
    stage.set("0", first, "a").await;
    let (replica, changes) = (stage.replica.clone(), stage.replica.users.changes());
    let follow = replica.users.follow(&*replica.store, CancellationToken::new());
    let (players, out) = (std::mem::take(&mut stage.players), stage.out.clone());
    let told = tell(&replica, &players, changes, &out);
    let work = async { tokio::join!(follow, told).1 };
    with(work, async {
        let mut seen = BTreeMap::new();
        // Whoever is read when the feed begins may be read once more.
        while seen.len() < PLAYERS as usize {
            let (player, _, permission) = next(&mut stage.told).await;
            seen.insert(player, permission);
        }
        let granted: Vec<_> = seen.iter().filter_map(|(player, permission)| permission.as_ref().map(|it| (*player, it.as_str()))).collect();
        assert_eq!(granted, [(1, "a")]);
        assert!((2..=32).contains(&stage.store.most.load(Ordering::SeqCst)), "{:?}", stage.store.most);

        stage.set("0", stranger, "b").await;
        let changed = stage.set("0", first, "b").await;
        loop {
            let (player, revision, permission) = next(&mut stage.told).await;
            assert_ne!(player, stranger.as_u128());
            if (player, permission.as_deref()) == (1, Some("b")) {
                assert!(revision >= changed);
                break;
            }
        }

        // Another generation: everybody is read anew.
        stage.set("1", first, "c").await;
        let head = v1::PermissionHead { generation: "1".to_owned() };
        let imported = stage.put(keys::PERMISSION_HEAD.to_owned(), head.encode_to_vec()).await;
        let mut anew = BTreeSet::new();
        while anew.len() < PLAYERS as usize {
            let (player, revision, permission) = next(&mut stage.told).await;
            if revision >= imported {
                assert_eq!(permission.as_deref(), (player == 1).then_some("c"));
                anew.insert(player);
            }
        }

        // The first one leaves; what is told next is not of it.
        let end = v1::SessionEnded { id: first.to_string(), reason: "player_left".to_owned() };
        players.changed(&[v1::SessionEvent { event: Some(v1::session_event::Event::Ended(end)) }]);
        stage.set("1", first, "d").await;
        stage.set("1", Uuid::from_u128(2), "d").await;
        loop {
            let (player, _, permission) = next(&mut stage.told).await;
            assert_ne!((player, permission.as_deref()), (1, Some("d")));
            if (player, permission.as_deref()) == (2, Some("d")) {
                break;
            }
        }
    })
    .await;
}

/// Whatever it says may take something away, so that what the node knew before is void: however it comes to be read.
#[tokio::test]
async fn what_cannot_be_read_is_told_as_that_and_of_which_generation_all_is() {
    let mut stage = Stage::of(&hello([1])).await;
    let ann = Uuid::from_u128(1);
    let head = v1::PermissionHead { generation: "other".to_owned() };
    stage.put(keys::PERMISSION_HEAD.to_owned(), head.encode_to_vec()).await;
    stage.put(keys::permission_user("other", ann), vec![0xff]).await;
    let (replica, changes) = (stage.replica.clone(), stage.replica.users.changes());
    let follow = replica.users.follow(&*replica.store, CancellationToken::new());
    let (players, out) = (std::mem::take(&mut stage.players), stage.out.clone());
    let told = tell(&replica, &players, changes, &out);
    let work = async { tokio::join!(follow, told).1 };
    with(work, async {
        let told = async |stage: &mut Stage, is: fn(&v1::UserPermissions) -> bool| {
            soon(async {
                loop {
                    let control_message::Message::Permissions(told) = message(&mut stage.told).await else {
                        panic!("expected permissions")
                    };
                    assert_eq!((told.player_uuid.as_str(), told.generation.as_str()), (ann.to_string().as_str(), "other"));
                    // One who is read when the feed begins may be read once more.
                    if is(&told) {
                        return;
                    }
                }
            })
            .await;
        };
        let is_void = |told: &v1::UserPermissions| told.unreadable && told.user.is_none();
        let is_user = |told: &v1::UserPermissions| !told.unreadable && told.user.is_some();
        told(&mut stage, is_void).await;
        stage.set("other", ann, "a").await;
        told(&mut stage, is_user).await;
        stage.put(keys::permission_user("other", ann), vec![0xff]).await;
        told(&mut stage, is_void).await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_away_is_asked_until_it_is_back() {
    let mut stage = Stage::of(&hello([1, 2])).await;
    stage.store.away.store(true, Ordering::SeqCst);
    let (replica, changes) = (stage.replica.clone(), stage.replica.users.changes());
    let (players, out) = (std::mem::take(&mut stage.players), stage.out.clone());
    with(tell(&replica, &players, changes, &out), async {
        assert!(tokio::time::timeout(Duration::from_millis(700), stage.told.recv()).await.is_err());
        stage.store.away.store(false, Ordering::SeqCst);
        let both = BTreeSet::from([next(&mut stage.told).await.0, next(&mut stage.told).await.0]);
        assert_eq!(both, BTreeSet::from([1, 2]));
    })
    .await;
}

#[tokio::test]
async fn a_claim_is_answered_with_what_its_player_has_or_in_time_without() {
    let mut stage = Stage::of(&hello([])).await;
    let (replica, changes) = (stage.replica.clone(), stage.replica.users.changes());
    let (players, out) = (std::mem::take(&mut stage.players), stage.out.clone());
    let (sender, held) = mpsc::channel(8);
    // Presence is not followed here, and has come to no revision.
    let claim = |session: &str, player: Uuid| Held {
        session: session.to_owned(),
        player: players.claimed(session, &player.to_string()),
        name: format!("Player{}", player.as_u128()),
        revision: 0,
        after: Vec::new(),
    };
    let work = async {
        tokio::try_join!(claims::answer(&replica, "n", &players, &out, held), tell(&replica, &players, changes, &out)).map(|_| ())
    };
    with(work, async {
        let player = Uuid::from_u128(7);
        let stored = stage.set("0", player, "a").await;
        assert!(sender.send(claim("one", player)).await.is_ok());
        let control_message::Message::ClaimAnswer(answer) = message(&mut stage.told).await else { panic!("expected an answer") };
        assert_eq!((answer.session_id.as_str(), answer.held), ("one", true));
        let (told, revision, permission) = read(answer.permissions.expect("permissions"));
        assert_eq!((told, permission.as_deref()), (7, Some("a")));
        assert!(revision >= stored);
        // Its name is noted by and by.
        soon(async {
            while stage.store.get(&keys::permission_player("PLAYER7")).await.expect("read").is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;

        stage.store.hangs.store(true, Ordering::SeqCst);
        let began = Instant::now();
        assert!(sender.send(claim("two", Uuid::from_u128(8))).await.is_ok());
        let control_message::Message::ClaimAnswer(answer) = message(&mut stage.told).await else { panic!("expected an answer") };
        assert_eq!((answer.session_id.as_str(), answer.held, answer.permissions), ("two", true, None));
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    })
    .await;
    // A read that hangs for good ends with the stream; one that fails is made again.
    stage.store.hangs.store(false, Ordering::SeqCst);
    with(tell(&replica, &players, replica.users.changes(), &out), async {
        players.read(Uuid::from_u128(8));
        assert_eq!(next(&mut stage.told).await.0, 8);
    })
    .await;
}
