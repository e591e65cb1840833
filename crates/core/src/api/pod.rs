//! Pods.

use super::labels::{HASH_LABEL, Labels, TEMPLATE_GENERATION_LABEL};
use super::names::{Namespace, NodeName, PodName, RevisionHash, Uid};
use super::time::Timestamp;

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.labels`.
    pub labels: Labels,
    /// UID of the owner that is marked as controller.
    pub controller: Option<Uid>,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Timestamp,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// `spec.nodeName`.
    pub node_name: Option<NodeName>,
    /// The node that the required node affinity pins the pod to: the only value of `metadata.name`
    /// in `matchFields` (C20).
    pub affinity_node_name: Option<NodeName>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// The condition `Ready`.
    pub readiness: Readiness,
}

impl Pod {
    /// The node that the pod runs on, or else the one that it is pinned to (C20).
    pub fn target_node_name(&self) -> Option<&NodeName> {
        self.node_name.as_ref().or(self.affinity_node_name.as_ref())
    }

    /// The value of the hash label.
    pub fn revision_hash(&self) -> Option<RevisionHash> {
        self.labels.get(HASH_LABEL).map(|hash| RevisionHash::new(hash.clone()))
    }

    /// The value of the template generation label, if it is a number (C45).
    pub fn template_generation(&self) -> Option<i64> {
        self.labels.get(TEMPLATE_GENERATION_LABEL)?.parse().ok()
    }
}

/// `status.phase`; a phase that this program does not know counts as `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Not all containers have started. A pod without a phase counts as pending.
    #[default]
    Pending,
    /// At least one container runs, starts or restarts.
    Running,
    /// All containers have ended without an error.
    Succeeded,
    /// All containers have ended, at least one of them with an error; or the pod was evicted.
    Failed,
    /// The kubelet does not report, or the phase has another name.
    Unknown,
}

impl PodPhase {
    /// Whether a pod in this phase never runs again.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Pending | Self::Running | Self::Unknown => false,
        }
    }
}

/// The pod's condition `Ready`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// The condition is not true, or does not exist.
    #[default]
    NotReady,
    /// The condition is true since its `lastTransitionTime`.
    ReadySince(Timestamp),
    /// The condition is true without a `lastTransitionTime`. If `minReadySeconds` is set, such a
    /// pod is never available.
    Ready,
}

impl Readiness {
    /// Whether the condition is true.
    pub const fn is_ready(self) -> bool {
        match self {
            Self::NotReady => false,
            Self::ReadySince(_) | Self::Ready => true,
        }
    }
}
