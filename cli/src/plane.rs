//! Running the planes: `moonbridge dataplane`, `moonbridge controlplane`, and what `up` shares with them.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use moonbridge_proto::config::ConfigErrors;
use moonbridge_proto::telemetry::{self, Guard};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::FLUSH;
use crate::args::{LogFormat, PlaneArgs};
use crate::failure::{Failure, Outcome};
use crate::leftovers::Leftovers;
use crate::output;

/// Exit code of a process that was told to stop twice: that of one killed by SIGINT.
const INTERRUPTED: i32 = 130;

/// Runs a node until it is told to stop.
pub(crate) async fn dataplane(args: PlaneArgs) -> Outcome {
    let config = moonbridge_dataplane::config::Config::load(&args.config).map_err(|errors| mistakes(&args.config, &errors))?;
    let telemetry = start_telemetry("moonbridge-dataplane", args.log, config.telemetry.otlp_endpoint.clone());
    raise_file_limit();
    let shutdown = stop_on_signal(Leftovers::default())?;
    let listen = config.listener.listen;
    let (sender, ready) = oneshot::channel();
    let mut run = tokio::spawn(moonbridge_dataplane::run(config, shutdown, sender));
    tokio::spawn(async move {
        if let Ok(ready) = ready.await {
            output::note(&format!("moonbridge dataplane: players connect to {}", ready.listen));
        }
    });
    let result = finish(&mut run, "the node", listen, "listen").await;
    telemetry.flush(FLUSH).await;
    result
}

/// Runs a replica until it is told to stop.
pub(crate) async fn controlplane(args: PlaneArgs) -> Outcome {
    let config = moonbridge_controlplane::config::Config::load(&args.config).map_err(|errors| mistakes(&args.config, &errors))?;
    let telemetry = start_telemetry("moonbridge-controlplane", args.log, config.telemetry.otlp_endpoint.clone());
    raise_file_limit();
    let shutdown = stop_on_signal(Leftovers::default())?;
    let listen = config.listen;
    let (sender, ready) = oneshot::channel();
    let mut run = tokio::spawn(moonbridge_controlplane::run(config, shutdown, sender));
    tokio::spawn(async move {
        if let Ok(ready) = ready.await {
            output::note(&format!("moonbridge controlplane: nodes and admins connect to {}", ready.listen));
        }
    });
    let result = finish(&mut run, "the control plane", listen, "listen").await;
    telemetry.flush(FLUSH).await;
    result
}

fn mistakes(file: &Path, errors: &ConfigErrors) -> Failure {
    let lines: Vec<String> = errors.0.iter().map(|error| format!("{}: {error}", file.display())).collect();
    Failure::usage(lines.join("\n"))
}

/// Logs to stderr, traces and metrics to a collector if there is one.
pub(crate) fn start_telemetry(service: &'static str, log: LogFormat, otlp_endpoint: Option<String>) -> Guard {
    let log = match log {
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    };
    telemetry::init(service, telemetry::Options { log, otlp_endpoint, metrics: true, ..Default::default() })
}

/// A token that SIGINT, SIGTERM or SIGHUP cancels; a second one ends the process at once, leaving none of `leftovers`.
pub(crate) fn stop_on_signal(leftovers: Leftovers) -> Outcome<CancellationToken> {
    let failed = |error: io::Error| Failure::failed(format!("cannot wait for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    // Whoever started it with nohup wants it to outlive the terminal.
    let mut hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup()).map_err(failed)?) };
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let mut next = async || {
            let hung_up = async {
                match &mut hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hung_up => {}
            }
        };
        next().await;
        output::note("moonbridge: ending; once more to end at once");
        stop.cancel();
        next().await;
        leftovers.remove();
        std::process::exit(INTERRUPTED);
    });
    Ok(token)
}

/// Whether SIGHUP was ignored when this process began, as `nohup` has it. Linux tells; elsewhere it counts as not.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Bit 0 is signal 1.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// One file descriptor a connection: takes what the system allows.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}

/// A plane's task.
pub(crate) type Running = JoinHandle<anyhow::Result<()>>;

/// Waits until a plane has ended; not to be asked again after.
pub(crate) async fn finish(run: &mut Running, what: &str, address: SocketAddr, option: &str) -> Outcome {
    match run.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::failed(explain(&error, what, address, option))),
        Err(error) => Err(Failure::failed(format!("{what} failed: {error}"))),
    }
}

/// Waits until a plane serves; if it ends instead, says why.
pub(crate) async fn ready<R>(run: &mut Running, ready: oneshot::Receiver<R>, what: &str, address: SocketAddr, option: &str) -> Outcome<R> {
    /// A plane that does not serve by then never will.
    const START: Duration = Duration::from_secs(30);
    match tokio::time::timeout(START, ready).await {
        Ok(Ok(ready)) => Ok(ready),
        Ok(Err(_)) => Err(match finish(run, what, address, option).await {
            Err(failure) => failure,
            Ok(()) => Failure::failed(format!("{what} ended before it served")),
        }),
        Err(_) => Err(Failure::failed(format!("{what} does not serve after {} s; its log says more", START.as_secs()))),
    }
}

/// The error with its causes, and what to do if an address is taken.
fn explain(error: &anyhow::Error, what: &str, address: SocketAddr, option: &str) -> String {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    match io {
        Some(io::ErrorKind::AddrInUse) => {
            format!("{what} cannot listen on {address}: something else listens there; stop it, or give another address with {option}")
        }
        Some(io::ErrorKind::AddrNotAvailable) => {
            format!("{what} cannot listen on {address}: this machine does not have that address; give another with {option}")
        }
        Some(io::ErrorKind::PermissionDenied) if address.port() < 1024 => {
            format!("{what} cannot listen on {address}: ports below 1024 need a privilege; give another address with {option}")
        }
        _ => format!("{what} failed: {error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_address_is_named_with_what_to_do() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::AddrInUse)).context("listening");
        let text = explain(&error, "the node", "127.0.0.1:25565".parse().unwrap(), "--listen");
        assert!(text.contains("127.0.0.1:25565") && text.contains("--listen"), "{text}");
    }
}
