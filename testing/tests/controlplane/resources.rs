//! Backends, routes and settings by the admin API, on the embedded store.

use moonbridge_proto::v1;
use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::node_message::Message as Up;
use tempfile::tempdir;
use tonic::Code;

use crate::support::{Hello, Replica, refused, revision_of, route, set_backend};

fn test_route(host: &str) -> v1::TestRouteRequest {
    v1::TestRouteRequest { host: host.to_owned(), ..v1::TestRouteRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_and_routes_are_set_listed_drained_and_removed() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    refused(admin.set_route(route("*", &["one"])).await, Code::FailedPrecondition, &["one", "moonbridge backend set"]);
    set_backend(&mut admin, "one").await;
    set_backend(&mut admin, "two").await;
    let set = admin.set_route(route("Play.Example.NET.", &["one", "two"])).await.expect("a route").into_inner();
    assert_eq!(set.host, "play.example.net");

    let drain = |name: &str, drained| v1::DrainBackendRequest { name: name.to_owned(), drained };
    assert!(admin.drain_backend(drain("one", true)).await.expect("drained").into_inner().drained);
    refused(admin.drain_backend(drain("none", true)).await, Code::NotFound, &["none"]);
    // Setting it again keeps it drained when asked to.
    set_backend(&mut admin, "one").await;
    let listed = admin.list_backends(v1::ListBackendsRequest::default()).await.expect("backends").into_inner().backends;
    let listed: Vec<_> = listed.into_iter().filter_map(|status| status.backend).map(|backend| (backend.name, backend.drained)).collect();
    assert_eq!(listed, [("one".to_owned(), true), ("two".to_owned(), false)]);

    let test = admin.test_route(test_route("PLAY.example.net\0FML\0")).await.expect("a test").into_inner();
    assert_eq!((test.host.as_str(), test.matched_by.as_str()), ("play.example.net", "exact"));
    let why: Vec<_> = test.candidates.iter().map(|candidate| (candidate.backend.as_str(), candidate.why.as_str())).collect();
    assert_eq!(why, [("one", "drained"), ("two", "ok")]);

    let remove = |name: &str, force| v1::RemoveBackendRequest { name: name.to_owned(), force };
    refused(admin.remove_backend(remove("one", false)).await, Code::FailedPrecondition, &["play.example.net", "--force"]);
    admin.remove_backend(remove("one", true)).await.expect("removed by force");
    let routes = admin.list_routes(v1::ListRoutesRequest::default()).await.expect("routes").into_inner().routes;
    assert_eq!(routes.iter().map(|route| route.backends.clone()).collect::<Vec<_>>(), [["two"]]);
    // A route without any backend would be none.
    refused(admin.remove_backend(remove("two", true)).await, Code::FailedPrecondition, &["only one", "play.example.net"]);
    admin.remove_route(v1::RemoveRouteRequest { host: "Play.example.net".to_owned() }).await.expect("removed");
    refused(admin.remove_route(v1::RemoveRouteRequest { host: "play.example.net".to_owned() }).await, Code::NotFound, &["route list"]);
    admin.remove_backend(remove("two", false)).await.expect("removed");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_name_their_field() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let backend = v1::Backend { name: "Bad Name".to_owned(), address: "nowhere".to_owned(), ..v1::Backend::default() };
    let request = v1::SetBackendRequest { backend: Some(backend), keep_drained: false };
    refused(admin.set_backend(request).await, Code::InvalidArgument, &["backend.name", "backend.address"]);
    refused(admin.set_backend(v1::SetBackendRequest::default()).await, Code::InvalidArgument, &["backend"]);
    for host in ["h:25565", "*.h:1", "[::1]:25565"] {
        refused(admin.set_route(route(host, &["one"])).await, Code::InvalidArgument, &["route.host", "without a port", host]);
    }
    refused(admin.set_route(route("a b", &[])).await, Code::InvalidArgument, &["route.host", "route.backends"]);
    let settings = v1::Settings { favicon: vec![1, 2, 3], ..v1::Settings::default() };
    let request = v1::SetSettingsRequest { settings: Some(settings) };
    refused(admin.set_settings(request).await, Code::InvalidArgument, &["settings.favicon"]);
    let page = v1::ListBackendsRequest { page_token: "made up".to_owned(), ..v1::ListBackendsRequest::default() };
    refused(admin.list_backends(page).await, Code::InvalidArgument, &["page_token"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_of_the_first_ones_revision() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    for name in ["a", "b", "c", "d", "e"] {
        set_backend(&mut admin, name).await;
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let page = v1::ListBackendsRequest { page_size: 2, page_token: token };
        let page = admin.list_backends(page).await.expect("a page").into_inner();
        assert!(page.backends.len() <= 2);
        names.extend(page.backends.into_iter().filter_map(|status| status.backend).map(|backend| backend.name));
        if page.next_page_token.is_empty() {
            break;
        }
        token = page.next_page_token;
        // Neither what goes nor what comes meanwhile changes this listing.
        let _ = admin.remove_backend(v1::RemoveBackendRequest { name: "d".to_owned(), force: false }).await;
        set_backend(&mut admin, "bb").await;
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_once_are_all_made_and_none_half() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "keep").await;
    set_backend(&mut admin, "go").await;
    // Routes that name a backend race with its removal: whoever comes later is refused, and no route is left naming it.
    let mut racing = tokio::task::JoinSet::new();
    for index in 0..20 {
        let mut admin = admin.clone();
        racing.spawn(async move {
            let _ = admin.set_route(route(&format!("h{index}.example.net"), &["keep", "go"])).await;
        });
    }
    let mut remover = admin.clone();
    racing.spawn(async move {
        let request = v1::RemoveBackendRequest { name: "go".to_owned(), force: true };
        remover.remove_backend(request).await.expect("removed");
    });
    racing.join_all().await;
    let routes = admin.list_routes(v1::ListRoutesRequest::default()).await.expect("routes").into_inner().routes;
    assert!(routes.iter().all(|route| route.backends == ["keep"]), "{routes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_survives_a_restart_and_the_configured_settings_are_written() {
    use moonbridge_controlplane::config::{SettingsConfig, StoreConfig};
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    set_backend(&mut admin, "one").await;
    let settings = admin.get_settings(v1::GetSettingsRequest {}).await.expect("settings").into_inner();
    assert_eq!((settings.motd.as_str(), settings.max_players), ("A MoonBridge network", 1000));
    let settings = v1::Settings { motd: "mine".to_owned(), max_players: 5, ..v1::Settings::default() };
    admin.set_settings(v1::SetSettingsRequest { settings: Some(settings) }).await.expect("set");
    replica.stop().await;

    let mut config = crate::support::config(StoreConfig::Embedded { data_dir: folder.path().to_owned() });
    config.settings = Some(SettingsConfig { max_players: Some(7), ..SettingsConfig::default() });
    let replica = Replica::start(config).await;
    let mut admin = replica.admin().await;
    let settings = admin.get_settings(v1::GetSettingsRequest {}).await.expect("settings").into_inner();
    assert_eq!((settings.motd.as_str(), settings.max_players), ("mine", 7));
    assert_eq!(admin.list_backends(v1::ListBackendsRequest::default()).await.expect("backends").into_inner().backends.len(), 1);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarding_token_reaches_the_nodes_and_no_answer() {
    const FIRST: &str = "first-token-that-nobody-sees";
    const SECOND: &str = "second-token-that-nobody-sees";
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let mut node = Hello::new("edge").attach(&replica).await;
    node.take_push().await;
    let set = |forwarding: v1::Forwarding, token: &str| v1::SetBackendRequest {
        backend: Some(v1::Backend {
            name: "lobby".to_owned(),
            address: "127.0.0.1:25501".to_owned(),
            forwarding: forwarding.into(),
            forwarding_token: token.to_owned(),
            ..v1::Backend::default()
        }),
        keep_drained: true,
    };
    let guarded = |token: &str| set(v1::Forwarding::Bungeeguard, token);
    // There is none to keep yet, and what is wrong beside that is said as well.
    refused(admin.set_backend(guarded("")).await, Code::InvalidArgument, &["backend.forwarding_token", "--forwarding-token-file"]);
    let mut nameless = guarded("");
    nameless.backend.as_mut().expect("given").name.clear();
    refused(admin.set_backend(nameless).await, Code::InvalidArgument, &["backend.name"]);
    for kind in [v1::Forwarding::None, v1::Forwarding::Legacy] {
        let status = admin.set_backend(set(kind, FIRST)).await.expect_err("a token for nothing");
        assert!(status.code() == Code::InvalidArgument && status.message().contains("only bungeeguard"), "{status:?}");
        assert!(!format!("{status:?}").contains(FIRST));
    }
    let status = admin.set_backend(guarded("not a token")).await.expect_err("with blanks");
    assert!(status.message().contains("forwarding_token") && !status.message().contains("not a token"), "{status:?}");

    let mut drained = false;
    for (given, stored) in [(FIRST, FIRST), ("", FIRST), (SECOND, SECOND), ("", SECOND)] {
        let answer = admin.set_backend(guarded(given)).await.expect("set").into_inner();
        assert_eq!((answer.forwarding(), answer.forwarding_token.as_str()), (v1::Forwarding::Bungeeguard, ""));
        // A change more, so that there is something to push even where the token stays.
        drained = !drained;
        let request = v1::DrainBackendRequest { name: "lobby".to_owned(), drained };
        let answer = admin.drain_backend(request).await.expect("drained").into_inner();
        assert_eq!((answer.drained, answer.forwarding_token.as_str()), (drained, ""));
        let listed = admin.list_backends(v1::ListBackendsRequest::default()).await.expect("backends").into_inner().backends;
        let listed = listed[0].backend.clone().expect("a backend");
        assert_eq!((listed.forwarding(), listed.forwarding_token.as_str()), (v1::Forwarding::Bungeeguard, ""));
        let test = admin.test_route(test_route("any")).await.expect("a test").into_inner();
        assert!(!format!("{test:?}").contains(stored));
        loop {
            let push = node.push().await;
            node.send(Up::Ack(revision_of(&push))).await;
            let Down::Delta(delta) = push else { panic!("expected a delta") };
            assert!(!format!("{delta:?}").contains(stored), "no Debug output shows it");
            let backend = &delta.set_backends[0];
            if backend.drained == drained {
                assert_eq!(backend.forwarding_token, stored);
                break;
            }
        }
    }
    // With other forwarding it is forgotten.
    admin.set_backend(set(v1::Forwarding::Legacy, "")).await.expect("set");
    refused(admin.set_backend(guarded("")).await, Code::InvalidArgument, &["backend.forwarding_token"]);
    replica.stop().await;
}
