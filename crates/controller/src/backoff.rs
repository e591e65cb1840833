//! Exponential back-off, without a clock.

use std::time::Duration;

/// Delays that double with each consecutive failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExponentialBackoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl ExponentialBackoff {
    /// The delay after a failure that follows `failures` earlier ones.
    pub(crate) fn delay(self, failures: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(failures)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let backoff =
            ExponentialBackoff { first: Duration::from_millis(5), max: Duration::from_secs(1) };
        let delays = [0, 1, 2, 7, 8, 100].map(|failures| backoff.delay(failures).as_millis());
        assert_eq!(delays, [5, 10, 20, 640, 1000, 1000]);
    }
}
