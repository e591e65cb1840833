//! Nodes: what decisions read, and what people want to know besides.

use std::collections::BTreeMap;

use everynode_core::api::Node;
use everynode_k8s::fit::Room;
use serde::Deserialize;
use serde_json::{Value, json};

use super::condition::Condition;

pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

#[derive(Clone, Debug)]
pub struct NodeDetail {
    pub node: Node,
    pub health: NodeHealth,
    /// What it has to give, with nothing taken yet. `spec.unschedulable` (cordoned) is there, too.
    pub room: Room,
    /// Whether it says at all what it has to give.
    pub tells_allocatable: bool,
}

/// The node's condition `Ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeHealth {
    Ready,
    /// False or Unknown, with its message.
    NotReady {
        message: String,
    },
    /// There is no such condition, as of a node in a file.
    Untold,
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
    /// `json` is what `node` was read from; a part of it that does not parse counts as not there.
    pub(super) fn new(node: Node, json: &[u8]) -> Self {
        let wire: WireNode = serde_json::from_slice(json).unwrap_or_default();
        let conditions = wire.status.conditions.unwrap_or_default();
        let object = json!({
            "spec": { "unschedulable": wire.spec.unschedulable },
            "status": { "allocatable": wire.status.allocatable },
        });
        Self {
            health: health(conditions),
            tells_allocatable: wire.status.allocatable.is_some_and(|amounts| !amounts.is_empty()),
            room: Room::new(node.clone(), &object),
            node,
        }
    }

    pub fn zone(&self) -> Option<&str> {
        self.node.labels.get(ZONE_LABEL).map(|zone| &**zone)
    }

    pub const fn is_cordoned(&self) -> bool {
        self.room.unschedulable
    }
}

fn health(conditions: Vec<Condition>) -> NodeHealth {
    match conditions.into_iter().find(|condition| condition.kind == "Ready") {
        None => NodeHealth::Untold,
        Some(ready) if ready.status == "True" => NodeHealth::Ready,
        Some(ready) => NodeHealth::NotReady { message: ready.message.unwrap_or_default() },
    }
}
