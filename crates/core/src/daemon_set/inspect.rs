//! What is known of one node, for people and for forecasts. Nothing here decides.

use crate::api::{Budget, PodName, Timestamp, Uid};
use crate::nodes::{NodeId, Nodes};
use crate::placement::Eligibility;

use super::DaemonSetState;
use super::assess::{Judge, Standing, Step};

/// One node, as of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub eligibility: Eligibility,
    /// The rolling update's next step here.
    pub step: Step,
    /// Whether it uses up one of the budget that is in force: `maxUnavailable` or `maxSurge` (C52, C53).
    pub uses_budget: bool,
    /// Oldest first.
    pub pods: Vec<InspectedPod>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedPod {
    pub name: PodName,
    pub uid: Uid,
    /// Whether it is of the current revision (C45).
    pub updated: bool,
    /// C54
    pub available: bool,
    /// When it becomes available if it stays ready.
    pub available_at: Option<Timestamp>,
    /// It is to be adopted (C21).
    pub orphan: bool,
    pub terminating: bool,
}

impl DaemonSetState {
    /// What is known of a node, right after a plan made at `now`.
    pub fn inspect(&self, id: NodeId, now: Timestamp, nodes: &Nodes) -> Inspection {
        let judge = Judge::new(&self.daemon_set, &self.carried, now);
        let slot = &self.slots[id.index()];
        debug_assert_eq!(slot.eligibility, self.evaluate(id, nodes), "nodes are applied");
        let pods = slot.pods.as_slice().iter().map(|pod| InspectedPod {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            updated: judge.is_updated(pod),
            available: judge.is_available(pod),
            available_at: judge.becomes_available_at(pod),
            orphan: pod.orphan,
            terminating: pod.terminating,
        });
        Inspection {
            eligibility: slot.eligibility,
            step: slot.standing.step,
            uses_budget: self.uses_budget(&slot.standing),
            pods: pods.collect(),
        }
    }

    /// How many nodes use up the budget that is in force, as of the last plan.
    pub fn budget_used(&self) -> usize {
        match self.daemon_set.update_strategy.budget(self.tally.desired) {
            None => 0,
            Some(Budget::Unavailable(_)) => self.tally.uses_unavailable,
            Some(Budget::Surge(_)) => self.tally.uses_surge,
        }
    }

    fn uses_budget(&self, standing: &Standing) -> bool {
        match self.daemon_set.update_strategy.budget(self.tally.desired) {
            None => false,
            Some(Budget::Unavailable(_)) => standing.uses_unavailable,
            Some(Budget::Surge(_)) => standing.uses_surge,
        }
    }
}
