//! Pods and nodes that hold up a rollout.

use std::fmt;

use everynode_core::api::NodeName;
use serde::{Serialize, Serializer};

use super::cause::Cause;
use crate::names;
use crate::situation::Situation;

/// The maximum width of the node names of a group, in characters.
const NAMES_WIDTH_MAX: usize = 40;

/// A pod that holds up the rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldUpPod {
    /// The pod's node; `None` if no node is set or requested.
    #[serde(serialize_with = "serialize_node_name")]
    pub node: Option<NodeName>,
    /// The pod's name.
    pub pod: String,
    /// Whether the pod is of an older revision, so that the rollout replaces it in any case.
    pub outdated: bool,
    /// Why the pod holds up the rollout.
    pub cause: Cause,
}

/// The pods that are held up by one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseGroup {
    /// The cause, with the details of the first pod.
    pub cause: Cause,
    /// The nodes of the pods, in the order of their names.
    pub nodes: Vec<NodeName>,
    /// The number of pods.
    pub pods: usize,
}

/// The nodes that hold up the rollout for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUpNodes {
    /// The state of the nodes.
    pub situation: Situation,
    /// The reason in one line.
    pub why: String,
    /// What happens next, or what the operator should do.
    pub next: Option<String>,
    /// The names of the nodes, in order. Empty if the nodes of the pods are unknown.
    pub nodes: Vec<String>,
    /// The number of nodes, or of pods if their nodes are unknown.
    pub count: usize,
}

impl fmt::Display for CauseGroup {
    /// `CrashLoopBackOff of container a: node-1..5, node-7 and 4 more`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes.is_empty() {
            return write!(f, "{}: {} pods", self.cause, self.pods);
        }
        let names = self.nodes.iter().map(NodeName::as_str);
        write!(f, "{}: {}", self.cause, names::shortened(names, NAMES_WIDTH_MAX))
    }
}

fn serialize_node_name<S: Serializer>(
    name: &Option<NodeName>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => serializer.serialize_str(name.as_str()),
        None => serializer.serialize_none(),
    }
}
