//! Nodes and taints.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

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
    /// The condition `Ready`.
    pub readiness: NodeReadiness,
    /// The types of all other conditions that are true (G33).
    pub conditions: Box<[Arc<str>]>,
    /// `status.nodeInfo.bootID`, another one after each reboot; empty if it is not stated.
    pub boot_id: Arc<str>,
    /// The version in `status.nodeInfo.kubeletVersion`, if it is stated.
    pub kubelet_version: Option<KubeletVersion>,
}

/// The condition `Ready` of a node. Times are those of its last transition, by the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeReadiness {
    /// It is true, or the node has no such condition.
    #[default]
    Ready,
    /// It is false: the kubelet says so.
    NotReady {
        /// Since when.
        since: Timestamp,
    },
    /// It is unknown: the kubelet does not answer.
    Unreachable {
        /// Since when.
        since: Timestamp,
    },
}

/// The minor version of a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeletVersion {
    /// 1 so far.
    pub major: u8,
    /// Such as 35.
    pub minor: u8,
}

/// The taint of a node that is cordoned.
pub const CORDONED_TAINT: &str = "node.kubernetes.io/unschedulable";

/// The conditions of a node that runs short of something, for which its kubelet refuses and evicts
/// pods, and the taint that Kubernetes derives from each.
const PRESSURES: [(&str, &str); 3] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
];

impl Node {
    /// Since when the node is not ready, unreachable or not; `None` if it is ready (G33).
    pub const fn not_ready_since(&self) -> Option<Timestamp> {
        match self.readiness {
            NodeReadiness::Ready => None,
            NodeReadiness::NotReady { since } | NodeReadiness::Unreachable { since } => Some(since),
        }
    }

    /// Since when the kubelet does not answer; `None` if it does (C58).
    pub const fn unreachable_since(&self) -> Option<Timestamp> {
        match self.readiness {
            NodeReadiness::Ready | NodeReadiness::NotReady { .. } => None,
            NodeReadiness::Unreachable { since } => Some(since),
        }
    }

    /// True if the node has a taint with this key.
    pub fn has_taint(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| *taint.key == *key)
    }

    /// True if the node is cordoned.
    pub fn is_cordoned(&self) -> bool {
        self.has_taint(CORDONED_TAINT)
    }

    /// True if something has ended since the version `before` for which pods may have failed on the
    /// node: it is ready again, was booted anew, or has got rid of a pressure (C24).
    pub fn has_recovered_since(&self, before: &Self) -> bool {
        let is_ready_again = before.not_ready_since().is_some() && self.not_ready_since().is_none();
        let is_relieved = |(condition, taint): &(&str, &str)| {
            before.is_under_pressure(condition, taint) && !self.is_under_pressure(condition, taint)
        };
        is_ready_again || self.boot_id != before.boot_id || PRESSURES.iter().any(is_relieved)
    }

    fn is_under_pressure(&self, condition: &str, taint: &str) -> bool {
        self.conditions.iter().any(|it| **it == *condition) || self.has_taint(taint)
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

impl<'de> Deserialize<'de> for KubeletVersion {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("it is no version"))
    }
}

impl KubeletVersion {
    /// Reads the version of a kubelet, such as `v1.35.2` or `v1.35.2-gke.1`, or what a policy
    /// states.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?;
        let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
        Some(Self { major, minor: minor[..digits].parse().ok()? })
    }
}

impl fmt::Display for KubeletVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G57: the versions of kubelets are compared by their first two numbers.
    #[test]
    fn a_kubelet_version_is_its_first_two_numbers() {
        let version = |text: &str| KubeletVersion::parse(text).map(|it| it.to_string());
        assert_eq!(version("1.35").as_deref(), Some("1.35"));
        assert_eq!(version("v1.35.2-gke.1").as_deref(), Some("1.35"));
        assert_eq!(version("v1.36+").as_deref(), Some("1.36"));
        for wrong in ["", "v1", "1.", "one.two", "1.999"] {
            assert_eq!(version(wrong), None, "{wrong}");
        }
    }
}
