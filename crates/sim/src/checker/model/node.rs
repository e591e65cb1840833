//! Nodes.

use std::collections::BTreeSet;

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;

use super::metadata::{Metadata, text, time};

/// The condition and the taint of each pressure.
const PRESSURES: [[&str; 2]; 3] = [
    ["MemoryPressure", "node.kubernetes.io/memory-pressure"],
    ["DiskPressure", "node.kubernetes.io/disk-pressure"],
    ["PIDPressure", "node.kubernetes.io/pid-pressure"],
];

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Node {
    pub metadata: Metadata,
    pub taints: Vec<Taint>,
    /// The types of the conditions whose status is True.
    pub conditions: BTreeSet<String>,
    /// Since when its kubelet does not answer: the condition `Ready` is Unknown.
    pub unreachable_since: Option<Timestamp>,
    /// Since when its kubelet says that it is not ready: the condition `Ready` is False.
    pub unready_since: Option<Timestamp>,
    /// Which boot of the machine it is.
    pub boot_id: String,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

impl Node {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let taints = object["spec"]["taints"].as_array().into_iter().flatten();
        let taints = taints.map(|taint| Taint {
            key: text(&taint["key"]),
            value: text(&taint["value"]),
            effect: text(&taint["effect"]),
        });
        let status = &object["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let since = |status: &str| {
            let mut all = conditions.clone();
            let ready = all.find(|it| it["type"] == "Ready" && it["status"] == status)?;
            time(&text(&ready["lastTransitionTime"]))
        };
        let (unreachable_since, unready_since) = (since("Unknown"), since("False"));
        let is_true = conditions.filter(|condition| condition["status"] == "True");
        Self {
            metadata: Metadata::parse(object),
            taints: taints.collect(),
            conditions: is_true.map(|condition| text(&condition["type"])).collect(),
            unreachable_since,
            unready_since,
            boot_id: text(&status["nodeInfo"]["bootID"]),
        }
    }

    /// True if the node has recovered since it was `before`, which ends the back-off of its pods:
    /// it is ready again, has another boot ID, or has got rid of both condition and taint of a
    /// pressure (C24).
    pub(in crate::checker) fn has_recovered_since(&self, before: &Self) -> bool {
        let has = |it: &Self, [condition, taint]: [&str; 2]| {
            it.conditions.contains(condition) || it.taints.iter().any(|it| it.key == taint)
        };
        let is_relieved = |of: [&str; 2]| has(before, of) && !has(self, of);
        self.is_ready() && !before.is_ready()
            || self.boot_id != before.boot_id
            || PRESSURES.into_iter().any(is_relieved)
    }

    /// Whether the condition `Ready` is true.
    pub(in crate::checker) fn is_ready(&self) -> bool {
        self.conditions.contains("Ready")
    }

    /// Whether the node has been tainted because its lease has expired.
    pub(in crate::checker) fn is_unreachable(&self) -> bool {
        self.taints.iter().any(|taint| taint.key == "node.kubernetes.io/unreachable")
    }

    /// When the node was created, without fractions of a second.
    pub(in crate::checker) fn created(&self) -> Option<Timestamp> {
        time(&self.metadata.created)
    }
}
