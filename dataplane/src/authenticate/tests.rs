//! The session server's answers, good and bad, over real HTTP.

pub(crate) mod responder;

use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::StatusCode;
use moonbridge_protocol::forwarding::Property;
use tokio::time::Instant;
use tracing_subscriber::fmt::MakeWriter;

use self::responder::{CANARY, Responder, Say, http, profile};
use super::session_server::Client;
use super::{Profile, Refusal};
use crate::config::SessionServer;
use crate::error::Kind;
use crate::timer::timeout;

const HASH: &str = "-7c9d5b0044c130109a5d7b5fb5c317c02b4e28c1";
const ID: &str = "069a79f444e94726a5befca90e38aaf5";
const SOON: Duration = Duration::from_secs(10);

fn home() -> IpAddr {
    "203.0.113.7".parse().expect("an address")
}

fn client(responder: &Responder, change: impl FnOnce(&mut SessionServer)) -> Client {
    let mut config = SessionServer { url: responder.url().parse().expect("a URL"), ..SessionServer::default() };
    change(&mut config);
    Client::new(&config).expect("a client")
}

/// Asks for Alice.
async fn ask(client: &Client) -> Result<Profile, Refusal> {
    let asked = client.has_joined("Alice", HASH, home(), Instant::now() + SOON);
    timeout(SOON * 2, asked).await.expect("an end in time")
}

/// What comes of these answers, and how many requests were made.
async fn answered(script: Vec<Say>) -> (Result<Profile, Refusal>, usize) {
    let responder = Responder::start(script).await;
    let result = ask(&client(&responder, |_| {})).await;
    (result, responder.heads().len())
}

#[tokio::test]
async fn a_profile_comes_with_its_signed_properties_over_one_connection() {
    let responder = Responder::start(vec![http("200 OK", &profile(ID, "Alice"))]).await;
    let client = client(&responder, |_| {});
    for _ in 0..3 {
        let Profile { uuid, name, properties } = ask(&client).await.expect("a profile");
        assert_eq!((uuid.simple().to_string().as_str(), name.as_str()), (ID, "Alice"));
        let signature = Some("c2lnbmF0dXJl".to_owned());
        assert_eq!(*properties, [Property { name: "textures".into(), value: "dGV4dHVyZXM=".into(), signature }]);
    }
    assert_eq!(responder.connections(), 1);
    let heads = responder.heads();
    let asked = format!("GET /session/minecraft/hasJoined?username=Alice&serverId={HASH} HTTP/1.1\r\n");
    assert!(heads.len() == 3 && heads.iter().all(|head| head.starts_with(&asked)), "{heads:#?}");
    assert!(heads[0].to_lowercase().contains(&format!("\r\nhost: {}\r\n", responder.address)), "{heads:#?}");
}

#[tokio::test]
async fn the_accounts_spelling_counts_and_another_name_does_not() {
    let (result, _) = answered(vec![http("200 OK", &profile(ID, "aLICE"))]).await;
    assert_eq!(result.expect("a profile").name, "aLICE");
    let (result, asked) = answered(vec![http("200 OK", &profile(ID, "Mallory"))]).await;
    let refusal = result.expect_err("another name");
    assert_eq!((&refusal, asked, refusal.kind()), (&Refusal::OtherName("Mallory".into()), 1, Kind::Refused));
    let told = refusal.told("Alice");
    assert!(told.starts_with("Name mismatch") && told.contains("Alice") && told.contains("Mallory"), "{told}");
}

#[tokio::test]
async fn no_is_no_and_is_not_asked_again() {
    let body = format!("{{\"error\":\"{CANARY}\"}}");
    let silent = Say::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    for (say, status) in
        [(silent, StatusCode::NO_CONTENT), (http("403 Forbidden", &body), StatusCode::FORBIDDEN), (http("200 OK", ""), StatusCode::OK)]
    {
        let (result, asked) = answered(vec![say]).await;
        assert_eq!((result, asked), (Err(Refusal::NotAuthenticated(status)), 1));
    }
    assert!(Refusal::NotAuthenticated(StatusCode::NO_CONTENT).told("Alice").contains("not authenticated"));
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again_only_where_that_may_help() {
    let good = || http("200 OK", &profile(ID, "Alice"));
    let moved = Say::Bytes(b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n".to_vec());
    for (say, expected) in [
        (http("429 Too Many Requests", CANARY), Refusal::Busy(StatusCode::TOO_MANY_REQUESTS)),
        (http("500 Internal Server Error", CANARY), Refusal::Failed(StatusCode::INTERNAL_SERVER_ERROR)),
        (http("404 Not Found", CANARY), Refusal::Failed(StatusCode::NOT_FOUND)),
        (moved, Refusal::Failed(StatusCode::FOUND)),
    ] {
        assert_eq!(expected.kind(), Kind::Unavailable);
        assert_eq!(answered(vec![say, good()]).await, (Err(expected), 1));
    }
    for status in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
        let (result, asked) = answered(vec![http(status, CANARY), good()]).await;
        assert!(result.is_ok() && asked == 2, "{status}: {result:?}, asked {asked} times");
    }
    let (result, asked) = answered(vec![http("503 Service Unavailable", CANARY)]).await;
    assert_eq!((result, asked), (Err(Refusal::Failed(StatusCode::SERVICE_UNAVAILABLE)), 2));
    assert!(Refusal::Busy(StatusCode::TOO_MANY_REQUESTS).told("Alice").contains("authentication servers are busy"));
    assert!(Refusal::Failed(StatusCode::FOUND).told("Alice").contains("authentication servers are down"));
}

#[tokio::test]
async fn a_connection_that_is_lost_is_made_once_more() {
    let good = || http("200 OK", &profile(ID, "Alice"));
    let (result, asked) = answered(vec![Say::Close, good()]).await;
    assert!(result.is_ok() && asked == 2, "{result:?}, asked {asked} times");
    let cut = Say::Last(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec());
    let (result, asked) = answered(vec![cut, good()]).await;
    assert!(result.is_ok() && asked == 2, "{result:?}, asked {asked} times");
    let (result, asked) = answered(vec![Say::Close]).await;
    assert!(matches!(&result, Err(refusal @ Refusal::Unreachable(_)) if refusal.kind() == Kind::Network), "{result:?}");
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn nobody_there_is_found_out_soon() {
    let held = tokio::net::TcpSocket::new_v4().expect("a socket");
    held.bind("127.0.0.1:0".parse().expect("an address")).expect("a port that refuses");
    let url = format!("http://{}", held.local_addr().expect("bound"));
    let config = SessionServer { url: url.parse().expect("a URL"), ..SessionServer::default() };
    let began = Instant::now();
    let result = ask(&Client::new(&config).expect("a client")).await;
    assert!(matches!(&result, Err(Refusal::Unreachable(why)) if why.contains("refused")), "{result:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn only_a_server_with_a_certificate_of_a_known_authority_is_believed() {
    let ring = || Arc::new(rustls::crypto::ring::default_provider());
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) =
        (own.cert.der().clone(), rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key"));
    let tls = rustls::ServerConfig::builder_with_provider(ring()).with_safe_default_protocol_versions().expect("versions");
    let tls = tls.with_no_client_auth().with_single_cert(vec![certificate.clone()], key).expect("a pair");
    let responder = Responder::start_with(vec![http("200 OK", &profile(ID, "Alice"))], Some(Arc::new(tls).into())).await;
    let url = format!("https://localhost:{}", responder.address.port());
    let config = SessionServer { url: url.parse().expect("a URL"), ..SessionServer::default() };

    let refusal = ask(&Client::new(&config).expect("a client")).await.expect_err("nobody knows it");
    assert!(matches!(&refusal, Refusal::Unreachable(why) if why.contains("certificate")), "{refusal}");
    assert_eq!(responder.heads().len(), 0, "it learns nothing");

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let tls = rustls::ClientConfig::builder_with_provider(ring()).with_safe_default_protocol_versions().expect("versions");
    let client = Client::trusting(&config, tls.with_root_certificates(roots).with_no_client_auth());
    for _ in 0..2 {
        assert_eq!(ask(&client).await.expect("a profile").name, "Alice");
    }
    assert_eq!(responder.connections(), 3, "one stayed");

    // TLS with one who does not speak it.
    let silent = Responder::start(vec![Say::Silence]).await;
    let url = format!("https://localhost:{}", silent.address.port());
    let config = SessionServer { url: url.parse().expect("a URL"), timeout: Duration::from_millis(300), ..config };
    assert!(matches!(ask(&Client::new(&config).expect("a client")).await, Err(Refusal::Slow(_))));
}

#[tokio::test]
async fn silence_and_a_trickle_end_in_time() {
    let trickle = Say::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n[0,".to_vec());
    for say in [Say::Silence, trickle, Say::Bytes(b"HTTP/1.1 200".to_vec())] {
        let responder = Responder::start(vec![say]).await;
        let client = client(&responder, |config| config.timeout = Duration::from_millis(300));
        let began = Instant::now();
        let refusal = ask(&client).await.expect_err("no answer");
        assert!(matches!(refusal, Refusal::Slow(_)) && refusal.kind() == Kind::TimedOut, "{refusal}");
        assert!(began.elapsed() < Duration::from_secs(3) && responder.heads().len() == 1);
        assert!(refusal.told("Alice").contains("authentication servers are down or very slow"));
    }
    // The login's own deadline counts as well.
    let responder = Responder::start(vec![Say::Silence]).await;
    let client = client(&responder, |_| {});
    let asked = client.has_joined("Alice", HASH, home(), Instant::now() + Duration::from_millis(300));
    assert!(matches!(timeout(SOON, asked).await, Ok(Err(Refusal::Slow(_)))));
}

#[tokio::test]
async fn what_is_no_profile_is_not_one_and_is_not_repeated() {
    let many: String = (0..17).map(|_| r#"{"name":"a","value":"b"},"#).collect();
    let big = "x".repeat(33 * 1024);
    let with = |properties: &str| format!(r#"{{"id":"{ID}","name":"Alice","properties":[{properties}]}}"#);
    for body in [
        CANARY.to_owned(),
        "{".repeat(20_000),
        format!("\"{CANARY}\""),
        format!(r#"{{"id":7,"name":"{CANARY}"}}"#),
        format!(r#"{{"id":"{ID}"}}"#),
        profile(CANARY, "Alice"),
        profile("00000000000000000000000000000000", "Alice"),
        profile(ID, &format!("§c{CANARY}")),
        profile(ID, ""),
        with(&many[..many.len() - 1]),
        with(&format!(r#"{{"name":"a","value":"{big}"}}"#)),
        with(r#"{"name":"a"}"#),
    ] {
        let (result, asked) = answered(vec![http("200 OK", &body)]).await;
        let refusal = result.expect_err("no profile");
        assert!(matches!(refusal, Refusal::Garbage(_)) && refusal.kind() == Kind::Malformed && asked == 1, "{body:.60}: {refusal:?}");
        assert!(!format!("{refusal}{refusal:?}{}", refusal.told("Alice")).contains(CANARY), "{refusal}");
    }
}

#[tokio::test]
async fn no_more_is_read_than_a_profile_may_have() {
    let chunk = format!("4000\r\n{}\r\n", "0".repeat(0x4000));
    let huge = http("200 OK", &format!("[{}]", "0,".repeat(64 * 1024)));
    let head = Say::Endless(b"HTTP/1.1 200 OK\r\nx: y\r\n".to_vec());
    let endless = Say::Endless([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk.repeat(8).as_bytes()].concat());
    for say in [huge, endless] {
        let (result, asked) = answered(vec![say]).await;
        let refusal = result.expect_err("too long");
        assert_eq!((&refusal, refusal.kind(), asked), (&Refusal::TooLong(64 * 1024), Kind::TooLong, 1));
    }
    let (result, _) = answered(vec![head]).await;
    assert!(matches!(result, Err(Refusal::Unreachable(_))), "{result:?}");
}

#[tokio::test]
async fn the_players_address_goes_along_only_where_that_is_wanted() {
    for (address, sent) in
        [("203.0.113.7", "&ip=203.0.113.7 "), ("2001:db8::7", "&ip=2001%3Adb8%3A%3A7 "), ("::ffff:203.0.113.7", "&ip=203.0.113.7 ")]
    {
        let responder = Responder::start(vec![http("200 OK", &profile(ID, "Alice"))]).await;
        let client = client(&responder, |config| config.send_client_address = true);
        let address = address.parse().expect("an address");
        client.has_joined("Alice", HASH, address, Instant::now() + SOON).await.expect("a profile");
        assert!(responder.heads()[0].contains(sent), "{:?}", responder.heads());
    }
    let responder = Responder::start(vec![http("200 OK", &profile(ID, "Alice"))]).await;
    ask(&client(&responder, |_| {})).await.expect("a profile");
    assert!(!responder.heads()[0].contains("ip="));
}

#[tokio::test]
async fn no_more_are_asked_at_a_time_than_allowed_and_none_waits_for_ever() {
    let responder = Responder::start(vec![Say::Silence]).await;
    let client = Arc::new(client(&responder, |config| {
        config.concurrency = 2;
        config.timeout = Duration::from_millis(500);
    }));
    let asking: Vec<_> = (0..6)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { ask(&client).await })
        })
        .collect();
    responder.until(2, 2).await;
    for asked in asking {
        assert!(matches!(asked.await.expect("no panic"), Err(Refusal::Slow(_))));
    }
    // Whoever was first in the queue may have got a place for the last moment, but never beside two others.
    assert!(responder.connections() <= 4, "{}", responder.connections());
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_makes_room() {
    let responder = Responder::start(vec![Say::Silence, http("200 OK", &profile(ID, "Alice"))]).await;
    let client = Arc::new(client(&responder, |config| config.concurrency = 1));
    let asked = tokio::spawn({
        let client = client.clone();
        async move { ask(&client).await }
    });
    responder.until(1, 1).await;
    asked.abort();
    ask(&client).await.expect("a profile");
}

/// Everything logged on this thread, down to the last detail.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

#[tokio::test]
async fn neither_hash_nor_answers_are_logged_even_in_detail() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    tracing::trace!("the log works");
    for say in [
        http("200 OK", &profile(ID, "Alice")),
        http("200 OK", CANARY),
        http("403 Forbidden", CANARY),
        http("503 Service Unavailable", CANARY),
        Say::Bytes(format!("{CANARY} 200 OK\r\n\r\n").into_bytes()),
        Say::Close,
    ] {
        let (result, _) = answered(vec![say]).await;
        tracing::info!("{result:?}");
    }
    drop(guard);
    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    assert!(log.contains("the log works") && log.contains("no JSON"));
    for secret in [CANARY, HASH, &HASH[1..], "serverId"] {
        let lines: Vec<_> = log.lines().filter(|line| line.contains(secret)).collect();
        assert!(lines.is_empty(), "{secret}: {lines:#?}");
    }
}
