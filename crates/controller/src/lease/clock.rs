//! A point in time that accounts for stopped processes and sleeping machines.
//!
//! The monotonic clock stands still while a machine sleeps. The wall clock may be set back. At
//! least the larger of the two differences has passed.

use std::ops::Add;
use std::time::{Duration, Instant, SystemTime};

/// A moment, as both clocks showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    monotonic: Instant,
    wall: SystemTime,
}

impl Clock {
    /// The current moment.
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// The time since `earlier`: the larger of the two clocks' differences.
    pub fn since(self, earlier: Self) -> Duration {
        let wall = self.wall.duration_since(earlier.wall).unwrap_or_default();
        self.monotonic.saturating_duration_since(earlier.monotonic).max(wall)
    }

    /// A moment for tests.
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

    /// C63: the wall clock shows that a machine slept, the monotonic clock that the wall clock was
    /// set back.
    #[test]
    fn the_larger_difference_counts() {
        let earlier = Clock::now();
        let minute = Duration::from_secs(60);
        let slept = Clock { wall: earlier.wall + minute, ..earlier };
        let set_back = Clock { monotonic: earlier.monotonic + minute, wall: earlier.wall - minute };
        assert_eq!(slept.since(earlier), minute);
        assert_eq!(set_back.since(earlier), minute);
    }
}
