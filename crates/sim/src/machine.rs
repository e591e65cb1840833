//! The clocks and random numbers of a replica's machine.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everynode_controller::environment::Machine;
use everynode_core::api::Timestamp;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::time::Instant;

/// The clocks of a replica. Both run with the runtime's virtual time. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    started: Instant,
    /// The virtual time at `started`.
    start: Timestamp,
    /// How far the wall clock is ahead of virtual time, in milliseconds.
    skew_ms: Arc<AtomicI64>,
}

impl Clocks {
    /// Clocks that start now, `skew_ms` ahead of virtual time. Must be called in the runtime.
    pub(crate) fn new(start: Timestamp, skew_ms: i64) -> Self {
        Self { started: Instant::now(), start, skew_ms: Arc::new(AtomicI64::new(skew_ms)) }
    }

    /// Sets the wall clock this number of milliseconds forward, or back if it is negative.
    pub(crate) fn set_wall_clock(&self, by_ms: i64) {
        self.skew_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// The virtual time.
    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.start.0 + elapsed)
    }

    /// The time by the wall clock.
    pub(crate) fn wall_clock(&self) -> Timestamp {
        Timestamp(self.now().0 + self.skew_ms())
    }

    /// How far the wall clock is ahead of virtual time.
    pub(crate) fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
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
