//! Durations as text.

/// A duration in at most two units: `45s`, `3m20s`, `2h5m`.
pub(super) fn short_duration(seconds: u64) -> String {
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let units = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")];
    let first = units.iter().position(|(number, _)| *number > 0).unwrap_or(3);
    let shown = units[first..].iter().take(2).filter(|(number, _)| *number > 0);
    let text: String = shown.map(|(number, unit)| format!("{number}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, expected) in [
            (0, "0s"),
            (45, "45s"),
            (200, "3m20s"),
            (7500, "2h5m"),
            (86_400, "1d"),
            (90_061, "1d1h"),
        ] {
            assert_eq!(short_duration(seconds), expected);
        }
    }
}
