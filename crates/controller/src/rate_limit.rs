//! A token bucket, without a clock.

use std::time::Duration;

/// A bucket of `burst` tokens that gains one every `interval`. Times are durations since a fixed
/// moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// When the bucket is full again, or became full.
    full_at: Duration,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) const fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst, full_at: Duration::ZERO }
    }

    /// Takes a token and returns how long to wait for it.
    pub(crate) fn take(&mut self, now: Duration) -> Duration {
        self.full_at = self.full_at.max(now) + self.interval;
        (self.full_at - now).saturating_sub(self.interval * self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_tokens_come_at_intervals() {
        let mut bucket = TokenBucket::new(Duration::from_millis(100), 3);
        let now = Duration::from_secs(7);
        let mut waits: Vec<u128> = (0..5).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        waits = (0..4).map(|_| bucket.take(now + Duration::from_secs(60)).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100]);
    }
}
