//! Pods.

use std::time::Duration;

use super::labels::{HASH_LABEL, Labels, TEMPLATE_GENERATION_LABEL};
use super::names::{Namespace, NodeName, PodName, RevisionHash, Uid};
use super::time::Timestamp;

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub namespace: Namespace,
    pub name: PodName,
    pub uid: Uid,
    pub labels: Labels,
    /// The UID of the owner that is marked as controller.
    pub controller: Option<Uid>,
    pub creation_timestamp: Timestamp,
    /// Whether there is a `metadata.deletionTimestamp`.
    pub terminating: bool,
    /// `spec.nodeName`.
    pub node_name: Option<NodeName>,
    /// The one value of `metadata.name` in the required node affinity's matchFields (C20).
    pub affinity_node_name: Option<NodeName>,
    pub phase: PodPhase,
    pub readiness: Readiness,
}

impl Pod {
    /// The node that the pod is on or aimed at (C20).
    pub fn target_node_name(&self) -> Option<&NodeName> {
        self.node_name.as_ref().or(self.affinity_node_name.as_ref())
    }

    pub fn revision_hash(&self) -> Option<RevisionHash> {
        self.labels.get(HASH_LABEL).map(|hash| RevisionHash::new(hash.clone()))
    }

    pub fn template_generation(&self) -> Option<i64> {
        self.labels.get(TEMPLATE_GENERATION_LABEL)?.parse().ok()
    }
}

/// `status.phase`; one that we don't know counts as `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl PodPhase {
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
    #[default]
    NotReady,
    /// True, with its `lastTransitionTime`.
    ReadySince(Timestamp),
    /// True, with no time of transition: never counts as ready *for* some time.
    Ready,
}

impl Readiness {
    pub const fn is_ready(self) -> bool {
        match self {
            Self::NotReady => false,
            Self::ReadySince(_) | Self::Ready => true,
        }
    }

    /// Whether the pod has been ready for at least `min_ready_seconds` at `now` (C54). See
    /// [`available_at`](Self::available_at) for `first_seen`.
    pub fn is_available(
        self,
        first_seen: Option<Timestamp>,
        min_ready_seconds: u32,
        now: Timestamp,
    ) -> bool {
        let is_due =
            || self.available_at(first_seen, min_ready_seconds).is_some_and(|at| at <= now);
        self.is_ready() && (min_ready_seconds == 0 || is_due())
    }

    /// When the pod becomes available, or became available, if it stays ready; `None` if that is
    /// unknown. `first_seen` is the time at which the reader first observed this readiness: a
    /// transition time later than that comes from a kubelet whose clock is ahead, and must not
    /// delay a rollout, so `first_seen` replaces it.
    pub fn available_at(
        self,
        first_seen: Option<Timestamp>,
        min_ready_seconds: u32,
    ) -> Option<Timestamp> {
        match self {
            Self::NotReady | Self::Ready => None,
            Self::ReadySince(since) => {
                let since = first_seen.map_or(since, |seen| seen.min(since));
                Some(since + Duration::from_secs(min_ready_seconds.into()))
            }
        }
    }
}
