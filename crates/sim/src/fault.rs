//! Faults between replicas and the API server, and their rates.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::response::{Failure, Refusal};

/// Maximum delay of an answered request. A replica's last writes are thus served before its
/// successor leads (C63).
pub const DELAY_MAX_MS: i64 = 4_000;
/// Delay of a request that takes effect without an answer. It is served at the latest when the
/// sender's successor takes the lease.
const LATE_ARRIVAL_MS: std::ops::Range<i64> = 500..8_000;

/// Rates of faults, per thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// A request or a delivery takes seconds.
    pub delay: u32,
    /// A write is refused with 409, 429 or 500.
    pub refuse: u32,
    /// A request does not arrive.
    pub lose: u32,
    /// A write takes effect and its answer is lost.
    pub lose_answer: u32,
    /// A watch is closed.
    pub cut: u32,
    /// The log is compacted while a closed watch is down, so that the replica must list again.
    pub compact: u32,
    /// A reopened watch repeats earlier events.
    pub repeat: u32,
    /// A list is cut off.
    pub half_list: u32,
    /// A streaming list or a running watch ends with an ERROR event.
    pub watch_error: u32,
    /// A streaming list contains live events before its last bookmark.
    pub late_bookmark: u32,
    /// A watch is stalled for up to 10 s.
    pub stall: u32,
    /// The API server of a replica restarts.
    pub restart: u32,
    /// A write takes effect and is answered with a 5xx.
    pub fail_after: u32,
    /// A write gets no answer and takes effect seconds later.
    pub land_late: u32,
    /// A GET fails.
    pub fail_get: u32,
    /// Lists and watches serve a version of an object with a byte that is not UTF-8, to every
    /// replica and each time.
    pub invalid_utf8: u32,
    /// A request to continue a watch is answered with 410.
    pub expire: u32,
    /// A watch sends a line that is not JSON.
    pub bad_line: u32,
    /// A watch breaks off within a line.
    pub cut_line: u32,
    /// All requests of a replica are answered with 403 for a minute.
    pub forbid: u32,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// It takes effect and is answered.
    Served,
    /// It has no effect and is answered with this error.
    Refused(Refusal),
    /// It does not arrive.
    Lost(Failure),
    /// It takes effect, and the answer is lost.
    AnswerLost(Failure),
    /// It takes effect, and the answer is a 5xx.
    Committed5xx(Refusal),
    /// It gets no answer and takes effect after this number of milliseconds.
    Delayed(i64),
}

/// One of the rates.
type Rate = fn(&mut Faults) -> &mut u32;

impl Faults {
    /// All rates.
    pub const RATES: [Rate; 20] = [
        |faults| &mut faults.delay,
        |faults| &mut faults.refuse,
        |faults| &mut faults.lose,
        |faults| &mut faults.lose_answer,
        |faults| &mut faults.cut,
        |faults| &mut faults.compact,
        |faults| &mut faults.repeat,
        |faults| &mut faults.half_list,
        |faults| &mut faults.watch_error,
        |faults| &mut faults.late_bookmark,
        |faults| &mut faults.stall,
        |faults| &mut faults.restart,
        |faults| &mut faults.fail_after,
        |faults| &mut faults.land_late,
        |faults| &mut faults.fail_get,
        |faults| &mut faults.invalid_utf8,
        |faults| &mut faults.expire,
        |faults| &mut faults.bad_line,
        |faults| &mut faults.cut_line,
        |faults| &mut faults.forbid,
    ];

    /// These faults, each at most at this rate. Invalid bytes are stored, so they keep theirs.
    #[must_use]
    pub fn limited(mut self, per_mille: u32) -> Self {
        let invalid_utf8 = self.invalid_utf8;
        for rate in Self::RATES {
            let rate = rate(&mut self);
            *rate = (*rate).min(per_mille);
        }
        Self { invalid_utf8, ..self }
    }

    /// Draws the rates of a schedule. Each kind of fault is absent from half of the schedules.
    pub fn random(rng: &mut Pcg64Mcg) -> Self {
        // A separate generator keeps the later draws as they were before these faults were added.
        let fork = &mut Pcg64Mcg::seed_from_u64(rng.clone().random());
        let (fail_after, land_late, fail_get) = (rate(80, fork), rate(60, fork), rate(200, fork));
        let mut rate = |max: u32| rate(max, rng);
        Self {
            delay: rate(150),
            refuse: rate(100),
            lose: rate(80),
            lose_answer: rate(80),
            cut: rate(100),
            compact: rate(500),
            repeat: rate(500),
            half_list: rate(300),
            fail_after,
            land_late,
            fail_get,
            ..Self::random_watch_faults(rng)
        }
    }

    /// Draws the outcome of a write.
    pub fn draw_outcome(&self, rng: &mut Pcg64Mcg) -> RequestOutcome {
        if happens(self.refuse, rng) {
            let (code, reason) =
                [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError")]
                    [rng.random_range(0..3usize)];
            let mut refusal = Refusal::new(code, reason, format!("simulated {reason}"));
            if code == 429 && rng.random_ratio(1, 2) {
                refusal.retry_after = Some(rng.random_range(1..4));
            }
            return RequestOutcome::Refused(refusal);
        }
        match () {
            () if happens(self.lose, rng) => RequestOutcome::Lost(loss(rng)),
            () if happens(self.lose_answer, rng) => RequestOutcome::AnswerLost(loss(rng)),
            () if happens(self.fail_after, rng) => RequestOutcome::Committed5xx(server_error(rng)),
            () if happens(self.land_late, rng) => {
                RequestOutcome::Delayed(rng.random_range(LATE_ARRIVAL_MS))
            }
            () => RequestOutcome::Served,
        }
    }

    /// Draws the failure of a GET, if it fails.
    pub fn draw_read_failure(&self, rng: &mut Pcg64Mcg) -> Option<Failure> {
        happens(self.fail_get, rng).then(|| match rng.random_range(0..3) {
            0 => loss(rng),
            // An API server that has just started has not loaded any roles.
            1 => Failure::Refused(Refusal::new(403, "Forbidden", "simulated Forbidden")),
            _ => Failure::Refused(server_error(rng)),
        })
    }

    /// Draws the delay of a request, an answer or a delivery, in milliseconds.
    pub fn delay_ms(&self, rng: &mut Pcg64Mcg) -> i64 {
        match happens(self.delay, rng) {
            true => rng.random_range(100..DELAY_MAX_MS / 2),
            false => rng.random_range(1..20),
        }
    }
}

/// Draws an answer of an API server or a proxy that does not know whether a request took effect.
pub fn server_error(rng: &mut Pcg64Mcg) -> Refusal {
    let (code, reason, message) = [
        (500, "", "etcdserver: request timed out"),
        (502, "", "502 Bad Gateway"),
        (503, "ServiceUnavailable", "simulated ServiceUnavailable"),
        (504, "Timeout", "simulated Timeout"),
    ][rng.random_range(0..4usize)];
    Refusal::new(code, reason, message)
}

/// Draws how an answer is lost.
pub fn loss(rng: &mut Pcg64Mcg) -> Failure {
    if rng.random_ratio(1, 4) { Failure::Silence } else { Failure::ConnectionLost }
}

fn rate(max: u32, rng: &mut Pcg64Mcg) -> u32 {
    if rng.random_ratio(1, 2) { rng.random_range(0..=max) } else { 0 }
}

/// Draws whether a fault with this rate happens. A rate of 0 draws nothing.
pub fn happens(per_mille: u32, rng: &mut Pcg64Mcg) -> bool {
    per_mille > 0 && rng.random_range(0..1000) < per_mille
}
