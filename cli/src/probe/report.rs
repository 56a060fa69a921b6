//! What a probe reports: one event a line, each with the time since the start.

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::args::Format;
use crate::failure::Outcome;
use crate::output;

/// Prints events as they happen.
#[derive(Debug)]
pub(super) struct Report {
    format: Format,
    start: Instant,
}

/// Something that happened to the player.
#[derive(Debug)]
pub(super) struct Event {
    name: &'static str,
    /// For people.
    text: String,
    /// For programs.
    fields: Map<String, Value>,
}

/// An event as JSON and YAML have it.
#[derive(Serialize)]
struct Record<'a> {
    event: &'static str,
    /// Milliseconds since the start.
    ms: f64,
    #[serde(flatten)]
    fields: &'a Map<String, Value>,
}

impl Event {
    /// An event of this name, told to people like this.
    pub(super) fn new(name: &'static str, text: impl Into<String>) -> Self {
        Event { name, text: text.into(), fields: Map::new() }
    }

    /// An event whose text is the value of its one field.
    pub(super) fn failed(name: &'static str, field: &str, value: &str) -> Self {
        Event::new(name, value).with(field, value)
    }

    /// Adds a field for programs.
    pub(super) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }
}

impl Report {
    /// A report that starts now.
    pub(super) fn new(format: Format) -> Self {
        Report { format, start: Instant::now() }
    }

    /// Prints an event with the time since the start.
    pub(super) fn event(&mut self, event: Event) -> Outcome {
        // Microseconds are as fine as it is worth.
        let ms = self.start.elapsed().as_micros() as f64 / 1_000.0;
        match self.format {
            Format::Table => output::line(format!("{ms:>10.1} ms  {:<14} {}", event.name, output::printable(&event.text)).trim_end()),
            Format::Json | Format::Yaml => output::event(self.format, &Record { event: event.name, ms, fields: &event.fields }),
        }
    }
}
