//! Times as the API spells them. Arithmetic and text only; nothing here asks what time it is.

use everynode_core::time::Timestamp;

/// `2026-01-02T03:04:05Z`, as `metav1.Time`.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_second(at.0.div_euclid(1000)).unwrap_or_default().to_string()
}

/// `2026-01-02T03:04:05.678000Z`, as `metav1.MicroTime`.
pub(crate) fn rfc3339_micro(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    format!("{time:.6}")
}

/// Either form; `None` if it is neither.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|time| Timestamp(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S23: times are spelt as the API spells them.
    #[test]
    fn times_are_spelt_as_the_api_spells_them() {
        let at = Timestamp(1_767_323_045_678);
        assert_eq!(rfc3339(at), "2026-01-02T03:04:05Z");
        assert_eq!(rfc3339_micro(at), "2026-01-02T03:04:05.678000Z");
        assert_eq!(parse(&rfc3339_micro(at)), Some(at));
        assert_eq!(parse("soon"), None);
    }
}
