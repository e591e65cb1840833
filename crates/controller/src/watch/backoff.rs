//! How long to wait before asking again, so that a server in trouble is not asked by everybody at once. No clock, and the
//! randomness is the caller's.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(30);

/// Doubles with each failure in a row; upstream: client-go's reflector.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The pause after one more failure. `jitter` in 0..1 stretches it by up to its half.
    pub fn failed(&mut self, jitter: f64) -> Duration {
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(MAX);
        self.failures = self.failures.saturating_add(1);
        pause.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute_and_start_over_after_a_success() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u128> = (0..10).map(|_| backoff.failed(0.0).as_millis()).collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(backoff.failed(1.0), Duration::from_secs(45));
        backoff.succeeded();
        assert_eq!(backoff.failed(0.0), FIRST);
    }
}
