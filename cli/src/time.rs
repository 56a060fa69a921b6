//! Points in time for people and programs: RFC 3339 in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use moonbridge_permissions::calendar;

/// `2026-01-31T12:00:00Z`, or nothing for 0.
pub(crate) fn rfc3339(unix_ms: i64) -> Option<String> {
    if unix_ms == 0 {
        return None;
    }
    Some(calendar::rfc3339(unix_ms.div_euclid(1_000)))
}

/// Reads `2026-12-31` (its first moment, in UTC) or RFC 3339 such as `2026-12-31T18:00:00+01:00`, as seconds since 1970.
///
/// # Errors
/// Says what was expected.
pub(crate) fn unix_seconds(text: &str) -> Result<i64, String> {
    read(text).ok_or_else(|| {
        "expected a date such as 2026-12-31, or a moment such as 2026-12-31T18:00:00Z or 2026-12-31T18:00:00+01:00".to_owned()
    })
}

fn read(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let days = days(year, month, day);
    if calendar::date(days) != (year, month, day) {
        return None;
    }
    let Some(time) = time else { return Some(days * 86_400) };
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if hour > 23 || minute > 59 || second > 59 || !is_fraction {
        return None;
    }
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign, offset) => {
            let [hours, minutes] = numbers(offset, ':', [2, 2])?;
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 3_600 + minutes * 60;
            if sign == "-" { -offset } else { offset }
        }
    };
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second - offset)
}

/// Numbers of exactly these lengths with a separator between them.
fn numbers<const N: usize>(text: &str, separator: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, length) in numbers.iter_mut().zip(lengths) {
        let part = parts.next().filter(|part| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days since 1970-01-01 of a date; the reverse of [`calendar::date`], from the same source.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Now, in seconds since 1970.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// How long ago that was, or nothing for 0: "12s", "3m 20s", "5h 2m", "4d 3h".
pub(crate) fn ago(unix_ms: i64) -> Option<String> {
    if unix_ms == 0 {
        return None;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(short(now.saturating_sub(Duration::from_millis(unix_ms.max(0).unsigned_abs()))))
}

fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(rfc3339(0), None);
        assert_eq!(rfc3339(1).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(rfc3339(1_709_209_845_999).as_deref(), Some("2024-02-29T12:30:45Z"));
        assert_eq!(rfc3339(4_102_444_799_000).as_deref(), Some("2099-12-31T23:59:59Z"));
        assert_eq!(rfc3339(-1).as_deref(), Some("1969-12-31T23:59:59Z"));
    }

    #[test]
    fn dates_are_read() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2024-02-29", 1_709_164_800),
            ("2024-02-29T12:30:45Z", 1_709_209_845),
            ("2024-02-29T12:30:45.999z", 1_709_209_845),
            ("2024-02-29T14:00:45+01:30", 1_709_209_845),
            ("2024-02-29 07:30:45-05:00", 1_709_209_845),
            ("2099-12-31T23:59:59Z", 4_102_444_799),
        ] {
            assert_eq!(unix_seconds(text), Ok(seconds), "{text}");
        }
        for bad in [
            "",
            "2026",
            "2026-13-01",
            "2026-00-10",
            "2026-02-29",
            "2026-1-1",
            "26-01-01",
            "+026-01-01",
            "2026-01-01T",
            "2026-01-01T12:00:00",
            "2026-01-01T24:00:00Z",
            "2026-01-01T12:00Z",
            "2026-01-01T12:00:00.Z",
            "2026-01-01T12:00:00Zx",
            "2026-01-01T12:00:00+1",
            "2026-01-01T12:00:00+99:00",
            "1d",
        ] {
            assert!(unix_seconds(bad).unwrap_err().contains("2026-12-31"), "{bad:?}");
        }
        for day in (-800_000..800_000).step_by(17) {
            let (year, month, of_month) = calendar::date(day);
            assert_eq!(days(year, month, of_month), day);
        }
    }

    #[test]
    fn spans() {
        let texts = [59, 60, 3_725, 90_000].map(|seconds| short(Duration::from_secs(seconds)));
        assert_eq!(texts, ["59s", "1m 0s", "1h 2m", "1d 1h"]);
    }
}
