//! The state of one node for reports and forecasts. No decision reads this.

use crate::api::{Budget, PodName, Timestamp, Uid};
use crate::node::{Assessor, BudgetUse, Slot, Step, Wanted};
use crate::ownership::Ownership;
use crate::placement::Eligibility;

/// One node, as of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The answer if the node should run a pod.
    pub eligibility: Eligibility,
    /// True if the node keeps the revision that it has: its wave is not open, or nothing is
    /// replaced (G1).
    pub is_kept: bool,
    /// The next step of a rolling update.
    pub step: Step,
    /// True if the node uses one of the budget that applies: `maxUnavailable` or `maxSurge` (C52,
    /// C53).
    pub uses_budget: bool,
    /// The pods on the node, oldest first.
    pub pods: Vec<InspectedPod>,
    /// Pods of a former DaemonSet that have yet to end there (C36).
    pub former_pods: Vec<PodName>,
}

/// One pod, as of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedPod {
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: Uid,
    /// True if it is of the current revision (C45).
    pub updated: bool,
    /// Its availability, or when it will be available (C54).
    pub availability: Availability,
    /// Owned, or an orphan that will be adopted (C21).
    pub ownership: Ownership,
    /// True if it has a deletion timestamp.
    pub terminating: bool,
}

/// The availability of a pod, or when it will be available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is available.
    Available,
    /// It becomes available at this time if it stays ready.
    At(Timestamp),
    /// It is not ready, or since when is unknown.
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

impl Inspection {
    /// `budget` is the one that applies.
    pub(super) fn new(slot: &Slot, assessor: &Assessor<'_>, budget: Option<Budget>) -> Self {
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
        let budget_use = slot.assessment.budget_use;
        Self {
            eligibility: slot.eligibility,
            is_kept: slot.wanted == Wanted::Kept,
            step: slot.assessment.step,
            uses_budget: match budget {
                None => false,
                Some(Budget::Unavailable(_)) => budget_use.contains(BudgetUse::UNAVAILABLE),
                Some(Budget::Surge(_)) => budget_use.contains(BudgetUse::SURGE),
            },
            pods: pods.collect(),
            former_pods: Vec::new(),
        }
    }
}
