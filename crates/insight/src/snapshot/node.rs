//! Nodes: the fields that decisions read, and those that answers report.

use std::collections::BTreeMap;

use everynode_core::api::{Node, Timestamp};
use everynode_k8s::fit::Room;
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::Changes;
use super::condition::Condition;

/// The label with the name of a node's zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// One node of a snapshot.
#[derive(Clone, Debug)]
pub struct NodeDetail {
    /// The fields that the core reads.
    pub node: Node,
    /// The node's condition `Ready`.
    pub health: NodeHealth,
    /// The last change of the condition `Ready`.
    pub health_since: Option<Timestamp>,
    /// When the node was created and changed.
    pub changes: Changes,
    /// The allocatable resources with no pod placed yet, and `spec.unschedulable`.
    pub room: Room,
    /// The node's status contains allocatable resources.
    pub reports_allocatable: bool,
}

/// The state of a node's condition `Ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeHealth {
    /// The condition is `True`.
    Ready,
    /// The condition is `False` or `Unknown`.
    NotReady {
        /// The condition's message.
        message: String,
    },
    /// The node has no such condition, for example because it comes from a file.
    Unreported,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireNode {
    spec: WireSpec,
    status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireSpec {
    unschedulable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    allocatable: Option<BTreeMap<String, Value>>,
    conditions: Option<Vec<Condition>>,
}

impl NodeDetail {
    /// `json` is the source of `node`. A part of it that can't be parsed counts as absent.
    pub(super) fn new(node: Node, json: &[u8]) -> Self {
        let wire: WireNode = serde_json::from_slice(json).unwrap_or_default();
        let ready = wire.status.conditions.unwrap_or_default();
        let ready = ready.into_iter().find(|condition| condition.kind == "Ready");
        let object = json!({
            "spec": { "unschedulable": wire.spec.unschedulable },
            "status": { "allocatable": wire.status.allocatable },
        });
        Self {
            health_since: ready.as_ref().and_then(Condition::since),
            health: health(ready),
            changes: Changes::of(json),
            reports_allocatable: wire.status.allocatable.is_some_and(|amounts| !amounts.is_empty()),
            room: Room::new(node.clone(), &object),
            node,
        }
    }

    /// The last known change that matters to whether the node should run a pod.
    pub(crate) fn changed_at(&self) -> Option<Timestamp> {
        self.changes.spec_at.max(self.health_since)
    }

    /// The node's zone, from its label.
    pub fn zone(&self) -> Option<&str> {
        self.node.labels.get(ZONE_LABEL).map(|zone| &**zone)
    }

    /// True if `spec.unschedulable` is set.
    pub const fn is_cordoned(&self) -> bool {
        self.room.unschedulable
    }
}

fn health(ready: Option<Condition>) -> NodeHealth {
    match ready {
        None => NodeHealth::Unreported,
        Some(ready) if ready.status == "True" => NodeHealth::Ready,
        Some(ready) => NodeHealth::NotReady { message: ready.message.unwrap_or_default() },
    }
}
