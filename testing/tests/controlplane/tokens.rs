//! Tokens of the store: who may do what, on which replica, and until when.

use std::collections::BTreeMap;

use moonbridge_controlplane::Config;
use moonbridge_controlplane::config::StoreConfig;
use moonbridge_controlplane::store::embedded::Embedded;
use moonbridge_controlplane::store::{List, Store};
use moonbridge_proto::token::Bearer;
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_proto::v1::permission_service_client::PermissionServiceClient;
use moonbridge_proto::v1::{self, Role};
use moonbridge_testing::etcd::Etcd;
use tempfile::tempdir;
use tonic::Code;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use crate::support::{Hello, Replica, config, eventually, refused, route, transfer};

/// The token of the replicas' configuration.
const CONFIGURED: &str = "the-configured-token";

type Admin = AdminServiceClient<InterceptedService<Channel, Bearer>>;

async fn guarded(store: StoreConfig) -> Replica {
    Replica::start(Config { token: Some(CONFIGURED.to_owned()), ..config(store) }).await
}

fn embedded(folder: &tempfile::TempDir) -> StoreConfig {
    StoreConfig::Embedded { data_dir: folder.path().to_owned() }
}

fn on(etcd: &Etcd) -> StoreConfig {
    StoreConfig::Etcd { endpoints: vec![etcd.url()], prefix: "/test/".to_owned() }
}

fn wanted(name: &str, role: Role) -> v1::CreateTokenRequest {
    v1::CreateTokenRequest { name: name.to_owned(), role: role.into(), lifetime_seconds: 0 }
}

/// The secret of a new token.
async fn create(admin: &mut Admin, request: v1::CreateTokenRequest) -> String {
    admin.create_token(request).await.expect("a token").into_inner().secret
}

fn revocation(name: &str) -> v1::RevokeTokenRequest {
    v1::RevokeTokenRequest { name: name.to_owned() }
}

/// The code of a call that only looks; `None` if it is answered.
async fn look(admin: &mut Admin) -> Option<Code> {
    admin.list_nodes(v1::ListNodesRequest::default()).await.err().map(|status| status.code())
}

fn backend(name: &str) -> v1::SetBackendRequest {
    let backend = v1::Backend { name: name.to_owned(), address: "127.0.0.1:25501".to_owned(), ..v1::Backend::default() };
    v1::SetBackendRequest { backend: Some(backend), keep_drained: true }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_may_what_it_is_for_and_no_more() {
    let folder = tempdir().expect("a folder");
    let replica = guarded(embedded(&folder)).await;
    let mut configured = replica.admin_with(CONFIGURED).await;
    configured.set_backend(backend("lobby")).await.expect("set");
    let roles = [("looker", Role::Viewer), ("mover", Role::Operator), ("chief", Role::Admin)];
    let mut codes: BTreeMap<&str, Vec<(Role, Option<Code>)>> = BTreeMap::new();
    for (name, role) in roles {
        let secret = create(&mut configured, wanted(name, role)).await;
        let mut admin = replica.admin_with(&secret).await;
        let mut note = |call: &'static str, status: Option<tonic::Status>| {
            if let Some(status) = status.as_ref().filter(|status| status.code() == Code::PermissionDenied) {
                let has =
                    status.message().contains(&format!("the token {name} has the role {}", ["viewer", "operator"][role as usize - 1]));
                assert!(has && status.message().contains("this call needs"), "{status:?}");
            }
            codes.entry(call).or_default().push((role, status.map(|status| status.code())));
        };
        note("settings", admin.get_settings(v1::GetSettingsRequest {}).await.err());
        note("players", admin.list_players(v1::ListPlayersRequest::default()).await.err());
        note("route test", admin.test_route(v1::TestRouteRequest { host: "h".to_owned(), ..Default::default() }).await.err());
        note("transfer", admin.start_transfers(transfer(&["Nobody"], "lobby")).await.err());
        let drain = v1::DrainBackendRequest { name: "lobby".to_owned(), drained: false };
        note("drain", admin.drain_backend(drain).await.err());
        note("set", admin.set_backend(backend("lobby")).await.err());
        note("restrict", admin.restrict_backend(v1::RestrictBackendRequest { name: "lobby".to_owned(), restricted: false }).await.err());
        note("route set", admin.set_route(route("*", &["lobby"])).await.err());
        note("tokens", admin.list_tokens(v1::ListTokensRequest::default()).await.err());
        note("create", admin.create_token(wanted(&format!("by-{name}"), Role::Viewer)).await.err());
        note("audit", admin.list_audit(v1::ListAuditRequest::default()).await.err());
        let mut permissions = PermissionServiceClient::with_interceptor(replica.channel().await, Bearer::maybe(Some(&secret)));
        note("permission settings", permissions.get_permission_settings(v1::GetPermissionSettingsRequest {}).await.err());
        let group = v1::CreateGroupRequest { name: format!("by-{name}") };
        note("group", permissions.create_group(group).await.err());
        note("attach", Hello { token: Some(secret), ..Hello::new("edge") }.try_attach(&replica).await.err());
    }
    let least = |call: &str| match call {
        "settings" | "players" | "route test" | "permission settings" => Role::Viewer,
        "transfer" | "drain" => Role::Operator,
        _ => Role::Admin,
    };
    for (call, answers) in codes {
        for (role, code) in answers {
            assert_eq!(code, (role < least(call)).then_some(Code::PermissionDenied), "{call} as {role:?}");
        }
    }
    // What was done, it was done in its own name.
    let records = configured.list_audit(v1::ListAuditRequest::default()).await.expect("the audit").into_inner().records;
    let made = records.iter().find(|record| record.target == "token by-chief").expect("a record");
    assert_eq!((made.who.as_str(), made.role(), made.what.as_str()), ("chief", Role::Admin, "token.create"));
    assert_eq!(made.after, ["role = viewer", "expires = never"]);
    let made = records.iter().find(|record| record.what == "permission.group.create").expect("a record");
    assert_eq!((made.who.as_str(), made.target.as_str()), ("chief", "group by-chief"));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_and_its_end_are_the_same_on_every_replica() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (guarded(on(&etcd)).await, guarded(on(&etcd)).await);
    let mut configured = one.admin_with(CONFIGURED).await;
    let secret = create(&mut configured, wanted("node", Role::Admin)).await;
    let (mut at_one, mut at_two) = (one.admin_with(&secret).await, two.admin_with(&secret).await);
    assert_eq!(look(&mut at_one).await, None, "the replica that made it knows it at once");
    eventually("the token on the other", async || look(&mut at_two).await.is_none().then_some(())).await;
    let node = Hello { token: Some(secret.clone()), ..Hello::new("edge") }.attach(&two).await;

    configured.revoke_token(revocation("node")).await.expect("revoked");
    assert_eq!(look(&mut at_one).await, Some(Code::Unauthenticated), "the replica that revoked it refuses it at once");
    eventually("the refusal by the other", async || (look(&mut at_two).await == Some(Code::Unauthenticated)).then_some(())).await;
    // What was open with it has ended.
    let end = node.end().await.expect("a status");
    assert_eq!(end.code(), Code::Unauthenticated);
    assert!(end.message().contains("node was revoked"), "{end:?}");
    refused(configured.revoke_token(revocation("node")).await, Code::NotFound, &["token list"]);

    // The name is free again, and the old secret is none of it.
    let again = create(&mut configured, wanted("node", Role::Viewer)).await;
    assert_ne!(again, secret);
    assert_eq!((look(&mut at_one).await, look(&mut one.admin_with(&again).await).await), (Some(Code::Unauthenticated), None));
    one.stop().await;
    two.stop().await;
}

/// What takes long is allowed at its end, not only when it begins.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_token_is_revoked_meanwhile_changes_nothing() {
    use v1::import_request::Part;
    let folder = tempdir().expect("a folder");
    let replica = guarded(embedded(&folder)).await;
    let mut configured = replica.admin_with(CONFIGURED).await;
    let secret = create(&mut configured, wanted("chief", Role::Admin)).await;
    let permissions = async |token: &str| PermissionServiceClient::with_interceptor(replica.channel().await, Bearer::maybe(Some(token)));
    let group = v1::PermissionGroup { name: "mod".to_owned(), nodes: Vec::new() };
    let records = vec![v1::PermissionRecord { record: Some(v1::permission_record::Record::Group(group)) }];
    for (is_revoked, code) in [(false, None), (true, Some(Code::Unauthenticated))] {
        let (sender, messages) = tokio::sync::mpsc::channel(1);
        let mut client = permissions(&secret).await;
        let call = tokio::spawn(async move { client.import(tokio_stream::wrappers::ReceiverStream::new(messages)).await });
        let header = v1::ImportHeader { replace: is_revoked, ..v1::ImportHeader::default() };
        let records = if is_revoked { Vec::new() } else { records.clone() };
        for part in [Part::Header(header), Part::Batch(v1::ImportBatch { records })] {
            sender.send(v1::ImportRequest { part: Some(part) }).await.expect("it is taken");
        }
        // The first message has been taken, so that the call was let in before.
        drop(sender.reserve().await.expect("it is taken"));
        if is_revoked {
            configured.revoke_token(revocation("chief")).await.expect("revoked");
        }
        drop(sender);
        assert_eq!(call.await.expect("no panic").err().map(|status| status.code()), code);
    }
    let groups = permissions(CONFIGURED).await.list_groups(v1::ListGroupsRequest::default()).await.expect("groups").into_inner().groups;
    let names: Vec<_> = groups.into_iter().filter_map(|state| state.group).map(|group| group.name).collect();
    assert_eq!(names, ["default", "mod"], "the second would have taken it away");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_expires_on_every_replica_without_a_write() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (guarded(on(&etcd)).await, guarded(on(&etcd)).await);
    let mut configured = one.admin_with(CONFIGURED).await;
    let request = v1::CreateTokenRequest { lifetime_seconds: 3, ..wanted("short", Role::Admin) };
    let made = configured.create_token(request).await.expect("a token").into_inner();
    let token = made.token.expect("a token");
    assert_eq!(token.expires_unix_ms - token.created_unix_ms, 3_000);
    let (mut at_one, mut at_two) = (one.admin_with(&made.secret).await, two.admin_with(&made.secret).await);
    assert_eq!(look(&mut at_one).await, None);
    eventually("the token on the other", async || look(&mut at_two).await.is_none().then_some(())).await;
    let node = Hello { token: Some(made.secret.clone()), ..Hello::new("edge") }.attach(&two).await;
    let end = node.end().await.expect("a status");
    assert!(end.code() == Code::Unauthenticated && end.message().contains("short has expired"), "{end:?}");
    assert_eq!((look(&mut at_one).await, look(&mut at_two).await), (Some(Code::Unauthenticated), Some(Code::Unauthenticated)));
    // It is still there, and nobody has changed it.
    let listed = configured.list_tokens(v1::ListTokensRequest::default()).await.expect("tokens").into_inner().tokens;
    assert_eq!(listed, [token]);
    let records = configured.list_audit(v1::ListAuditRequest::default()).await.expect("the audit").into_inner().records;
    assert_eq!(records.iter().map(|record| record.what.as_str()).collect::<Vec<_>>(), ["token.create"]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_and_the_answers_have_no_secret_and_tokens_outlive_a_restart() {
    let folder = tempdir().expect("a folder");
    let replica = guarded(embedded(&folder)).await;
    let mut configured = replica.admin_with(CONFIGURED).await;
    let answer = configured.create_token(wanted("ci", Role::Viewer)).await.expect("a token").into_inner();
    let secret = answer.secret.clone();
    assert!(!format!("{answer:?}").contains(&secret));
    let listed = configured.list_tokens(v1::ListTokensRequest::default()).await.expect("tokens").into_inner().tokens;
    assert_eq!((listed[0].name.as_str(), listed[0].role(), listed[0].created_by.as_str()), ("ci", Role::Viewer, "configured"));
    assert!(listed[0].sha256.is_empty() && listed.len() == 1);
    replica.stop().await;

    // Neither as it is given nor as the bytes that it is made of.
    let hex = secret.strip_prefix("mb_").expect("a prefix");
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect();
    assert_eq!(bytes.len(), 32);
    let has = |place: &[u8], needle: &[u8]| place.windows(needle.len()).any(|window| window == needle);
    let file = std::fs::read(folder.path().join("store.redb")).expect("the file");
    assert!(has(&file, b"tokens/ci"), "this looks at the right file");
    let store = Embedded::open(folder.path()).expect("the store");
    let entries = store.list(List::default()).await.expect("entries").entries;
    assert!(entries.iter().any(|entry| entry.key == "tokens/ci"));
    for place in entries.iter().map(|entry| entry.value.as_slice()).chain([file.as_slice()]) {
        assert!(!has(place, hex.as_bytes()) && !has(place, &bytes) && !has(place, CONFIGURED.as_bytes()));
    }
    drop(store);

    let replica = guarded(embedded(&folder)).await;
    assert_eq!(look(&mut replica.admin_with(&secret).await).await, None, "known before the first call is taken");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_refused() {
    let folder = tempdir().expect("a folder");
    let replica = guarded(embedded(&folder)).await;
    let mut admin = replica.admin_with(CONFIGURED).await;
    create(&mut admin, wanted("ci", Role::Viewer)).await;
    refused(admin.create_token(wanted("ci", Role::Admin)).await, Code::FailedPrecondition, &["already", "token revoke ci"]);
    // Whose changes would be taken for another's.
    refused(admin.create_token(wanted("configured", Role::Admin)).await, Code::InvalidArgument, &["name"]);
    refused(admin.create_token(wanted("Ci", Role::Admin)).await, Code::InvalidArgument, &["name"]);
    refused(admin.create_token(wanted("other", Role::Unspecified)).await, Code::InvalidArgument, &["role"]);
    refused(admin.revoke_token(revocation("")).await, Code::NotFound, &["token list"]);
    assert_eq!(admin.list_tokens(v1::ListTokensRequest::default()).await.expect("tokens").into_inner().tokens.len(), 1);
    let what: Vec<_> = admin.list_audit(v1::ListAuditRequest::default()).await.expect("the audit").into_inner().records;
    assert_eq!(what.len(), 1, "what was refused has no record");
    replica.stop().await;

    // Where nobody is asked for a token, none would protect anything.
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut anyone = replica.admin().await;
    refused(anyone.create_token(wanted("ci", Role::Viewer)).await, Code::FailedPrecondition, &["token_file"]);
    assert!(anyone.list_tokens(v1::ListTokensRequest::default()).await.expect("tokens").into_inner().tokens.is_empty());
    replica.stop().await;
}
