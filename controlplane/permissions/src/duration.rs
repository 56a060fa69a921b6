//! Durations as LuckPerms writes them: `1d12h`.

/// What is wrong with a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a time such as 30m, 1d12h or 2w (y, mo, w, d, h, m, s), got {0:?}")]
pub struct DurationError(pub String);

/// Reads a duration, in seconds.
///
/// # Errors
/// If it is none, is 0, or is beyond 100 years.
pub fn parse(text: &str) -> Result<u64, DurationError> {
    let _ = text;
    todo!("helper A")
}

/// Writes a duration as it is read: `1d12h`.
pub fn show(seconds: u64) -> String {
    let _ = seconds;
    todo!("helper A")
}
