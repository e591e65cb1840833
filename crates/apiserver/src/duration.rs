//! Durations in files: `300ms`, `1.5s`, `2m`, `1h`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A duration in milliseconds, written as a number with a unit. The number is at most a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duration(pub i64);

impl Duration {
    /// The duration as the standard library's type.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.0).unwrap_or(0))
    }
}

impl TryFrom<String> for Duration {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration such as 300ms, 1.5s or 2m");
        let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(at);
        let unit_ms = match unit {
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        if !(0.0..=1e6).contains(&number) {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 3.6e12")]
        Ok(Self((number * unit_ms).round() as i64))
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.to_string()
    }
}

/// Prints the largest unit that needs no fraction.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit_ms, unit) = [(3_600_000, "h"), (60_000, "m"), (1000, "s")]
            .into_iter()
            .find(|(unit_ms, _)| self.0 > 0 && self.0 % unit_ms == 0)
            .unwrap_or((1, "ms"));
        write!(f, "{}{unit}", self.0 / unit_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S22: a printed duration parses to the same duration.
    #[test]
    fn printed_durations_parse_to_the_same_value() {
        for (text, ms, printed) in [
            ("300ms", 300, "300ms"),
            ("1.5s", 1500, "1500ms"),
            ("2m", 120_000, "2m"),
            ("90s", 90_000, "90s"),
            ("1h", 3_600_000, "1h"),
            ("0s", 0, "0ms"),
        ] {
            let read = Duration::try_from(text.to_owned());
            assert_eq!(read, Ok(Duration(ms)), "{text}");
            assert_eq!(Duration(ms).to_string(), printed);
        }
        for text in ["", "5", "s", "-1s", "1e9h", "5 d"] {
            assert!(Duration::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
