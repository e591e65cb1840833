//! The time and the random numbers that the controller takes from its machine. The rest of the
//! crate gets them as arguments or reads them here, so that the simulation can set them.

use std::fmt::Debug;
use std::ops::Add;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everynode_core::api::{Now, Timestamp};

/// The clocks and the random numbers of a machine.
pub trait Machine: Debug + Send + Sync {
    /// The wall clock, which may be set back or forward.
    fn wall_clock(&self) -> jiff::Timestamp;

    /// The time since a fixed moment. It never decreases, and may stand still while the machine
    /// sleeps.
    fn monotonic_clock(&self) -> Duration;

    /// A random number.
    fn random(&self) -> u64;
}

/// The machine that a replica runs on. Clones share it.
#[derive(Clone, Debug)]
pub struct Environment {
    machine: Arc<dyn Machine>,
    start: Moment,
}

impl Environment {
    /// An environment with these clocks and random numbers.
    pub fn new(machine: impl Machine + 'static) -> Self {
        let start = Moment { monotonic: machine.monotonic_clock(), wall: machine.wall_clock() };
        Self { machine: Arc::new(machine), start }
    }

    /// The current wall-clock time, for what other processes read.
    pub fn wall_time(&self) -> jiff::Timestamp {
        self.machine.wall_clock()
    }

    /// The current time, as decisions use it: that of a clock that showed the wall-clock time when
    /// this environment was made, and has not been set since, and its difference to the wall clock.
    pub fn now(&self) -> Now {
        let Moment { monotonic, wall } = self.start;
        let passed = self.machine.monotonic_clock().saturating_sub(monotonic);
        let steady = Timestamp(wall.as_millisecond()) + passed;
        Now { steady, wall_ahead_ms: self.wall_time().as_millisecond() - steady.as_millis() }
    }

    /// The current moment, to measure how much time passes from now on.
    pub fn moment(&self) -> Moment {
        Moment { monotonic: self.machine.monotonic_clock(), wall: self.wall_time() }
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        self.machine.random()
    }

    /// A random number between 0 and 1.
    pub fn random_fraction(&self) -> f64 {
        const MANTISSA_BITS: u32 = 53;
        let bits = self.random() >> (u64::BITS - MANTISSA_BITS);
        bits as f64 / (1_u64 << MANTISSA_BITS) as f64
    }
}

impl Default for Environment {
    /// The machine of this process.
    fn default() -> Self {
        Self::new(Host { started: Instant::now() })
    }
}

/// The machine of this process.
#[derive(Debug)]
struct Host {
    started: Instant,
}

impl Machine for Host {
    fn wall_clock(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn monotonic_clock(&self) -> Duration {
        self.started.elapsed()
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

/// A point in time that accounts for stopped processes and sleeping machines.
///
/// The monotonic clock stands still while a machine sleeps. The wall clock may be set back. At
/// least the larger of the two differences has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    monotonic: Duration,
    wall: jiff::Timestamp,
}

impl Moment {
    /// The time since `earlier`: the larger of the two clocks' differences.
    pub fn since(self, earlier: Self) -> Duration {
        let wall = self.wall.duration_since(earlier.wall);
        self.monotonic
            .saturating_sub(earlier.monotonic)
            .max(Duration::try_from(wall).unwrap_or_default())
    }

    /// The time since `earlier` by the monotonic clock alone: at least so much has passed, also if
    /// somebody has set the wall clock.
    pub fn surely_since(self, earlier: Self) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic)
    }
}

#[cfg(test)]
impl Moment {
    /// The same moment on a machine whose wall clock was set forward.
    pub fn with_wall_ahead(self, by: Duration) -> Self {
        Self { wall: (self + by).wall, ..self }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let wall = self.wall.saturating_add(duration).unwrap_or(jiff::Timestamp::MAX);
        Self { monotonic: self.monotonic + duration, wall }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C63: the wall clock shows that a machine slept, the monotonic clock that the wall clock was
    /// set back.
    #[test]
    fn the_larger_difference_counts() {
        let earlier = Environment::default().moment();
        let minute = Duration::from_secs(60);
        let slept = Moment { wall: earlier.wall + minute, ..earlier };
        let set_back =
            Moment { monotonic: earlier.monotonic + minute, wall: earlier.wall - minute };
        assert_eq!(slept.since(earlier), minute);
        assert_eq!(set_back.since(earlier), minute);
    }

    /// C54: a wall clock that is set does not move the steady time.
    #[test]
    fn a_wall_clock_that_is_set_does_not_move_the_steady_time() {
        #[derive(Debug)]
        struct Set(std::sync::atomic::AtomicI64);

        impl Machine for Set {
            fn wall_clock(&self) -> jiff::Timestamp {
                let hours = self.0.fetch_add(-1, std::sync::atomic::Ordering::Relaxed);
                jiff::Timestamp::from_second(hours * 3600).expect("a time in range")
            }

            fn monotonic_clock(&self) -> Duration {
                Duration::from_secs(7)
            }

            fn random(&self) -> u64 {
                0
            }
        }

        let environment = Environment::new(Set(500.into()));
        let start = Timestamp::from_seconds(500 * 3600);
        assert_eq!(environment.now(), Now { steady: start, wall_ahead_ms: -3_600_000 });
        assert_eq!(environment.now(), Now { steady: start, wall_ahead_ms: -7_200_000 });
    }

    /// Random fractions are at least 0 and less than 1.
    #[test]
    fn random_fractions_are_between_0_and_1() {
        #[derive(Debug)]
        struct Fixed(u64);

        impl Machine for Fixed {
            fn wall_clock(&self) -> jiff::Timestamp {
                jiff::Timestamp::UNIX_EPOCH
            }

            fn monotonic_clock(&self) -> Duration {
                Duration::ZERO
            }

            fn random(&self) -> u64 {
                self.0
            }
        }

        assert_eq!(Environment::new(Fixed(0)).random_fraction(), 0.0);
        assert_eq!(Environment::new(Fixed(1 << 63)).random_fraction(), 0.5);
        let largest = Environment::new(Fixed(u64::MAX)).random_fraction();
        assert!(largest > 0.999 && largest < 1.0);
    }
}
