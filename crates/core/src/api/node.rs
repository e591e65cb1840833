//! Nodes and taints.

use std::fmt;
use std::sync::Arc;

use super::labels::Labels;
use super::names::NodeName;
use super::time::Timestamp;

/// A Node. Two equal ones lead to equal decisions; a heartbeat makes no difference (C16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Since when the condition `Ready` is not true, by the wall clock; `None` if it is, or if the
    /// node has no such condition (G33).
    pub not_ready_since: Option<Timestamp>,
    /// The types of all other conditions that are true (G33).
    pub conditions: Vec<Arc<str>>,
}

/// The taint of a node that is cordoned.
pub const CORDONED_TAINT: &str = "node.kubernetes.io/unschedulable";

impl Node {
    /// Whether the node has a taint with this key.
    pub fn has_taint(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| *taint.key == *key)
    }

    /// Whether the node is cordoned.
    pub fn is_cordoned(&self) -> bool {
        self.has_taint(CORDONED_TAINT)
    }
}

/// A taint of a node. It prints as kubectl prints it: `key=value:effect`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// `key`.
    pub key: Arc<str>,
    /// `value`; it may be empty.
    pub value: Arc<str>,
    /// `effect`.
    pub effect: TaintEffect,
}

/// The effect of a taint on pods that do not tolerate it (C13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// The node gets no new pod.
    NoSchedule,
    /// The scheduler avoids the node. A DaemonSet ignores this effect.
    PreferNoSchedule,
    /// The node gets no new pod and must not keep one.
    NoExecute,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.value {
            "" => write!(f, "{}:{}", self.key, self.effect),
            value => write!(f, "{}={value}:{}", self.key, self.effect),
        }
    }
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        })
    }
}
