//! The state of a node in a guarded rollout, and what follows from it for the node's assessment
//! (G14, G31, G33, G41).

use super::slot::{BudgetUse, NodeAssessment, NodeProgress, Step};

/// The state of a node in a guarded rollout (G31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Its pod has another revision, and the rollout has done nothing there.
    Waiting {
        /// Since when its pod is not available.
        outage: Outage,
    },
    /// It is its turn, and somebody is asked whether its old pod may go (G54).
    Asked {
        /// True if somebody agrees.
        is_agreed: bool,
    },
    /// It is its turn, and its old pod waits until the node has the images of the target (G55).
    Pulling {
        /// True if it has pulled them for too long, or failed to, and nobody is blamed for that.
        is_overdue: bool,
        /// Since when its pod is not available.
        outage: Outage,
    },
    /// The rollout has begun on it, and is not done.
    Updating {
        /// True if the node went down, or began to leave, since.
        is_absent: bool,
        /// True if the rollout was done with it before.
        was_passed: bool,
    },
    /// Nothing is left to do there.
    Done,
    /// Its pod of the target is blamed (G34).
    Failed,
    /// Something else than the template is the reason for what it is (G33).
    SetAside(SetAside),
}

/// Since when the pod of a waiting node is not available (G14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outage {
    /// It is, or was not before the attempt began: the node uses no budget.
    #[default]
    None,
    /// Since the attempt began.
    New,
    /// Since an earlier rollout took its available pod away, not for long.
    Taken,
}

/// Why a node is set aside (G33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetAside {
    /// The policy excludes it.
    Held,
    /// It went down before the rollout began on it.
    Down,
    /// It began to leave the cluster before the rollout began on it.
    Leaving,
    /// A taint keeps a new pod away, while the old one may stay.
    Tainted,
    /// The target's placement would remove its pod, which the rollout may not.
    Excluded,
    /// It had no pod of another revision.
    Joined,
    /// Its pod was unavailable before the rollout began on it, or became so after the rollout was
    /// complete.
    BrokenBefore,
    /// It went down, or began to leave, after the rollout had begun on it.
    Lost,
    /// Nobody has agreed in time that its old pod goes (G54).
    NotAgreed,
}

/// The direction of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Open nodes get the target.
    Forward,
    /// Nodes with the target get the base.
    Back,
}

impl Default for NodeState {
    fn default() -> Self {
        Self::Waiting { outage: Outage::None }
    }
}

impl NodeState {
    /// True if an earlier rollout took the node's available pod away, and nothing was done since.
    pub(crate) const fn is_taken(self) -> bool {
        matches!(
            self,
            Self::Waiting { outage: Outage::Taken } | Self::Pulling { outage: Outage::Taken, .. }
        )
    }

    /// The name in reports and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Asked { .. } => "asked",
            Self::Pulling { .. } => "pulling",
            Self::Updating { .. } => "updating",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::SetAside(_) => "setAside",
        }
    }
}

impl SetAside {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Held,
        Self::Down,
        Self::Leaving,
        Self::Tainted,
        Self::Excluded,
        Self::Joined,
        Self::BrokenBefore,
        Self::Lost,
        Self::NotAgreed,
    ];

    /// The name in reports and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Down => "down",
            Self::Leaving => "leaving",
            Self::Tainted => "tainted",
            Self::Excluded => "excluded",
            Self::Joined => "joined",
            Self::BrokenBefore => "brokenBefore",
            Self::Lost => "lost",
            Self::NotAgreed => "notAgreed",
        }
    }

    /// True if the old pod of such a node is left alone.
    const fn keeps_old_pod(self) -> bool {
        match self {
            Self::Held
            | Self::Down
            | Self::Leaving
            | Self::Tainted
            | Self::Excluded
            | Self::NotAgreed => true,
            Self::Joined | Self::BrokenBefore | Self::Lost => false,
        }
    }
}

impl NodeAssessment {
    /// The assessment of a node in this state of a guarded rollout.
    pub(crate) fn in_state(mut self, state: NodeState, direction: Direction) -> Self {
        let is_in_flight = self.progress.is_in_flight() || direction == Direction::Back;
        let (uses_budget, progress) = match state {
            NodeState::Waiting { outage } | NodeState::Pulling { outage, .. } => {
                (outage != Outage::None, NodeProgress::NotBegun)
            }
            NodeState::Asked { .. } => (true, NodeProgress::InFlight),
            NodeState::Updating { .. } if is_in_flight => (true, NodeProgress::InFlight),
            // Its new pod is available beside the old one, which is deleted next.
            NodeState::Updating { .. } if self.step == Step::DeleteOld => {
                (false, NodeProgress::NotBegun)
            }
            NodeState::Updating { is_absent: true, .. } => (true, NodeProgress::InFlight),
            NodeState::Updating { .. } => (true, NodeProgress::NotBegun),
            NodeState::Done => (false, NodeProgress::Done),
            NodeState::Failed | NodeState::SetAside(_) => (false, NodeProgress::NotBegun),
        };
        self.progress = progress;
        let is_taken = state.is_taken();
        self.budget_use.set(BudgetUse::TAKEN, is_taken);
        if let NodeState::Asked { is_agreed } = state {
            let is_available = !self.budget_use.contains(BudgetUse::UNAVAILABLE);
            self.budget_use.set(BudgetUse::ASKED, is_available);
            self.step = match (is_agreed, self.step) {
                (true, Step::Replace) if is_available => Step::DeleteAgreed,
                (true, Step::Replace | Step::ReplaceNow) => Step::DeleteOld,
                _ => Step::None,
            };
        }
        // The old pod stays while the node pulls the images, and if that failed. So does one that
        // cannot be changed in place while its node is down or leaves (G56).
        let stays = matches!(
            state,
            NodeState::Pulling { .. }
                | NodeState::Failed
                | NodeState::Updating { is_absent: true, .. }
                | NodeState::SetAside(SetAside::Lost)
        );
        if stays && self.step.begins() {
            self.step = Step::None;
        }
        if !uses_budget {
            self.budget_use.remove(BudgetUse::UNAVAILABLE | BudgetUse::SURGE);
        }
        if let NodeState::SetAside(why) = state
            && why.keeps_old_pod()
        {
            self.step = match (direction, why, self.step) {
                // Its kubelet removes the pod when it is back, before it does any more harm.
                (Direction::Back, SetAside::Down, Step::Replace | Step::ReplaceNow) => {
                    Step::ReplaceNow
                }
                (Direction::Forward | Direction::Back, _, _) => Step::None,
            };
        }
        self
    }
}
