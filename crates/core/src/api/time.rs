//! Points in time. No code in this crate reads a clock: time is always an argument.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The point in time this number of seconds after the Unix epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The duration from `earlier` to this; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }

    /// The time of the wall clock within its day: `HH:MM:SS UTC`.
    pub fn time_of_day(self) -> String {
        let seconds = self.0.div_euclid(1000).rem_euclid(24 * 60 * 60);
        format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// The current time, by two clocks.
///
/// Delays and deadlines are measured with a clock that is never set. The times in objects come from
/// wall clocks, so they are compared with the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of the clock that is never set.
    pub steady: Timestamp,
    /// How far the wall clock is ahead of it, in milliseconds.
    pub wall_ahead_ms: i64,
}

impl Now {
    /// The time of the wall clock as objects state it: in whole seconds.
    pub const fn wall_seconds(self) -> Timestamp {
        Timestamp::from_seconds(self.to_wall(self.steady).as_millis().div_euclid(1000))
    }

    /// The steady clock's time when the wall clock, as it is set now, shows `wall`.
    pub const fn to_steady(self, wall: Timestamp) -> Timestamp {
        Timestamp(wall.0.saturating_sub(self.wall_ahead_ms))
    }

    /// The time that the wall clock, as it is set now, shows at this time of the steady clock.
    pub const fn to_wall(self, steady: Timestamp) -> Timestamp {
        Timestamp(steady.0.saturating_add(self.wall_ahead_ms))
    }
}

impl From<Timestamp> for Now {
    /// A time at which both clocks agree.
    fn from(time: Timestamp) -> Self {
        Self { steady: time, wall_ahead_ms: 0 }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_millis().try_into().unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration.as_millis().try_into().unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0.div_euclid(1000), self.0.rem_euclid(1000))
    }
}
