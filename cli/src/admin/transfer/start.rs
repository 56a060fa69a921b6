//! `moonbridge transfer start`: the root of a transfer's trace.

use std::time::{Duration, SystemTime};

use moonbridge_proto::telemetry::names;
use moonbridge_proto::telemetry::trace::{self, KeyValue, SpanKind, Trace};
use moonbridge_proto::v1;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::commands::{self, Ended};
use super::super::{ORIGIN, Session};
use super::progress::Progress;
use super::{COLUMNS, row, told};
use crate::args::Format;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};

/// How long beyond the deadline the control plane may take to tell that it has passed.
const GRACE: Duration = Duration::from_secs(15);

/// What the arguments ask for.
pub(super) struct Wanted {
    pub(super) players: Vec<String>,
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) as_player: bool,
    pub(super) no_wait: bool,
    pub(super) deadline: Duration,
}

/// Starts transfers, and waits for them unless told otherwise.
pub(super) async fn run(mut session: Session, wanted: Wanted) -> Outcome {
    let deadline_seconds = u32::try_from(wanted.deadline.as_secs()).unwrap_or(u32::MAX);
    if deadline_seconds == 0 || wanted.deadline.subsec_nanos() != 0 {
        return Err(Failure::usage("--deadline: expected whole seconds, at least 1s"));
    }
    let began = SystemTime::now();
    let mut span = Trace::new(names::TRANSFER_COMMAND, None).kind(SpanKind::Client).attribute(KeyValue::new(names::TO, wanted.to.clone()));
    if let Some(from) = &wanted.from {
        span = span.attribute(KeyValue::new(names::FROM, from.clone()));
    }
    let trace_id = span.trace_id();
    let result = start_and_wait(&mut session, &wanted, deadline_seconds, &span.traceparent(), &trace_id).await;
    let status = match &result {
        Ok(()) => trace::ok(),
        Err(failure) if failure.message.is_empty() => trace::failed("not every transfer succeeded"),
        Err(failure) => trace::failed(failure.message.clone()),
    };
    span.finish(began, SystemTime::now(), status);
    result
}

async fn start_and_wait(session: &mut Session, wanted: &Wanted, deadline_seconds: u32, traceparent: &str, trace_id: &str) -> Outcome {
    let request = v1::StartTransfersRequest {
        players: wanted.players.clone(),
        from: wanted.from.clone().unwrap_or_default(),
        to: wanted.to.clone(),
        traceparent: traceparent.to_owned(),
        origin: ORIGIN.to_owned(),
        deadline_seconds,
        as_player: wanted.as_player,
    };
    let answer = session.admin.start_transfers(request).await.map_err(refused)?.into_inner();
    if wanted.no_wait {
        return started(session.output, wanted, answer, trace_id);
    }
    let table = session.output == Format::Table;
    if table {
        output::line(&format!("trace {trace_id}"))?;
    }
    let mut ended = Ending { told: table, listing: Listing::new(COLUMNS), succeeded: 0, failed: 0 };
    let progress = Progress::new(answer.commands.len() + answer.refused.len(), table);
    for refusal in &answer.refused {
        ended.refused(refusal, wanted, &progress)?;
    }
    let ids: Vec<String> = answer.commands.into_iter().map(|command| command.id).collect();
    let give_up = Instant::now() + wanted.deadline + GRACE;
    let follow = commands::follow(session, ids, Some(give_up), super::LATER, |command| ended.changed(command, &progress));
    let followed = tokio::select! {
        followed = follow => followed,
        _ = tokio::signal::ctrl_c() => Err(Failure::failed("no longer waiting; the transfers go on: `moonbridge transfer watch` follows them")),
    };
    drop(progress);
    ended.print(session.output, wanted, trace_id)?;
    followed?;
    if ended.failed == 0 { Ok(()) } else { Err(Failure::said()) }
}

/// How the transfers have ended so far.
struct Ending {
    /// Whether each is told as a line when it ends.
    told: bool,
    listing: Listing,
    succeeded: usize,
    failed: usize,
}

impl Ending {
    fn refused(&mut self, refusal: &v1::TransferRefusal, wanted: &Wanted, progress: &Progress) -> Outcome {
        self.failed += 1;
        self.listing.push(refusal_row(refusal, wanted));
        let line =
            output::printable(&format!("{}: -> {} failed: refused: {}: {}", refusal.player, wanted.to, refusal.reason, refusal.detail));
        progress.ended(self.told.then_some(line.as_str()))
    }

    fn changed(&mut self, command: &v1::Command, progress: &Progress) -> Outcome {
        match Ended::of(command) {
            None => return Ok(()),
            Some(Ended::Succeeded) => self.succeeded += 1,
            Some(Ended::Failed | Ended::Expired) => self.failed += 1,
        }
        self.listing.push(row(command));
        progress.ended(self.told.then(|| told(command)).as_deref())
    }

    fn print(&self, format: Format, wanted: &Wanted, trace_id: &str) -> Outcome {
        match format {
            Format::Table => match (self.succeeded + self.failed, &wanted.from) {
                (0, Some(from)) => output::line(&format!("no players are on {from}: nothing to do")),
                (0 | 1, _) => Ok(()),
                _ => output::line(&format!("{} succeeded, {} failed", self.succeeded, self.failed)),
            },
            Format::Json | Format::Yaml => output::document(format, &Transfers { trace_id, transfers: self.listing.records() }),
        }
    }
}

/// The result as JSON and YAML have it.
#[derive(Serialize)]
struct Transfers<'a, T> {
    trace_id: &'a str,
    transfers: Vec<T>,
}

fn refusal_row(refusal: &v1::TransferRefusal, wanted: &Wanted) -> [Value; 9] {
    let null = Value::Null;
    [
        null.clone(),
        json!(refusal.player),
        json!(wanted.from),
        json!(wanted.to),
        json!("refused"),
        json!(refusal.reason),
        json!(refusal.detail),
        null.clone(),
        null,
    ]
}

/// With --no-wait: the ids, one a line.
fn started(format: Format, wanted: &Wanted, answer: v1::StartTransfersResponse, trace_id: &str) -> Outcome {
    let mut listing = Listing::new(COLUMNS);
    for refusal in &answer.refused {
        listing.push(refusal_row(refusal, wanted));
        if format == Format::Table {
            output::note(&output::printable(&format!("{}: refused: {}: {}", refusal.player, refusal.reason, refusal.detail)));
        }
    }
    for command in &answer.commands {
        listing.push(row(command));
        if format == Format::Table {
            output::line(&command.id)?;
        }
    }
    match format {
        Format::Table => output::note(&format!("trace {trace_id}")),
        Format::Json | Format::Yaml => output::document(format, &Transfers { trace_id, transfers: listing.records() })?,
    }
    if answer.refused.is_empty() { Ok(()) } else { Err(Failure::said()) }
}
