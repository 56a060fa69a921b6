//! Points in time for people and programs: RFC 3339 in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2026-01-31T12:00:00Z`, or nothing for 0.
pub(crate) fn rfc3339(unix_ms: i64) -> Option<String> {
    if unix_ms == 0 {
        return None;
    }
    let seconds = unix_ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    Some(format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60))
}

/// Year, month and day of a number of days since 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
    fn spans() {
        let texts = [59, 60, 3_725, 90_000].map(|seconds| short(Duration::from_secs(seconds)));
        assert_eq!(texts, ["59s", "1m 0s", "1h 2m", "1d 1h"]);
    }
}
