//! Who gets in: tokens and TLS.

use moonbridge_controlplane::Config;
use moonbridge_controlplane::config::StoreConfig;
use moonbridge_proto::connect;
use moonbridge_proto::tls::{ClientTls, ServerTls};
use moonbridge_proto::token::Bearer;
use moonbridge_proto::v1;
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_testing::certificates::Authority;
use tempfile::tempdir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::support::{Hello, Replica, config, refused};

#[tokio::test(flavor = "multi_thread")]
async fn both_services_ask_for_the_token() {
    let folder = tempdir().expect("a folder");
    let store = StoreConfig::Embedded { data_dir: folder.path().to_owned() };
    let replica = Replica::start(Config { token: Some("a-secret".to_owned()), ..config(store) }).await;
    let channel = connect::channel(&replica.url, None, false).expect("a URL").connect().await.expect("connected");
    for (token, code) in [(None, Some(Code::Unauthenticated)), (Some("wrong"), Some(Code::Unauthenticated)), (Some("a-secret"), None)] {
        let mut admin = AdminServiceClient::with_interceptor(channel.clone(), Bearer::maybe(token));
        let answer = admin.list_nodes(v1::ListNodesRequest::default()).await;
        assert_eq!(answer.err().map(|status| status.code()), code, "{token:?}");
    }
    let node = Hello::new("edge").try_attach(&replica).await.err().expect("refused");
    assert_eq!(node.code(), Code::Unauthenticated);
    assert!(node.message().contains("token_file"), "{node:?}");
    let mut admin = replica.admin().await;
    refused(admin.list_nodes(v1::ListNodesRequest::default()).await, Code::Unauthenticated, &["--token-file"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_lets_in_who_has_a_certificate() {
    let folder = tempdir().expect("a folder");
    let (authority, stranger) = (Authority::new(folder.path(), "authority"), Authority::new(folder.path(), "stranger"));
    let (server, client, fake) = (authority.sign("server"), authority.sign("client"), stranger.sign("fake"));
    let tls = ServerTls { cert: server.cert, key: server.key, client_ca: Some(authority.ca.clone()) };
    let store = StoreConfig::Embedded { data_dir: folder.path().join("store") };
    let replica = Replica::start(Config { tls: Some(tls), ..config(store) }).await;
    let url = replica.url.replace("http://", "https://");
    let ask = async |tls: ClientTls| {
        let endpoint = connect::channel(&url, Some(&tls), false).expect("usable");
        let mut admin = AdminServiceClient::new(endpoint.connect().await.ok()?);
        admin.list_nodes(v1::ListNodesRequest::default()).await.ok()
    };
    let with = |identity: &moonbridge_testing::certificates::Identity| ClientTls {
        ca: Some(authority.ca.clone()),
        cert: Some(identity.cert.clone()),
        key: Some(identity.key.clone()),
        domain: None,
    };
    assert!(ask(with(&client)).await.is_some());
    assert!(ask(with(&fake)).await.is_none());
    assert!(ask(ClientTls { ca: Some(authority.ca.clone()), ..ClientTls::default() }).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_is_for_loopback_and_a_folder_for_one_replica() {
    let folder = tempdir().expect("a folder");
    let run = async |config: Config| {
        let (ready, _ready) = oneshot::channel();
        moonbridge_controlplane::run(config, CancellationToken::new(), ready).await.expect_err("refused").to_string()
    };
    let store = || StoreConfig::Embedded { data_dir: folder.path().to_owned() };
    let open = Config { listen: "0.0.0.0:0".parse().expect("an address"), ..config(store()) };
    assert!(run(open).await.contains("allow_insecure_control"));
    let replica = Replica::embedded(folder.path()).await;
    assert!(run(config(store())).await.contains(&folder.path().display().to_string()));
    let taken = replica.url.trim_start_matches("http://").parse().expect("an address");
    assert!(run(Config { listen: taken, ..config(store()) }).await.contains("cannot listen"));
    let no_token = Config { token_file: Some(folder.path().join("none")), ..config(store()) };
    assert!(run(no_token).await.contains("token file"));
}
