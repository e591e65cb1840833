//! A schedule: everything that happens in a run. It is data, drawn from a seed or read from a file,
//! so that parts of it can be removed.

use std::panic::{self, AssertUnwindSafe};

use everynode_sandbox::kind::DAEMON_SET;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::checker::{Property, Violation};
use crate::fault::Faults;
use crate::mutation::Mutation;
use crate::replica;
use crate::workload::{self, NAMESPACE, Step};
use crate::world::{ElectionTiming, LEASE_NEVER_MS, Setting, World};

/// All inputs of a run: the cluster, the faults and the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The parameters of the world.
    pub setting: Setting,
    /// The rates of faults.
    pub faults: Faults,
    /// The actions of the workload, in order.
    pub steps: Vec<Step>,
}

impl Schedule {
    /// Draws the schedule of a seed. One in four has the maximum size, the others are small and
    /// fast.
    pub fn from_seed(seed: u64) -> Self {
        let rng = &mut Pcg64Mcg::seed_from_u64(seed);
        let fork = &mut Pcg64Mcg::seed_from_u64(!seed);
        let (nodes_max, steps_max) = if rng.random_ratio(1, 4) { (5, 30) } else { (3, 12) };
        let setting = Setting {
            seed,
            nodes: rng.random_range(1..=nodes_max),
            nodes_max,
            // In some schedules the failure of a node is detected early.
            lease_ms: if rng.random_ratio(1, 16) { 20_000 } else { LEASE_NEVER_MS },
            burst_replicas: if rng.random_ratio(1, 4) { 2 } else { 250 },
            replicas: rng.random_range(1..=3),
            election: match rng.random_range(0..4) {
                0 => ElectionTiming::Fast,
                1 => ElectionTiming::Slow,
                _ => ElectionTiming::Rare,
            },
            // A separate generator keeps the other draws as they were before these were added.
            api_servers: fork.random_range(1..=3),
        };
        let faults = Faults::random(rng);
        let count = rng.random_range(steps_max / 4..=steps_max);
        Self { setting, faults, steps: (0..count).map(|_| Step::random(rng)).collect() }
    }

    /// Plays the schedule to its end. A panic ends it with a violation.
    pub fn play(&self, mutation: Option<Mutation>, transcript: bool) -> World {
        let mut world = World::new(self.setting);
        if transcript {
            world.record();
        }
        world.mutation = mutation;
        world.faults = self.faults;
        let unwound = panic::catch_unwind(AssertUnwindSafe(|| self.play_in(&mut world)));
        if let Err(payload) = unwound {
            let message = replica::panic_message(payload.as_ref());
            world.violation = Some(Violation { property: Property::Panic, message });
        }
        world
    }

    fn play_in(&self, world: &mut World) {
        let options = world.write_options();
        let created =
            world.registry().create(&DAEMON_SET, NAMESPACE, workload::manifest("a", 1), &options);
        debug_assert!(created.is_ok(), "{created:?}");
        world.start_replicas();
        for step in &self.steps {
            step.run(world);
            if world.violation.is_some() {
                return;
            }
        }
        workload::repair(world);
        world.run_to_quiescence();
    }

    /// Returns the schedule as a line that [`parse`](Self::parse) reads.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("numbers and names are JSON")
    }

    /// Parses the output of [`to_line`](Self::to_line).
    ///
    /// # Errors
    ///
    /// The line is not a schedule in JSON.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}
