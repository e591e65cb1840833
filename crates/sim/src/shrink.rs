//! Shrinks a failing schedule: removes everything that is not needed for the failure.

use crate::checker::{Property, Violation};
use crate::fault::Faults;
use crate::mutation::Mutation;
use crate::schedule::Schedule;
use crate::workload::Step;
use crate::world::{ElectionTiming, LEASE_NEVER_MS, Setting};

/// Maximum number of schedules that are played.
const PLAYS_MAX: u32 = 3_000;
/// Number of seeds that each attempt tries in addition to the current one. A removal shifts all
/// random numbers that are drawn later, so another seed may be needed for the same failure.
const SEEDS_PER_ATTEMPT: u64 = 4;
const BURST_DEFAULT: u32 = 250;

/// A smaller schedule, and what was met on the way.
#[derive(Debug)]
pub struct Shrunk {
    /// One that violates the same property, from which nothing more can be removed by these means.
    pub schedule: Schedule,
    /// The first schedule that violates each other property.
    pub others: Vec<(Violation, Schedule)>,
}

/// Shrinks a schedule that violates a property.
#[must_use]
pub fn shrink(schedule: &Schedule, property: Property, mutation: Option<Mutation>) -> Shrunk {
    let (best, others) = (schedule.clone(), Vec::new());
    let mut shrinking = Shrinking { best, others, property, mutation, plays_left: PLAYS_MAX };
    loop {
        let before = shrinking.best.clone();
        // Most violations need none, and the steps that are left then do without.
        shrinking.try_with(|schedule| schedule.faults = Faults::default());
        shrinking.drop_steps();
        shrinking.drop_faults();
        shrinking.simplify();
        shrinking.shorten();
        if shrinking.best == before || shrinking.plays_left == 0 {
            return Shrunk { schedule: shrinking.best, others: shrinking.others };
        }
    }
}

struct Shrinking {
    best: Schedule,
    others: Vec<(Violation, Schedule)>,
    property: Property,
    mutation: Option<Mutation>,
    plays_left: u32,
}

impl Shrinking {
    /// Keeps the change if the schedule still fails, with its own seed or another.
    fn try_with(&mut self, change: impl FnOnce(&mut Schedule)) -> bool {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        if candidate == self.best {
            return false;
        }
        let seed = candidate.setting.seed;
        for seed in std::iter::once(seed).chain(0..SEEDS_PER_ATTEMPT) {
            candidate.setting.seed = seed;
            if self.fails(&candidate) {
                self.best = candidate;
                return true;
            }
        }
        false
    }

    fn fails(&mut self, schedule: &Schedule) -> bool {
        let Some(left) = self.plays_left.checked_sub(1) else { return false };
        self.plays_left = left;
        let world = schedule.play(self.mutation, false);
        let Some(violation) = world.violation else { return false };
        let is_it = violation.property == self.property;
        let is_known = self.others.iter().any(|(it, _)| it.property == violation.property);
        if !is_it && !is_known {
            self.others.push((violation, schedule.clone()));
        }
        is_it
    }

    /// Removes halves first, then quarters, down to single steps.
    fn drop_steps(&mut self) {
        let mut size = self.best.steps.len();
        while size > 0 {
            let mut start = 0;
            while start < self.best.steps.len() {
                let end = (start + size).min(self.best.steps.len());
                let dropped = self.try_with(|schedule| {
                    // Later steps keep their time.
                    let pause: i64 = schedule.steps[start..end].iter().map(|s| s.pause_ms).sum();
                    schedule.steps.drain(start..end);
                    if let Some(next) = schedule.steps.get_mut(start) {
                        next.pause_ms += pause;
                    }
                });
                if !dropped {
                    start = end;
                }
            }
            size /= 2;
        }
    }

    fn drop_faults(&mut self) {
        for rate in Faults::RATES {
            self.try_with(|schedule| *rate(&mut schedule.faults) = 0);
        }
    }

    fn simplify(&mut self) {
        self.try_with(|schedule| schedule.setting.lease_ms = LEASE_NEVER_MS);
        self.try_with(|schedule| schedule.setting.burst_replicas = BURST_DEFAULT);
        self.try_with(|schedule| schedule.setting.replicas = 1);
        let simpler: [fn(&mut Setting); 6] = [
            |setting| setting.api_servers = 1,
            |setting| setting.rest_faults = 0,
            |setting| setting.schedule_by_controller = false,
            |setting| setting.status_interval_ms = 0,
            |setting| setting.namespace_node_selectors = false,
            |setting| setting.wrong_clocks = false,
        ];
        for change in simpler {
            self.try_with(|schedule| change(&mut schedule.setting));
        }
        self.try_with(|schedule| schedule.setting.election = ElectionTiming::Rare);
        while self.best.setting.nodes > 1 && self.try_with(|schedule| schedule.setting.nodes /= 2) {
        }
        while self.best.setting.nodes > 1 && self.try_with(|schedule| schedule.setting.nodes -= 1) {
        }
        let nodes = self.best.setting.nodes;
        self.try_with(|schedule| schedule.setting.nodes_max = nodes);
    }

    fn shorten(&mut self) {
        for index in 0..self.best.steps.len() {
            let shorter: [fn(&Step) -> i64; 2] = [|_| 0, |step| step.pause_ms / 2];
            for pause in shorter {
                self.try_with(|schedule| {
                    schedule.steps[index].pause_ms = pause(&schedule.steps[index]);
                });
            }
        }
    }
}
