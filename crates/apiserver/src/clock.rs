//! Times in the API's text forms. There is no clock here.

use everynode_core::api::Timestamp;

/// A `metav1.Time`: `2026-01-02T03:04:05Z`.
pub fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_second(at.0.div_euclid(1000)).unwrap_or_default().to_string()
}

/// A `metav1.MicroTime`: `2026-01-02T03:04:05.678000Z`.
pub fn rfc3339_micro(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    format!("{time:.6}")
}

/// Parses either form; `None` for anything else.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|time| Timestamp(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S23: times have the text forms of the API.
    #[test]
    fn times_are_formatted_as_in_the_api() {
        let at = Timestamp(1_767_323_045_678);
        assert_eq!(rfc3339(at), "2026-01-02T03:04:05Z");
        assert_eq!(rfc3339_micro(at), "2026-01-02T03:04:05.678000Z");
        assert_eq!(parse(&rfc3339_micro(at)), Some(at));
        assert_eq!(parse("soon"), None);
    }
}
