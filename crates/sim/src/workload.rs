//! Random changes by users and by other components of the cluster.

mod admission;
pub mod config_map;
mod daemon_set;
mod finally;
mod fleet;
mod in_place;
mod namespace;
mod node;
mod ownership;
mod pod;
mod rollout;

use everynode_core::api::POLICY_ANNOTATION;
use everynode_sandbox::json::Value;
use everynode_sandbox::kinds::DAEMON_SET;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::world::World;

pub use daemon_set::manifest;

pub use crate::world::NAMESPACE;

/// An action after a pause. All other details are drawn from the step's own seed, so that they do
/// not change when other steps are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The pause before the action, in milliseconds.
    pub pause_ms: i64,
    /// The kind of action.
    #[serde(rename = "act")]
    pub kind: StepKind,
    /// The seed of all other details.
    #[serde(rename = "chance")]
    pub seed: u64,
}

/// A kind of action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// A DaemonSet or a revision is changed.
    DaemonSet,
    /// A node is changed.
    Node,
    /// A pod is changed.
    Pod,
    /// The leader crashes.
    #[serde(rename = "crash")]
    CrashLeader,
    /// The leader is cut off, stopped, or its clock is set.
    #[serde(rename = "depose")]
    FenceLeader,
    /// The budget of a DaemonSet is set to a percentage.
    Percentage,
    /// The second namespace or its DaemonSet is changed.
    Namespace,
    /// ownerReferences, finalizers or labels are changed.
    Ownership,
    /// A webhook or a quota refuses or changes created pods for a while.
    Admission,
    /// The DaemonSet gets a policy that guards its rollouts.
    Policy,
    /// A template, a policy, an order or what a guarded rollout depends on is changed.
    Rollout,
    /// A node joins, leaves, goes down, comes back or loses its pods, or a template leaves nodes.
    Fleet,
    /// The conditions at the end of a rollout are set, or somebody decides about its last wave.
    Finally,
    /// A policy gets or loses `update`, or a template changes whose pods are changed in place.
    InPlace,
    /// A policy begins or ceases to copy ConfigMaps, or one of them changes.
    ConfigMap,
    /// Nothing happens.
    Nothing,
}

impl Step {
    /// Draws a step.
    pub fn random(rng: &mut Pcg64Mcg) -> Self {
        let pause_ms = match rng.random_range(0..10) {
            0..5 => rng.random_range(0..200),
            5..9 => rng.random_range(200..4_000),
            _ => rng.random_range(4_000..60_000),
        };
        let kind = match rng.random_range(0..100) {
            0..36 => StepKind::DaemonSet,
            36..62 => StepKind::Node,
            62..93 => StepKind::Pod,
            93..95 => StepKind::CrashLeader,
            95..97 => StepKind::FenceLeader,
            _ => StepKind::Nothing,
        };
        Self { pause_ms, kind, seed: rng.next_u64() }
    }

    /// Waits for the pause and performs the action.
    pub fn run(self, world: &mut World) {
        world.run_for(self.pause_ms);
        if world.violation.is_some() {
            return;
        }
        let rng = &mut Pcg64Mcg::seed_from_u64(self.seed);
        match self.kind {
            StepKind::DaemonSet => daemon_set::change(world, rng),
            StepKind::Node => node::change(world, rng),
            StepKind::Pod => pod::change(world, rng),
            StepKind::CrashLeader => world.crash_leader(),
            StepKind::FenceLeader => match rng.random_range(0..4) {
                0 => {
                    world.terminate_leader();
                }
                1 => world.set_clock_of_leader(),
                _ => world.fence_leader(),
            },
            StepKind::Percentage => daemon_set::change_percentage(world, rng),
            StepKind::Namespace => namespace::change(world, rng),
            StepKind::Ownership => ownership::change(world, rng),
            StepKind::Admission => admission::change(world, rng),
            StepKind::Policy => rollout::begin(world, rng),
            StepKind::Rollout => rollout::change(world, rng),
            StepKind::Fleet => fleet::change(world, rng),
            StepKind::Finally => finally::change(world, rng),
            StepKind::InPlace => in_place::change(world, rng),
            StepKind::ConfigMap => config_map::change(world, rng),
            StepKind::Nothing => {}
        }
        world.settle();
    }
}

/// Removes what keeps the cluster from coming to rest: all nodes are up, and all pods can become
/// ready.
pub fn repair(world: &mut World) {
    admission::repair(world);
    namespace::repair(world);
    node::repair(world);
    fleet::repair(world);
    in_place::repair(world);
    config_map::repair(world);
    // A pod may be ready only as long as its node has another lifecycle: kubelets act first.
    world.settle();
    pod::repair(world);
    ownership::repair(world);
    rollout::repair(world);
    world.settle();
}

/// The DaemonSet a and its policy, if that is valid.
fn guarded(world: &World) -> Option<(Value, Value)> {
    let ds = world.stored(&DAEMON_SET, NAMESPACE, "a")?;
    let policy = valid_policy(&ds)?;
    Some((ds, policy))
}

/// The policy of a DaemonSet, if it is valid.
fn valid_policy(ds: &Value) -> Option<Value> {
    let text = ds["metadata"]["annotations"][POLICY_ANNOTATION].as_str()?;
    let policy: Value = serde_json::from_str(text).ok()?;
    (policy.is_object() && policy["unknown"].is_null()).then_some(policy)
}

fn pick<T: Clone>(rng: &mut Pcg64Mcg, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())].clone()
}
