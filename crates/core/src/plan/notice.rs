//! The events that a plan reports on the DaemonSet (C71).

use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    CheckVerdict, FailedNodes, NodeName, Order, OrderVerb, PodName, Problem, RevisionHash,
    RevisionName, WaveName,
};

/// An event to report on the DaemonSet (C71).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The plan deletes a failed pod (C24).
    FailedDaemonPod {
        /// The pod.
        pod: PodName,
        /// Its node.
        node: NodeName,
        /// When the next one of the node may be deleted, if it ends, too.
        delay: Duration,
    },
    /// The plan deletes a succeeded pod (C24).
    SucceededDaemonPod {
        /// The pod.
        pod: PodName,
        /// Its node.
        node: NodeName,
        /// When the next one of the node may be deleted, if it ends, too.
        delay: Duration,
    },
    /// The selector matches all pods, so nothing is planned (C33).
    SelectingAll,
    /// Writes were not seen in time, and the wait for them has ended (C60).
    ExpectationLapsed {
        /// Number of created pods that were not seen.
        creations: usize,
        /// Number of objects that were not seen deleted or terminating.
        deletions: usize,
        /// Number of kinds whose watch has not reached the last write.
        writes: usize,
    },
    /// The status states for the first time that the rollout is paused (G6, G21).
    RolloutPaused,
    /// The status states no longer that the rollout is paused (G6, G21).
    RolloutResumed,
    /// The status states for the first time that the rollout waits for a window (G5, G21).
    OutsideWindow {
        /// The statement of the condition.
        message: Arc<str>,
    },
    /// A window has opened, and the rollout goes on (G5, G21).
    WindowOpened,
    /// The built-in controller rolls out what a policy selects, because the update strategy is not
    /// `OnDelete` (G18).
    NotGuarded,
    /// Nodes begin to go back to the base, or the plan replaces the failed template with that of
    /// the base (G15, G20).
    RollingBack {
        /// The base.
        base: RevisionName,
    },
    /// The plan changes the record of a guarded rollout (G11, G21).
    Rollout(Transition),
    /// A check of a wave has passed for the first time, fails now, or was answered with neither for
    /// the first time (G5, G21).
    Check {
        /// The name of the check.
        check: Arc<str>,
        /// The wave.
        wave: WaveName,
        /// The verdict of the answer.
        verdict: CheckVerdict,
        /// The text of the answer.
        answer: Arc<str>,
    },
    /// A malformed part of an object (C4).
    Problem(Problem),
}

/// The difference between a target and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supersession {
    /// It has another template.
    Template,
    /// It has the same template, and other overrides (G57).
    Overrides,
    /// It has the same template and overrides, and other copies of ConfigMaps (G58).
    ConfigMaps,
}

/// The meaning of a change of a rollout's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The revision was in use when a policy or a pause began to govern the DaemonSet: it is the
    /// base (G37).
    Adopted {
        /// The revision.
        revision: RevisionHash,
    },
    /// A new template begins to be rolled out, at this wave; to all nodes without one.
    Begun {
        /// The revision.
        revision: RevisionHash,
        /// The first wave.
        wave: Option<WaveName>,
    },
    /// The nodes of a wave are updated; its bake time or approval is awaited.
    WaveUpdated {
        /// The wave; all nodes without one.
        wave: Option<WaveName>,
    },
    /// The next wave begins; all other nodes without one.
    WaveBegun {
        /// The wave.
        wave: Option<WaveName>,
    },
    /// More nodes have failed than the policy tolerates (G15).
    NodesFailed {
        /// The failed nodes.
        nodes: FailedNodes,
    },
    /// More nodes went down after they got the target than the policy tolerates (G15).
    NodesLost {
        /// The lost nodes.
        nodes: FailedNodes,
    },
    /// The rollout was done with no node for too long (G15).
    NoProgress {
        /// The number of nodes that are neither updated nor failed.
        nodes: usize,
    },
    /// A check has failed as often as the policy says (G15).
    CheckFailed {
        /// Which check, what it asked, and what was answered.
        why: Arc<str>,
    },
    /// The rollout of the revision is complete.
    Completed {
        /// The revision.
        revision: RevisionHash,
        /// The number of nodes that do not have it: they failed, or are set aside.
        lacking: usize,
    },
    /// Another target came before the rollout of this revision was complete.
    Superseded {
        /// The older revision.
        revision: RevisionHash,
        /// The difference of the new target.
        by: Supersession,
    },
    /// An order was carried out.
    Ordered(Order),
    /// An order has no effect.
    OrderIgnored {
        /// The order.
        order: Order,
        /// Why it has none.
        why: &'static str,
    },
}

impl Transition {
    /// The `reason` of the event (C71).
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Adopted { .. } => "RevisionAdopted",
            Self::Begun { .. } => "RolloutBegun",
            Self::WaveUpdated { .. } => "RolloutWaveUpdated",
            Self::WaveBegun { .. } => "RolloutWaveBegun",
            Self::NodesFailed { .. }
            | Self::NodesLost { .. }
            | Self::NoProgress { .. }
            | Self::CheckFailed { .. } => "RolloutFailed",
            Self::Completed { .. } => "RolloutComplete",
            Self::Superseded { .. } => "RolloutSuperseded",
            Self::Ordered(order) => match order.verb {
                OrderVerb::Approve(_) => "RolloutWaveApproved",
                OrderVerb::Promote(_) | OrderVerb::PromoteFull => "RolloutPromoted",
                OrderVerb::Abort => "RolloutAborted",
                OrderVerb::Retry => "RolloutRetried",
            },
            Self::OrderIgnored { .. } => "RolloutOrderIgnored",
        }
    }

    /// True if the `type` of the event is `Warning` rather than `Normal`.
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::OrderIgnored { .. }
            | Self::NodesFailed { .. }
            | Self::NodesLost { .. }
            | Self::NoProgress { .. }
            | Self::CheckFailed { .. } => true,
            Self::Adopted { .. }
            | Self::Begun { .. }
            | Self::WaveUpdated { .. }
            | Self::WaveBegun { .. }
            | Self::Completed { .. }
            | Self::Superseded { .. }
            | Self::Ordered(_) => false,
        }
    }
}

impl Notice {
    /// The node whose pod has ended, and how long its next one is kept if it ends, too.
    pub const fn backoff(&self) -> Option<(&NodeName, Duration)> {
        let (Self::FailedDaemonPod { node, delay, .. }
        | Self::SucceededDaemonPod { node, delay, .. }) = self
        else {
            return None;
        };
        Some((node, *delay))
    }

    /// The `reason` of the event (C71).
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::FailedDaemonPod { .. } => "FailedDaemonPod",
            Self::SucceededDaemonPod { .. } => "SucceededDaemonPod",
            Self::SelectingAll => "SelectingAll",
            Self::ExpectationLapsed { .. } => "ExpectationLapsed",
            Self::RolloutPaused => "RolloutPaused",
            Self::RolloutResumed => "RolloutResumed",
            Self::OutsideWindow { .. } => "RolloutOutsideWindow",
            Self::WindowOpened => "RolloutWindowOpened",
            Self::NotGuarded => "RolloutNotGuarded",
            Self::RollingBack { .. } => "RolloutRollingBack",
            Self::Rollout(transition) => transition.reason(),
            Self::Check { verdict, .. } => match verdict {
                CheckVerdict::Passed => "RolloutCheckPassed",
                CheckVerdict::Failed => "RolloutCheckFailed",
                CheckVerdict::Unknown => "RolloutCheckUnknown",
            },
            Self::Problem(problem) => problem.reason(),
        }
    }

    /// True if the `type` of the event is `Warning` rather than `Normal`.
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::SucceededDaemonPod { .. }
            | Self::RolloutPaused
            | Self::RolloutResumed
            | Self::OutsideWindow { .. }
            | Self::WindowOpened
            | Self::RollingBack { .. } => false,
            Self::FailedDaemonPod { .. }
            | Self::SelectingAll
            | Self::ExpectationLapsed { .. }
            | Self::NotGuarded
            | Self::Problem(_) => true,
            Self::Rollout(transition) => transition.is_warning(),
            Self::Check { verdict, .. } => !matches!(verdict, CheckVerdict::Passed),
        }
    }
}
