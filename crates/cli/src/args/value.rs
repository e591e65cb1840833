//! Parsers of option values.

use std::time::Duration;

use everynode_core::api::Attribution;

/// Parses a duration such as `500ms`, `30s` or `1m30s`; a number without a unit means seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text) {
        Ok(Duration::ZERO) => Err("must be more than zero".into()),
        read => read,
    }
}

/// Parses a duration, which may be zero.
pub(crate) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let parsed = text.parse::<jiff::SignedDuration>();
    let parsed = parsed.map_err(|_| "not a duration such as 500ms, 30s or 1m30s".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())
}

/// Parses a positive whole number.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| "not a whole number".to_owned())?;
    if number > 0 { Ok(number) } else { Err("must be more than zero".into()) }
}

/// Parses a positive, finite number.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err("must be more than zero".into())
    }
}

/// Parses a percentage from 1 to 100, such as `5%`.
pub(crate) fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|number| (1..=100).contains(number)).ok_or_else(|| "not 1% to 100%".to_owned())
}

/// Parses a person's reason: one line, as long as a record keeps it.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    let max = Attribution::REASON_LENGTH_MAX;
    match text.chars().count() {
        _ if text.chars().any(char::is_control) => {
            Err("must be one line, without control characters".into())
        }
        _ if text.trim().is_empty() => Err("must not be empty".into()),
        length if length > max => Err(format!("has {length} characters, of at most {max}")),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_whole_numbers_up_to_100() {
        for (text, number) in
            [("5%", Some(5)), ("100", Some(100)), ("0%", None), ("101%", None), ("half", None)]
        {
            assert_eq!(percent(text).ok(), number, "{text}");
        }
    }

    /// G49: a reason is one line, and not longer than a record keeps it.
    #[test]
    fn reasons_are_short_lines() {
        assert_eq!(reason("the graphs are green; go").as_deref(), Ok("the graphs are green; go"));
        assert!(reason(&"ü".repeat(256)).is_ok());
        let long = Err("has 257 characters, of at most 256".to_owned());
        assert_eq!(reason(&"ü".repeat(257)), long);
        for bad in ["a\nb", "a\tb", "\u{1b}[31mred", "\u{85}"] {
            assert!(reason(bad).is_err_and(|why| why.contains("control characters")), "{bad:?}");
        }
        assert!(reason("  ").is_err());
    }

    #[test]
    fn durations_are_parsed_with_units_or_as_seconds() {
        for (text, milliseconds) in [
            ("500ms", Some(500)),
            ("30", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("0s", None),
            ("-1s", None),
            ("soon", None),
        ] {
            let read = duration(text).ok().map(|duration| duration.as_millis());
            assert_eq!(read, milliseconds, "{text}");
        }
        assert_eq!(duration_or_zero("0s"), Ok(Duration::ZERO));
        assert!(duration_or_zero("-1s").is_err());
    }
}
