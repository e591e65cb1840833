//! The writes of a plan, each with the reason that allows it.

use std::collections::BTreeMap;

/// The writes of pods of a plan, with the reason for each.
#[derive(Debug, Default)]
pub(super) struct JudgedPlan {
    /// By the pod's UID.
    pub deletions: BTreeMap<String, Deletion>,
    /// Those that are changed in place instead, by the pod's UID (G56).
    pub changes: BTreeMap<String, Deletion>,
    /// By the node.
    pub creations: BTreeMap<String, Creation>,
}

/// A reason to delete a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deletion {
    /// The node must not run the pod (C23).
    Misplaced,
    /// The node does not exist, and the pod was never bound to it (C27).
    NodeIsGone,
    /// The pod has failed (C24).
    Failed,
    /// The pod has succeeded (C24).
    Succeeded,
    /// An older pod is there (C25, C26).
    Surplus,
    /// The new pod beside it is available, or the pod itself is not ready (C26, C53).
    Superseded,
    /// The pod is old and not available (C52, C53).
    OldAndUnavailable,
    /// The pod is old, and the budget allows it (C52).
    WithinBudget,
    /// The pod is of the target and available, nodes go back to the base, and the budget allows it
    /// (G41).
    GoingBack,
    /// Only the target's own placement removes the pod, which is available, and the budget allows
    /// it (G42).
    Removed,
    /// The pod cannot be changed in place to the revision that is wanted, although that has begun
    /// (G56).
    Unchangeable,
    /// The budget allows it, but nothing shows whether the pod is old: its revision has no label,
    /// or is gone.
    Permitted,
}

/// A reason to create a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Creation {
    /// The node has none (C23).
    Missing,
    /// The old pod of the node is not available (C53).
    SurgeAtOnce,
    /// The old pod of the node is available, and `maxSurge` allows a second one (C53).
    SurgeWithinBudget,
}

impl JudgedPlan {
    /// The pods that are deleted or changed in place, by UID, with the reasons.
    pub(super) fn replaced(&self) -> impl Iterator<Item = (&String, &Deletion)> {
        self.deletions.iter().chain(&self.changes)
    }
}

impl Deletion {
    /// True if the pod has ended, so that the next such deletion on its node is delayed (C24).
    pub(super) const fn is_of_ended_pod(self) -> bool {
        matches!(self, Self::Failed | Self::Succeeded)
    }

    /// The name of the reason in coverage.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Misplaced => "the node must not run it",
            Self::NodeIsGone => "the node is gone",
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
            Self::Surplus => "surplus",
            Self::Superseded => "superseded by a surge",
            Self::OldAndUnavailable => "old and not available",
            Self::WithinBudget => "old, within the budget",
            Self::GoingBack => "of a failed target, within the budget",
            Self::Removed => "removed by the target's placement",
            Self::Unchangeable => "cannot be changed in place",
            Self::Permitted => "excused",
        }
    }
}
