//! The way of finished spans to the collector: a bounded queue, and one thread that sends batches with a timeout.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use opentelemetry::KeyValue;
use opentelemetry_otlp::{RetryPolicy, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::Endpoint;

use crate::tls::ClientTls;

/// Spans that wait; more are lost and counted. About 1 KiB each.
const QUEUE: usize = 8_192;
/// Spans of one export.
const BATCH: usize = 512;
/// How long a span waits for others.
const DELAY: Duration = Duration::from_secs(1);
/// How long one export may take, connecting included.
pub(super) const EXPORT: Duration = Duration::from_secs(5);

static SINK: ArcSwapOption<Sink> = ArcSwapOption::const_empty();

/// Where finished spans go.
#[derive(Debug)]
pub(super) struct Sink {
    queue: mpsc::Sender<Message>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Span(Box<SpanData>),
    /// Answered once every span before it was exported or lost: whether the last export worked.
    Flush(oneshot::Sender<bool>),
}

/// Whether finished spans go anywhere.
pub(super) fn active() -> bool {
    SINK.load().is_some()
}

/// Queues finished spans, or loses them. Never waits.
pub(super) fn submit(spans: impl IntoIterator<Item = SpanData>) {
    let sink = SINK.load();
    let Some(sink) = &*sink else { return };
    for span in spans {
        if sink.queue.try_send(Message::Span(Box::new(span))).is_err() {
            sink.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// From here on finished spans go to this collector.
pub(super) fn start(service: &'static str, endpoint: String) -> Result<Arc<Sink>, String> {
    let (queue, messages) = mpsc::channel(QUEUE);
    let lost = Arc::new(AtomicU64::new(0));
    // A runtime of its own: no worker of a node ever runs an export, and the caller needs no runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let exporter = {
        let _entered = runtime.enter();
        exporter(service, endpoint)?
    };
    let worker = Worker { exporter, messages, lost: lost.clone(), failing: false };
    let thread = std::thread::Builder::new().name("telemetry".to_owned());
    thread.spawn(move || runtime.block_on(worker.run())).map_err(|error| error.to_string())?;
    let sink = Arc::new(Sink { queue, lost });
    SINK.store(Some(sink.clone()));
    Ok(sink)
}

/// Finished spans go nowhere any more, unless somebody else has taken over.
pub(super) fn stop(sink: &Arc<Sink>) {
    let current = SINK.load();
    if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, sink)) {
        SINK.compare_and_swap(&*current, None);
    }
}

impl Sink {
    pub(super) async fn flush(&self) -> bool {
        let (done, wait) = oneshot::channel();
        self.queue.send(Message::Flush(done)).await.is_ok() && wait.await.unwrap_or(false)
    }
}

fn exporter(service: &'static str, url: String) -> Result<opentelemetry_otlp::SpanExporter, String> {
    let builder = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_channel(endpoint(url)?.connect_lazy());
    let builder = builder.with_retry_policy(once()).with_timeout(EXPORT);
    let mut exporter = builder.build().map_err(|error| error.to_string())?;
    exporter.set_resource(&resource(service));
    Ok(exporter)
}

/// The collector, to be connected to within half an export's time.
pub(super) fn endpoint(url: String) -> Result<Endpoint, String> {
    let is_https = url.starts_with("https:");
    let mut endpoint = Endpoint::from_shared(url).map_err(|error| error.to_string())?;
    endpoint = endpoint.connect_timeout(EXPORT / 2).timeout(EXPORT);
    if is_https {
        let ca = std::env::var_os("OTEL_EXPORTER_OTLP_CERTIFICATE").map(PathBuf::from);
        let tls = ClientTls { ca, ..ClientTls::default() }.load().map_err(|error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {error}"))?;
        endpoint = endpoint.tls_config(tls).map_err(|error| error.to_string())?;
    }
    Ok(endpoint)
}

/// Tries again once, for a connection that just broke. More, with their growing pauses, would hold up the end of every command
/// for a second when nothing listens there.
pub(super) fn once() -> RetryPolicy {
    RetryPolicy::recommended().with_max_retries(1).with_max_jitter(Duration::from_millis(50))
}

/// Who sends.
pub(super) fn resource(service: &'static str) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    // The builder also takes OTEL_RESOURCE_ATTRIBUTES; its OTEL_SERVICE_NAME gives way to ours only if unset.
    let mut resource = Resource::builder().with_attribute(version);
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(service);
    }
    resource.build()
}

struct Worker {
    exporter: opentelemetry_otlp::SpanExporter,
    messages: mpsc::Receiver<Message>,
    lost: Arc<AtomicU64>,
    failing: bool,
}

impl Worker {
    /// Until the sink is gone and everything in the queue was tried.
    async fn run(mut self) {
        while let Some(first) = self.messages.recv().await {
            let mut batch = Vec::new();
            let mut flush = None;
            let deadline = Instant::now() + DELAY;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Span(span) => batch.push(*span),
                    Message::Flush(done) => flush = Some(done),
                }
                if flush.is_some() || batch.len() == BATCH {
                    break;
                }
                next = timeout_at(deadline, self.messages.recv()).await.unwrap_or_default();
            }
            self.export(batch).await;
            if let Some(done) = flush {
                // Nobody may wait any more.
                let _ = done.send(!self.failing);
            }
        }
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        if batch.is_empty() {
            return;
        }
        let spans = batch.len() as u64;
        let failure = match timeout(EXPORT, self.exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {EXPORT:?}")),
        };
        // One line when it begins to fail, one when it works again.
        match failure {
            Some(reason) => {
                self.lost.fetch_add(spans, Ordering::Relaxed);
                if !self.failing {
                    tracing::warn!(reason, "the trace collector takes nothing; spans are lost until it does");
                }
                self.failing = true;
            }
            None if self.failing => {
                tracing::info!(lost = self.lost.swap(0, Ordering::Relaxed), "the trace collector takes spans again");
                self.failing = false;
            }
            None => {}
        }
    }
}
