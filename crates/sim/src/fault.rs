//! What goes wrong between replicas and the API server, and how often.

use everynode_controller::api::Error;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// No request that is answered takes longer, so that a replica's last writes land before its successor's term (C63).
pub const DELAY_MAX_MS: i64 = 4_000;
/// A request that is not answered may land so late; but before its sender's successor leads.
const LATE_ARRIVAL_MS: std::ops::Range<i64> = 500..8_000;

/// Chances in a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// A request or a delivery takes seconds.
    pub delay: u32,
    /// A write is refused: 409, 429, 500.
    pub refuse: u32,
    /// A request never arrives.
    pub lose: u32,
    /// A write takes effect and its answer never arrives.
    pub lose_answer: u32,
    /// A watch breaks off.
    pub cut: u32,
    /// The log is compacted before the watch is back, so that it has to list again.
    pub compact: u32,
    /// A watch that is back begins before where it was.
    pub repeat: u32,
    /// A list breaks off half-way.
    pub half_list: u32,
    /// A streaming list, or a running watch, ends in an ERROR event.
    pub watch_error: u32,
    /// A streaming list has live events before the bookmark that ends it.
    pub late_bookmark: u32,
    /// A watch is behind for many seconds.
    pub stall: u32,
    /// The API server of a replica restarts.
    pub restart: u32,
    /// A write takes effect and is answered with a 5xx.
    pub fail_after: u32,
    /// A write is not answered, and takes effect seconds later.
    pub land_late: u32,
    /// A GET fails.
    pub fail_get: u32,
    /// Lists and watches serve a version of an object with a byte that is not UTF-8, to every
    /// replica and each time.
    pub invalid_utf8: u32,
}

/// What becomes of one write.
#[derive(Debug)]
pub enum RequestOutcome {
    Served,
    Refused(Error),
    Lost,
    AnswerLost,
    /// It takes effect, and its answer says that something went wrong.
    Committed5xx(Error),
    /// It is not answered, and arrives after so many milliseconds.
    Delayed(i64),
}

impl Faults {
    pub fn random(rng: &mut Pcg64Mcg) -> Self {
        // A fork of its own: what is drawn next is what it was before there were these faults.
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

    pub fn draw_outcome(&self, rng: &mut Pcg64Mcg) -> RequestOutcome {
        if happens(self.refuse, rng) {
            let (code, reason) =
                [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError")]
                    [rng.random_range(0..3usize)];
            return RequestOutcome::Refused(refused(code, reason, &format!("simulated {reason}")));
        }
        match () {
            () if happens(self.lose, rng) => RequestOutcome::Lost,
            () if happens(self.lose_answer, rng) => RequestOutcome::AnswerLost,
            () if happens(self.fail_after, rng) => RequestOutcome::Committed5xx(server_error(rng)),
            () if happens(self.land_late, rng) => {
                RequestOutcome::Delayed(rng.random_range(LATE_ARRIVAL_MS))
            }
            () => RequestOutcome::Served,
        }
    }

    /// Why a GET fails, if it does.
    pub fn draw_read_failure(&self, rng: &mut Pcg64Mcg) -> Option<Error> {
        happens(self.fail_get, rng).then(|| match rng.random_range(0..3) {
            0 => Error::Transport("no answer".to_owned()),
            // An API server that has just started knows nobody's rights.
            1 => refused(403, "Forbidden", "simulated Forbidden"),
            _ => server_error(rng),
        })
    }

    /// How long something is on its way.
    pub fn delay_ms(&self, rng: &mut Pcg64Mcg) -> i64 {
        match happens(self.delay, rng) {
            true => rng.random_range(100..DELAY_MAX_MS / 2),
            false => rng.random_range(1..20),
        }
    }
}

/// What an API server or a proxy answers when it does not know what has become of a request.
pub fn server_error(rng: &mut Pcg64Mcg) -> Error {
    let (code, reason, message) = [
        (500, "", "etcdserver: request timed out"),
        (502, "", "502 Bad Gateway"),
        (503, "ServiceUnavailable", "simulated ServiceUnavailable"),
        (504, "Timeout", "simulated Timeout"),
    ][rng.random_range(0..4usize)];
    refused(code, reason, message)
}

fn refused(code: u16, reason: &str, message: &str) -> Error {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    Error::Refused { code, reason, message, causes: Vec::new() }
}

fn rate(max: u32, rng: &mut Pcg64Mcg) -> u32 {
    if rng.random_ratio(1, 2) { rng.random_range(0..=max) } else { 0 }
}

pub fn happens(per_mille: u32, rng: &mut Pcg64Mcg) -> bool {
    per_mille > 0 && rng.random_range(0..1000) < per_mille
}
