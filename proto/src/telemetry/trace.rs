//! Traces made after the fact: whoever knows when things began and ended says so at the end, in a few lines.
//!
//! ```
//! use std::time::SystemTime;
//! use moonbridge_proto::telemetry::{names, trace::{self, KeyValue, Trace}};
//!
//! let parent = trace::parent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
//! let session = Trace::new(names::SESSION, None);
//! let (began, dialled, ended) = (SystemTime::now(), SystemTime::now(), SystemTime::now());
//!
//! let transfer = Trace::new(names::TRANSFER, Some(&parent));
//! assert_eq!(transfer.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
//! transfer
//!     .attribute(KeyValue::new(names::TO, "lobby-2"))
//!     .child(names::DIAL, began, dialled, [])
//!     .failed_child(names::LOGIN, dialled, ended, [], "login_refused")
//!     .link(session.context())
//!     .finish(began, ended, trace::failed("login_refused"));
//! ```

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::SystemTime;

use opentelemetry::trace::{Link, SpanId, TraceContextExt};
use opentelemetry::{InstrumentationScope, TraceFlags};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};

pub use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceId};
pub use opentelemetry::{Context, KeyValue};

use super::export;

static SCOPE: LazyLock<InstrumentationScope> =
    LazyLock::new(|| InstrumentationScope::builder("moonbridge").with_version(env!("CARGO_PKG_VERSION")).build());

/// A span that is under way, with its finished children. Its ids exist from the beginning, collector or not; all else is
/// kept only while there is a collector. Dropped unfinished, it was never there.
#[derive(Debug)]
pub struct Trace {
    name: &'static str,
    context: SpanContext,
    parent: SpanContext,
    kind: SpanKind,
    attributes: Vec<KeyValue>,
    links: Vec<Link>,
    children: Vec<SpanData>,
    recording: bool,
}

impl Trace {
    /// A span below `parent`, or (without one, or with an empty context) the root of a new trace.
    pub fn new(name: &'static str, parent: Option<&Context>) -> Self {
        let parent = parent.map_or(SpanContext::NONE, |context| context.span().span_context().clone());
        let ids = RandomIdGenerator::default();
        // Whoever began the trace decided whether it is sampled; what is further down keeps to it.
        let (trace_id, flags) = match parent.is_valid() {
            true => (parent.trace_id(), parent.trace_flags() & TraceFlags::SAMPLED),
            false => (ids.new_trace_id(), TraceFlags::SAMPLED),
        };
        Self {
            name,
            context: SpanContext::new(trace_id, ids.new_span_id(), flags, false, parent.trace_state().clone()),
            recording: flags.is_sampled() && export::active(),
            parent,
            kind: SpanKind::Internal,
            attributes: Vec::new(),
            links: Vec::new(),
            children: Vec::new(),
        }
    }

    /// This span, for links to it.
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// The trace's id, 32 hex digits.
    pub fn trace_id(&self) -> String {
        self.context.trace_id().to_string()
    }

    /// This span as W3C traceparent, for whoever goes on below it.
    pub fn traceparent(&self) -> String {
        traceparent(&self.context)
    }

    /// What kind of span this is; internal unless said otherwise.
    pub fn kind(mut self, kind: SpanKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds an attribute.
    pub fn attribute(mut self, attribute: KeyValue) -> Self {
        if self.recording {
            self.attributes.push(attribute);
        }
        self
    }

    /// Adds a link to another trace's span.
    pub fn link(mut self, to: &SpanContext) -> Self {
        if self.recording && to.is_valid() {
            self.links.push(Link::with_context(to.clone()));
        }
        self
    }

    /// Adds a finished child.
    pub fn child(self, name: &'static str, start: SystemTime, end: SystemTime, attributes: impl IntoIterator<Item = KeyValue>) -> Self {
        self.child_with(name, start, end, attributes, Status::Unset)
    }

    /// Adds a child that failed, with the reason.
    pub fn failed_child(
        self,
        name: &'static str,
        start: SystemTime,
        end: SystemTime,
        attributes: impl IntoIterator<Item = KeyValue>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.child_with(name, start, end, attributes, failed(reason))
    }

    fn child_with(
        mut self,
        name: &'static str,
        start: SystemTime,
        end: SystemTime,
        attributes: impl IntoIterator<Item = KeyValue>,
        status: Status,
    ) -> Self {
        if self.recording {
            let id = RandomIdGenerator::default().new_span_id();
            let context =
                SpanContext::new(self.context.trace_id(), id, self.context.trace_flags(), false, self.context.trace_state().clone());
            let mut span = span(name, context, &self.context, (start, end), status);
            span.attributes.extend(attributes);
            self.children.push(span);
        }
        self
    }

    /// Ends the span and hands it over, with its children, to be exported. Gives its context, for links to it.
    pub fn finish(self, start: SystemTime, end: SystemTime, status: Status) -> SpanContext {
        if self.recording {
            let mut root = span(self.name, self.context.clone(), &self.parent, (start, end), status);
            root.span_kind = self.kind;
            root.attributes = self.attributes;
            root.links.links = self.links;
            export::submit(self.children.into_iter().chain([root]));
        }
        self.context
    }
}

/// It ended as it should.
pub fn ok() -> Status {
    Status::Ok
}

/// It failed, for this reason.
pub fn failed(reason: impl Into<Cow<'static, str>>) -> Status {
    Status::error(reason)
}

/// The parent that a W3C traceparent names; an empty context if it is empty or malformed.
///
/// Version 00 exactly; of later versions the part that 00 has (<https://www.w3.org/TR/trace-context/#versioning-of-traceparent>).
pub fn parent(traceparent: &str) -> Context {
    match parse(traceparent) {
        Some(context) => Context::new().with_remote_span_context(context),
        None => Context::new(),
    }
}

/// A span as W3C traceparent; empty if it is none.
pub fn traceparent(span: &SpanContext) -> String {
    if !span.is_valid() {
        return String::new();
    }
    // Of the flags, only "sampled" is defined for version 00.
    format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), (span.trace_flags() & TraceFlags::SAMPLED).to_u8())
}

fn parse(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let mut hex = |digits: usize| {
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        parts.next().filter(|part| part.len() == digits && part.bytes().all(lower_hex))
    };
    let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let context = SpanContext::new(TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?, flags, true, Default::default());
    context.is_valid().then_some(context)
}

fn span(
    name: &'static str,
    context: SpanContext,
    parent: &SpanContext,
    (start, end): (SystemTime, SystemTime),
    status: Status,
) -> SpanData {
    SpanData {
        span_context: context,
        parent_span_id: parent.span_id(),
        parent_span_is_remote: parent.is_remote(),
        span_kind: SpanKind::Internal,
        name: Cow::Borrowed(name),
        start_time: start,
        // The wall clock may have been set back meanwhile.
        end_time: end.max(start),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: SCOPE.clone(),
    }
}
