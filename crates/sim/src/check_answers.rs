//! The answers of the simulated environment to the checks of guarded rollouts (G5).

use std::collections::BTreeMap;
use std::sync::Mutex;

use everynode_controller::checks::CheckClient;
use everynode_core::api::{CheckAnswer, CheckVerdict, Timestamp};
use everynode_core::plan::CheckQuestion;
use futures::FutureExt;
use futures::future::BoxFuture;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::network::lock;

/// Number of answers for an attempt at a wave that are drawn. Later ones pass, so that the cluster
/// comes to rest.
const DRAWN: u32 = 3;

/// The name of a check that always fails.
pub const FAILING: &str = "failing";

/// The revision, the wave and its attempt that a question is about.
type Attempt = (String, String, String, Timestamp);

/// Draws the answers of one replica.
#[derive(Debug)]
pub(crate) struct DrawnAnswers {
    rng: Mutex<Pcg64Mcg>,
    asked: Mutex<BTreeMap<Attempt, u32>>,
}

impl DrawnAnswers {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Mutex::new(Pcg64Mcg::seed_from_u64(seed)), asked: Mutex::default() }
    }
}

impl CheckClient for DrawnAnswers {
    fn ask(&self, question: CheckQuestion) -> BoxFuture<'static, CheckAnswer> {
        let CheckQuestion { daemon_set, revision, wave, since, check, .. } = question;
        if *check.name == *FAILING {
            return std::future::ready(CheckAnswer::new(CheckVerdict::Failed, "always")).boxed();
        }
        let attempt = (daemon_set.to_string(), revision.to_string(), wave.to_string(), since);
        let mut asked = lock(&self.asked);
        let count = asked.entry(attempt).or_default();
        *count += 1;
        let verdict = match lock(&self.rng).random_range(0..6) {
            _ if *count > DRAWN => CheckVerdict::Passed,
            0..3 => CheckVerdict::Passed,
            3..5 => CheckVerdict::Failed,
            _ => CheckVerdict::Unknown,
        };
        std::future::ready(CheckAnswer::new(verdict, "drawn")).boxed()
    }
}
