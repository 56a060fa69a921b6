//! Logs and traces: set-up, and a way out that never holds anybody up.
//!
//! Logs go to stderr, written by a thread of their own behind a bounded queue: a pipe that nobody reads or a full disk costs log
//! lines, never a player. Traces go to an OTLP/gRPC collector if one is configured, by a thread of their own behind a bounded queue:
//! a dead or slow collector loses telemetry and nothing else. Without a collector nothing is queued at all.

mod export;
pub mod names;
pub mod trace;

use std::io::IsTerminal;
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::Fields;

/// Where logs and traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How log lines look.
    pub log: LogFormat,
    /// What is logged unless `RUST_LOG` says otherwise: a `tracing_subscriber::EnvFilter` ("info").
    pub level: &'static str,
    /// The collector's URL, `http://HOST:4317`. `None` asks the environment: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, then
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`. For `https://` the authority's PEM file is `OTEL_EXPORTER_OTLP_CERTIFICATE`.
    pub otlp_endpoint: Option<String>,
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
        Self { log: LogFormat::Text, level: "info", otlp_endpoint: None }
    }
}

/// Keeps telemetry going; dropped, it sends what it still has in the background, if the process lives that long.
#[must_use = "telemetry ends when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    sink: Option<std::sync::Arc<export::Sink>>,
    /// Writes the last lines when dropped, for at most about a second. `None` if this process had its logs already.
    _logs: Option<WorkerGuard>,
}

/// Sets up logs and traces of this process. Never blocks and never fails: what cannot be set up is logged and left out.
///
/// Logs keep the set-up of the first call in a process; traces go where the last call says.
pub fn init(service: &'static str, options: Options) -> Guard {
    let logs = init_logs(&options);
    let started = endpoint(&options).map(|endpoint| check_endpoint(&endpoint).and_then(|()| export::start(service, endpoint)));
    let sink = started.and_then(|started| started.inspect_err(|reason| tracing::warn!(reason, "no traces are exported")).ok());
    Guard { sink, _logs: logs }
}

impl Guard {
    /// Whether traces are exported.
    pub fn exports(&self) -> bool {
        self.sink.is_some()
    }

    /// Waits until all spans finished so far are with the collector, at most this long. True if they are (or there is no
    /// collector). To be called at the end of `main`, on a runtime with time.
    pub async fn flush(&self, deadline: Duration) -> bool {
        match &self.sink {
            Some(sink) => tokio::time::timeout(deadline, sink.flush()).await.unwrap_or(false),
            None => true,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            export::stop(&sink);
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

fn endpoint(options: &Options) -> Option<String> {
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if given("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    let configured = options.otlp_endpoint.clone().filter(|value| !value.is_empty());
    configured.or_else(|| given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")).or_else(|| given("OTEL_EXPORTER_OTLP_ENDPOINT"))
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
