//! A schedule: everything that happens in a run. It is data, drawn from a seed or read from a file,
//! so that parts of it can be removed.

use std::panic::{self, AssertUnwindSafe};

use everynode_sandbox::json::json;
use everynode_sandbox::kinds::DAEMON_SET;
use rand::seq::IndexedMutRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::checker::{Property, Violation};
use crate::fault::Faults;
use crate::mutation::Mutation;
use crate::replica;
use crate::role::Installation;
use crate::workload::{self, NAMESPACE, Step, StepKind};
use crate::world::{ElectionTiming, LEASE_NEVER_MS, Setting, World};

/// Maximum number of nodes of the few large schedules.
const NODES_MAX: u32 = 50;
const STEPS_OF_LARGE_MAX: usize = 8;
/// Maximum number of steps of each kind that is not in every schedule.
const EXTRA_STEPS_MAX: usize = 4;
/// Maximum rate, per thousand, of faults that never end.
const REST_FAULTS_MAX: u32 = 30;
/// Quartz clocks are off by up to 100, those of virtual machines by more.
const CLOCK_DRIFT_PPM_MAX: u32 = 500;
/// Maximum pause before a step of a guarded rollout.
const ROLLOUT_PAUSE_MAX_MS: i64 = 40_000;
/// Makes the random choices of guarded rollouts independent of the others.
const GUARDED_SEED: u64 = 0x6a09_e667_f3bc_c908;
/// The same for what a rollout awaits at its end.
const FINALLY_SEED: u64 = 0x3c6e_f372_fe94_f82b;
/// The same for pods that are changed in place.
const IN_PLACE_SEED: u64 = 0x510e_527f_ade6_82d1;
/// The same for ConfigMaps of which pods get copies.
const CONFIG_MAP_SEED: u64 = 0x9b05_688c_2b3e_6c1f;
/// The same for the tolerations of the first template.
const TOLERATIONS_SEED: u64 = 0xa54f_f53a_5f1d_36f1;
/// How often steps are inserted in which the nodes of a guarded rollout change.
const FLEET_STEPS: u32 = 3;
const LONG_PAUSE_MS: std::ops::Range<i64> = 120_000..1_200_000;

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

/// In which schedules rollouts are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policies {
    /// In one of three.
    Sometimes,
    /// In each.
    Always,
    /// In each, beside the built-in controller.
    Beside,
}

impl Schedule {
    /// Draws the schedule of a seed. One in four is large, the others are small and fast. A few
    /// have many nodes. Each feature is off in about half of the schedules.
    pub fn from_seed(seed: u64, policies: Policies) -> Self {
        let rng = &mut Pcg64Mcg::seed_from_u64(seed ^ GUARDED_SEED);
        let mut schedule = Self::without_policies(seed);
        let tolerations = &mut Pcg64Mcg::seed_from_u64(seed ^ TOLERATIONS_SEED);
        schedule.setting.tolerates_all = tolerations.random_ratio(1, 4);
        let is_guarded = rng.random_ratio(1, 3);
        if is_guarded || policies != Policies::Sometimes {
            schedule.guard_rollouts(rng);
            schedule.wait_finally(&mut Pcg64Mcg::seed_from_u64(seed ^ FINALLY_SEED));
            if policies != Policies::Beside {
                schedule.change_in_place(&mut Pcg64Mcg::seed_from_u64(seed ^ IN_PLACE_SEED));
                schedule.copy_config_maps(&mut Pcg64Mcg::seed_from_u64(seed ^ CONFIG_MAP_SEED));
            }
        }
        if policies == Policies::Beside {
            let setting = &mut schedule.setting;
            setting.installation = match rng.random_ratio(1, 2) {
                true => Installation::BesideRollingBack,
                false => Installation::Beside,
            };
            // The built-in controller leaves that to the scheduler.
            setting.schedule_by_controller = false;
            // The replicas of two installations cost twice as much.
            setting.replicas = setting.replicas.min(2);
        }
        schedule
    }

    fn without_policies(seed: u64) -> Self {
        let rng = &mut Pcg64Mcg::seed_from_u64(seed);
        let (nodes_max, steps_max) = if rng.random_ratio(1, 4) { (5, 30) } else { (3, 12) };
        let setting = Setting {
            seed,
            nodes: rng.random_range(1..=nodes_max),
            nodes_max,
            // In some schedules the failure of a node is detected early.
            lease_ms: if rng.random_ratio(1, 2) { 10_000 } else { LEASE_NEVER_MS },
            burst_replicas: if rng.random_ratio(1, 4) { 2 } else { 250 },
            replicas: rng.random_range(1..=3),
            election: match rng.random_range(0..4) {
                0 => ElectionTiming::Fast,
                1 => ElectionTiming::Slow,
                _ => ElectionTiming::Rare,
            },
            ..Setting::DEFAULT
        };
        let faults = Faults::random(rng);
        let count = rng.random_range(steps_max / 4..=steps_max);
        let steps = (0..count).map(|_| Step::random(rng)).collect();
        let mut schedule = Self { setting, faults, steps };
        schedule.draw_features(&mut Pcg64Mcg::seed_from_u64(!seed));
        schedule
    }

    /// Draws what is not in every schedule.
    fn draw_features(&mut self, rng: &mut Pcg64Mcg) {
        let is_large = rng.random_ratio(1, 50);
        let setting = &mut self.setting;
        setting.api_servers = rng.random_range(1..=3);
        if rng.random_ratio(1, 4) {
            setting.rest_faults = rng.random_range(1..=REST_FAULTS_MAX);
        }
        setting.status_interval_ms = if rng.random_ratio(1, 2) { 1_000 } else { 0 };
        setting.namespace_node_selectors = rng.random_ratio(1, 2);
        if rng.random_ratio(1, 8) {
            setting.burst_replicas = rng.random_range(1..=250);
        }
        if is_large {
            setting.nodes_max = rng.random_range(6..=NODES_MAX);
            setting.nodes = rng.random_range(1..=setting.nodes_max);
            // The cost grows with both.
            self.steps.truncate(STEPS_OF_LARGE_MAX);
        }
        let kinds =
            [StepKind::Namespace, StepKind::Ownership, StepKind::Admission, StepKind::Percentage];
        for kind in kinds {
            if rng.random_ratio(1, 2) {
                self.insert_steps(kind, rng);
            }
        }
        if rng.random_ratio(1, 16)
            && let Some(step) = self.steps.choose_mut(rng)
        {
            step.pause_ms = rng.random_range(LONG_PAUSE_MS);
        }
        self.setting.schedule_by_controller = rng.random_ratio(1, 8);
        self.setting.wrong_clocks = rng.random_ratio(1, 3);
        if self.setting.wrong_clocks {
            self.insert_steps(StepKind::FenceLeader, rng);
        }
        if rng.random_ratio(1, 4) {
            self.setting.clock_drift_ppm = rng.random_range(1..=CLOCK_DRIFT_PPM_MAX);
        }
    }

    /// Gives the DaemonSet a policy at first, and inserts steps of guarded rollouts, on a fleet in
    /// motion. Most of them leave time for a wave.
    fn guard_rollouts(&mut self, rng: &mut Pcg64Mcg) {
        for _ in 0..2 {
            self.insert_steps(StepKind::Rollout, rng);
        }
        for step in self.steps.iter_mut().filter(|step| step.kind == StepKind::Rollout) {
            step.pause_ms = rng.random_range(0..ROLLOUT_PAUSE_MAX_MS);
        }
        for _ in 0..FLEET_STEPS {
            self.insert_steps(StepKind::Fleet, rng);
        }
        let first = Step { kind: StepKind::Policy, pause_ms: 5_000, ..Step::random(rng) };
        self.steps.insert(0, first);
    }

    /// Lets the policies of one schedule in three say what a rollout awaits at its end.
    fn wait_finally(&mut self, rng: &mut Pcg64Mcg) {
        if rng.random_ratio(2, 3) {
            return;
        }
        self.insert_steps(StepKind::Finally, rng);
        self.begin_after_policy(StepKind::Finally, rng);
    }

    /// Lets the policies of half of the schedules change pods in place.
    fn change_in_place(&mut self, rng: &mut Pcg64Mcg) {
        if rng.random_ratio(1, 2) {
            return;
        }
        for _ in 0..3 {
            self.insert_steps(StepKind::InPlace, rng);
        }
        self.begin_after_policy(StepKind::InPlace, rng);
    }

    /// Lets the policies of one schedule in three copy ConfigMaps.
    fn copy_config_maps(&mut self, rng: &mut Pcg64Mcg) {
        if rng.random_ratio(2, 3) {
            return;
        }
        for _ in 0..3 {
            self.insert_steps(StepKind::ConfigMap, rng);
        }
        self.begin_after_policy(StepKind::ConfigMap, rng);
    }

    /// Gives the steps of a kind other pauses, and inserts one right after the first policy.
    fn begin_after_policy(&mut self, kind: StepKind, rng: &mut Pcg64Mcg) {
        for step in self.steps.iter_mut().filter(|step| step.kind == kind) {
            step.pause_ms = rng.random_range(0..ROLLOUT_PAUSE_MAX_MS);
        }
        let is_policy = |step: &Step| step.kind == StepKind::Policy;
        let after = self.steps.iter().position(is_policy).map_or(0, |at| at + 1);
        self.steps.insert(after, Step { kind, pause_ms: 0, ..Step::random(rng) });
    }

    /// Inserts steps of this kind at random places.
    fn insert_steps(&mut self, kind: StepKind, rng: &mut Pcg64Mcg) {
        for _ in 0..rng.random_range(1..=EXTRA_STEPS_MAX) {
            let at = rng.random_range(0..=self.steps.len());
            self.steps.insert(at, Step { kind, ..Step::random(rng) });
        }
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
        let mut first = workload::manifest("a", 1);
        if self.setting.tolerates_all {
            first["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        }
        let created = world.registry().create(&DAEMON_SET, NAMESPACE, first, &options);
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
