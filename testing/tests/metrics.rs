//! Metrics over OTLP: what a node counts arrives at a collector, at the latest when the node ends, and nothing is read without one.

use std::path::PathBuf;

use moonbridge_testing::collector::Collector;
use moonbridge_testing::network::Up;
use moonbridge_testing::peer::{Backend, Kind, Player};
use moonbridge_testing::session_server::SessionServer;
use moonbridge_testing::wire::Wire;
use serde_json::json;

/// How often metrics are read, in milliseconds.
const OFTEN: (&str, &str) = ("OTEL_METRIC_EXPORT_INTERVAL", "50");

async fn up(environment: &[(&str, &str)]) -> (Up, Backend) {
    up_with(&[], environment).await
}

async fn up_with(arguments: &[&str], environment: &[(&str, &str)]) -> (Up, Backend) {
    let (backend, port) = Backend::serve(Kind::Npm, "one", json!({})).await;
    let of_backend = format!("one=127.0.0.1:{port}");
    (Up::start_with(&[&["--backend", &of_backend], arguments].concat(), environment).await, backend)
}

async fn join(up: &Up, backend: &mut Backend, name: &str) -> Player {
    let mut player = Player::join(Kind::Npm, up.listen.port(), name, json!({}));
    player.in_world().await;
    backend.joined(name).await;
    player
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_counts_arrives() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let (up, mut backend) = up(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), OFTEN]).await;
    let none = collector.point("moonbridge.sessions", |_| true).await;
    assert_eq!((none.value, none.service.as_str()), (0.0, "moonbridge"));

    let mut alice = join(&up, &mut backend, "Alice").await;
    let _bob = join(&up, &mut backend, "Bob").await;
    collector.point("moonbridge.sessions", |point| point.value == 2.0).await;
    collector.point("moonbridge.sessions.began", |point| point.value == 2.0).await;
    collector.point("moonbridge.network.players", |point| point.value == 2.0).await;
    alice.command("quit", json!({})).await;
    collector.point("moonbridge.sessions", |point| point.value == 1.0).await;
    collector.point("moonbridge.sessions.began", |point| point.value == 2.0).await;

    let mut stranger = Wire::connect(up.listen).await.expect("it listens");
    stranger.send(0x07, b"no handshake").await.expect("it takes bytes");
    let failed = collector.point("moonbridge.connections.failed", |point| point.attributes["moonbridge.kind"] == "malformed").await;
    assert_eq!(failed.value, 1.0);
    assert_eq!(failed.attributes["moonbridge.phase"], "handshake");
    assert_eq!(failed.attributes["moonbridge.side"], "player");
    // Nobody is encrypted here.
    collector.point("moonbridge.cipher.bytes", |point| point.value == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_encrypted_is_counted() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let sessions = SessionServer::start().await;
    let online = ["--online", "--session-server", &sessions.url()];
    let (up, mut backend) = up_with(&online, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), OFTEN]).await;
    let mut alice = Player::join(Kind::Npm, up.listen.port(), "Alice", sessions.online(&sessions.account("Alice")));
    alice.in_world().await;
    backend.joined("Alice").await;
    let before = collector.point("moonbridge.cipher.bytes", |point| point.value > 0.0).await;
    // Who is online is known a little later than it is so.
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    let line = "x".repeat(1000);
    up.cli.ok(&["player", "message", "Alice", &line]).await;
    alice.chat(&line).await;
    collector.point("moonbridge.cipher.bytes", |point| point.value >= before.value + 1000.0).await;
    collector.point("moonbridge.cipher.time", |point| point.value > 0.0).await;
    // One player: its bytes are alone every time.
    let alone = collector.point("moonbridge.cipher.batches", |point| point.attributes["moonbridge.streams"] == "1").await;
    assert!(alone.value >= 2.0, "{alone:?}");
    let together = collector.point("moonbridge.cipher.batches", |point| point.attributes["moonbridge.streams"] == "17+").await;
    assert_eq!(together.value, 0.0);
    collector.point("moonbridge.cipher.streams", |point| point.value >= alone.value).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_counted_last_arrives_when_it_ends() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    // Read once an hour: nothing comes before the end.
    let (up, mut backend) = up(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), ("OTEL_METRIC_EXPORT_INTERVAL", "3600000")]).await;
    let _alice = join(&up, &mut backend, "Alice").await;
    assert_eq!(collector.points(), []);
    assert_eq!(up.stop().await, 0);
    collector.point("moonbridge.sessions.began", |point| point.value == 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_of_traces_alone_gets_no_metrics() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let (up, mut backend) = up(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint), OFTEN]).await;
    assert!(!reads_metrics(&up));
    let _alice = join(&up, &mut backend, "Alice").await;
    collector.span("session", |_| true).await;
    assert_eq!(up.stop().await, 0);
    assert_eq!(collector.points(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_nothing_is_read() {
    let (up, mut backend) = up(&[OFTEN]).await;
    let _alice = join(&up, &mut backend, "Alice").await;
    assert!(!reads_metrics(&up));
    let nowhere = Collector::silent().await;
    let (with, _backend) = self::up(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &nowhere.endpoint()), OFTEN]).await;
    nowhere.asked().await;
    assert!(reads_metrics(&with), "this is how it is told");
}

/// Whether a process has the thread that reads metrics.
fn reads_metrics(up: &Up) -> bool {
    let tasks = PathBuf::from(format!("/proc/{}/task", up.process.pid()));
    let threads = tasks.read_dir().expect("a process that runs").flatten();
    let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    // The kernel keeps 15 bytes of "OpenTelemetry.Metrics.PeriodicReader".
    names.any(|name| name.starts_with("OpenTelemetry.M"))
}
