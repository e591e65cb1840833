//! The status of a node in its waves: the pods it has, and whether it is done or has failed (G11,
//! G15).

use std::time::Duration;

use crate::api::{Node, Timestamp};
use crate::node::{NodeProgress, Slot, Wanted};
use crate::node_table::NodeId;
use crate::placement;

use super::super::input::RolloutInput;
use super::Waves;

/// The parts of a node's assessment that waves read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeStatus {
    pub holding: Holding,
    /// Whether nothing is left to do there.
    pub is_done: bool,
    /// Whether it has been without an available pod for too long, or its pod has failed (G15).
    pub has_failed: bool,
}

/// The pods that a node has, compared with those that it should have. All but the first make it a
/// member of its groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Holding {
    /// It has no pod, and should run none.
    #[default]
    Nothing,
    /// It has no pod, and should run none of the target, but one of the revision that governs it.
    NothingOfTarget,
    /// It has a pod of another revision, or should run one of the target and has none.
    Outdated,
    /// It has a pod of the target.
    Target,
}

impl NodeStatus {
    pub(super) const fn is_member(self) -> bool {
        match self.holding {
            Holding::Nothing => false,
            Holding::NothingOfTarget | Holding::Outdated | Holding::Target => true,
        }
    }
}

impl Holding {
    fn new(node: &Node, slot: &Slot, input: &RolloutInput<'_>) -> Self {
        let pods = || slot.pods.as_slice().iter().filter(|pod| pod.counts());
        let has_target = || pods().any(|pod| input.labels.is_updated(pod.labels));
        let should_run_target = || match slot.wanted {
            Wanted::Target => slot.eligibility.should_run(),
            Wanted::Kept | Wanted::Base => {
                let placement = &input.daemon_set.template.placement;
                let selector = input.namespace_node_selector;
                placement::eligibility(placement, selector, node).should_run()
            }
        };
        match slot.wanted {
            Wanted::Target if has_target() => Self::Target,
            _ if pods().next().is_some() || should_run_target() => Self::Outdated,
            _ if slot.eligibility.should_run() => Self::NothingOfTarget,
            Wanted::Target | Wanted::Kept | Wanted::Base => Self::Nothing,
        }
    }
}

impl Waves {
    /// Applies a node's assessment; the node is `None` if it was deleted. Returns when the node has
    /// failed unless its pod becomes available before.
    pub(crate) fn apply_slot(
        &mut self,
        id: NodeId,
        node: Option<&Node>,
        slot: &Slot,
        input: &RolloutInput<'_>,
    ) -> Option<Timestamp> {
        let Some(node) = node else {
            self.apply_status(id, NodeStatus::default());
            return None;
        };
        let now = input.now.steady;
        let rule = input.policy().and_then(|policy| policy.failure);
        let limit = rule.and_then(|rule| rule.ready_within).map(|ready_within| {
            ready_within + Duration::from_secs(input.daemon_set.min_ready_seconds.into())
        });
        let is_starting = slot.assessment.progress == NodeProgress::Starting;
        let since = self.starting_since(id, is_starting, now);
        let fails_at = since.zip(limit).map(|(since, limit)| since + limit);
        // A failed pod is deleted soon: its node has failed until another one is available.
        let is_failing = slot.assessment.has_failed || fails_at.is_some_and(|at| at <= now);
        let is_done =
            slot.wanted == Wanted::Target && slot.assessment.progress == NodeProgress::Done;
        let status = NodeStatus {
            holding: Holding::new(node, slot, input),
            is_done,
            has_failed: rule.is_some() && (is_failing || self.has_failed(id) && is_starting),
        };
        self.apply_status(id, status);
        fails_at.filter(|at| *at > now)
    }
}
