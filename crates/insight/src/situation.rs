//! The state of a DaemonSet's pods on one node, as one word.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The state of a node with respect to a DaemonSet, in the order in which operators should look at
/// the nodes. Its text and its JSON form are the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Situation {
    // Those that need intervention.
    /// The pod fails and does not recover without intervention.
    Failing,
    /// The scheduler finds no room for the pod on its node.
    Unschedulable,
    /// The API server refuses the node's pod.
    #[serde(rename = "not created")]
    NotCreated,
    /// The pod has neither started nor ended for a long time.
    Stuck,
    /// The pod is not ready because its node is not.
    #[serde(rename = "node not ready")]
    NodeNotReady,
    // Those that pass by themselves.
    /// The node should have a pod and has none.
    Missing,
    /// The node has a pod and must not have one.
    #[serde(rename = "to be deleted")]
    ToBeDeleted,
    /// The pod is starting, or not ready yet.
    #[serde(rename = "not ready")]
    NotReady,
    /// The pod is being deleted.
    Terminating,
    /// The pod is ready, but not yet for `minReadySeconds`.
    #[serde(rename = "not yet available")]
    NotYetAvailable,
    /// The pod is available, and of an older revision.
    Outdated,
    // Those that hold nothing up.
    /// The pod may stay, but the node would get no new one.
    #[serde(rename = "may stay")]
    Lingering,
    /// The pod is available and of the current revision.
    #[serde(rename = "up to date")]
    UpToDate,
    /// The node should have a pod; whether it has one is unknown because pods were not read.
    #[serde(rename = "should run")]
    ShouldRun,
    /// The node should have no pod, and has none.
    #[serde(rename = "no pod here")]
    Excluded,
}

impl Situation {
    /// True if the rollout is incomplete as long as a node is in this state, or the node has a pod
    /// that is going to be deleted.
    pub fn holds_up(self) -> bool {
        self <= Self::Outdated
    }

    /// True if the node does not leave this state without intervention.
    pub fn is_stuck(self) -> bool {
        self <= Self::NodeNotReady
    }

    /// True if an operator should look at the node.
    pub fn needs_attention(self) -> bool {
        self <= Self::Missing
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
