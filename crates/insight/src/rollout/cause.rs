//! Why a pod holds up the rollout.

use std::fmt;

use everynode_core::api::{DaemonSet, RolloutReason, Timestamp, UpdateStrategy};
use serde::{Serialize, Serializer};

use super::Pause;
use crate::situation::Situation;
use crate::snapshot::{NodeHealth, PodDetail, PodState, Snapshot};

/// Why a pod holds up the rollout, in order of severity. Its JSON form is the displayed text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The kubelet or the scheduler reports an error.
    Failing(PodState),
    /// The pod's node is not ready.
    NodeNotReady,
    /// The pod is being created, or is not ready yet.
    Starting(PodState),
    /// The pod is ready, but not yet for `minReadySeconds`.
    NotYetAvailable {
        /// `spec.minReadySeconds` of the DaemonSet.
        min_ready_seconds: u32,
    },
    /// The pod is being deleted.
    Terminating,
    /// The pod is of an older revision, and the update strategy will replace it.
    AwaitsReplacement,
    /// The pod is of an older revision, and the rollout is paused (G6).
    Paused,
    /// The pod is of an older revision, and its wave of a guarded rollout is not open (G1).
    WaveNotOpen,
    /// The pod is of an older revision, and somebody has to delete it.
    AwaitsDeletion,
}

impl Cause {
    /// The cause for which this pod of the DaemonSet holds up the rollout at `now`, if any.
    pub(super) fn of(
        snapshot: &Snapshot,
        daemon_set: &DaemonSet,
        detail: &PodDetail,
        outdated: bool,
        now: Timestamp,
    ) -> Option<Self> {
        let node = detail.pod.target_node_name().and_then(|name| snapshot.nodes.get(name));
        let node_is_down =
            node.is_some_and(|node| matches!(node.health, NodeHealth::NotReady { .. }));
        let state = &detail.state;
        match state {
            PodState::Terminating if node_is_down => Some(Self::NodeNotReady),
            PodState::Terminating => Some(Self::Terminating),
            _ if node_is_down => Some(Self::NodeNotReady),
            _ if state.is_failing() => Some(Self::Failing(state.clone())),
            _ if outdated && Pause::of(daemon_set) == Pause::Yes => Some(Self::Paused),
            _ if outdated && keeps_old_pods(daemon_set) => Some(Self::WaveNotOpen),
            _ if outdated => Some(match daemon_set.strategy() {
                UpdateStrategy::OnDelete => Self::AwaitsDeletion,
                UpdateStrategy::RollingUpdate { .. } | UpdateStrategy::Malformed => {
                    Self::AwaitsReplacement
                }
            }),
            PodState::Ready if detail.is_available(daemon_set, now) => None,
            PodState::Ready => {
                Some(Self::NotYetAvailable { min_ready_seconds: daemon_set.min_ready_seconds })
            }
            PodState::Unscheduled { .. }
            | PodState::Waiting(_)
            | PodState::NotReady { .. }
            | PodState::Failed { .. }
            | PodState::Succeeded
            | PodState::Unknown => Some(Self::Starting(state.clone())),
        }
    }

    /// Whether the pod does not recover without intervention.
    pub const fn is_failing(&self) -> bool {
        match self {
            Self::Failing(_) | Self::NodeNotReady => true,
            Self::Starting(_)
            | Self::NotYetAvailable { .. }
            | Self::Terminating
            | Self::AwaitsReplacement
            | Self::Paused
            | Self::WaveNotOpen
            | Self::AwaitsDeletion => false,
        }
    }

    /// The situation of a node whose pod is held up by this cause.
    pub const fn situation(&self) -> Situation {
        match self {
            Self::Failing(PodState::Unscheduled { .. }) => Situation::Unschedulable,
            Self::Failing(_) => Situation::Failing,
            Self::NodeNotReady => Situation::NodeNotReady,
            Self::Starting(_) => Situation::NotReady,
            Self::NotYetAvailable { .. } => Situation::NotYetAvailable,
            Self::Terminating => Situation::Terminating,
            Self::AwaitsReplacement | Self::Paused | Self::WaveNotOpen | Self::AwaitsDeletion => {
                Situation::Outdated
            }
        }
    }
}

/// Whether a guarded rollout replaces no old pod at present.
fn keeps_old_pods(daemon_set: &DaemonSet) -> bool {
    daemon_set.status.rollout.as_ref().is_some_and(|rollout| match rollout.reason {
        RolloutReason::InvalidPolicy
        | RolloutReason::Baking
        | RolloutReason::AwaitingApproval
        | RolloutReason::RollingBack
        | RolloutReason::Failed => true,
        RolloutReason::Paused | RolloutReason::Updating | RolloutReason::Complete => false,
    })
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failing(PodState::Unscheduled { message }) => {
                // The rest is about preemption, which an operator can do nothing with.
                let message = message.split(" preemption: ").next().unwrap_or_default();
                write!(f, "can't be scheduled: {}", message.trim_end_matches('.'))
            }
            Self::Failing(state) | Self::Starting(state) => state.fmt(f),
            Self::NodeNotReady => f.write_str("its node is not ready"),
            Self::NotYetAvailable { min_ready_seconds } => {
                write!(f, "ready for less than {min_ready_seconds} s (minReadySeconds)")
            }
            Self::Terminating => f.write_str("terminating"),
            Self::AwaitsReplacement => f.write_str("older revision, waiting to be replaced"),
            Self::Paused => f.write_str("older revision, kept while the rollout is paused"),
            Self::WaveNotOpen => f.write_str("older revision, its wave is not open"),
            Self::AwaitsDeletion => {
                f.write_str("older revision, to be deleted manually (OnDelete)")
            }
        }
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
