//! Traces over OTLP: a transfer is one trace from the CLI over the replica to the node, and a collector that is no use costs nothing.

use std::time::Instant;

use moonbridge_testing::collector::Collector;
use moonbridge_testing::network::{Plane, Up, dead_port, folder};
use moonbridge_testing::peer::{Backend, Kind, Player};
use moonbridge_testing::process::SOON;
use serde_json::json;

async fn two_backends() -> (Backend, Backend, [String; 2]) {
    let (one, one_port) = Backend::serve(Kind::Npm, "one", json!({})).await;
    let (two, two_port) = Backend::serve(Kind::Npm, "two", json!({})).await;
    (one, two, [format!("127.0.0.1:{one_port}"), format!("127.0.0.1:{two_port}")])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_is_one_trace_from_the_cli_to_the_node() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let export = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let (mut one, mut two, [one_address, two_address]) = two_backends().await;
    let data = folder();
    let store = format!("[store.embedded]\ndata_dir = \"{}\"\n", data.path().join("store").display());
    let replica = Plane::start("controlplane", "r1", &store, &export).await;
    let cli = replica.cli().env(export[0].0, export[0].1);
    cli.ok(&["backend", "set", "one", "--address", &one_address]).await;
    cli.ok(&["backend", "set", "two", "--address", &two_address]).await;
    cli.ok(&["route", "set", "*", "--backends", "one,two"]).await;
    // The node's endpoint comes from its configuration.
    let node = Plane::start(
        "dataplane",
        "n1",
        &format!("control = [\"{}\"]\ntelemetry = {{ otlp_endpoint = \"{endpoint}\" }}\n", replica.url()),
        &[],
    )
    .await;
    let mut player = Player::join(Kind::Npm, node.listen.port(), "Alice", json!({}));
    player.in_world().await;
    one.joined("Alice").await;
    cli.until(&["player", "list"], |rows| rows.len() == 1).await;

    let session = collector.span("session", |_| true).await;
    for phase in ["handshake", "authenticate", "admit", "connect"] {
        let span = collector.span(phase, |span| span.trace == session.trace).await;
        assert_eq!(span.parent, session.id, "{phase}");
    }
    assert_eq!(session.parent, "");
    assert_eq!(session.attributes["moonbridge.player.name"], "Alice");

    let ran = cli.ok(&["transfer", "start", "Alice", "--to", "two"]).await;
    two.joined("Alice").await;
    let command = collector.span("transfer.command", |_| true).await;
    assert!(ran.said().contains(&command.trace), "the trace id is printed: {ran:?}");
    let dispatch = collector.span("dispatch", |span| span.trace == command.trace).await;
    let transfer = collector.span("transfer", |span| span.trace == command.trace).await;
    let services = [&command, &dispatch, &transfer].map(|span| span.service.as_str());
    assert!(services[0] != services[1] && services[1] != services[2] && services[0] != services[2], "three processes: {services:?}");
    assert_eq!(command.parent, "");
    assert_eq!(dispatch.parent, command.id, "{}", collector.log());
    assert!([&command.id, &dispatch.id].contains(&&transfer.parent), "{}", collector.log());
    assert_eq!(transfer.links, [(session.trace.clone(), session.id.clone())], "a link to the session's trace");
    assert_eq!(transfer.attributes["moonbridge.transfer.to"], "two");
    for phase in ["dial", "login", "pause", "cutover", "replay"] {
        let span = collector.span(phase, |span| span.trace == command.trace).await;
        assert_eq!((span.parent.as_str(), span.service.as_str()), (transfer.id.as_str(), transfer.service.as_str()), "{phase}");
    }

    player.command("quit", json!({})).await;
    let end = collector.span("session.end", |_| true).await;
    assert_eq!(end.links, [(session.trace.clone(), session.id.clone())]);
    assert_ne!(end.trace, session.trace, "no span stays open for hours");
    // A ping and a failed handshake leave no trace.
    let mut asking = Player::join(Kind::Npm, node.listen.port(), "Asker", json!({ "status": true }));
    asking.expect("the server list entry", |seen| matches!(seen, moonbridge_testing::peer::Seen::Status { .. }).then_some(())).await;
    let mut again = Player::join(Kind::Npm, node.listen.port(), "Bob", json!({}));
    again.in_world().await;
    collector.span("session", |span| span.attributes["moonbridge.player.name"] == "Bob").await;
    assert_eq!(collector.spans().iter().filter(|span| span.name == "handshake").count(), 2, "{}", collector.log());
}

/// A whole little session: login, transfer, chat, and the end of all processes, in the time it takes without a collector.
async fn session_with(endpoint: &str) {
    let (mut one, mut two, [one_address, two_address]) = two_backends().await;
    let export = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), ("OTEL_METRIC_EXPORT_INTERVAL", "50")];
    let up = Up::start_with(&["--backend", &format!("one={one_address}"), "--backend", &format!("two={two_address}")], &export).await;
    let mut player = Player::join(Kind::Npm, up.listen.port(), "Alice", json!({}));
    player.in_world().await;
    one.joined("Alice").await;
    up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    let cli = up.cli.clone().env(export[0].0, export[0].1);
    let started = Instant::now();
    for trip in 0..6 {
        let (to, there) = if trip % 2 == 0 { ("two", &mut two) } else { ("one", &mut one) };
        cli.ok(&["transfer", "start", "Alice", "--to", to]).await;
        there.joined("Alice").await;
        player.say(&format!("trip {trip}")).await;
        there.chat(&format!("trip {trip}")).await;
    }
    // Six commands; the CLI gives a collector that does not answer a moment each at its end.
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    player.assert_well();
    let stopping = Instant::now();
    assert_eq!(up.stop().await, 0);
    assert!(stopping.elapsed() < SOON / 2, "{:?}", stopping.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_collector_costs_no_player_anything() {
    let (_socket, port) = dead_port();
    session_with(&format!("http://127.0.0.1:{port}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_costs_no_player_anything() {
    let collector = Collector::silent().await;
    session_with(&collector.endpoint()).await;
    collector.asked().await;
}
