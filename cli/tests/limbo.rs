//! `probe` and `status` against a limbo: the two halves of the demo, without the planes between them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::time::Duration;

use moonbridge_cli::demo::Limbo;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

async fn limbo() -> Running {
    let limbo = Limbo::bind("demo-1").await.unwrap();
    let (address, shutdown) = (limbo.address(), CancellationToken::new());
    Running { address, task: tokio::spawn(limbo.run(shutdown.clone())), shutdown }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moonbridge"));
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(args: &[&str]) -> Output {
    timeout(LIMIT, command(args).output()).await.expect("ends in time").unwrap()
}

fn events(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event"].as_str()).collect()
}

#[tokio::test]
async fn a_probe_reports_each_phase_of_both_protocols() {
    let limbo = limbo().await;
    let server = limbo.address.to_string();
    for protocol in ["5", "4"] {
        let output = run(&["probe", &server, "--name", "Alice", "--protocol", protocol, "-o", "json"]).await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let events = events(&output);
        assert_eq!(names(&events), ["tcp", "handshake", "login-success", "join-game", "first-chunk", "in-world"]);
        let success = &events[2];
        assert_eq!(success["name"], "Alice");
        // As Java's UUID.nameUUIDFromBytes gives it for OfflinePlayer:Alice; undashed on protocol 4.
        let uuid = success["uuid"].as_str().unwrap();
        assert_eq!(uuid.replace('-', "").len(), 32);
        assert_eq!(uuid.contains('-'), protocol == "5");
        let times: Vec<f64> = events.iter().map(|event| event["ms"].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] >= 0.0, "{times:?}");
    }
}

#[tokio::test]
async fn a_held_probe_answers_keep_alives_and_hears_the_chat() {
    let limbo = limbo().await;
    let output = run(&["probe", &limbo.address.to_string(), "--hold", "3s", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let events = events(&output);
    let chat = events.iter().find(|event| event["event"] == "chat").expect("a welcome");
    assert!(chat["text"].as_str().unwrap().contains("limbo demo-1"), "{chat}");
    let stayed = events.last().unwrap();
    assert_eq!(stayed["event"], "stayed");
    assert!(stayed["keep_alives"].as_u64().unwrap() >= 2, "one each 2 s, and one at once: {stayed}");
    assert!(stayed["ms"].as_f64().unwrap() >= 3_000.0);
}

#[tokio::test]
async fn a_probe_that_is_disconnected_says_why_and_fails() {
    let limbo = limbo().await;
    let mut probe =
        command(&["probe", &limbo.address.to_string(), "--hold", "1m"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(probe.stdout.take().unwrap()).lines();
    let in_world = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("in-world") {
                return;
            }
        }
        panic!("the probe ended before it was in the world");
    };
    timeout(LIMIT, in_world).await.unwrap();
    limbo.shutdown.cancel();
    timeout(LIMIT, limbo.task).await.expect("the limbo ends in time").unwrap();
    let mut last = String::new();
    while let Some(line) = timeout(LIMIT, lines.next_line()).await.unwrap().unwrap() {
        last = line;
    }
    assert!(last.contains("kicked") && last.contains("shutting down"), "{last}");
    assert_eq!(timeout(LIMIT, probe.wait()).await.unwrap().unwrap().code(), Some(1));
}

#[tokio::test]
async fn an_unsupported_version_is_told_what_is_supported() {
    use moonbridge_protocol::handshake::{self, Handshake, Next};
    use moonbridge_protocol::{frame, login};
    let limbo = limbo().await;
    let mut stream = TcpStream::connect(limbo.address).await.unwrap();
    let mut out = Vec::new();
    handshake::put(&mut out, &Handshake { protocol: 47, host: "localhost", port: 25565, next: Next::Login });
    login::put_login_start(&mut out, "Alice");
    stream.write_all(&out).await.unwrap();
    let mut answer = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let found = frame::first(&answer, frame::MAX_FRAME).unwrap().expect("a frame");
    assert_eq!(found.id, 0);
    assert!(login::read_disconnect(found.payload).unwrap().plain().contains("1.7.2 to 1.7.10"));
}

#[tokio::test]
async fn status_shows_the_answer_and_the_latency() {
    let limbo = limbo().await;
    let server = limbo.address.to_string();
    let output = run(&["status", &server, "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["server"], server.as_str());
    assert_eq!((&status["protocol"], &status["online"]), (&Value::from(5), &Value::from(0)));
    assert!(status["description"].as_str().unwrap().contains("demo-1"));
    assert!(status["latency_ms"].as_f64().unwrap() > 0.0);
    let output = run(&["status", &server]).await;
    assert!(String::from_utf8_lossy(&output.stdout).contains("MoonBridge limbo demo-1"));
}

#[tokio::test]
async fn servers_that_do_not_answer_as_they_should_fail_the_probe_with_the_reason() {
    // Closes at once.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closing = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut taken = [0; 64];
            let _ = stream.read(&mut taken).await;
            let _ = stream.shutdown().await;
        }
    });
    let output = run(&["probe", &address.to_string()]).await;
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("during the login"), "{text}");
    assert_eq!(run(&["status", &address.to_string()]).await.status.code(), Some(1));
    closing.abort();

    // Sends no frames.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let babbling = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"\xff\xff\xff\xffHTTP/1.1 400 Bad Request\r\n").await;
            let _ = stream.read(&mut [0; 64]).await;
        }
    });
    let output = run(&["probe", &address.to_string(), "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(names(&events(&output)).last(), Some(&"garbage"), "{output:?}");
    babbling.abort();
}
