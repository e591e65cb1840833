//! What a DaemonSet's pods do on one node, as one state.

use serde::Serialize;

/// The state of a node with respect to a DaemonSet, in the order in which operators should look at
/// the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Situation {
    /// The pod fails and does not recover without intervention.
    Failing,
    /// The scheduler finds no room for the pod on its node.
    Unschedulable,
    /// The API server refuses the node's pod.
    NotCreated,
    /// The pod has neither started nor ended for a long time.
    Stuck,
    /// The pod is not ready because its node is not.
    NodeNotReady,
    /// The node should have a pod and has none.
    Missing,
    /// The node has a pod and must not have one.
    ToBeDeleted,
    /// The pod is starting, or not ready yet.
    NotReady,
    /// The pod is being deleted.
    Terminating,
    /// The pod is ready, but not yet for `minReadySeconds`.
    NotYetAvailable,
    /// The pod is available, and of an older revision.
    Outdated,
    /// The pod may stay, but the node would get no new one.
    Lingering,
    /// The pod is available and of the current revision.
    UpToDate,
    /// The node should have a pod; whether it has one is unknown because pods were not read.
    ShouldRun,
    /// The node should have no pod, and has none.
    Excluded,
}

impl Situation {
    /// Whether the rollout is incomplete as long as a node is in this state, or the node has a pod
    /// that is going to be deleted.
    pub const fn holds_up(self) -> bool {
        match self {
            Self::Failing
            | Self::Unschedulable
            | Self::NotCreated
            | Self::Stuck
            | Self::NodeNotReady
            | Self::Missing
            | Self::ToBeDeleted
            | Self::NotReady
            | Self::Terminating
            | Self::NotYetAvailable
            | Self::Outdated => true,
            Self::Lingering | Self::UpToDate | Self::ShouldRun | Self::Excluded => false,
        }
    }

    /// Whether the node does not leave this state without intervention.
    pub const fn is_stuck(self) -> bool {
        match self {
            Self::Failing
            | Self::Unschedulable
            | Self::NotCreated
            | Self::Stuck
            | Self::NodeNotReady => true,
            Self::Missing
            | Self::ToBeDeleted
            | Self::NotReady
            | Self::Terminating
            | Self::NotYetAvailable
            | Self::Outdated
            | Self::Lingering
            | Self::UpToDate
            | Self::ShouldRun
            | Self::Excluded => false,
        }
    }

    /// Whether an operator should look at the node.
    pub const fn needs_attention(self) -> bool {
        self.is_stuck() || matches!(self, Self::Missing)
    }

    /// The state in two or three words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Unschedulable => "unschedulable",
            Self::NotCreated => "not created",
            Self::Stuck => "stuck",
            Self::NodeNotReady => "node not ready",
            Self::Missing => "missing",
            Self::ToBeDeleted => "to be deleted",
            Self::NotReady => "not ready",
            Self::Terminating => "terminating",
            Self::NotYetAvailable => "not yet available",
            Self::Outdated => "outdated",
            Self::Lingering => "may stay",
            Self::UpToDate => "up to date",
            Self::ShouldRun => "should run",
            Self::Excluded => "no pod here",
        }
    }
}
