//! A node's slot: whether the node is eligible, its pods, and its last assessment.

use bitflags::bitflags;

use crate::node_table::NodeId;
use crate::placement::Eligibility;

use super::pods::NodePods;

/// The state of one node for one DaemonSet.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub pods: NodePods,
    pub eligibility: Eligibility,
    /// Which pods the rollout wants here.
    pub wanted: Wanted,
    /// The state of the node's wave.
    pub wave: Wave,
    /// The last assessment, which counts and sets contain.
    pub assessment: NodeAssessment,
    pub flags: SlotFlags,
}

bitflags! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct SlotFlags: u8 {
        /// Only the target's placement removes the node's pod: its own revision would allow it
        /// (G42).
        const LOSES_POD = 1;
        /// The next plan assesses the slot again.
        const MARKED = 1 << 1;
        /// Since the last assessment a pod has left the node before it was ready, and this
        /// controller has not deleted it.
        const LOST_POD = 1 << 2;
        /// A pod of a former DaemonSet has yet to end there (C36).
        const FORMER_POD = 1 << 3;
        /// The node's kubelet does not answer, and rolling updates leave such nodes alone (C58).
        const UNREACHABLE = 1 << 4;
        /// It has no pod, and neither the target nor the base may run there, as because of a taint.
        const BARRED = 1 << 5;
    }
}

/// Which pods a rollout wants on a node. All others are older, and are replaced if it replaces any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Those of the target.
    #[default]
    Target,
    /// Those that are there: none of them is replaced.
    Kept,
    /// Those of the base, to which a failed rollout goes back.
    Base,
}

/// The permission of a policy that a node has the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wave {
    /// It does not yet.
    #[default]
    Closed,
    /// It does: the node gets the target (G1).
    Open,
    /// It excludes the node from rollouts, forward and back (G5).
    Held,
    /// The same, but the rollout had begun on the node before: forward, it is one of its open wave
    /// (G33).
    HeldTooLate,
}

impl Wave {
    /// True if the node gets the target.
    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::HeldTooLate)
    }

    /// True if the policy excludes the node from rollouts that begin there.
    pub(crate) const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::HeldTooLate)
    }
}

impl Slot {
    /// True if there is neither a node nor a pod, so that the slot's number may be reused.
    pub(crate) fn is_vacant(&self) -> bool {
        self.eligibility == Eligibility::NoNode && self.pods.as_slice().is_empty()
    }

    /// True if the node gets no new pod, but may keep the one that it has, because of a NoSchedule
    /// taint or the node selector of the namespace (C57).
    pub(crate) fn only_keeps(&self) -> bool {
        self.eligibility == Eligibility::ContinueRunning
            && !self.flags.contains(SlotFlags::LOSES_POD)
    }

    /// Makes the next plan assess the slot again.
    pub(crate) fn mark(&mut self, id: NodeId, marked: &mut Vec<NodeId>) {
        if !self.flags.contains(SlotFlags::MARKED) {
            self.flags |= SlotFlags::MARKED;
            marked.push(id);
        }
    }
}

/// The contribution of a node to counts and sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeAssessment {
    pub scheduling: Scheduling,
    pub budget_use: BudgetUse,
    pub progress: NodeProgress,
    pub work: Work,
    pub step: Step,
}

/// How the status counts a node, of whose pods only the oldest counts (C70).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// It should run no pod, and does not, or the node does not exist.
    #[default]
    Unneeded,
    /// It should run no pod, and does.
    Misscheduled,
    /// It should run a pod, and does not.
    Missing,
    /// It should run a pod, and does.
    Scheduled { health: Health, is_updated: bool },
}

/// The health of a pod. Each state includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    NotReady,
    Ready,
    /// Ready for `minReadySeconds` (C54).
    Available,
}

bitflags! {
    /// How a node counts for the budgets of a rolling update.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct BudgetUse: u8 {
        /// It uses one of `maxUnavailable` (C52). Assessed with surge, too: which budget applies
        /// depends on the number of desired nodes (C51).
        const UNAVAILABLE = 1;
        /// With surge: it uses one of `maxSurge` (C53).
        const SURGE = 1 << 1;
        /// An earlier guarded rollout took its available pod away (G14).
        const TAKEN = 1 << 2;
        /// Somebody is asked whether its old pod, which is available, may go (G54).
        const ASKED = 1 << 3;
        /// Its pod was changed in place, and is not available (G57).
        const CHANGED = 1 << 4;
        /// Its kubelet does not answer, so overrides that are those of running pods do not count
        /// it, whatever else it uses (G57).
        const UNREACHABLE = 1 << 5;
    }
}

/// The progress of a guarded rollout on a node. `NotBegun` also without a guard, on a
/// node that keeps its pods, and with a strategy that is no rolling update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeProgress {
    #[default]
    NotBegun,
    /// It has begun, and is not done (G14).
    InFlight,
    /// In flight, and the node is without a pod, or has a new one that is not available (G34).
    Starting,
    /// Nothing is left to do on the node if its wave is open (G11).
    Done,
}

bitflags! {
    /// The writes that a node needs beside its [`Step`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Work: u8 {
        /// A pod must be created (C23).
        const CREATE = 1;
        /// Some pods must be deleted whatever their revision (C23, C25–C27).
        const DELETE_SURPLUS = 1 << 1;
        /// Some failed or succeeded pods may be deleted now (C24).
        const DELETE_ENDED = 1 << 2;
        /// Some pods must be adopted (C21).
        const ADOPT = 1 << 3;
        /// Its pod of the target must state that the node is updated (G54).
        const TELL = 1 << 4;
        /// A pod is being changed in place (G56).
        const CHANGE = 1 << 5;
    }
}

impl NodeAssessment {
    /// True if the node should run a pod.
    pub(crate) const fn is_desired(&self) -> bool {
        matches!(self.scheduling, Scheduling::Missing | Scheduling::Scheduled { .. })
    }

    /// True if the node should run a pod, and the oldest is available.
    pub(crate) const fn is_available(&self) -> bool {
        matches!(self.scheduling, Scheduling::Scheduled { health: Health::Available, .. })
    }
}

impl NodeProgress {
    /// True if the rollout has begun on the node and is not done there (G14).
    pub(crate) const fn is_in_flight(self) -> bool {
        matches!(self, Self::InFlight | Self::Starting)
    }
}

/// The next step of a rolling update on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do.
    #[default]
    None,
    /// Delete the old pod, which is not available. With surge: only on a node that should get no
    /// new pod (C52, C53).
    ReplaceNow,
    /// Delete the old pod if the budget allows it (C52). With surge: only on a node that should get
    /// no new pod (G42).
    Replace,
    /// Create a new pod beside the old one, which is not available (C53).
    SurgeNow,
    /// Create a new pod beside the old one if the `maxSurge` budget allows it (C53).
    Surge,
    /// Delete the old pod: the new one is available (C53), or the old one is not, and somebody
    /// agrees (G54).
    DeleteOld,
    /// Delete the old pod if the budget allows it: it is available, and somebody agrees (G54).
    DeleteAgreed,
    /// Change the pod, which is not available or has just started, to the override of its node
    /// (G57).
    OverrideNow,
    /// The same if the budget allows it: the pod is available.
    Override,
}

impl Step {
    /// True if the step begins to replace the old pod.
    pub(crate) const fn begins(self) -> bool {
        match self {
            Self::ReplaceNow | Self::Replace | Self::SurgeNow | Self::Surge => true,
            Self::None
            | Self::DeleteOld
            | Self::DeleteAgreed
            | Self::OverrideNow
            | Self::Override => false,
        }
    }

    /// True if the step creates a pod.
    pub(crate) const fn creates(self) -> bool {
        match self {
            Self::SurgeNow | Self::Surge => true,
            Self::None
            | Self::ReplaceNow
            | Self::Replace
            | Self::DeleteOld
            | Self::DeleteAgreed
            | Self::OverrideNow
            | Self::Override => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::PodView;

    /// C80: a node needs one slot, and each of its pods one view and a name. The allocator of the
    /// program has blocks of 80, 96 and 112 bytes.
    #[test]
    fn a_slot_and_a_pod_need_tens_of_bytes_each() {
        assert!(size_of::<Slot>() <= 40, "{}", size_of::<Slot>());
        assert!(size_of::<PodView>() <= 96, "{}", size_of::<PodView>());
    }
}
