//! The clocks and random numbers of a replica's machine.

use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everynode_controller::environment::Machine;
use everynode_core::api::Timestamp;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::time::Instant;

/// A wall clock that is adjusted by less, in milliseconds, may be followed later (C54).
pub(crate) const CLOCK_TOLERANCE_MS: i64 = 500;

/// The clocks of a replica. The steady one runs with the runtime's virtual time; the wall clock may
/// drift. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    started: Instant,
    /// The virtual time at `started`.
    start: Timestamp,
    /// How far the wall clock is ahead of virtual time without its drift, in milliseconds.
    offset_ms: Arc<AtomicI64>,
    /// How many millionths the wall clock is too fast.
    drift_ppm: Arc<AtomicI32>,
}

impl Clocks {
    /// Clocks that start now. The wall clock is `skew_ms` ahead of virtual time, and runs
    /// `drift_ppm` millionths too fast. Must be called in the runtime.
    pub(crate) fn new(start: Timestamp, skew_ms: i64, drift_ppm: i32) -> Self {
        Self {
            started: Instant::now(),
            start,
            offset_ms: Arc::new(AtomicI64::new(skew_ms)),
            drift_ppm: Arc::new(AtomicI32::new(drift_ppm)),
        }
    }

    /// Sets the wall clock this number of milliseconds forward, or back if it is negative.
    pub(crate) fn set_wall_clock(&self, by_ms: i64) {
        self.offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Makes the wall clock show virtual time from now on.
    pub(crate) fn set_right(&self) {
        self.offset_ms.store(0, Ordering::Relaxed);
        self.drift_ppm.store(0, Ordering::Relaxed);
    }

    /// The virtual time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.start.0 + self.elapsed_ms())
    }

    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The time by the wall clock.
    pub(crate) fn wall_clock(&self) -> Timestamp {
        Timestamp(self.now().0 + self.skew_ms())
    }

    /// How far the wall clock is ahead of virtual time.
    pub(crate) fn skew_ms(&self) -> i64 {
        let drift_ppm = i64::from(self.drift_ppm.load(Ordering::Relaxed));
        self.offset_ms.load(Ordering::Relaxed) + self.elapsed_ms() * drift_ppm / 1_000_000
    }
}

/// The machine of a replica.
#[derive(Debug)]
pub(crate) struct VirtualMachine {
    clocks: Clocks,
    rng: Mutex<Pcg64Mcg>,
}

impl VirtualMachine {
    pub(crate) fn new(clocks: Clocks, seed: u64) -> Self {
        Self { clocks, rng: Mutex::new(Pcg64Mcg::seed_from_u64(seed)) }
    }
}

impl Machine for VirtualMachine {
    fn wall_clock(&self) -> jiff::Timestamp {
        let millis = self.clocks.wall_clock().0;
        jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX)
    }

    fn monotonic_clock(&self) -> Duration {
        self.clocks.started.elapsed()
    }

    fn random(&self) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
