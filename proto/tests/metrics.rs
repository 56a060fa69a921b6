//! Metrics: read for a collector; one that is of no use holds nobody up. That they are read for nobody else is in `telemetry.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests, which lints take for other code")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use moonbridge_proto::telemetry::{self, Guard, Options, metrics, names};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{MetricsService, MetricsServiceServer};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use tokio::sync::{Mutex, mpsc};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// Where metrics go is a matter of the process: one test at a time.
static ONE: Mutex<()> = Mutex::const_new(());

fn init(collector: SocketAddr) -> Guard {
    let otlp_endpoint = Some(format!("http://{collector}"));
    telemetry::init("moonbridge-test", Options { otlp_endpoint, metrics: true, ..Options::default() })
}

/// An instrument that says how often it was read.
fn instrument() -> Arc<AtomicU64> {
    let reads = Arc::new(AtomicU64::new(0));
    let counter = reads.clone();
    let read = move || counter.fetch_add(1, Ordering::Relaxed) + 1;
    metrics::meter().u64_observable_counter(names::SESSIONS_BEGAN).with_callback(move |observer| observer.observe(read(), &[])).build();
    reads
}

struct Collector(mpsc::UnboundedSender<ExportMetricsServiceRequest>);

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(&self, request: Request<ExportMetricsServiceRequest>) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("nobody looks any more"))?;
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tokio::test]
async fn a_flush_brings_what_is_so_now() {
    let _one = ONE.lock().await;
    let (sender, mut requests) = mpsc::unbounded_channel();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(MetricsServiceServer::new(Collector(sender)));
    tokio::spawn(server.serve_with_incoming(incoming));
    let guard = init(address);
    let reads = instrument();
    for read in 1..=2 {
        assert!(guard.flush(Duration::from_secs(20)).await, "the collector takes all");
        let request = requests.try_recv().expect("it has come");
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!(metrics[0].name, "moonbridge.sessions.began");
        let Some(metric::Data::Sum(sum)) = &metrics[0].data else { panic!("a counter: {metrics:?}") };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(read)));
        assert_eq!(reads.load(Ordering::Relaxed), read.unsigned_abs());
    }
}

#[tokio::test]
async fn a_dead_collector_costs_no_time() {
    let _one = ONE.lock().await;
    // Bound and never listening: connections are refused, and nobody else gets the port.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    holds_nobody_up(held.local_addr().unwrap()).await;
}

#[tokio::test]
async fn a_collector_that_never_answers_costs_no_time() {
    let _one = ONE.lock().await;
    // The kernel takes the connection; nobody ever reads from it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    holds_nobody_up(silent.local_addr().unwrap()).await;
}

async fn holds_nobody_up(address: SocketAddr) {
    let began = Instant::now();
    let guard = init(address);
    let _reads = instrument();
    assert!(began.elapsed() < Duration::from_secs(1), "set-up does not wait: {:?}", began.elapsed());
    let began = Instant::now();
    assert!(!guard.flush(Duration::from_millis(100)).await, "nothing came through");
    assert!(began.elapsed() < Duration::from_secs(2), "flush keeps its deadline: {:?}", began.elapsed());
    let began = Instant::now();
    drop(guard);
    assert!(began.elapsed() < Duration::from_secs(1), "the end does not wait: {:?}", began.elapsed());
}
