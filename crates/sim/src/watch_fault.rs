//! What goes wrong with lists and watches, in the words of the sandbox's table: drawn here, made to happen in `feed.rs` and
//! `world.rs`.

use everynode_controller::api::Error;
use everynode_core::api::Timestamp;
use everynode_sandbox::fault::{
    Delay, Duration, Fault, InvalidUtf8, LateBookmark, Point, Refusal, Restart, WatchError,
};
use everynode_sandbox::store::Object;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::fault::{Faults, happens};
use crate::wire;

/// Checkers allow a replica 30 s to see a change: two stalls in a row, and what they hold up, are shorter.
const STALL_MAX_MS: i64 = 10_000;

impl Faults {
    /// Rates from a far part of the generator's sequence, so that the rest of a seed's schedule is what it is without them.
    pub fn random_watch_faults(rng: &Pcg64Mcg) -> Self {
        let mut rng = rng.clone();
        rng.advance(1 << 64);
        let mut rate =
            |max: u32| if rng.random_ratio(1, 2) { rng.random_range(0..=max) } else { 0 };
        Self {
            watch_error: rate(50),
            late_bookmark: rate(500),
            stall: rate(50),
            restart: rate(10),
            invalid_utf8: rate(300),
            ..Self::default()
        }
    }

    /// Of a streaming list with so many objects.
    pub fn draw_list_fault(&self, objects: usize, rng: &mut Pcg64Mcg) -> Option<Fault> {
        if happens(self.watch_error, rng) {
            let objects = Some(rng.random_range(0..=objects as u64));
            let at = Point { objects, ..Point::default() };
            return Some(Fault::WatchError(WatchError { error: error(rng), at }));
        }
        let is_late = happens(self.late_bookmark, rng);
        is_late.then(|| Fault::LateBookmark(LateBookmark { after: Duration::default() }))
    }

    /// Of a running watch that has something to deliver.
    pub fn draw_watch_error(&self, rng: &mut Pcg64Mcg) -> Option<WatchError> {
        let at = Point::default();
        happens(self.watch_error, rng).then(|| WatchError { error: error(rng), at })
    }

    /// Of an object in a list or a watch. The fault depends on the seed and the object's version
    /// alone: such bytes are stored, so everybody who reads this version gets them. They are in a
    /// text that no decision reads.
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

    /// Of a delivery: how long the watch is behind.
    pub fn draw_delivery_delay(&self, rng: &mut Pcg64Mcg) -> Option<Delay> {
        happens(self.stall, rng)
            .then(|| Delay { lasts: Duration(rng.random_range(1_000..STALL_MAX_MS)) })
    }

    /// Of a whole server.
    pub fn draw_restart(&self, rng: &mut Pcg64Mcg) -> Option<Restart> {
        happens(self.restart, rng).then(|| Restart {
            down: Duration(rng.random_range(200..4_000)),
            forbidden: Duration(rng.random_range(0..1_500)),
            after_commit: false,
        })
    }
}

/// Any code but those that say how to go on (400, 410, 422).
fn error(rng: &mut Pcg64Mcg) -> Refusal {
    Refusal::of([403, 429, 500, 503, 504][rng.random_range(0..5usize)])
}

/// A restart of the API server that a replica speaks to.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    down_until: Timestamp,
    forbidden_until: Timestamp,
}

impl Outage {
    pub fn new(restart: &Restart, now: Timestamp) -> Self {
        let down_until = Timestamp(now.0 + restart.down.0);
        Self { down_until, forbidden_until: Timestamp(down_until.0 + restart.forbidden.0) }
    }

    /// What becomes of a request that arrives now; `None`: the server is as it was.
    pub fn refuse(&self, now: Timestamp) -> Option<Error> {
        if now < self.down_until {
            return Some(Error::Transport("connection refused".to_owned()));
        }
        (now < self.forbidden_until).then(|| {
            let refusal = Refusal::of(403);
            Error::Refused {
                code: refusal.code,
                reason: refusal.reason().to_owned(),
                message: refusal.message().to_owned(),
                causes: Vec::new(),
            }
        })
    }
}
