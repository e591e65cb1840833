//! Ages and durations as kubectl prints them.

/// An age in kubectl's format, such as `3d4h`: at most two units, and one for longer ages.
pub fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |first: i64, unit: char, second: i64, small: char| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{small}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// [`age`] of a number of seconds that is never negative.
pub fn duration(seconds: u64) -> String {
    age(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// A number of seconds in full, such as `2h11m5s`: durations that are compared with each other.
pub fn exact(seconds: u64) -> String {
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let parts =
        parts.into_iter().filter(|(number, unit)| *number > 0 || seconds == 0 && *unit == 's');
    parts.map(|(number, unit)| format!("{number}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_kubectls_format() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3600, "60m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (63_072_000 + 86_400, "2y1d"),
        ] {
            assert_eq!(age(seconds), expected);
        }
    }

    #[test]
    fn exact_durations_lack_nothing() {
        for (seconds, expected) in
            [(0, "0s"), (90, "1m30s"), (1800, "30m"), (7865, "2h11m5s"), (90_000, "25h")]
        {
            assert_eq!(exact(seconds), expected);
        }
    }
}
