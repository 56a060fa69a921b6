//! Reading a configuration file so that every mistake is reported at once, each with its field.
//!
//! [`Fields`] hands out the values of a TOML table by type. A getter gives `None` for a field that is absent *or wrong*; what is
//! wrong is remembered, so that the caller just goes on with a default:
//!
//! ```
//! use moonbridge_proto::config::Fields;
//! use std::time::Duration;
//!
//! let text = "workers = \"four\"\nlogn = \"15s\"";
//! let mut fields = Fields::parse(text)?;
//! let workers = fields.integer("workers", 0..=1024_usize).unwrap_or(0);
//! let login = fields.duration("login", Duration::from_secs(1)..=Duration::from_secs(60)).unwrap_or(Duration::from_secs(15));
//! let errors = fields.finish().unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "workers: expected a whole number from 0 to 1024, got \"four\"\nlogn: unknown field; did you mean \"login\"?"
//! );
//! # Ok::<(), moonbridge_proto::config::ConfigErrors>(())
//! ```

mod errors;
mod units;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::{Table, Value};

pub use errors::{ConfigError, ConfigErrors, read_file};
pub use units::{parse_duration, show_duration};

/// The fields of a TOML table, of which each is asked for once by name and type.
#[derive(Debug)]
pub struct Fields {
    /// "" or "timeouts."
    prefix: String,
    table: Table,
    known: BTreeSet<String>,
    errors: Vec<ConfigError>,
}

impl Fields {
    /// The top level of a TOML document.
    ///
    /// # Errors
    /// Every syntax error with its line and column.
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        // The recovering parser finds all syntax errors, but takes some values that are none (numbers too large).
        let (_, errors) = toml::de::DeTable::parse_recoverable(text);
        let table = match (errors.is_empty(), text.parse::<Table>()) {
            (true, Ok(table)) => table,
            (true, Err(error)) => return Err(ConfigErrors(vec![errors::syntax(text, &error)])),
            (false, _) => return Err(ConfigErrors(errors.iter().map(|error| errors::syntax(text, error)).collect())),
        };
        Ok(Self::of(table, String::new()))
    }

    fn of(table: Table, prefix: String) -> Self {
        Self { prefix, table, known: BTreeSet::new(), errors: Vec::new() }
    }

    /// Whether the field is there. It counts as known from here on.
    pub fn has(&mut self, name: &str) -> bool {
        self.known.insert(name.to_owned());
        self.table.contains_key(name)
    }

    /// Reports the field if it is absent. `expected` says what it should be ("a path").
    pub fn require(&mut self, name: &str, expected: &str) {
        if !self.has(name) {
            self.wrong(name, format!("missing; expected {expected}"));
        }
    }

    /// Reports a mistake that only the caller can see.
    pub fn wrong(&mut self, name: &str, problem: impl Into<String>) {
        self.errors.push(ConfigError { field: format!("{}{name}", self.prefix), problem: problem.into() });
    }

    /// A text; empty ones are a mistake.
    pub fn string(&mut self, name: &str) -> Option<String> {
        self.read(name, "a text", |value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
    }

    /// A text that may be empty.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.read(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// A whole number in a range.
    pub fn integer<T>(&mut self, name: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.read(name, &expected, |value| {
            value.as_integer().and_then(|number| T::try_from(number).ok()).filter(|number| range.contains(number))
        })
    }

    /// A number of bytes in a range: a whole number, or a text such as "512 KiB", "16 MiB", "2 GiB".
    pub fn size(&mut self, name: &str, range: RangeInclusive<usize>) -> Option<usize> {
        let expected =
            format!("a size from {} to {}, such as \"16 MiB\"", units::show_size(*range.start()), units::show_size(*range.end()));
        self.read(name, &expected, |value| {
            let size = match value {
                Value::Integer(number) => usize::try_from(*number).ok(),
                Value::String(text) => units::parse_size(text),
                _ => None,
            };
            size.filter(|size| range.contains(size))
        })
    }

    /// `true` or `false`.
    pub fn bool(&mut self, name: &str) -> Option<bool> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// A time in a range: a text such as "500ms", "30s", "2m", "1h".
    pub fn duration(&mut self, name: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let expected = format!("a time from {} to {}, such as \"30s\"", show_duration(*range.start()), show_duration(*range.end()));
        self.read(name, &expected, |value| value.as_str().and_then(parse_duration).filter(|time| range.contains(time)))
    }

    /// IP:PORT; port 0 lets the system choose.
    pub fn socket_address(&mut self, name: &str) -> Option<SocketAddr> {
        self.read(name, "an IP address and a port, such as \"127.0.0.1:25565\"", |value| value.as_str()?.parse().ok())
    }

    /// A path. Whether there is such a file is for whoever opens it to find out.
    pub fn path(&mut self, name: &str) -> Option<PathBuf> {
        self.read(name, "a path", |value| value.as_str().filter(|text| !text.is_empty()).map(PathBuf::from))
    }

    /// A text that `T` is parsed from; its error is the problem reported.
    pub fn parsed<T>(&mut self, name: &str) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.string(name)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(name, error.to_string());
                None
            }
        }
    }

    /// One of a few words, each with its meaning.
    pub fn one_of<T: Clone>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let expected = choices.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(" or ");
        self.read(name, &expected, |value| {
            choices.iter().find(|(word, _)| value.as_str() == Some(word)).map(|(_, meaning)| meaning.clone())
        })
    }

    /// A list of texts, none empty. Each that is wrong is reported; then the whole is `None`.
    pub fn strings(&mut self, name: &str) -> Option<Vec<String>> {
        let list = self.read(name, "a list of texts", |value| value.as_array().cloned())?;
        let length = list.len();
        let mut texts = Vec::with_capacity(length);
        for (index, value) in list.into_iter().enumerate() {
            match value {
                Value::String(text) if !text.is_empty() => texts.push(text),
                other => self.wrong(&format!("{name}[{index}]"), format!("expected a text, got {}", show(&other))),
            }
        }
        (texts.len() == length).then_some(texts)
    }

    /// A table, read by `read`; what `read` does not ask for is unknown.
    pub fn table<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields) -> T) -> Option<T> {
        let table = self.read(name, "a table", |value| value.as_table().cloned())?;
        Some(self.nested(name, table, read))
    }

    /// A list of tables (`[[name]]`), each read by `read`.
    pub fn tables<T>(&mut self, name: &str, mut read: impl FnMut(&mut Fields) -> T) -> Option<Vec<T>> {
        let list = self.read(name, "a list of tables", |value| value.as_array().cloned())?;
        let mut values = Vec::with_capacity(list.len());
        for (index, value) in list.into_iter().enumerate() {
            let item = format!("{name}[{index}]");
            match value {
                Value::Table(table) => values.push(self.nested(&item, table, &mut read)),
                other => self.wrong(&item, format!("expected a table, got {}", show(&other))),
            }
        }
        Some(values)
    }

    fn nested<T>(&mut self, name: &str, table: Table, read: impl FnOnce(&mut Fields) -> T) -> T {
        let mut fields = Self::of(table, format!("{}{name}.", self.prefix));
        let value = read(&mut fields);
        fields.report_unknown();
        self.errors.append(&mut fields.errors);
        value
    }

    /// Reports what was never asked for.
    ///
    /// # Errors
    /// Every mistake of this table and those within.
    pub fn finish(mut self) -> Result<(), ConfigErrors> {
        self.report_unknown();
        if self.errors.is_empty() { Ok(()) } else { Err(ConfigErrors(self.errors)) }
    }

    fn report_unknown(&mut self) {
        let unknown: Vec<String> = self.table.keys().filter(|name| !self.known.contains(*name)).cloned().collect();
        for name in unknown {
            let problem = match nearest(&name, &self.known) {
                Some(near) => format!("unknown field; did you mean {near:?}?"),
                None if self.known.is_empty() => "unknown field".to_owned(),
                None => {
                    let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
                    format!("unknown field; expected one of {}", known.join(", "))
                }
            };
            self.wrong(&name, problem);
        }
    }

    fn read<T>(&mut self, name: &str, expected: &str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        if !self.has(name) {
            return None;
        }
        let value = &self.table[name];
        let result = read(value);
        if result.is_none() {
            let found = show(value);
            self.wrong(name, format!("expected {expected}, got {found}"));
        }
        result
    }
}

/// A value as the operator wrote it, shortened; of lists and tables only what they are.
fn show(value: &Value) -> String {
    const LONGEST: usize = 60;
    match value {
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Table(_) => "a table".to_owned(),
        Value::String(text) if text.chars().count() > LONGEST => {
            format!("{:?}…", text.chars().take(LONGEST).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// The known name that a mistyped one most likely means.
fn nearest<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    // A name of kilobytes is no slip of the finger, and the distance takes the product of both lengths.
    if name.len() > 64 {
        return None;
    }
    let close = |(distance, _): &(usize, &str)| *distance <= (name.chars().count() / 3).max(1);
    known.iter().map(|other| (distance(name, other), other.as_str())).min().filter(close).map(|(_, other)| other)
}

/// How many letters must be put in, taken out, replaced, to make one of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
