//! The delays of restarts and pulls after failures (S22). Pure.

const BACK_OFF_MS: i64 = 10_000;
const BACK_OFF_MS_MAX: i64 = 300_000;

/// The delay after a number of earlier failures: 10 s, doubling up to 5 minutes.
pub(super) fn back_off(earlier: u32) -> i64 {
    (BACK_OFF_MS << earlier.min(10)).min(BACK_OFF_MS_MAX)
}

#[cfg(test)]
mod tests {
    /// S22: the back-off doubles up to five minutes.
    #[test]
    fn back_offs_double_up_to_five_minutes() {
        let seconds = [0, 1, 4, 5, 30].map(|earlier| super::back_off(earlier) / 1000);
        assert_eq!(seconds, [10, 20, 160, 300, 300]);
    }
}
