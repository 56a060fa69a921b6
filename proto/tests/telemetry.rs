//! Telemetry against a collector that works, one that is dead and one that never answers.
#![allow(clippy::unwrap_used, reason = "helpers of tests, which lints take for other code")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use moonbridge_proto::config::Fields;
use moonbridge_proto::telemetry::trace::{self, KeyValue, SpanContext, Trace};
use moonbridge_proto::telemetry::{self, Guard, Options, names};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// Where spans go is a matter of the process: one test at a time.
static ONE: Mutex<()> = Mutex::const_new(());

async fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().await
}

fn init(collector: SocketAddr) -> Guard {
    telemetry::init("moonbridge-test", Options { otlp_endpoint: Some(format!("http://{collector}")), ..Options::default() })
}

struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(&self, request: Request<ExportTraceServiceRequest>) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("nobody looks any more"))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn collector() -> (SocketAddr, mpsc::UnboundedReceiver<ExportTraceServiceRequest>) {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).expect("a free port");
    let address = incoming.local_addr().unwrap();
    let (sender, requests) = mpsc::unbounded_channel();
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(sender)));
    tokio::spawn(server.serve_with_incoming(incoming));
    (address, requests)
}

fn time(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + millis)
}

fn nanos(millis: u64) -> u64 {
    (1_700_000_000_000 + millis) * 1_000_000
}

fn one_span() -> SpanContext {
    Trace::new(names::SESSION, None).child(names::CONNECT, time(0), time(1), []).finish(time(0), time(1), trace::ok())
}

#[tokio::test]
async fn a_transfer_is_one_trace_across_three_and_linked_to_its_session() {
    let _one = alone().await;
    let (address, mut requests) = collector();
    let guard = init(address);
    assert!(guard.exports());

    let session = Trace::new(names::SESSION, None)
        .attribute(KeyValue::new(names::PLAYER, "Steve"))
        .child(names::HANDSHAKE, time(0), time(1), [])
        .child(names::CONNECT, time(1), time(9), [KeyValue::new(names::BACKEND, "lobby")])
        .finish(time(0), time(9), trace::ok());
    let command = Trace::new(names::TRANSFER_COMMAND, None);
    let trace_id = command.trace_id();
    let dispatch = Trace::new(names::DISPATCH, Some(&trace::parent(&command.traceparent())));
    let transfer = Trace::new(names::TRANSFER, Some(&trace::parent(&dispatch.traceparent())));
    transfer
        .child(names::DIAL, time(20), time(22), [])
        .failed_child(names::LOGIN, time(22), time(30), [], "login_refused")
        .link(&session)
        .finish(time(20), time(30), trace::failed("login_refused"));
    dispatch.finish(time(15), time(16), trace::ok());
    command.finish(time(10), time(31), trace::failed("login_refused"));
    assert!(guard.flush(Duration::from_secs(20)).await, "the collector takes all");

    let mut spans: HashMap<String, Span> = HashMap::new();
    while let Ok(request) = requests.try_recv() {
        for resource in request.resource_spans {
            let attributes = format!("{:?}", resource.resource.expect("a resource").attributes);
            assert!(attributes.contains("moonbridge-test"), "{attributes}");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| (span.name.clone(), span)));
        }
    }
    let names = ["session", "handshake", "connect", "transfer.command", "dispatch", "transfer", "dial", "login"];
    assert_eq!(spans.len(), names.len(), "{:?}", spans.keys());
    for (child, parent) in [
        ("handshake", "session"),
        ("connect", "session"),
        ("dispatch", "transfer.command"),
        ("transfer", "dispatch"),
        ("dial", "transfer"),
        ("login", "transfer"),
    ] {
        assert_eq!(spans[child].parent_span_id, spans[parent].span_id, "{child}");
        assert_eq!(spans[child].trace_id, spans[parent].trace_id, "{child}");
    }
    assert!(spans["session"].parent_span_id.is_empty() && spans["transfer.command"].parent_span_id.is_empty());
    assert_eq!(hex(&spans["login"].trace_id), trace_id);
    assert_ne!(spans["session"].trace_id, spans["transfer"].trace_id);
    let link = &spans["transfer"].links[0];
    assert_eq!((&link.trace_id, &link.span_id), (&spans["session"].trace_id, &spans["session"].span_id));
    let login = &spans["login"];
    assert_eq!((login.start_time_unix_nano, login.end_time_unix_nano), (nanos(22), nanos(30)));
    assert_eq!(login.status.as_ref().map(|status| status.message.as_str()), Some("login_refused"));
    assert!(format!("{:?}", spans["connect"].attributes).contains("lobby"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_dead_collector_costs_spans_and_no_time() {
    let _one = alone().await;
    // Bound and never listening: connections are refused, and nobody else gets the port.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    loses_only_spans(held.local_addr().unwrap()).await;
}

#[tokio::test]
async fn a_collector_that_never_answers_costs_spans_and_no_time() {
    let _one = alone().await;
    // The kernel takes the connection; nobody ever reads from it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    loses_only_spans(silent.local_addr().unwrap()).await;
}

async fn loses_only_spans(address: SocketAddr) {
    let began = Instant::now();
    let guard = init(address);
    assert!(began.elapsed() < Duration::from_secs(1), "init does not wait: {:?}", began.elapsed());
    // Five times what the queue takes.
    let began = Instant::now();
    for _ in 0..20_000 {
        one_span();
    }
    assert!(began.elapsed() < Duration::from_secs(4), "finishing a span does not wait: {:?}", began.elapsed());
    let began = Instant::now();
    assert!(!guard.flush(Duration::from_millis(300)).await, "nothing came through");
    assert!(began.elapsed() < Duration::from_secs(2), "flush keeps its deadline: {:?}", began.elapsed());
    let began = Instant::now();
    drop(guard);
    assert!(began.elapsed() < Duration::from_secs(1), "the end does not wait: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_collector_that_comes_back_gets_spans_again() {
    let _one = alone().await;
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let guard = init(held.local_addr().unwrap());
    one_span();
    assert!(!guard.flush(Duration::from_secs(30)).await, "refused");
    let (sender, mut requests) = mpsc::unbounded_channel();
    let incoming = TcpIncoming::from(held.listen(16).unwrap());
    tokio::spawn(tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(sender))).serve_with_incoming(incoming));
    let arrived = async {
        loop {
            one_span();
            if guard.flush(Duration::from_secs(10)).await {
                return requests.recv().await.expect("a batch");
            }
        }
    };
    let batch = tokio::time::timeout(Duration::from_secs(30), arrived).await.expect("spans arrive again");
    assert!(!batch.resource_spans.is_empty());
}

#[tokio::test]
async fn ids_exist_without_a_collector() {
    let _one = alone().await;
    let first = Trace::new(names::TRANSFER_COMMAND, None);
    let second = Trace::new(names::TRANSFER_COMMAND, None);
    assert_ne!(first.trace_id(), second.trace_id());
    assert_eq!(first.trace_id().len(), 32);
    let below = Trace::new(names::DISPATCH, Some(&trace::parent(&first.traceparent())));
    assert_eq!(below.trace_id(), first.trace_id());
    assert_ne!(below.traceparent(), first.traceparent());
    assert_eq!(below.finish(time(0), time(1), trace::ok()).trace_id().to_string(), first.trace_id());
}

#[tokio::test]
async fn metrics_are_read_for_nobody_who_was_not_asked_for() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let _one = alone().await;
    let (address, _requests) = collector();
    // With a collector of traces too: this process has said that it has no metrics.
    for otlp_endpoint in [None, Some(format!("http://{address}"))] {
        let guard = telemetry::init("moonbridge-test", Options { otlp_endpoint, ..Options::default() });
        let reads = Arc::new(AtomicU64::new(0));
        let counter = reads.clone();
        let meter = telemetry::metrics::meter();
        let instrument = meter.u64_observable_gauge(names::SESSIONS);
        instrument.with_callback(move |observer| observer.observe(counter.fetch_add(1, Ordering::Relaxed), &[])).build();
        one_span();
        assert!(guard.flush(Duration::from_secs(20)).await);
        assert_eq!(reads.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn traceparents_are_read_as_w3c_says() {
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let of = |text: &str| Trace::new("x", Some(&trace::parent(text)));
    assert_eq!(of(text).trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(of(text).traceparent().ends_with("-01"));
    let unsampled = text.replace("-01", "-00");
    assert!(of(&unsampled).traceparent().ends_with("-00"), "the caller's decision holds");
    let later = text.replacen("00-", "cc-", 1) + "-what-comes-later";
    assert_eq!(of(&later).trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    let zero = "0".repeat(32);
    for bad in [
        "",
        "00",
        "-",
        &text[..54],
        &format!("{text}-"),
        &text.to_uppercase(),
        &text.replacen("00-", "ff-", 1),
        &text.replace("4bf92f3577b34da6a3ce929d0e0e4736", &zero),
        &text.replace("00f067aa0ba902b7", &zero[..16]),
        "é".repeat(55).as_str(),
    ] {
        assert_ne!(of(bad).trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736", "{bad}");
        assert_ne!(of(bad).trace_id(), zero, "{bad}");
    }
    assert_eq!(trace::traceparent(&SpanContext::NONE), "");
}

#[test]
fn an_endpoint_is_checked_where_it_is_configured() {
    let read = |text: &str| {
        let mut fields = Fields::parse(text).unwrap();
        let endpoint = fields.table("telemetry", telemetry::read).flatten();
        fields.finish().map(|()| endpoint).map_err(|errors| errors.to_string())
    };
    assert_eq!(read(""), Ok(None));
    assert_eq!(read("[telemetry]"), Ok(None));
    assert_eq!(read("[telemetry]\notlp_endpoint = \"http://127.0.0.1:4317\""), Ok(Some("http://127.0.0.1:4317".into())));
    let error = read("[telemetry]\notlp_endpoint = \"127.0.0.1:4317\"").expect_err("no scheme");
    assert!(error.starts_with("telemetry.otlp_endpoint: expected"), "{error}");
    // Nothing fails at run time either.
    assert!(!telemetry::init("x", Options { otlp_endpoint: Some("nonsense".into()), ..Options::default() }).exports());
}
