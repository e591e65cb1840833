//! Durations with two or three significant figures (upstream's `duration.HumanDuration`).

use everynode_core::api::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats a duration: `90s`, `5m10s`, `3h`, `2d4h`, `3y40d`. Up to two seconds below zero are
/// clock skew and print as `0s`; less is `<invalid>`.
pub fn human_duration(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two_units(seconds, (MINUTE, "m"), (1, "s")),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two_units(seconds, (HOUR, "h"), (MINUTE, "m")),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two_units(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two_units(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// The time from an RFC 3339 `timestamp` to `now`; `<unknown>` if there is none.
pub fn since(timestamp: &str, now: Timestamp) -> String {
    match milliseconds(timestamp) {
        Some(then) => human_duration(now.as_millis().saturating_sub(then)),
        None => "<unknown>".to_owned(),
    }
}

/// An RFC 3339 timestamp in milliseconds since the epoch.
pub fn milliseconds(timestamp: &str) -> Option<i64> {
    timestamp.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

fn two_units(
    seconds: i64,
    (large, large_name): (i64, &str),
    (small, small_name): (i64, &str),
) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S4: ages have the format of upstream's HumanDuration.
    #[test]
    fn durations_keep_two_or_three_figures() {
        let cases = [
            (-2_000, "<invalid>"),
            (-1_999, "0s"),
            (-1, "0s"),
            (0, "0s"),
            (999, "0s"),
            (119_000, "119s"),
            (120_000, "2m"),
            (185_000, "3m5s"),
            (599_000, "9m59s"),
            (600_000, "10m"),
            (179 * 60_000, "179m"),
            (180 * 60_000, "3h"),
            (181 * 60_000, "3h1m"),
            (8 * 3_600_000 - 1, "7h59m"),
            (8 * 3_600_000, "8h"),
            (47 * 3_600_000, "47h"),
            (48 * 3_600_000, "2d"),
            (52 * 3_600_000, "2d4h"),
            (8 * 86_400_000, "8d"),
            (729 * 86_400_000, "729d"),
            (730 * 86_400_000, "2y"),
            (731 * 86_400_000, "2y1d"),
            (8 * 365 * 86_400_000, "8y"),
        ];
        for (milliseconds, expected) in cases {
            assert_eq!(human_duration(milliseconds), expected, "{milliseconds} ms");
        }
    }
}
