//! Pods and nodes that hold up a rollout.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;

use everynode_core::api::NodeName;
use serde::{Serialize, Serializer};

use super::cause::Cause;
use crate::names;
use crate::situation::Situation;

/// The maximum width of the node names of a group, in characters.
const NAMES_WIDTH_MAX: usize = 40;
/// The maximum length of what an event says.
const MESSAGE_CHARACTERS_MAX: usize = 400;

/// A pod that holds up the rollout, or a node that has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldUpPod {
    /// The pod's node; `None` if no node is set or requested.
    #[serde(serialize_with = "serialize_node_name")]
    pub node: Option<NodeName>,
    /// The pod's name; `None` if it has not been created.
    pub pod: Option<String>,
    /// Whether the node should run a pod.
    pub desired: bool,
    /// Whether the pod is of an older revision, so that the rollout replaces it in any case.
    pub outdated: bool,
    /// Whether the rollout can't end without intervention, because of this pod.
    pub stuck: bool,
    /// Why the pod holds up the rollout.
    pub cause: Cause,
    /// What a component has said about it in an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The pods that are held up by one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseGroup {
    /// The cause, with the details of the first pod.
    pub cause: Cause,
    /// The nodes of the pods, in the order of their names.
    pub nodes: Vec<NodeName>,
    /// The number of pods, or of nodes that have none.
    pub pods: usize,
    /// The number of these on nodes that should run a pod.
    pub desired: usize,
    /// Whether the rollout can't end without intervention, because of these pods.
    pub stuck: bool,
}

impl CauseGroup {
    /// The order in which operators should look at causes: first those that need them, then those
    /// of the most nodes that should run a pod. Nodes that wait for their turn come last.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        let is_nowhere_desired = self.desired == 0;
        let severity = self.cause.situation();
        (!self.stuck, is_nowhere_desired, self.cause.is_turn(), Reverse(self.desired), severity)
    }
}

/// The nodes that hold up the rollout for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUpNodes {
    /// The state of the nodes.
    pub situation: Situation,
    /// The reason in one line.
    pub why: String,
    /// The message of a component about the first of the nodes.
    pub detail: Option<String>,
    /// What happens next, or what the operator should do.
    pub next: Option<String>,
    /// The names of the nodes, in order. Empty if the nodes of the pods are unknown.
    pub nodes: Vec<String>,
    /// The number of nodes, or of pods if their nodes are unknown.
    pub count: usize,
}

impl fmt::Display for CauseGroup {
    /// `CrashLoopBackOff of container a: node-1..5, node-7 and 4 more`, and what an event says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.nodes.is_empty(), self.pods) {
            (true, 1) => write!(f, "{}: 1 pod", self.cause)?,
            (true, pods) => write!(f, "{}: {pods} pods", self.cause)?,
            (false, _) => {
                let names = self.nodes.iter().map(NodeName::as_str);
                write!(f, "{}: {}", self.cause, names::shortened(names, NAMES_WIDTH_MAX))?;
            }
        }
        match self.cause.message() {
            Some(message) => write!(f, ": {}", shortened(message)),
            None => Ok(()),
        }
    }
}

/// The message, cut if it is longer than anybody reads.
fn shortened(message: &str) -> Cow<'_, str> {
    match message.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &message[..end])),
        None => Cow::Borrowed(message),
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
