//! Durations as LuckPerms writes them: `1d12h`.

/// Seconds of each unit, the longest first, by all its names; years and months are the average ones, as in Java.
const UNITS: [(u64, &[&str]); 7] = [
    (31_556_952, &["y", "ys", "year", "years"]),
    (2_629_746, &["mo", "mos", "month", "months"]),
    (604_800, &["w", "ws", "week", "weeks"]),
    (86_400, &["d", "ds", "day", "days"]),
    (3_600, &["h", "hs", "hr", "hrs", "hour", "hours"]),
    (60, &["m", "ms", "min", "mins", "minute", "minutes"]),
    (1, &["s", "ss", "sec", "secs", "second", "seconds"]),
];

/// A hundred years, in seconds: who means longer means for good.
const LONGEST: u64 = 100 * UNITS[0].0;

/// What is wrong with a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a time such as 30m, 1d12h or 2w (y, mo, w, d, h, m, s), got {0:?}")]
pub struct DurationError(pub String);

/// Reads a duration, in seconds.
///
/// # Errors
/// If it is none, is 0, or is beyond 100 years.
pub fn parse(text: &str) -> Result<u64, DurationError> {
    total(&text.to_lowercase()).filter(|seconds| (1..=LONGEST).contains(seconds)).ok_or_else(|| DurationError(text.to_owned()))
}

/// Numbers with units, each unit once; spaces and commas may stand in between.
fn total(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut seen = [false; UNITS.len()];
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let after = after.trim_start();
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len()));
        let unit = UNITS.iter().position(|(_, names)| names.contains(&unit))?;
        if std::mem::replace(&mut seen[unit], true) {
            return None;
        }
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(UNITS[unit].0)?)?;
        rest = after.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
    }
    Some(total)
}

/// Writes a duration as it is read: `1d12h`.
pub fn show(seconds: u64) -> String {
    let mut shown = String::new();
    let mut rest = seconds;
    for (unit, names) in UNITS {
        if rest >= unit {
            shown.push_str(&format!("{}{}", rest / unit, names[0]));
            rest %= unit;
        }
    }
    if shown.is_empty() { "0s".to_owned() } else { shown }
}
