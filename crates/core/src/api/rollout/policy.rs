//! The policy of a guarded rollout (G4, G5).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{IntOrPercent, LabelSelector, Problem};

use super::check::RolloutCheck;
use super::record::{Position, WaveName};
use super::window::Windows;

/// The label that excludes a node from rollouts, unless the policy selects others (G5).
pub const HOLD_LABEL: &str = "everynode.dev/hold";

/// The annotation of a DaemonSet that holds a rollout policy as YAML (G4).
pub const POLICY_ANNOTATION: &str = "everynode.dev/rollout-policy";

/// The policy that guards the rollouts of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PolicySource {
    /// No policy selects the DaemonSet: its rollouts are not guarded (G2).
    #[default]
    None,
    /// What says how it is rolled out cannot be followed, for this reason: no pod is replaced
    /// (G7). A [`Problem`](super::Problem) reports it.
    Invalid(Arc<str>),
    /// This policy.
    Valid(Arc<RolloutPolicy>),
}

/// How new templates of a DaemonSet are rolled out. The default has neither steps nor limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutPolicy {
    /// `paused`: no pod is replaced (G6).
    pub paused: bool,
    /// `steps`, by which nodes get a new template; all other nodes get it after the last one.
    pub steps: Vec<RolloutStep>,
    /// Identifies the content of `steps`, so that a record can state by which steps it was made.
    pub steps_hash: Arc<str>,
    /// `maxUnavailable`: maximum number of desired nodes without an available pod. The smaller of
    /// this and that of the DaemonSet holds.
    pub max_unavailable: Option<IntOrPercent>,
    /// `maxUnavailablePer`: the same for the nodes of each group.
    pub max_unavailable_per: Option<GroupLimit>,
    /// `podsPerMinute`: maximum number of nodes on which the rollout begins within a minute.
    pub pods_per_minute: Option<NonZeroU32>,
    /// `windows`: when pods are replaced.
    pub windows: Windows,
    /// `failure`: when a rollout fails. Without it, it never does.
    pub failure: Option<FailureRule>,
    /// `hold`: nodes whose pods are not replaced.
    pub hold: LabelSelector,
    /// `checks`, of which steps name those that their waves must pass.
    pub checks: Vec<RolloutCheck>,
}

/// A limit for each group of nodes that have the same value of a label. Nodes without the label
/// are a group of their own (G13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// `label`: the key of the label.
    pub label: Arc<str>,
    /// `max`: maximum number of unavailable nodes of a group; a percentage is one of its nodes that
    /// should run a pod, rounded up.
    pub max: IntOrPercent,
}

/// When a node fails, how many may, and what happens then (G15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRule {
    /// `maxNodes`: maximum number of failed nodes; a percentage is one of the nodes that have a pod
    /// of the target, rounded down.
    pub max_nodes: IntOrPercent,
    /// `maxRestarts`: maximum number of restarts of a container of a new pod.
    pub max_restarts: Option<u8>,
    /// `readyWithin`: how long a node may be without an available pod once its old pod is gone or
    /// its new one is there, in addition to `minReadySeconds`.
    pub ready_within: Option<Duration>,
    /// `rollbackAfter`: how long after the failure nodes go back to the base; `None` if they keep
    /// what they have until somebody decides.
    pub rollback_after: Option<Duration>,
}

/// One of the `steps` of a policy: one wave for each size, for each value of `by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStep {
    /// `name`, unique in the policy.
    pub name: Arc<str>,
    /// `nodes`: the nodes of the step.
    pub nodes: LabelSelector,
    /// `by`: the key of the label whose values divide these nodes into groups, which are updated
    /// one after the other in the order of the values; nodes without the label are the last group.
    pub by: Option<Arc<str>>,
    /// `upTo`: how many nodes of a group have the new template after each wave. Not empty.
    pub up_to: Vec<IntOrPercent>,
    /// `bake`: how long all nodes of a wave must have been updated and available.
    pub bake: Duration,
    /// `checks`: the names of the policy's checks that each wave must pass.
    pub checks: Vec<Arc<str>>,
    /// `approval`: whether somebody must approve each wave before the next one begins.
    pub approval: bool,
}

impl PolicySource {
    /// The policy, if it can be followed.
    pub const fn valid(&self) -> Option<&Arc<RolloutPolicy>> {
        match self {
            Self::None | Self::Invalid(_) => None,
            Self::Valid(policy) => Some(policy),
        }
    }

    /// The problem to report, if it cannot be followed.
    pub(crate) fn problem(&self) -> Option<Problem> {
        match self {
            Self::None | Self::Valid(_) => None,
            Self::Invalid(message) => Some(Problem::Policy { message: message.clone() }),
        }
    }
}

impl RolloutPolicy {
    /// The step of a position; `None` after the last one.
    pub fn step(&self, position: &Position) -> Option<&RolloutStep> {
        match position {
            Position::AllNodes => None,
            Position::Wave(wave) => self.steps.get(wave.step),
        }
    }

    /// The checks that the waves of a step must pass.
    pub fn checks_of<'a>(
        &'a self,
        step: &'a RolloutStep,
    ) -> impl Iterator<Item = &'a RolloutCheck> {
        let find = |name: &Arc<str>| self.checks.iter().find(|check| check.name == *name);
        step.checks.iter().filter_map(find)
    }

    /// The name of the wave at a position; `None` after the last step.
    pub fn wave_name(&self, position: &Position) -> Option<WaveName> {
        let Position::Wave(wave) = position else { return None };
        let step = self.step(position)?;
        let mut name = step.name.to_string();
        if step.by.is_some() {
            name += &format!("/{}", wave.group);
        }
        if let Some(size) = step.up_to.get(wave.size).filter(|_| step.up_to.len() > 1) {
            name += &format!(":{size}");
        }
        Some(name.as_str().into())
    }
}

impl RolloutStep {
    /// Whether something is awaited between the waves of this step, beside their completion.
    pub fn has_wait(&self) -> bool {
        self.approval || !self.bake.is_zero() || !self.checks.is_empty()
    }
}
