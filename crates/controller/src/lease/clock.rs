//! A point in time that neither a stopped process nor a sleeping machine can hide.
//!
//! The monotonic clock runs on while the process is stopped but stands still while a machine sleeps; the wall clock runs
//! on but may be set back. The larger of the two differences is what has passed, at least.

use std::ops::Add;
use std::time::{Duration, Instant, SystemTime};

/// A moment as both clocks showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    monotonic: Instant,
    wall: SystemTime,
}

impl Clock {
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// The time that has passed since `earlier`, by the clock that saw more of it.
    pub fn since(self, earlier: Self) -> Duration {
        let wall = self.wall.duration_since(earlier.wall).unwrap_or_default();
        self.monotonic.saturating_duration_since(earlier.monotonic).max(wall)
    }

    /// Any moment, for tests that count from it.
    #[cfg(test)]
    pub fn start() -> Self {
        Self::now()
    }
}

impl Add<Duration> for Clock {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self { monotonic: self.monotonic + duration, wall: self.wall + duration }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C63: sleep of the machine is seen by the wall clock, a wall clock set back by the monotonic one.
    #[test]
    fn the_clock_that_saw_more_counts() {
        let earlier = Clock::now();
        let minute = Duration::from_secs(60);
        let slept = Clock { wall: earlier.wall + minute, ..earlier };
        let set_back = Clock { monotonic: earlier.monotonic + minute, wall: earlier.wall - minute };
        assert_eq!(slept.since(earlier), minute);
        assert_eq!(set_back.since(earlier), minute);
    }
}
