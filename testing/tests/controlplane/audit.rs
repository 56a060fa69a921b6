//! The audit: every change of a resource has its record, and nothing else has one.

use std::collections::BTreeSet;

use moonbridge_controlplane::Config;
use moonbridge_controlplane::config::{SettingsConfig, StoreConfig};
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_proto::v1::{self, Role};
use moonbridge_testing::etcd::Etcd;
use tempfile::tempdir;
use tonic::Code;
use tonic::transport::Channel;

use crate::support::{Replica, config, refused, route, set_backend};

type Admin = AdminServiceClient<Channel>;

async fn list(admin: &mut Admin, request: v1::ListAuditRequest) -> Vec<v1::AuditRecord> {
    admin.list_audit(request).await.expect("the audit").into_inner().records
}

/// All records, newest first.
async fn all(admin: &mut Admin) -> Vec<v1::AuditRecord> {
    list(admin, v1::ListAuditRequest::default()).await
}

fn at(address: &str, token: &str) -> v1::SetBackendRequest {
    let forwarding = if token.is_empty() { v1::Forwarding::None } else { v1::Forwarding::Bungeeguard };
    let backend = v1::Backend {
        name: "lobby".to_owned(),
        address: address.to_owned(),
        forwarding: forwarding.into(),
        forwarding_token: token.to_owned(),
        ..v1::Backend::default()
    };
    v1::SetBackendRequest { backend: Some(backend), keep_drained: true }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_has_its_record_with_what_differs() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let name = || "lobby".to_owned();
    admin.set_backend(at("127.0.0.1:1", "")).await.expect("set");
    admin.set_backend(at("127.0.0.1:1", "")).await.expect("set, with nothing changed");
    admin.set_backend(at("127.0.0.1:2", "")).await.expect("set");
    for marked in [true, true, false] {
        admin.drain_backend(v1::DrainBackendRequest { name: name(), drained: marked }).await.expect("drained");
        admin.restrict_backend(v1::RestrictBackendRequest { name: name(), restricted: marked }).await.expect("restricted");
    }
    set_backend(&mut admin, "hub").await;
    admin.set_route(route("*", &["lobby", "hub"])).await.expect("set");
    admin.set_route(route("h.example.net", &["hub"])).await.expect("set");
    admin.remove_backend(v1::RemoveBackendRequest { name: name(), force: true }).await.expect("removed");
    admin.remove_route(v1::RemoveRouteRequest { host: "h.example.net".to_owned() }).await.expect("removed");
    let settings = admin.get_settings(v1::GetSettingsRequest {}).await.expect("settings").into_inner();
    let settings = v1::Settings { motd: "mine".to_owned(), ..settings };
    for _ in 0..2 {
        admin.set_settings(v1::SetSettingsRequest { settings: Some(settings.clone()) }).await.expect("set");
    }
    // What is refused changes nothing.
    refused(admin.remove_backend(v1::RemoveBackendRequest { name: "hub".to_owned(), force: false }).await, Code::FailedPrecondition, &[]);
    refused(admin.set_route(route("x", &["none"])).await, Code::FailedPrecondition, &[]);
    refused(admin.restrict_backend(v1::RestrictBackendRequest { name: name(), restricted: true }).await, Code::NotFound, &["lobby"]);

    let records = all(&mut admin).await;
    assert!(
        records.iter().all(|record| (record.who.as_str(), record.role(), record.replica.as_str()) == ("anyone", Role::Admin, "replica"))
    );
    let said: Vec<_> =
        records.iter().rev().map(|record| (&*record.what, &*record.target, record.before.clone(), record.after.clone())).collect();
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let added = |address: &str| lines(&[address, "forwarding = none", "drained = false", "restricted = false", "plugin_channel = on"]);
    let expected = [
        ("backend.set", "backend lobby", lines(&[]), added("address = 127.0.0.1:1")),
        ("backend.set", "backend lobby", lines(&["address = 127.0.0.1:1"]), lines(&["address = 127.0.0.1:2"])),
        ("backend.drain", "backend lobby", lines(&["drained = false"]), lines(&["drained = true"])),
        ("backend.restrict", "backend lobby", lines(&["restricted = false"]), lines(&["restricted = true"])),
        ("backend.undrain", "backend lobby", lines(&["drained = true"]), lines(&["drained = false"])),
        ("backend.unrestrict", "backend lobby", lines(&["restricted = true"]), lines(&["restricted = false"])),
        ("backend.set", "backend hub", lines(&[]), added("address = 127.0.0.1:25501")),
        ("route.set", "route *", lines(&[]), lines(&["backends = lobby, hub", "on_kick = fallback"])),
        ("route.set", "route h.example.net", lines(&[]), lines(&["backends = hub", "on_kick = fallback"])),
        (
            "backend.remove",
            "backend lobby",
            [added("address = 127.0.0.1:2"), lines(&["route * backends = lobby, hub"])].concat(),
            lines(&["route * backends = hub"]),
        ),
        ("route.remove", "route h.example.net", lines(&["backends = hub", "on_kick = fallback"]), lines(&[])),
        ("settings.set", "settings", lines(&["motd = A MoonBridge network"]), lines(&["motd = mine"])),
    ];
    assert_eq!(said, expected);
    assert!(records.windows(2).all(|pair| pair[0].unix_ms >= pair[1].unix_ms && pair[0].id > pair[1].id));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_record_has_a_forwarding_token() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    for token in ["first-of-the-secrets", "second-of-the-secrets", ""] {
        admin.set_backend(at("127.0.0.1:1", token)).await.expect("set");
    }
    let records = all(&mut admin).await;
    assert_eq!(records.len(), 3);
    assert!(!format!("{records:?}").contains("of-the-secrets"));
    assert_eq!(records[2].after.last().map(String::as_str), Some("forwarding_token = (set)"));
    let changed = (vec!["forwarding_token = (set)".to_owned()], vec!["forwarding_token = (changed)".to_owned()]);
    assert_eq!((records[1].before.clone(), records[1].after.clone()), changed);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_once_have_one_record_each_whoever_has_to_try_again() {
    const WRITERS: u16 = 12;
    let etcd = Etcd::start().await.expect("etcd");
    let store = || StoreConfig::Etcd { endpoints: vec![etcd.url()], prefix: "/test/".to_owned() };
    let (one, two) = (Replica::start(config(store())).await, Replica::start(config(store())).await);
    let mut admin = one.admin().await;
    admin.set_backend(at("127.0.0.1:1", "")).await.expect("set");
    let mut racing = tokio::task::JoinSet::new();
    for port in 0..WRITERS {
        let mut admin = if port % 2 == 0 { one.admin().await } else { two.admin().await };
        racing.spawn(async move { admin.set_backend(at(&format!("127.0.0.1:{}", 1_000 + port), "")).await.expect("set in the end") });
    }
    racing.join_all().await;
    let records = all(&mut admin).await;
    assert_eq!(records.len(), usize::from(WRITERS) + 1);
    // Each was decided on what another had made of it: no two on the same, and none on what never was.
    let address = |lines: &[String]| lines.iter().find(|line| line.starts_with("address = ")).cloned();
    let before: BTreeSet<_> = records.iter().filter_map(|record| address(&record.before)).collect();
    let after: BTreeSet<_> = records.iter().filter_map(|record| address(&record.after)).collect();
    assert_eq!((before.len(), after.len()), (records.len() - 1, records.len()));
    assert!(before.is_subset(&after), "{before:?} {after:?}");
    let now = admin.list_backends(v1::ListBackendsRequest::default()).await.expect("backends").into_inner().backends.remove(0);
    let last = format!("address = {}", now.backend.expect("a backend").address);
    assert_eq!(after.difference(&before).collect::<Vec<_>>(), [&last]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_filtered_and_paged_newest_first() {
    let folder = tempdir().expect("a folder");
    let store = || StoreConfig::Embedded { data_dir: folder.path().to_owned() };
    let settings = Some(SettingsConfig { max_players: Some(7), ..SettingsConfig::default() });
    let replica = Replica::start(Config { settings: settings.clone(), ..config(store()) }).await;
    let mut admin = replica.admin().await;
    for name in ["a", "b", "c", "d", "e"] {
        set_backend(&mut admin, name).await;
    }
    let targets = |records: Vec<v1::AuditRecord>| records.into_iter().map(|record| record.target).collect::<Vec<_>>();
    let filter = v1::ListAuditRequest::default;
    let own = list(&mut admin, v1::ListAuditRequest { who: "configuration".to_owned(), ..filter() }).await;
    assert_eq!((own.len(), own[0].after.clone()), (1, vec!["max_players = 7".to_owned()]));
    assert_eq!(list(&mut admin, v1::ListAuditRequest { who: "anyone".to_owned(), ..filter() }).await.len(), 5);
    assert_eq!(list(&mut admin, v1::ListAuditRequest { what: "backend".to_owned(), ..filter() }).await.len(), 5);
    assert!(list(&mut admin, v1::ListAuditRequest { what: "backend.se".to_owned(), ..filter() }).await.is_empty());
    // Nothing found would pass for nothing done.
    let none = v1::ListAuditRequest { what: "back".to_owned(), ..filter() };
    refused(admin.list_audit(none).await, Code::InvalidArgument, &["what", "backend, permission"]);
    let to_come = v1::ListAuditRequest { page_token: format!("{}/audit/x", 1_u64 << 40), ..filter() };
    refused(admin.list_audit(to_come).await, Code::InvalidArgument, &["page_token"]);
    assert_eq!(targets(list(&mut admin, v1::ListAuditRequest { target: "end c".to_owned(), ..filter() }).await), ["backend c"]);
    let records = all(&mut admin).await;
    assert_eq!(list(&mut admin, v1::ListAuditRequest { since_unix_ms: records[5].unix_ms, ..filter() }).await.len(), 6);
    assert!(list(&mut admin, v1::ListAuditRequest { since_unix_ms: records[0].unix_ms + 1, ..filter() }).await.is_empty());

    let (mut paged, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListAuditRequest { page_size: 2, page_token, what: "backend.set".to_owned(), ..filter() };
        let page = admin.list_audit(request).await.expect("a page").into_inner();
        assert!(page.records.len() <= 2);
        paged.extend(targets(page.records));
        if page.next_page_token.is_empty() {
            break;
        }
        page_token = page.next_page_token;
        // Of the first page's revision.
        set_backend(&mut admin, &format!("later-{}", paged.len())).await;
    }
    assert_eq!(paged, ["backend e", "backend d", "backend c", "backend b", "backend a"]);
    replica.stop().await;

    // A start that changes nothing has no record, and the records are still there.
    let replica = Replica::start(Config { settings, ..config(store()) }).await;
    let mut admin = replica.admin().await;
    assert_eq!(list(&mut admin, v1::ListAuditRequest { what: "settings".to_owned(), ..filter() }).await.len(), 1);
    replica.stop().await;
}
