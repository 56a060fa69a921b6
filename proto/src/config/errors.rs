//! What is wrong with a configuration, and where.

use std::fmt::{self, Display};
use std::path::Path;

/// A longer file is not a configuration.
const MAX_FILE: u64 = 1 << 20;

/// Every mistake of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// A mistake of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The path of the field ("timeouts.login", "control\[1\]"), or "line 3, column 7"; empty if it is about the whole file.
    pub field: String,
    /// What was expected, and what was found.
    pub problem: String,
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.problem),
            field => write!(f, "{field}: {}", self.problem),
        }
    }
}

impl Display for ConfigErrors {
    /// One a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A configuration file's text.
///
/// # Errors
/// One mistake, without a field: it cannot be read, is no UTF-8, or is longer than 1 MiB.
pub fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    let wrong = |problem: String| ConfigErrors(vec![ConfigError { field: String::new(), problem }]);
    let size = std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?.len();
    if size > MAX_FILE {
        return Err(wrong(format!("expected a configuration file of at most {MAX_FILE} bytes, got {size}")));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))
}

impl ConfigErrors {
    /// `Ok` if there are none.
    ///
    /// # Errors
    /// All of them.
    pub fn check(mistakes: Vec<ConfigError>) -> Result<(), Self> {
        if mistakes.is_empty() { Ok(()) } else { Err(Self(mistakes)) }
    }
}

/// A syntax error, by its line and column.
pub(super) fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(text.len(), |span| span.start).min(text.len());
    let before = &text.as_bytes()[..start];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let in_line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let column = 1 + String::from_utf8_lossy(in_line).chars().count();
    ConfigError { field: format!("line {line}, column {column}"), problem: error.message().to_owned() }
}
