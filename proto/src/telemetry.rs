//! Logs, traces and metrics: set-up, and a way out that never holds anybody up.
//!
//! Logs go to stderr, written by a thread of their own behind a bounded queue: a pipe that nobody reads or a full disk costs log
//! lines, never a player. Traces go to an OTLP/gRPC collector if one is configured, by a thread of their own behind a bounded queue;
//! metrics by another one, which reads them every now and then. A dead or slow collector loses telemetry and nothing else. Without
//! one, nothing is queued and nothing is read.

mod export;
pub mod metrics;
pub mod names;
pub mod trace;

use std::io::IsTerminal;
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::Fields;

/// Where logs, traces and metrics go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How log lines look.
    pub log: LogFormat,
    /// What is logged unless `RUST_LOG` says otherwise: a `tracing_subscriber::EnvFilter` ("info").
    pub level: &'static str,
    /// The collector's URL, `http://HOST:4317`. `None` asks the environment: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` for traces,
    /// `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` for metrics, then `OTEL_EXPORTER_OTLP_ENDPOINT`. For `https://` the authority's PEM
    /// file is `OTEL_EXPORTER_OTLP_CERTIFICATE`.
    pub otlp_endpoint: Option<String>,
    /// Whether this process has metrics at all (no).
    pub metrics: bool,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Options {
    fn default() -> Self {
        Self { log: LogFormat::Text, level: "info", otlp_endpoint: None, metrics: false }
    }
}

/// Keeps telemetry going; dropped, it sends what it still has in the background, if the process lives that long.
#[must_use = "telemetry ends when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    sink: Option<std::sync::Arc<export::Sink>>,
    metrics: Option<metrics::Metrics>,
    /// Writes the last lines when dropped, for at most about a second. `None` if this process had its logs already.
    _logs: Option<WorkerGuard>,
}

/// Sets up logs, traces and metrics of this process. Never blocks and never fails: what cannot be set up is logged and left out.
///
/// Logs keep the set-up of the first call in a process; traces and metrics go where the last call says.
pub fn init(service: &'static str, options: Options) -> Guard {
    let logs = init_logs(&options);
    let start = |signal: &str| endpoint(&options, signal).map(|endpoint| check_endpoint(&endpoint).map(|()| endpoint));
    let sink = start("TRACES").and_then(|endpoint| {
        let started = endpoint.and_then(|endpoint| export::start(service, endpoint));
        started.inspect_err(|reason| tracing::warn!(reason, "no traces are exported")).ok()
    });
    let metrics = start("METRICS").filter(|_| options.metrics).and_then(|endpoint| {
        let started = endpoint.and_then(|endpoint| metrics::Metrics::start(service, endpoint));
        started.inspect_err(|reason| tracing::warn!(reason, "no metrics are exported")).ok()
    });
    Guard { sink, metrics, _logs: logs }
}

impl Guard {
    /// Whether traces are exported.
    pub fn exports(&self) -> bool {
        self.sink.is_some()
    }

    /// Waits until all spans finished so far, and all metrics as they are now, are with the collector, at most this long. True if
    /// they are (or there is no collector). To be called at the end of `main`, on a runtime with time.
    pub async fn flush(&self, deadline: Duration) -> bool {
        let spans = async {
            match &self.sink {
                Some(sink) => sink.flush().await,
                None => true,
            }
        };
        let metrics = async {
            match &self.metrics {
                Some(metrics) => metrics.flush().await,
                None => true,
            }
        };
        let both = async { tokio::join!(spans, metrics) };
        matches!(tokio::time::timeout(deadline, both).await, Ok((true, true)))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            export::stop(&sink);
        }
        if let Some(metrics) = self.metrics.take() {
            metrics.stop();
        }
    }
}

/// Reads a `telemetry` table, `{ otlp_endpoint }`: `fields.table("telemetry", telemetry::read).flatten()`.
pub fn read(fields: &mut Fields) -> Option<String> {
    let endpoint = fields.string("otlp_endpoint")?;
    if let Err(problem) = check_endpoint(&endpoint) {
        fields.wrong("otlp_endpoint", problem);
    }
    Some(endpoint)
}

/// Whether a collector's URL can be one.
///
/// # Errors
/// Says what was expected.
pub fn check_endpoint(url: &str) -> Result<(), String> {
    let good = |uri: &tonic::transport::Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    match url.parse::<tonic::transport::Uri>() {
        Ok(uri) if good(&uri) => Ok(()),
        _ => Err(format!("expected an OTLP/gRPC collector's URL, such as \"http://127.0.0.1:4317\", got {url:?}")),
    }
}

/// Where this signal goes ("TRACES", "METRICS").
fn endpoint(options: &Options, signal: &str) -> Option<String> {
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if given("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    let configured = options.otlp_endpoint.clone().filter(|value| !value.is_empty());
    configured.or_else(|| given(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))).or_else(|| given("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

fn init_logs(options: &Options) -> Option<WorkerGuard> {
    let asked = std::env::var("RUST_LOG").ok().filter(|value| !value.is_empty());
    let (filter, wrong) = match asked.as_deref().map(EnvFilter::try_new) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(options.level), Some(error)),
        None => (EnvFilter::new(options.level), None),
    };
    let (writer, guard) = NonBlockingBuilder::default().thread_name("log").finish(std::io::stderr());
    // What cannot be written is lost: tracing's own complaint about it would panic whoever logs, if stderr is gone.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    // An error means that this process has its logs already.
    let installed = match options.log {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if let Some(error) = wrong {
        tracing::warn!(%error, "RUST_LOG is not a filter; using {:?}", options.level);
    }
    installed.is_ok().then_some(guard)
}
