//! Nodes.

use everynode_core::api::{self, NodeReadiness, Timestamp};
use everynode_k8s::convert::{self, Interner};
use everynode_sandbox::json::Value;

use super::metadata::{Metadata, time};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Node {
    pub metadata: Metadata,
    /// Its taints, conditions and boot ID.
    pub read: api::Node,
}

impl Node {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let read = convert::node(object.to_string().as_bytes(), &mut Interner::default());
        Self {
            metadata: Metadata::parse(object),
            read: read.expect("the sandbox stores no malformed node"),
        }
    }

    /// True if the node has recovered since it was `before`, which ends the back-off of its pods
    /// (C24).
    pub(in crate::checker) fn has_recovered_since(&self, before: &Self) -> bool {
        everynode_reference::has_recovered(&before.read, &self.read)
    }

    /// True if the condition `Ready` is true.
    pub(in crate::checker) fn is_ready(&self) -> bool {
        self.read.readiness == NodeReadiness::Ready
    }

    /// Since when its kubelet does not answer: the condition `Ready` is Unknown.
    pub(in crate::checker) fn unreachable_since(&self) -> Option<Timestamp> {
        match self.read.readiness {
            NodeReadiness::Unreachable { since } => Some(since),
            NodeReadiness::Ready | NodeReadiness::NotReady { .. } => None,
        }
    }

    /// True if its kubelet says that it is not ready: the condition `Ready` is False.
    pub(in crate::checker) fn is_unready(&self) -> bool {
        matches!(self.read.readiness, NodeReadiness::NotReady { .. })
    }

    /// True if the node has been tainted because its lease has expired.
    pub(in crate::checker) fn is_unreachable(&self) -> bool {
        self.read.taints.iter().any(|taint| &*taint.key == "node.kubernetes.io/unreachable")
    }

    /// When the node was created, without fractions of a second.
    pub(in crate::checker) fn created(&self) -> Option<Timestamp> {
        time(&self.metadata.created)
    }
}
