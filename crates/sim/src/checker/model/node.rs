//! Nodes.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;

use super::metadata::{Metadata, text, time};

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Node {
    pub metadata: Metadata,
    pub taints: Vec<Taint>,
    /// The types of the conditions whose status is True.
    pub conditions: BTreeSet<String>,
    /// When each condition last changed.
    pub transitions: BTreeMap<String, String>,
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
        let conditions = || status["conditions"].as_array().into_iter().flatten();
        let is_true = conditions().filter(|condition| condition["status"] == "True");
        Self {
            metadata: Metadata::parse(object),
            taints: taints.collect(),
            conditions: is_true.map(|condition| text(&condition["type"])).collect(),
            transitions: conditions()
                .map(|it| (text(&it["type"]), text(&it["lastTransitionTime"])))
                .collect(),
            boot_id: text(&status["nodeInfo"]["bootID"]),
        }
    }

    /// Whether the node may have recovered since it was `before`, which ends the back-off of its
    /// pods, or is another one (C24).
    pub(in crate::checker) fn may_have_recovered_since(&self, before: &Self) -> bool {
        let signs = |it: &Self| {
            (it.metadata.uid.clone(), it.boot_id.clone(), it.transitions.clone(), it.taints.clone())
        };
        signs(self) != signs(before)
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
