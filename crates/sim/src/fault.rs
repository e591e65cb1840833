//! What goes wrong between replicas and the API server, and how often.

use everynode_controller::api::Error;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// No request takes longer, so that a replica's last writes land before its successor's term (C63).
pub const DELAY_MAX_MS: i64 = 4_000;

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
}

/// What becomes of one write.
#[derive(Debug)]
pub enum Fate {
    Served,
    Refused(Error),
    Lost,
    AnswerLost,
}

impl Faults {
    pub fn some(rng: &mut Pcg64Mcg) -> Self {
        let mut rate =
            |max: u32| if rng.random_ratio(1, 2) { rng.random_range(0..=max) } else { 0 };
        Self {
            delay: rate(150),
            refuse: rate(100),
            lose: rate(80),
            lose_answer: rate(80),
            cut: rate(100),
            compact: rate(500),
            repeat: rate(500),
            half_list: rate(300),
        }
    }

    pub fn fate(&self, rng: &mut Pcg64Mcg) -> Fate {
        if happens(self.refuse, rng) {
            let (code, reason) =
                [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError")]
                    [rng.random_range(0..3usize)];
            return Fate::Refused(Error::Refused {
                code,
                reason: reason.to_owned(),
                message: format!("simulated {reason}"),
                causes: Vec::new(),
            });
        }
        match () {
            () if happens(self.lose, rng) => Fate::Lost,
            () if happens(self.lose_answer, rng) => Fate::AnswerLost,
            () => Fate::Served,
        }
    }

    /// How long something is on its way.
    pub fn delay_ms(&self, rng: &mut Pcg64Mcg) -> i64 {
        match happens(self.delay, rng) {
            true => rng.random_range(100..DELAY_MAX_MS / 2),
            false => rng.random_range(1..20),
        }
    }
}

pub fn happens(per_mille: u32, rng: &mut Pcg64Mcg) -> bool {
    per_mille > 0 && rng.random_range(0..1000) < per_mille
}
