//! Printing: tables for people, JSON and YAML with the same names for programs.

use std::io::{self, Write};

use comfy_table::Table;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::args::Format;
use crate::failure::{Failure, Outcome};
use crate::yaml;

/// A list with named columns.
pub(crate) struct Listing {
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

impl Listing {
    /// An empty list. The column names are part of the interface: they are never renamed.
    pub(crate) fn new(columns: &'static [&'static str]) -> Self {
        Listing { columns, rows: Vec::new() }
    }

    /// Appends a row, one value a column.
    pub(crate) fn push<const N: usize>(&mut self, row: [Value; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows.push(row.into());
    }

    /// Prints the list; `empty` is said instead of an empty table.
    pub(crate) fn print(&self, format: Format, empty: &str) -> Outcome {
        let records: Vec<Record<'_>> = self.rows.iter().map(|row| Record { columns: self.columns, row }).collect();
        match format {
            Format::Table if self.rows.is_empty() => line(empty),
            Format::Table => line(&self.table()),
            Format::Json | Format::Yaml => document(format, &records),
        }
    }

    /// Prints the only row: a line a column, or one object.
    pub(crate) fn print_one(&self, format: Format) -> Outcome {
        let Some(row) = self.rows.first() else { return Ok(()) };
        if format != Format::Table {
            return document(format, &Record { columns: self.columns, row });
        }
        let mut table = bare();
        for (column, value) in self.columns.iter().zip(row) {
            table.add_row([(*column).to_owned(), text(value)]);
        }
        line(&finish(table))
    }

    /// Prints the only row for programs; people are told in words.
    pub(crate) fn print_if_program(&self, format: Format) -> Outcome {
        if format == Format::Table { Ok(()) } else { self.print_one(format) }
    }

    /// The rows as objects, to be part of a larger document.
    pub(crate) fn records(&self) -> Vec<impl Serialize> {
        self.rows.iter().map(|row| Record { columns: self.columns, row }).collect()
    }

    fn table(&self) -> String {
        let mut table = bare();
        table.set_header(self.columns.iter().map(|column| column.to_uppercase()));
        for row in &self.rows {
            table.add_row(row.iter().map(text));
        }
        finish(table)
    }
}

/// One row as an object whose keys are in the columns' order.
struct Record<'a> {
    columns: &'a [&'static str],
    row: &'a [Value],
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (column, value) in self.columns.iter().zip(self.row) {
            map.serialize_entry(column, value)?;
        }
        map.end()
    }
}

fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table
}

fn finish(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A value as a table shows it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => printable(text),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Text from the network as a terminal may be shown it: on one line, without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') { ' ' } else { c }).collect()
}

/// Prints one JSON or YAML document.
pub(crate) fn document(format: Format, value: &(impl Serialize + ?Sized)) -> Outcome {
    let text = match format {
        Format::Yaml => yaml::to_string(value),
        Format::Json | Format::Table => serde_json::to_string_pretty(value).map_err(|error| error.to_string()),
    };
    line(text.map_err(|error| Failure::failed(format!("cannot print the result: {error}")))?.trim_end())
}

/// Prints one event of a stream: a JSON object on a line of its own, or a YAML document.
pub(crate) fn event(format: Format, value: &(impl Serialize + ?Sized)) -> Outcome {
    let text = match format {
        Format::Yaml => yaml::to_string(value).map(|text| format!("---\n{text}")),
        Format::Json | Format::Table => serde_json::to_string(value).map_err(|error| error.to_string()),
    };
    line(text.map_err(|error| Failure::failed(format!("cannot print the result: {error}")))?.trim_end())
}

/// Prints a line to stdout, at once. A reader that has gone ends the command quietly.
pub(crate) fn line(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::output_closed()
        } else {
            Failure::failed(format!("cannot write the output: {error}"))
        }
    })
}

/// Prints a line to stderr; that nobody reads it changes nothing.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Listing {
        let mut listing = Listing::new(&["name", "backends", "drained", "note"]);
        listing.push([json!("b"), json!(["x", "y"]), json!(true), Value::Null]);
        listing.push([json!("longer\u{1b}[31m"), json!([]), json!(false), json!("")]);
        listing
    }

    #[test]
    fn a_table_has_the_columns_and_no_control_characters() {
        let table = sample().table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["NAME", "BACKENDS", "DRAINED", "NOTE"]);
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["b", "x,y", "yes", "-"]);
        assert!(lines[2].starts_with("longer [31m"), "{table}");
        assert!(!table.contains('\u{1b}'));
    }

    #[test]
    fn json_keeps_the_columns_in_order() {
        let text = serde_json::to_string(&sample().records()[0]).unwrap();
        assert_eq!(text, r#"{"name":"b","backends":["x","y"],"drained":true,"note":null}"#);
    }
}
