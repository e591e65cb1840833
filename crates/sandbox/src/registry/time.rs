//! Times as the API writes them.

use everynode_core::time::Timestamp;

/// RFC 3339 in whole seconds, UTC: `2026-01-02T03:04:05Z`.
pub fn rfc3339(timestamp: Timestamp) -> String {
    let seconds = timestamp.as_millis().div_euclid(1000);
    let clamped = seconds.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    jiff::Timestamp::from_second(clamped)
        .expect("it was clamped to what can be written")
        .to_string()
}
