//! `moonbridge session`.

use std::time::Duration;

use moonbridge_proto::MAX_RECORDING_SECONDS;
use moonbridge_proto::v1::{self, command::Action};
use serde_json::json;

use super::commands::{self, Ended};
use super::{Session, text_or_null};
use crate::args::{Format, SessionVerb};
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};

const COLUMNS: &[&str] = &["player", "session", "node", "file", "frames", "missed", "ms", "ended"];

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: SessionVerb) -> Outcome {
    match verb {
        SessionVerb::Record { session: which, time } => record(session, which, time).await,
    }
}

async fn record(mut session: Session, which: String, time: Duration) -> Outcome {
    let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    if !(1..=MAX_RECORDING_SECONDS).contains(&seconds) || time.subsec_nanos() != 0 {
        return Err(Failure::usage(format!("--for: expected whole seconds, 1s to {MAX_RECORDING_SECONDS}s")));
    }
    let request = v1::RecordSessionRequest { session: which.clone(), seconds };
    let command = session.admin.record_session(request).await.map_err(refused)?.into_inner();
    if session.output == Format::Table
        && let Some(Action::Record(action)) = &command.action
    {
        output::note(&format!(
            "recording session {} for {seconds} s; Ctrl-C stops waiting, not the recording: the node's log names the file",
            action.session_id
        ));
    }
    let command = commands::outcome(&mut session, command).await?;
    let result = command.result.clone().unwrap_or_default();
    let (Some(Ended::Succeeded), Some(recording)) = (Ended::of(&command), result.recording) else {
        return Err(Failure::failed(format!("{which}: {}", commands::why(&command))));
    };
    let recorded = match command.action {
        Some(Action::Record(action)) => action,
        _ => v1::RecordAction::default(),
    };
    let mut thing = Listing::new(COLUMNS);
    thing.push([
        text_or_null(recorded.player),
        text_or_null(recorded.session_id),
        json!(recording.node),
        json!(recording.file),
        json!(recording.frames),
        json!(recording.missed),
        json!(recording.micros / 1_000),
        json!(recording.ended),
    ]);
    session.done(&output::printable(&result.detail), &thing)
}
