//! What only the store in etcd promises: what becomes of it when etcd is away, slow, closed to us, or used by others as well.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moonbridge_controlplane::store::etcd::{DEFAULT_PREFIX, Etcd, EtcdOptions, EtcdUser};
use moonbridge_controlplane::store::{Committed, Event, List, Store, StoreError};
use moonbridge_testing::etcd::{Etcd as Process, EtcdTls};
use tokio::net::TcpListener;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::support::{self, *};

/// The store's request timeout, and something for a busy machine.
const DEADLINE: Duration = Duration::from_secs(5 + 3);

/// A store in an etcd of its own.
pub(crate) struct Fixture {
    process: Process,
    store: Arc<Etcd>,
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        let process = Process::start().await.unwrap();
        let store = Arc::new(Etcd::connect(options(&[process.url()])).await.unwrap());
        Fixture { process, store }
    }
}

#[tonic::async_trait]
impl support::Fixture for Fixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    async fn compact(&self) {
        let newest = newest(&*self.store).await;
        let mut client = client(&self.process).await;
        client.compact(i64::try_from(newest).unwrap(), None).await.unwrap();
    }

    async fn id_seen_by_another(&self) -> String {
        Etcd::connect(options(&[self.process.url()])).await.unwrap().id().to_owned()
    }
}

fn options(endpoints: &[String]) -> EtcdOptions {
    EtcdOptions { endpoints: endpoints.to_vec(), prefix: DEFAULT_PREFIX.into(), tls: None, user: None }
}

/// etcd as others see it.
async fn client(process: &Process) -> etcd_client::Client {
    etcd_client::Client::connect([process.url()], None).await.unwrap()
}

/// That it is away, and in what time it was said.
async fn away<T: std::fmt::Debug>(call: impl Future<Output = Result<T, StoreError>>) -> Duration {
    let asked = Instant::now();
    let answer = soon(call).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert!(asked.elapsed() < DEADLINE, "{:?}", asked.elapsed());
    asked.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_etcd_is_away_in_time_and_back_later() {
    let fixture = Fixture::new().await;
    let store = &*fixture.store;
    put(store, "key", "before").await;
    let lease = store.lease_grant(Duration::from_secs(600)).await.unwrap();
    let mut watch = watch(store, "key", 1).await;
    batch(&mut watch).await;
    fixture.process.stop().unwrap();
    tokio::join!(
        away(store.get("key")),
        away(store.list(List::default())),
        away(store.txn(moonbridge_controlplane::store::Txn { compares: Vec::new(), changes: vec![put_change("other", "", 0)] })),
        away(store.lease_grant(Duration::from_secs(60))),
        away(store.lease_keep_alive(lease)),
        async {
            // The open one finds out by itself, by pings.
            assert!(matches!(end(&mut watch).await, StoreError::Unavailable(_)));
        },
    );
    tokio::join!(
        away(async { store.watch("key", 1).await.map(drop) }),
        away(async { Etcd::connect(options(&[fixture.process.url()])).await })
    );
    fixture.process.go_on().unwrap();
    assert_eq!(get(store, "key").await.map(|entry| entry.value), Some(b"before".into()));
    put(store, "key", "after").await;
    assert_eq!(get(store, "key").await.map(|entry| entry.value), Some(b"after".into()));
    store.lease_keep_alive(lease).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_etcd_is_away_at_once_and_back_after_a_restart() {
    let mut fixture = Fixture::new().await;
    let store = Arc::clone(&fixture.store);
    let revision = put(&*store, "key", "before").await;
    let mut open = watch(&*store, "key", revision).await;
    batch(&mut open).await;
    fixture.process.kill().unwrap();
    assert!(matches!(end(&mut open).await, StoreError::Unavailable(_)));
    for _ in 0..3 {
        away(store.get("key")).await;
        let refused = away(commit(&*store, Vec::new(), vec![put_change("key", "", 0)])).await;
        assert!(refused < Duration::from_secs(3), "{refused:?}");
        away(async { store.watch("key", 1).await.map(drop) }).await;
    }
    fixture.process.restart().await.unwrap();
    assert_eq!(get(&*store, "key").await, Some(entry("key", "before", revision)));
    let after = put(&*store, "key", "after").await;
    // What callers do: go on where the watch ended.
    let mut resumed = watch(&*store, "key", revision + 1).await;
    assert_eq!(batch(&mut resumed).await.events, [Event::Put(entry("key", "after", after))]);
    assert_eq!(Etcd::connect(options(&[fixture.process.url()])).await.unwrap().id(), store.id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_that_are_away_are_passed_over() {
    let process = Process::start().await.unwrap();
    // One refuses connections, one takes them and says nothing. Both are held to the end.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hanging = format!("http://{}", silent.local_addr().unwrap());
    for away in [vec![refusing.clone()], vec![hanging.clone()], vec![refusing, hanging]] {
        let endpoints: Vec<_> = away.iter().cloned().chain([process.url()]).collect();
        let asked = Instant::now();
        let store = Etcd::connect(options(&endpoints)).await.unwrap_or_else(|error| panic!("{endpoints:?}: {error}"));
        assert!(asked.elapsed() < DEADLINE, "{endpoints:?}: {:?}", asked.elapsed());
        // It keeps to the one that answers.
        let asked = Instant::now();
        for round in 0..20 {
            put(&store, "key", round.to_string()).await;
            get(&store, "key").await.unwrap();
        }
        assert!(asked.elapsed() < Duration::from_secs(3), "{endpoints:?}: {:?}", asked.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_are_stores_of_their_own() {
    let process = Process::start().await.unwrap();
    let connect = async |prefix: &str| {
        let options = EtcdOptions { prefix: prefix.into(), ..options(&[process.url()]) };
        Etcd::connect(options).await.unwrap()
    };
    let (one, other, root) = (connect("/bridge").await, connect("/bridge2/").await, connect("").await);
    assert!(one.id() != other.id() && one.id() != root.id() && other.id() != root.id());
    assert_eq!(connect("/bridge/").await.id(), one.id(), "a slash is added");
    let from = newest(&one).await + 1;
    // Others use etcd as well, and move its revision.
    let mut client = client(&process).await;
    for key in ["/bridge", "/bridge/", "/bridge/data", "/bridge/data0", "/bridge2", "elsewhere"] {
        client.put(key, "not ours", None).await.unwrap();
    }
    put(&other, "key", "other").await;
    let revision = put(&one, "key", "one").await;
    put(&root, "key", "root").await;
    assert_eq!(all(&one, "", 0).await, [entry("key", "one", revision)]);
    assert_eq!(events(&mut watch(&one, "", from).await, 1).await, [Event::Put(entry("key", "one", revision))]);
    assert_eq!(get(&other, "key").await.map(|entry| entry.value), Some(b"other".into()));
    assert_eq!(get(&root, "key").await.map(|entry| entry.value), Some(b"root".into()));
    // What is no text below our prefix is somebody's mistake, and said.
    client.put(&b"/bridge/data/\xff"[..], "", None).await.unwrap();
    assert!(matches!(one.list(List::default()).await, Err(StoreError::Damaged(_))));
    assert!(matches!(end(&mut watch(&one, "", from).await).await, StoreError::Damaged(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_that_start_together_agree_on_the_id() {
    let process = Process::start().await.unwrap();
    let replicas: Vec<_> = (0..8).map(|_| tokio::spawn(Etcd::connect(options(&[process.url()])))).collect();
    let mut ids = std::collections::BTreeSet::new();
    for replica in replicas {
        ids.insert(soon(replica).await.unwrap().unwrap().id().to_owned());
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
}

/// etcd puts up to 1,000 revisions of a watcher that is behind into one response.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_far_behind_gets_everything() {
    let fixture = Fixture::new().await;
    let store = &*fixture.store;
    let from = newest(store).await + 1;
    let mut revisions = Vec::new();
    for round in 0..1_300 {
        revisions
            .push(change(store, vec![put_change("far/one", round.to_string(), 0), put_change("far/other", vec![b'x'; 8_000], 0)]).await);
    }
    let mut watch = watch(store, "far/", from).await;
    let events = events(&mut watch, 2 * revisions.len()).await;
    assert_eq!(events.chunks(2).map(|pair| revision(&pair[0])).collect::<Vec<_>>(), revisions);
    assert!(events.chunks(2).all(|pair| revision(&pair[0]) == revision(&pair[1])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_a_client_certificate() {
    let folder = tempfile::TempDir::new().unwrap();
    let ours = authority();
    let (cert, key) = certificate(&ours);
    let path = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let tls = EtcdTls { client_ca: path("ca.pem", &ours.0.pem()), cert: path("cert.pem", &cert), key: path("key.pem", &key) };
    let process = Process::start_with(Some(tls)).await.unwrap();
    let connect = async |tls: Option<ClientTlsConfig>| Etcd::connect(EtcdOptions { tls, ..options(&[process.url()]) }).await;
    let trusting = |authority: &Authority| ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.0.pem()));
    let (client_cert, client_key) = certificate(&ours);

    let store = connect(Some(trusting(&ours).identity(Identity::from_pem(&client_cert, &client_key)))).await.unwrap();
    let revision = put(&store, "key", "secret").await;
    assert_eq!(get(&store, "key").await, Some(entry("key", "secret", revision)));
    let mut watch = watch(&store, "", revision).await;
    assert_eq!(events(&mut watch, 1).await.len(), 1);

    away(connect(Some(trusting(&ours)))).await;
    let other = authority();
    away(connect(Some(trusting(&other).identity(Identity::from_pem(&client_cert, &client_key))))).await;
    let (strange_cert, strange_key) = certificate(&other);
    away(connect(Some(trusting(&ours).identity(Identity::from_pem(&strange_cert, &strange_key))))).await;
    away(connect(None)).await;
}

type Authority = (rcgen::Certificate, rcgen::Issuer<'static, rcgen::KeyPair>);

fn authority() -> Authority {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    (certificate, rcgen::Issuer::new(params, key))
}

/// A certificate for 127.0.0.1 and its key.
fn certificate(authority: &Authority) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &authority.1).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_and_a_password() {
    let mut process = Process::start().await.unwrap();
    let mut admin = client(&process).await;
    admin.user_add("root", "root's", None).await.unwrap();
    admin.user_grant_role("root", "root").await.unwrap();
    admin.role_add("bridge").await.unwrap();
    let all_of_it = etcd_client::Permission::read_write("/moonbridge/").with_prefix();
    admin.role_grant_permission("bridge", all_of_it).await.unwrap();
    admin.user_add("bridge", "open sesame", None).await.unwrap();
    admin.user_grant_role("bridge", "bridge").await.unwrap();
    admin.auth_enable().await.unwrap();

    let user = |password: &str| Some(EtcdUser { name: "bridge".into(), password: password.into() });
    let connect = async |prefix: &str, user: Option<EtcdUser>| {
        let options = EtcdOptions { prefix: prefix.into(), user, ..options(&[process.url()]) };
        Etcd::connect(options).await
    };
    let refused = |answer: Result<Etcd, StoreError>| {
        let error = answer.unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable(problem) if problem.contains("does not let us in")), "{error:?}");
    };
    let store = connect("/moonbridge/", user("open sesame")).await.unwrap();
    put(&store, "key", "before").await;
    refused(connect("/moonbridge/", user("guessed")).await);
    refused(connect("/moonbridge/", None).await);
    refused(connect("/elsewhere/", user("open sesame")).await);
    // etcd forgets its tokens when it restarts; we log in again.
    process.restart().await.unwrap();
    assert_eq!(get(&store, "key").await.map(|entry| entry.value), Some(b"before".into()));
    assert!(matches!(commit(&store, Vec::new(), vec![put_change("key", "after", 0)]).await, Ok(Committed::Yes(_))));
    let lease = store.lease_grant(Duration::from_secs(60)).await.unwrap();
    store.lease_keep_alive(lease).await.unwrap();
    assert_eq!(events(&mut watch(&store, "", 1).await, 2).await.len(), 2);
}

#[tokio::test]
async fn options_that_cannot_be_used_are_refused() {
    assert!(matches!(Etcd::connect(options(&[])).await, Err(StoreError::Invalid(_))));
    let error = Etcd::connect(options(&["http://not a url".into()])).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
}
