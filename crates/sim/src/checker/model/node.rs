//! Nodes.

use std::collections::BTreeSet;

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
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let is_true = conditions.filter(|condition| condition["status"] == "True");
        Self {
            metadata: Metadata::parse(object),
            taints: taints.collect(),
            conditions: is_true.map(|condition| text(&condition["type"])).collect(),
        }
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
