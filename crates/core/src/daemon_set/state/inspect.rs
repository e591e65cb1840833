//! The state of one node for reports and forecasts. No decision reads this.

use std::sync::Arc;

use crate::api::{Budget, Now, PodName, RolloutReason, Timestamp, Uid, WaveName};
use crate::node_table::{NodeId, NodeTable};
use crate::ownership::Ownership;
use crate::placement::Eligibility;

use super::DaemonSetState;
use crate::node::{BudgetUse, NodeAssessment, Step, Wanted};

/// One node, as of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Whether the node should run a pod.
    pub eligibility: Eligibility,
    /// Whether the node keeps the revision that it has: its wave is not open, or nothing is
    /// replaced (G1).
    pub is_kept: bool,
    /// The next step of a rolling update.
    pub step: Step,
    /// Whether the node uses one of the budget that applies: `maxUnavailable` or `maxSurge` (C52,
    /// C53).
    pub uses_budget: bool,
    /// The pods on the node, oldest first.
    pub pods: Vec<InspectedPod>,
}

/// One pod, as of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedPod {
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: Uid,
    /// Whether it is of the current revision (C45).
    pub updated: bool,
    /// Whether it is available, or when it will be (C54).
    pub availability: Availability,
    /// Owned, or an orphan that will be adopted (C21).
    pub ownership: Ownership,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
}

/// Whether a pod is available, or when it will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is available.
    Available,
    /// It becomes available at this time if it stays ready.
    At(Timestamp),
    /// It is not ready, or nobody knows since when.
    Unknown,
}

impl Availability {
    /// When the pod becomes available, if that is known and lies ahead.
    pub const fn at(self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(at),
            Self::Available | Self::Unknown => None,
        }
    }
}

impl DaemonSetState {
    /// The state of a node right after a plan made at `now`.
    pub fn inspect(&self, id: NodeId, now: impl Into<Now>, nodes: &NodeTable) -> Inspection {
        let assessor = self.sync_input(now.into()).assessor();
        let slot = &self.slots[id.index()];
        debug_assert_eq!(
            slot.eligibility,
            self.evaluate(id, nodes).eligibility,
            "the node was applied"
        );
        let pods = slot.pods.as_slice().iter().map(|pod| InspectedPod {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            updated: assessor.is_updated(pod),
            availability: match assessor.becomes_available_at(pod) {
                _ if assessor.is_available(pod) => Availability::Available,
                Some(at) => Availability::At(at),
                None => Availability::Unknown,
            },
            ownership: if pod.is_orphan() { Ownership::Orphan } else { Ownership::Owned },
            terminating: pod.is_terminating(),
        });
        Inspection {
            eligibility: slot.eligibility,
            is_kept: slot.wanted == Wanted::Kept,
            step: slot.assessment.step,
            uses_budget: self.uses_budget(&slot.assessment),
            pods: pods.collect(),
        }
    }

    /// What the condition states of a guarded or paused rollout, as of the last plan: reason and
    /// message (G21).
    pub const fn stated_rollout(&self) -> Option<&(RolloutReason, Arc<str>)> {
        self.rollout.guarding.condition()
    }

    /// The wave that a guarded rollout is at, as of the last plan.
    pub fn wave(&self) -> Option<WaveName> {
        let policy = self.daemon_set.policy.valid()?;
        policy.wave_name(&self.rollout.guarding.moving()?.position)
    }

    /// Number of nodes that use one of the budget that applies, as of the last plan.
    pub fn budget_used(&self) -> usize {
        match self.daemon_set.budget(self.index.counts.desired) {
            None => 0,
            Some(Budget::Unavailable(_)) => self.index.counts.uses_unavailable,
            Some(Budget::Surge(_)) => self.index.counts.uses_surge,
        }
    }

    fn uses_budget(&self, assessment: &NodeAssessment) -> bool {
        match self.daemon_set.budget(self.index.counts.desired) {
            None => false,
            Some(Budget::Unavailable(_)) => assessment.budget_use.contains(BudgetUse::UNAVAILABLE),
            Some(Budget::Surge(_)) => assessment.budget_use.contains(BudgetUse::SURGE),
        }
    }
}
