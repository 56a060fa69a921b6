//! A session's traces: one when play begins, one for each transfer, and one span for its end, each made after the fact, so
//! that no span stays open for hours and what never came to play is not traced.

use std::time::{Duration, SystemTime};

use moonbridge_proto::telemetry::names;
use moonbridge_proto::telemetry::trace::{self, KeyValue, SpanContext, Trace, TraceId};
use moonbridge_proto::v1;
use uuid::Uuid;

use crate::backend::{Player, Times};
use crate::registry::Outcome;

/// When the phases up to play began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginTimes {
    pub(crate) accepted: SystemTime,
    pub(crate) greeted: SystemTime,
    pub(crate) authenticated: SystemTime,
    pub(crate) admitted: SystemTime,
    pub(crate) playing: SystemTime,
}

/// When the steps of a transfer ended, as far as it came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steps {
    pub(crate) began: Option<SystemTime>,
    pub(crate) connected: Option<SystemTime>,
    pub(crate) entered: Option<SystemTime>,
    /// The pause began.
    pub(crate) paused: Option<SystemTime>,
    /// The cutover was written.
    pub(crate) cut: Option<SystemTime>,
    /// The player's socket has taken it.
    pub(crate) replayed: Option<SystemTime>,
}

impl Steps {
    /// Up to the candidate's Join Game.
    pub(crate) fn entered(times: Times) -> Steps {
        let Times { began, connected, entered } = times;
        Steps { began: Some(began), connected: Some(connected), entered: Some(entered), ..Steps::default() }
    }

    /// Each phase that was begun, with its end if it came to that.
    fn phases(&self) -> impl Iterator<Item = (&'static str, SystemTime, Option<SystemTime>)> {
        [
            (names::DIAL, self.began, self.connected),
            (names::LOGIN, self.connected, self.entered),
            (names::PAUSE, self.paused, self.cut),
            (names::CUTOVER, self.cut, self.cut),
            (names::REPLAY, self.cut, self.replayed),
        ]
        .into_iter()
        .filter_map(|(phase, start, end)| Some((phase, start?, end)))
    }
}

/// What a session left out in its time: frames of worlds that were left, empty frames, and what was beyond the bounds of names and of
/// plugins' requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeftOut {
    pub(crate) fenced: u64,
    pub(crate) empty: u64,
    pub(crate) tab_names: u64,
    pub(crate) channels: u64,
    pub(crate) plugin_messages: u64,
}

/// A session as its traces name it.
#[derive(Debug)]
pub(crate) struct SessionContext {
    pub(crate) id: Uuid,
    span: SpanContext,
    began: SystemTime,
}

impl SessionContext {
    /// Traces a session that has come to play.
    pub(crate) fn begin(id: Uuid, player: &Player, backend: &str, times: LoginTimes) -> SessionContext {
        let LoginTimes { accepted, greeted, authenticated, admitted, playing } = times;
        let span = Trace::new(names::SESSION, None)
            .attribute(KeyValue::new(names::SESSION_ID, id.to_string()))
            .attribute(KeyValue::new(names::PLAYER, player.name.clone()))
            .attribute(KeyValue::new(names::PLAYER_UUID, player.uuid.to_string()))
            .attribute(KeyValue::new(names::PROTOCOL, i64::from(player.version.protocol)))
            .child(names::HANDSHAKE, accepted, greeted, [])
            .child(names::AUTHENTICATE, greeted, authenticated, [])
            .child(names::ADMIT, authenticated, admitted, [])
            .child(names::CONNECT, admitted, playing, [KeyValue::new(names::BACKEND, backend.to_owned())])
            .finish(accepted, playing, trace::ok());
        SessionContext { id, span, began: accepted }
    }

    /// The id of the session's trace.
    pub(crate) fn trace(&self) -> TraceId {
        self.span.trace_id()
    }

    /// The same as 32 hex digits.
    pub(crate) fn trace_id(&self) -> String {
        self.trace().to_string()
    }

    /// Traces the session's end, in a trace of its own that links to the session's.
    pub(crate) fn ended(&self, reason: &'static str, left_out: LeftOut) {
        let now = SystemTime::now();
        let lasted = now.duration_since(self.began).unwrap_or(Duration::ZERO);
        let LeftOut { fenced, empty, tab_names, channels, plugin_messages } = left_out;
        tracing::info!(
            session = %self.id, trace = self.trace_id(), reason, ?lasted, fenced, empty, tab_names, channels, plugin_messages,
            "session ended"
        );
        Trace::new(names::SESSION_END, None)
            .attribute(KeyValue::new(names::SESSION_ID, self.id.to_string()))
            .attribute(KeyValue::new(names::REASON, reason))
            .link(&self.span)
            .finish(now, now, trace::ok());
    }

    /// Traces a transfer that has ended, below whoever asked for it; gives the time each phase took.
    pub(crate) fn transfer(&self, to: &str, traceparent: &str, began: SystemTime, steps: Steps, outcome: &Outcome) -> Vec<v1::PhaseTime> {
        let now = SystemTime::now();
        let mut transfer = Trace::new(names::TRANSFER, Some(&trace::parent(traceparent)))
            .attribute(KeyValue::new(names::SESSION_ID, self.id.to_string()))
            .attribute(KeyValue::new(names::TO, to.to_owned()))
            .link(&self.span);
        let mut phases = Vec::new();
        for (phase, start, end) in steps.phases() {
            transfer = match end {
                Some(end) => transfer.child(phase, start, end, []),
                None => transfer.failed_child(phase, start, now, [], outcome.result.reason.clone()),
            };
            let micros = end.unwrap_or(now).duration_since(start).unwrap_or(Duration::ZERO).as_micros();
            phases.push(v1::PhaseTime { phase: phase.to_owned(), micros: u64::try_from(micros).unwrap_or(u64::MAX) });
        }
        let status = if outcome.succeeded { trace::ok() } else { trace::failed(outcome.result.reason.clone()) };
        transfer.attribute(KeyValue::new(names::REASON, outcome.result.reason.clone())).finish(began, now, status);
        phases
    }
}
