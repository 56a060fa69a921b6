//! TLS, plaintext and tokens over real connections, with certificates made here.
#![allow(clippy::unwrap_used, reason = "helpers of tests, which lints take for other code")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use moonbridge_proto::connect::{ConnectError, channel, listen_allowed};
use moonbridge_proto::tls::{ClientTls, ServerTls, TlsError};
use moonbridge_proto::token::{Bearer, bearer, read_token_file};
use moonbridge_proto::v1;
use moonbridge_proto::v1::node_service_client::NodeServiceClient;
use moonbridge_proto::v1::node_service_server::{NodeService, NodeServiceServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

const DEADLINE: Duration = Duration::from_secs(20);

/// Answers with the authorization it was shown.
struct Echo;

#[tonic::async_trait]
impl NodeService for Echo {
    type AttachStream = tokio_stream::Once<Result<v1::ControlMessage, Status>>;

    async fn attach(&self, request: Request<Streaming<v1::NodeMessage>>) -> Result<Response<Self::AttachStream>, Status> {
        let shown = request.metadata().get("authorization").map(|value| value.to_str().expect("ASCII").to_owned());
        let welcome = v1::Welcome { replica: shown.unwrap_or_default(), ..Default::default() };
        let message = v1::ControlMessage { message: Some(v1::control_message::Message::Welcome(welcome)) };
        Ok(Response::new(tokio_stream::once(Ok(message))))
    }
}

fn serve(tls: Option<&ServerTls>) -> SocketAddr {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).expect("a free port");
    let address = incoming.local_addr().unwrap();
    let mut server = tonic::transport::Server::builder();
    if let Some(tls) = tls {
        server = server.tls_config(tls.load().expect("server TLS")).expect("server TLS");
    }
    tokio::spawn(server.add_service(NodeServiceServer::new(Echo)).serve_with_incoming(incoming));
    address
}

/// What the server says it was shown, or why it could not be asked.
async fn ask(url: &str, tls: Option<&ClientTls>, token: Bearer) -> Result<String, String> {
    let endpoint = channel(url, tls, false).map_err(|error| error.to_string())?;
    let call = async {
        let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
        let mut client = NodeServiceClient::with_interceptor(channel, token);
        let mut stream = client.attach(tokio_stream::empty()).await.map_err(|status| format!("{status:?}"))?.into_inner();
        match stream.message().await.map_err(|status| status.to_string())?.and_then(|message| message.message) {
            Some(v1::control_message::Message::Welcome(welcome)) => Ok(welcome.replica),
            other => Err(format!("{other:?}")),
        }
    };
    tokio::time::timeout(DEADLINE, call).await.expect("an answer in time")
}

struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn issue(&self, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let paths = (self.folder.path().join(format!("{file}.pem")), self.folder.path().join(format!("{file}.key")));
        std::fs::write(&paths.0, cert.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }

    fn server(&self, names: &[&str], client_ca: Option<PathBuf>) -> ServerTls {
        let (cert, key) = self.issue("server", names);
        ServerTls { cert, key, client_ca }
    }

    fn client(&self) -> ClientTls {
        ClientTls { ca: Some(self.ca()), ..ClientTls::default() }
    }
}

#[tokio::test]
async fn https_needs_the_right_authority_and_name() {
    let authority = Authority::new();
    let address = serve(Some(&authority.server(&["127.0.0.1", "control.test"], None)));
    let url = format!("https://{address}");
    assert_eq!(ask(&url, Some(&authority.client()), Bearer::default()).await, Ok(String::new()));
    let named = ClientTls { domain: Some("control.test".into()), ..authority.client() };
    assert_eq!(ask(&url, Some(&named), Bearer::default()).await, Ok(String::new()));

    let wrong_name = ClientTls { domain: Some("other.test".into()), ..authority.client() };
    let error = ask(&url, Some(&wrong_name), Bearer::default()).await.expect_err("another name");
    assert!(error.contains("NotValidForName"), "{error}");
    let error = ask(&url, Some(&Authority::new().client()), Bearer::default()).await.expect_err("another authority");
    assert!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");
    ask(&format!("http://{address}"), None, Bearer::default()).await.expect_err("plaintext to a TLS listener");
}

#[tokio::test]
async fn a_client_authority_asks_for_client_certificates() {
    let authority = Authority::new();
    let address = serve(Some(&authority.server(&["127.0.0.1"], Some(authority.ca()))));
    let url = format!("https://{address}");
    let (cert, key) = authority.issue("client", &["node-1"]);
    let with_cert = ClientTls { cert: Some(cert), key: Some(key), ..authority.client() };
    assert_eq!(ask(&url, Some(&with_cert), Bearer::default()).await, Ok(String::new()));

    ask(&url, Some(&authority.client()), Bearer::default()).await.expect_err("no client certificate");
    let (cert, key) = Authority::new_at(&authority, "stranger");
    let stranger = ClientTls { cert: Some(cert), key: Some(key), ..authority.client() };
    ask(&url, Some(&stranger), Bearer::default()).await.expect_err("a certificate from elsewhere");
}

impl Authority {
    /// A certificate of another authority, kept in this one's folder.
    fn new_at(&self, file: &str) -> (PathBuf, PathBuf) {
        let other = Authority::new();
        let (cert, key) = other.issue(file, &["node-1"]);
        let paths = (self.folder.path().join("other.pem"), self.folder.path().join("other.key"));
        std::fs::copy(cert, &paths.0).unwrap();
        std::fs::copy(key, &paths.1).unwrap();
        paths
    }
}

#[tokio::test]
async fn plaintext_on_loopback_carries_the_token() {
    let url = format!("http://{}", serve(None));
    assert_eq!(ask(&url, None, bearer("s3cret")).await, Ok("Bearer s3cret".into()));
    assert_eq!(ask(&url, None, Bearer::maybe(None)).await, Ok(String::new()));
    assert!(!format!("{:?}", bearer("s3cret")).contains("s3cret"), "a token is never shown");
    let error = ask(&url, None, bearer("two\nlines")).await.expect_err("no header can carry it");
    assert!(error.contains("cannot carry"), "{error}");
}

#[tokio::test]
async fn plaintext_elsewhere_must_be_allowed() {
    for url in [
        "http://127.0.0.1:1",
        "http://127.9.9.9:1",
        "http://[::1]:1",
        "http://localhost:1/",
        "http://LOCALHOST:1",
        "http://[::ffff:127.0.0.1]:1",
    ] {
        assert!(channel(url, None, false).is_ok(), "{url}");
    }
    for url in ["http://192.0.2.1:1", "http://control.test:1", "http://localhost.test:1", "http://0.0.0.0:1"] {
        assert!(matches!(channel(url, None, false), Err(ConnectError::Plaintext(_))), "{url}");
        assert!(channel(url, None, true).is_ok(), "{url}");
    }
    for url in [
        "",
        "control:1",
        "127.0.0.1:25590",
        "ftp://127.0.0.1:1",
        "http://127.0.0.1",
        "http://127.0.0.1:0",
        "http://:1",
        "http://a:1/x",
        "http://a:1/?q",
        "http://a b:1",
    ] {
        assert!(matches!(channel(url, None, true), Err(ConnectError::Url(_))), "{url:?}");
    }
    assert!(matches!(channel("https://127.0.0.1:1", None, true), Err(ConnectError::NoTls(_))));
    let ipv6 = Authority::new();
    assert!(channel("https://[::1]:1", Some(&ipv6.client()), false).is_ok());
}

#[test]
fn listeners_in_the_open_need_tls() {
    let allowed = |address: &str, tls, insecure| listen_allowed(address.parse().unwrap(), tls, insecure);
    for address in ["127.0.0.1:1", "[::1]:1", "127.1.2.3:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(allowed(address, false, false), Ok(()), "{address}");
    }
    for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
        assert_eq!((allowed(address, true, false), allowed(address, false, true)), (Ok(()), Ok(())), "{address}");
        let problem = allowed(address, false, false).expect_err(address);
        assert!(problem.contains("allow_insecure_control") && problem.contains(address), "{problem}");
    }
}

#[test]
fn files_that_do_not_fit_are_named() {
    let authority = Authority::new();
    let good = authority.server(&["a"], None);
    assert!(good.load().is_ok());
    let missing = authority.folder.path().join("missing.pem");
    let says = |error: TlsError, what: &str, path: &Path| {
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(&*path.display().to_string()), "{text}");
    };
    says(ServerTls { cert: missing.clone(), ..good.clone() }.load().expect_err("no file"), "cannot be read", &missing);
    says(ServerTls { key: good.cert.clone(), ..good.clone() }.load().expect_err("no key"), "PRIVATE KEY", &good.cert);
    says(ServerTls { client_ca: Some(good.key.clone()), ..good.clone() }.load().expect_err("no authority"), "CERTIFICATE", &good.key);
    let (cert, _) = authority.issue("another", &["a"]);
    says(ServerTls { cert: cert.clone(), ..good.clone() }.load().expect_err("another's key"), "", &cert);

    assert!(matches!(ClientTls::default().load(), Err(TlsError::NoAuthority)));
    let half = ClientTls { cert: Some(good.cert.clone()), ..authority.client() };
    assert!(matches!(half.load(), Err(TlsError::HalfIdentity)));
    let mismatched = ClientTls { cert: Some(cert.clone()), key: Some(good.key.clone()), ..authority.client() };
    says(mismatched.load().expect_err("another's key"), "", &cert);
    let broken = authority.folder.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n").unwrap();
    assert!(ServerTls { cert: broken, ..good }.load().is_err());
}

#[test]
fn a_token_file_holds_one_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let read = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        read_token_file(&path).map_err(|error| error.to_string())
    };
    assert_eq!(read(b"  abc-123_/+=\r\n"), Ok("abc-123_/+=".into()));
    for (content, problem) in
        [(&b" \n"[..], "is empty"), (b"a b", "visible ASCII"), (b"a\xff", "visible ASCII"), (&[b'a'; 5_000], "at most 4096")]
    {
        let error = read(content).expect_err(problem);
        assert!(error.contains(problem) && error.contains(&*path.display().to_string()), "{error}");
    }
    let missing = folder.path().join("missing");
    let error = read_token_file(&missing).expect_err("no file").to_string();
    assert!(error.contains("missing") && error.contains("cannot be read"), "{error}");
}

#[test]
fn files_that_do_not_fit_are_mistakes_of_their_fields() {
    let authority = Authority::new();
    let (cert, key) = authority.issue("one", &["localhost"]);
    let (_, other) = authority.issue("other", &["localhost"]);
    let good = ServerTls { cert: cert.clone(), key: key.clone(), client_ca: Some(authority.ca()) };
    assert_eq!(good.check_files("tls"), []);
    let mismatch = ServerTls { key: other, ..good.clone() }.check_files("tls");
    assert!(mismatch.len() == 1 && mismatch[0].field == "tls", "{mismatch:?}");
    // Swapped, and one that is not there: each is named.
    let swapped = ServerTls { cert: key, key: cert.clone(), client_ca: Some("/nonexistent/ca.pem".into()) }.check_files("tls");
    let fields: Vec<_> = swapped.iter().map(|mistake| mistake.field.as_str()).collect();
    assert_eq!(fields, ["tls.cert", "tls.key", "tls.client_ca"], "{swapped:?}");
    let client = ClientTls { ca: Some(authority.ca()), cert: Some(cert), ..ClientTls::default() }.check_files("control_tls");
    assert!(client.len() == 1 && client[0].problem.contains("both cert and key"), "{client:?}");
}
