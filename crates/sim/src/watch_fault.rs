//! Faults of lists and watches, most of them in the types of the sandbox's faults. They are drawn
//! here and applied in `world/read.rs`, `world/watches.rs` and `world/outage.rs`.

use everynode_core::api::Timestamp;
use everynode_sandbox::fault::{
    Delay, Duration, Fault, InjectedError, InvalidUtf8, LateBookmark, Point, Restart, WatchError,
};
use everynode_sandbox::object::Object;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::fault::{Faults, happens, loss};
use crate::response::{Failure, Refusal};
use crate::wire;

/// Maximum stall of a watch. Several stalls in a row are shorter than the time for which the
/// controller waits to see a write (C60).
const STALL_MAX_MS: i64 = 10_000;

impl Faults {
    /// Draws rates from a distant part of the generator's sequence, so that the rest of a seed's
    /// schedule is the same with and without these faults.
    pub fn random_watch_faults(rng: &Pcg64Mcg) -> Self {
        let mut rng = rng.clone();
        rng.advance(1 << 64);
        let mut rate =
            |max: u32| if rng.random_ratio(1, 2) { rng.random_range(0..=max) } else { 0 };
        let faults = Self {
            watch_error: rate(50),
            late_bookmark: rate(500),
            stall: rate(50),
            restart: rate(10),
            invalid_utf8: rate(300),
            ..Self::default()
        };
        let rare = Self {
            expire: rate(200),
            bad_line: rate(100),
            cut_line: rate(100),
            forbid: rate(5),
            ..faults
        };
        // In the other schedules rollouts get further.
        if rng.random_ratio(1, 4) { rare } else { faults }
    }

    /// Draws a fault of a streaming list with this number of objects.
    pub fn draw_list_fault(&self, objects: usize, rng: &mut Pcg64Mcg) -> Option<Fault> {
        if happens(self.watch_error, rng) {
            let objects = Some(rng.random_range(0..=objects as u64));
            let at = Point { objects, ..Point::default() };
            return Some(Fault::WatchError(WatchError { error: error(rng), at }));
        }
        let is_late = happens(self.late_bookmark, rng);
        is_late.then(|| Fault::LateBookmark(LateBookmark { after: Duration::default() }))
    }

    /// Draws an error of a running watch that has changes to deliver.
    pub fn draw_watch_error(&self, rng: &mut Pcg64Mcg) -> Option<WatchError> {
        let at = Point::default();
        happens(self.watch_error, rng).then(|| WatchError { error: error(rng), at })
    }

    /// Draws how a line of a running watch is broken, if it is.
    pub(crate) fn draw_broken_line(&self, rng: &mut Pcg64Mcg) -> Option<BrokenLine> {
        match () {
            () if happens(self.bad_line, rng) => Some(BrokenLine::NotJson),
            () if happens(self.cut_line, rng) => Some(BrokenLine::CutOff),
            () => None,
        }
    }

    /// Draws invalid bytes of an object in a list or a watch. The fault depends only on the seed
    /// and the object's version: such bytes are stored, so every reader of this version gets them.
    /// They are in a text that no decision reads.
    pub fn draw_invalid_bytes(&self, seed: u64, object: &Object) -> Option<InvalidUtf8> {
        if self.invalid_utf8 == 0 {
            return None;
        }
        let object_seed = seed ^ object.resource_version().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rng = &mut Pcg64Mcg::seed_from_u64(object_seed);
        happens(self.invalid_utf8, rng).then(|| InvalidUtf8 {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            text: wire::UNREAD_TEXT.to_owned(),
        })
    }

    /// Draws the failure of a request for a list or a watch.
    pub fn draw_list_failure(&self, rng: &mut Pcg64Mcg) -> Option<Failure> {
        happens(self.watch_error, rng).then(|| {
            let error = error(rng);
            let refusal = Refusal::new(error.code, error.reason(), error.message());
            match rng.random_range(0..3) {
                0 => loss(rng),
                _ => Failure::Refused(refusal),
            }
        })
    }

    /// Draws the stall of a watch before a delivery.
    pub fn draw_delivery_delay(&self, rng: &mut Pcg64Mcg) -> Option<Delay> {
        happens(self.stall, rng)
            .then(|| Delay { lasts: Duration(rng.random_range(1_000..STALL_MAX_MS)) })
    }

    /// Draws a restart of an API server.
    pub fn draw_restart(&self, rng: &mut Pcg64Mcg) -> Option<Restart> {
        happens(self.restart, rng).then(|| Restart {
            down: Duration(rng.random_range(200..4_000)),
            forbidden: Duration(rng.random_range(0..1_500)),
            after_commit: false,
        })
    }
}

/// Any code except those that tell a watch how to continue (400, 410, 422).
fn error(rng: &mut Pcg64Mcg) -> InjectedError {
    InjectedError::of([403, 429, 500, 503, 504][rng.random_range(0..5usize)])
}

/// How a line of a watch is broken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BrokenLine {
    /// It is not JSON.
    NotJson,
    /// The watch breaks off within it.
    CutOff,
}

/// A restart of the API server that a replica is connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    down_until: Timestamp,
    forbidden_until: Timestamp,
}

impl Outage {
    pub(crate) fn new(restart: &Restart, now: Timestamp) -> Self {
        let down_until = Timestamp(now.0 + restart.down.0);
        Self { down_until, forbidden_until: Timestamp(down_until.0 + restart.forbidden.0) }
    }

    /// Returns the failure of a request that arrives now, or `None` if the server is up.
    pub(crate) fn refuse(&self, now: Timestamp) -> Option<Failure> {
        if now < self.down_until {
            return Some(Failure::ConnectionRefused);
        }
        (now < self.forbidden_until).then(forbidden)
    }
}

/// The answer to a request without the right to send it.
pub(crate) fn forbidden() -> Failure {
    let error = InjectedError::of(403);
    Failure::Refused(Refusal::new(error.code, error.reason(), error.message()))
}
