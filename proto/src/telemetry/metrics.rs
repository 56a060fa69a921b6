//! Metrics: totals and states that are read when they are to be sent, never counted through OpenTelemetry.
//!
//! Whoever counts keeps plain atomics and says here, once, how to read them:
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use moonbridge_proto::telemetry::{metrics, names};
//!
//! let began = Arc::new(AtomicU64::new(0));
//! let read = began.clone();
//! let _ = metrics::meter()
//!     .u64_observable_counter(names::SESSIONS_BEGAN)
//!     .with_callback(move |observer| observer.observe(read.load(Ordering::Relaxed), &[]))
//!     .build();
//! began.fetch_add(1, Ordering::Relaxed);
//! ```
//! Without a collector nobody reads them. With one, a thread of its own does every `OTEL_METRIC_EXPORT_INTERVAL` ms (60,000).

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::global;
use opentelemetry_otlp::{WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use opentelemetry::KeyValue;
pub use opentelemetry::metrics::Meter;

use super::export::{EXPORT, endpoint, once, resource};

/// Where instruments are made. They are read as long as the process's telemetry is set up ([`super::init`] comes first), and what
/// they refer to lives as long: callbacks hold weak references to anything that ends before.
pub fn meter() -> Meter {
    global::meter("moonbridge")
}

/// Reads instruments and sends what they say, until it is ended.
#[derive(Debug)]
pub(super) struct Metrics(SdkMeterProvider);

impl Metrics {
    /// From here on instruments are read for this collector.
    pub(super) fn start(service: &'static str, url: String) -> Result<Metrics, String> {
        let reader = PeriodicReader::builder(Exporter::new(url)?).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).with_resource(resource(service)).build();
        global::set_meter_provider(provider.clone());
        Ok(Metrics(provider))
    }

    /// Sends everything as it is now. True if the collector has it.
    pub(super) async fn flush(&self) -> bool {
        let provider = self.0.clone();
        let (done, wait) = oneshot::channel();
        // Not on the caller's runtime, whose end would wait for it.
        std::thread::spawn(move || done.send(provider.force_flush().is_ok()));
        wait.await.unwrap_or(false)
    }

    /// Reads no more; what is still to be sent is, if the process lives that long.
    pub(super) fn stop(self) {
        std::thread::spawn(move || self.0.shutdown());
    }
}

/// The way to the collector. Driven by the reader's thread and nobody else, for a bounded time.
struct Exporter {
    exporter: opentelemetry_otlp::MetricExporter,
    /// Gone only while this is dropped.
    runtime: Mutex<Option<Runtime>>,
    failing: AtomicBool,
}

impl Exporter {
    fn new(url: String) -> Result<Exporter, String> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let channel = {
            let _entered = runtime.enter();
            endpoint(url)?.connect_lazy()
        };
        let builder = opentelemetry_otlp::MetricExporter::builder().with_temporality(Temporality::Cumulative);
        let builder = builder.with_tonic().with_channel(channel).with_retry_policy(once()).with_timeout(EXPORT);
        let exporter = builder.build().map_err(|error| error.to_string())?;
        Ok(Exporter { exporter, runtime: Mutex::new(Some(runtime)), failing: AtomicBool::new(false) })
    }

    fn send(&self, metrics: &ResourceMetrics) -> Result<(), String> {
        let runtime = self.runtime.lock().map_err(|error| error.to_string())?;
        let runtime = runtime.as_ref().ok_or("telemetry has ended")?;
        match runtime.block_on(async { timeout(EXPORT, self.exporter.export(metrics)).await }) {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {EXPORT:?}")),
        }
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let sent = self.send(metrics);
        let failed = self.failing.swap(sent.is_err(), Ordering::Relaxed);
        // One line when it begins to fail, one when it works again.
        match &sent {
            Err(reason) if !failed => tracing::warn!(reason, "the metrics collector takes nothing; totals are sent when it does"),
            Ok(()) if failed => tracing::info!("the metrics collector takes metrics again"),
            _ => {}
        }
        sent.map_err(OTelSdkError::InternalFailure)
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, limit: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(limit)
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It may be an async task that drops it, which must not wait for a runtime's end.
        if let Some(runtime) = self.runtime.get_mut().ok().and_then(Option::take) {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}
