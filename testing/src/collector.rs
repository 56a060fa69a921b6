//! An OTLP receiver of the tests' own: keeps the spans that processes send it, and the newest point of every metric.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{MetricsService, MetricsServiceServer};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, metric, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::process::SOON;

/// A finished span; ids in hexadecimal.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// `service.name` of the process that sent it.
    pub service: String,
    /// Its name.
    pub name: String,
    /// The trace it is of.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// The id of the span it is under, or empty.
    pub parent: String,
    /// Trace and span ids that it is linked to.
    pub links: Vec<(String, String)>,
    /// Its attributes, as text.
    pub attributes: BTreeMap<String, String>,
}

/// What one series of a metric came to: a gauge's state, or a counter's total since its process began.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// `service.name` of the process that sent it.
    pub service: String,
    /// The metric's name.
    pub name: String,
    /// Its attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// What it came to.
    pub value: f64,
    /// When it was read.
    pub at: SystemTime,
}

/// Service, name and attributes.
type Series = (String, String, BTreeMap<String, String>);

/// The receiver; gone when dropped.
pub struct Collector {
    address: SocketAddr,
    received: Arc<Received>,
    _stop: DropGuard,
}

struct Received {
    spans: Mutex<Vec<Span>>,
    points: Mutex<BTreeMap<Series, Point>>,
    grown: watch::Sender<u64>,
    /// Takes requests and never answers them.
    silent: bool,
}

impl Collector {
    /// One that answers.
    pub async fn start() -> Collector {
        Collector::serve(false).await
    }

    /// One that takes everything and never answers.
    pub async fn silent() -> Collector {
        Collector::serve(true).await
    }

    async fn serve(silent: bool) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let received = Arc::new(Received { spans: Mutex::default(), points: Mutex::default(), grown: watch::Sender::new(0), silent });
        let stop = CancellationToken::new();
        let serving = Server::builder()
            .add_service(TraceServiceServer::new(Service(received.clone())))
            .add_service(MetricsServiceServer::new(Service(received.clone())))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
        tokio::spawn(serving);
        Collector { address, received, _stop: stop.drop_guard() }
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.received.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many requests have come.
    pub fn requests(&self) -> u64 {
        *self.received.grown.borrow()
    }

    /// Waits for a request, answered or not.
    pub async fn asked(&self) {
        let mut grown = self.received.grown.subscribe();
        tokio::time::timeout(SOON, grown.wait_for(|grown| *grown > 0))
            .await
            .expect("nobody exported anything")
            .expect("the sender is ours");
    }

    /// Waits for a span with this name that `wanted` holds for.
    pub async fn span(&self, name: &str, wanted: impl Fn(&Span) -> bool) -> Span {
        let mut grown = self.received.grown.subscribe();
        let found = async {
            loop {
                grown.borrow_and_update();
                if let Some(span) = self.spans().into_iter().find(|span| span.name == name && wanted(span)) {
                    return span;
                }
                grown.changed().await.expect("the sender is ours");
            }
        };
        match tokio::time::timeout(SOON, found).await {
            Ok(span) => span,
            Err(_) => panic!("no span {name} within {SOON:?}; received:\n{}", self.log()),
        }
    }

    /// The newest point of every series.
    pub fn points(&self) -> Vec<Point> {
        self.received.points.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Waits for a point of this metric that `wanted` holds for, which is the newest of its series.
    pub async fn point(&self, name: &str, wanted: impl Fn(&Point) -> bool) -> Point {
        let mut grown = self.received.grown.subscribe();
        let found = async {
            loop {
                grown.borrow_and_update();
                if let Some(point) = self.points().into_iter().find(|point| point.name == name && wanted(point)) {
                    return point;
                }
                grown.changed().await.expect("the sender is ours");
            }
        };
        match tokio::time::timeout(SOON, found).await {
            Ok(point) => point,
            Err(_) => panic!("no such point of {name} within {SOON:?}; received:\n{}", self.log()),
        }
    }

    /// What has come, for failure messages.
    pub fn log(&self) -> String {
        let spans = self.spans().into_iter().map(|span| format!("  {span:?}\n"));
        spans.chain(self.points().into_iter().map(|point| format!("  {point:?}\n"))).collect()
    }
}

struct Service(Arc<Received>);

impl Service {
    /// A request has been read.
    async fn received(&self) {
        self.0.grown.send_modify(|grown| *grown += 1);
        if self.0.silent {
            std::future::pending::<()>().await;
        }
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(&self, request: Request<ExportTraceServiceRequest>) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = request.into_inner().resource_spans.into_iter().flat_map(|resource| {
            let service = service(resource.resource);
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.map(move |span| read(service.clone(), span)).collect::<Vec<_>>()
        });
        self.0.spans.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
        self.received().await;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(&self, request: Request<ExportMetricsServiceRequest>) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        for resource in request.into_inner().resource_metrics {
            let service = service(resource.resource);
            let metrics = resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
            let points = metrics.flat_map(|metric| points(&service, metric));
            let points = points.map(|point| ((point.service.clone(), point.name.clone(), point.attributes.clone()), point));
            self.0.points.lock().unwrap_or_else(PoisonError::into_inner).extend(points);
        }
        self.received().await;
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn service(resource: Option<Resource>) -> String {
    resource.and_then(|resource| attributes(resource.attributes).remove("service.name")).unwrap_or_default()
}

/// The points of a gauge or a counter; other kinds are not looked at.
fn points(service: &str, metric: Metric) -> Vec<Point> {
    let points = match metric.data {
        Some(metric::Data::Gauge(gauge)) => gauge.data_points,
        Some(metric::Data::Sum(sum)) => {
            assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative, "{} is a total", metric.name);
            sum.data_points
        }
        _ => Vec::new(),
    };
    let read = |value| match value {
        number_data_point::Value::AsDouble(value) => value,
        number_data_point::Value::AsInt(value) => value as f64,
    };
    let points = points.into_iter().filter_map(|point| {
        Some(Point {
            service: service.to_owned(),
            name: metric.name.clone(),
            value: read(point.value?),
            at: SystemTime::UNIX_EPOCH + Duration::from_nanos(point.time_unix_nano),
            attributes: attributes(point.attributes),
        })
    });
    points.collect()
}

fn read(service: String, span: otlp::Span) -> Span {
    Span {
        service,
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
        attributes: attributes(span.attributes),
    }
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => format!("{other:?}"),
    };
    pairs.into_iter().filter_map(|pair| Some((pair.key, text(pair.value?.value?)))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
