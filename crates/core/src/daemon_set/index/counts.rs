//! Counts over all nodes.

use crate::node::{BudgetUse, Direction, Health, NodeAssessment, Scheduling};

/// The counts that the status reports and that budgets are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes that should run a pod: `desiredNumberScheduled`.
    pub desired: usize,
    /// Desired nodes with a pod: `currentNumberScheduled`.
    pub current: usize,
    /// Nodes that should not run a pod and do: `numberMisscheduled`.
    pub misscheduled: usize,
    /// Desired nodes whose oldest pod is ready: `numberReady`.
    pub ready: usize,
    /// Desired nodes whose oldest pod is available: `numberAvailable`.
    pub available: usize,
    /// Desired nodes whose oldest pod is of the current revision: `updatedNumberScheduled`.
    pub updated: usize,
    /// Nodes that use one of `maxUnavailable`, in a rolling update (C52).
    pub uses_unavailable: usize,
    /// Nodes that use one of `maxSurge`, with surge only (C53).
    pub uses_surge: usize,
    /// Nodes on which a guarded rollout has begun and is not done (G14).
    pub in_flight: usize,
    /// Nodes that use the budget of a guarded rollout that goes forward (G14).
    pub in_use: usize,
    /// The same without those whose kubelets do not answer, and nodes whose pod an override has
    /// changed that is not available (G57).
    pub in_use_or_changed: usize,
    /// Nodes of which an earlier guarded rollout took the available pod away (G14), or another
    /// override (G57).
    pub taken: usize,
    /// Nodes of which somebody is asked whether the old pod may go, which is available (G54).
    pub asked: usize,
}

impl NodeCounts {
    pub(in crate::daemon_set) fn add(&mut self, assessment: &NodeAssessment) {
        for (count, counts) in self.counts(assessment) {
            *count += usize::from(counts);
        }
    }

    pub(in crate::daemon_set) fn remove(&mut self, assessment: &NodeAssessment) {
        for (count, counts) in self.counts(assessment) {
            *count -= usize::from(counts);
        }
    }

    /// True if all desired nodes have an available pod of the target, and no other node has a pod.
    pub(in crate::daemon_set) const fn is_rolled_out(&self) -> bool {
        self.updated == self.desired && self.available == self.desired && self.misscheduled == 0
    }

    /// The number of available old pods that may go now because somebody agrees: nodes of which
    /// somebody is asked use the budget, but lack no pod yet.
    pub(in crate::daemon_set) const fn room_for_agreed(&self, max: usize) -> usize {
        max.saturating_sub(self.in_use - self.asked)
    }

    /// True if one such pod may go although there is no room, because the rollout is at work on no
    /// node (G14).
    pub(in crate::daemon_set) const fn may_let_one_go(&self) -> bool {
        self.in_flight == self.asked && self.taken == 0
    }

    /// On how many more nodes an available pod may get another override (G57).
    pub(in crate::daemon_set) const fn room_for_overrides(&self, max: usize) -> usize {
        max.saturating_sub(self.in_use_or_changed)
    }

    fn counts(&mut self, assessment: &NodeAssessment) -> [(&mut usize, bool); 13] {
        let NodeAssessment { scheduling, budget_use, progress, .. } = *assessment;
        let (health, is_updated) = match scheduling {
            Scheduling::Scheduled { health, is_updated } => (Some(health), is_updated),
            Scheduling::Unneeded | Scheduling::Misscheduled | Scheduling::Missing => (None, false),
        };
        let is_unavailable = budget_use.contains(BudgetUse::UNAVAILABLE);
        let is_in_use = progress.is_in_flight() || is_unavailable;
        let is_in_use_or_changed = is_in_use && !budget_use.contains(BudgetUse::UNREACHABLE)
            || budget_use.contains(BudgetUse::CHANGED);
        [
            (&mut self.desired, assessment.is_desired()),
            (&mut self.current, health.is_some()),
            (&mut self.misscheduled, scheduling == Scheduling::Misscheduled),
            (&mut self.ready, health >= Some(Health::Ready)),
            (&mut self.available, health == Some(Health::Available)),
            (&mut self.updated, is_updated),
            (&mut self.uses_unavailable, is_unavailable),
            (&mut self.uses_surge, budget_use.contains(BudgetUse::SURGE)),
            (&mut self.in_flight, progress.is_in_flight()),
            (&mut self.in_use, is_in_use),
            (&mut self.in_use_or_changed, is_in_use_or_changed),
            (&mut self.taken, budget_use.contains(BudgetUse::TAKEN)),
            (&mut self.asked, budget_use.contains(BudgetUse::ASKED)),
        ]
    }
}

/// On how many more nodes a rolling update may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon_set) struct Room {
    /// In all.
    pub nodes: usize,
    /// Of these, nodes whose old pod is available and is deleted first.
    pub available: usize,
    /// Of these, nodes whose old pod is available and gets a new one beside it.
    pub starting: usize,
}

impl Room {
    pub(super) const ONE: Self = Self { nodes: 1, available: 1, starting: 1 };

    /// The room that is left of a maximum. Unguarded, unavailable old pods need none (C52, C53).
    /// Forward, nodes on which the rollout has begun use it, available before or not (G14). Back,
    /// unavailable pods need none (G41).
    pub(in crate::daemon_set) fn new(
        guarded: Option<Direction>,
        max: usize,
        counts: &NodeCounts,
    ) -> Self {
        let available = max.saturating_sub(counts.uses_unavailable);
        let not_begun = max.saturating_sub(counts.in_flight);
        match guarded {
            None => Self { nodes: usize::MAX, available, starting: usize::MAX },
            Some(Direction::Back) => Self { nodes: usize::MAX, available, starting: not_begun },
            Some(Direction::Forward) => {
                let unused = max.saturating_sub(counts.in_use);
                Self { nodes: not_begun, available: unused, starting: unused }
            }
        }
    }

    /// The same, and one node while no rollout is at work on any (G14).
    pub(in crate::daemon_set) fn or_one(self, counts: &NodeCounts) -> Self {
        let first = usize::from(counts.in_flight == 0);
        let available = if counts.taken == 0 { first } else { 0 };
        Self {
            nodes: self.nodes.max(first),
            available: self.available.max(available),
            starting: self.starting.max(available),
        }
    }

    /// The rest after the rollout begins on this many nodes. Of those whose old pod is not
    /// available some may have used the budget before: if so, the next plan has more room.
    pub(in crate::daemon_set) fn after(self, begun: usize) -> Self {
        // Unguarded and back, those need no room.
        let used = if self.nodes == usize::MAX { 0 } else { begun };
        Self {
            nodes: self.nodes.saturating_sub(used),
            available: self.available.saturating_sub(used),
            starting: self.starting.saturating_sub(begun),
        }
    }
}
