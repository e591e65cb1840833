//! Pods.

use std::sync::Arc;
use std::time::Duration;

use super::config_map::tag_with_copies;
use super::labels::{CONFIG_LABEL, HASH_LABEL, Labels, OVERRIDE_LABEL, TEMPLATE_GENERATION_LABEL};
use super::names::{
    DaemonSetName, Namespace, NodeName, PodName, ResourceVersion, RevisionHash, Uid,
};
use super::time::{Now, Timestamp};

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
    /// The name of that owner, a DaemonSet (C36).
    pub controller_name: Option<DaemonSetName>,
    /// `metadata.creationTimestamp`, or when a change in place of the pod began (G56).
    pub creation_timestamp: Timestamp,
    /// By how much that is later than its creation; `None` if the pod was not changed. A change of
    /// its override alone is none of its age: nothing but amounts of resources is another.
    pub changed_after: Option<Duration>,
    /// True if `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// When its deletion was requested: `metadata.deletionTimestamp` less
    /// `deletionGracePeriodSeconds`. `None` if it was not (C58).
    pub deleted_at: Option<Timestamp>,
    /// `spec.nodeName`.
    pub node_name: Option<NodeName>,
    /// The node that the required node affinity pins the pod to: the only value of `metadata.name`
    /// in `matchFields` (C20).
    pub affinity_node_name: Option<NodeName>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// The condition `Ready`.
    pub readiness: Readiness,
    /// The highest `restartCount` of its containers, at most 255 (G34).
    pub restarts: u8,
    /// Why a container does not run, if the kubelet states one of these reasons.
    pub trouble: Option<PodTrouble>,
    /// True if the condition `PodScheduled` is false (G33).
    pub unschedulable: bool,
    /// The annotations about its replacement, if it has one of them (G54).
    pub replacement: Option<Box<Replacement>>,
    /// The change in place that is under way, if one is (G56).
    pub change: Option<Box<PodChange>>,
}

/// The annotation of an old pod with the hash of the revision whose pod is to replace it, once
/// somebody agrees (G54).
pub const REPLACING_ANNOTATION: &str = "everynode.dev/replacing";

/// The annotation with the time since when [`REPLACING_ANNOTATION`] is there (G54).
pub const REPLACING_SINCE_ANNOTATION: &str = "everynode.dev/replacing-since";

/// The annotation with which somebody agrees that the old pod is replaced: [`AGREED`] (G54).
pub const REPLACE_ANNOTATION: &str = "everynode.dev/replace";

/// The value of [`REPLACE_ANNOTATION`].
pub const AGREED: &str = "agreed";

/// The annotation of a new pod with the hash of its revision: it is available, and its node is
/// updated (G54).
pub const REPLACED_ANNOTATION: &str = "everynode.dev/replaced";

/// The annotation of a pod that is being changed in place: to which revision, since when, and which
/// of its containers ran before (G56).
pub const CHANGING_ANNOTATION: &str = "everynode.dev/changing";

/// The annotation of a pod that was changed in place, or is being changed: since when, and the
/// restarts of its containers, among them those that the change causes. They do not count for a
/// rollout (G56).
pub const CHANGED_ANNOTATION: &str = "everynode.dev/changed";

/// The annotation of a pod with an override: the amounts that differ from its template, by
/// container, and containers that differ in anything else, which cannot change back in place (G57).
pub const OVERRIDDEN_ANNOTATION: &str = "everynode.dev/overridden";

/// A change of a pod in place that is under way (G56).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodChange {
    /// The revision and the override that it gets.
    pub to: ChangeGoal,
    /// Since when, by the wall clock of whoever changed it.
    pub since: Timestamp,
    /// How far the kubelet is.
    pub state: ChangeState,
    /// `metadata.resourceVersion` of the pod that states this.
    pub version: ResourceVersion,
}

/// The revision and the override that a pod has once it is changed in place (G56, G57).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeGoal {
    /// The hash of the revision.
    pub hash: RevisionHash,
    /// The tag of the override; `None` if the pod is that of the template.
    pub tag: Option<Arc<str>>,
}

/// How far a kubelet is with a change of a pod in place (G56).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// It has yet to see the change, to start the containers anew, or to resize them.
    UnderWay,
    /// Its node has no room for the new resources now.
    ResizeDeferred {
        /// Since when, by the clock of its node.
        since: Timestamp,
    },
    /// The kubelet tries to resize it and cannot, as where a container uses more memory than its
    /// new limit.
    ResizeFails {
        /// Since when, by the clock of its node.
        since: Timestamp,
    },
    /// Its node can never have these resources for the pod.
    ResizeInfeasible,
    /// The containers run as the revision states it.
    Done,
}

/// The annotations of a pod about its replacement (G54).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// The revision for which the pod is to go.
    pub replacing: Option<RevisionHash>,
    /// Since when somebody is asked for it, by the wall clock of whoever asked.
    pub since: Option<Timestamp>,
    /// True if somebody agrees.
    pub is_agreed: bool,
    /// The revision that the node was updated to with this pod.
    pub replaced: Option<RevisionHash>,
}

impl Pod {
    /// `metadata.creationTimestamp`.
    pub fn created(&self) -> Timestamp {
        self.creation_timestamp - self.changed_after.unwrap_or_default()
    }

    /// The node that the pod runs on, or else the one that it is pinned to (C20).
    pub fn target_node_name(&self) -> Option<&NodeName> {
        self.node_name.as_ref().or(self.affinity_node_name.as_ref())
    }

    /// The tag of the override that made the pod, with that of its copies of ConfigMaps (G57, G58).
    pub fn tag(&self) -> Option<Arc<str>> {
        let of_override = self.labels.get(OVERRIDE_LABEL);
        match self.labels.get(CONFIG_LABEL) {
            None => of_override.cloned(),
            Some(of_copies) => Some(tag_with_copies(of_override.map(|it| &**it), of_copies)),
        }
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

/// The `reason` for which a container waits, as far as it is a trouble. Later ones say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodTrouble {
    /// It ends again and again.
    CrashLoopBackOff,
    /// Its image cannot be pulled.
    ErrImagePull,
    /// The same, and the kubelet waits before it tries again.
    ImagePullBackOff,
    /// Its image has no valid name.
    InvalidImageName,
    /// A ConfigMap or a Secret is missing, or the container's configuration is wrong.
    CreateContainerConfigError,
    /// The container runtime refuses to create it.
    CreateContainerError,
}

impl PodTrouble {
    const ALL: [Self; 6] = [
        Self::CrashLoopBackOff,
        Self::ErrImagePull,
        Self::ImagePullBackOff,
        Self::InvalidImageName,
        Self::CreateContainerConfigError,
        Self::CreateContainerError,
    ];

    /// The trouble with this `reason`, if it is one.
    pub fn from_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trouble| trouble.as_str() == reason)
    }

    /// The `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CrashLoopBackOff => "CrashLoopBackOff",
            Self::ErrImagePull => "ErrImagePull",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::InvalidImageName => "InvalidImageName",
            Self::CreateContainerConfigError => "CreateContainerConfigError",
            Self::CreateContainerError => "CreateContainerError",
        }
    }

    /// True if the container cannot start at all (G34).
    pub const fn prevents_start(self) -> bool {
        match self {
            Self::CrashLoopBackOff => false,
            Self::ErrImagePull
            | Self::ImagePullBackOff
            | Self::InvalidImageName
            | Self::CreateContainerConfigError
            | Self::CreateContainerError => true,
        }
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
    /// True if a pod in this phase never runs again.
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
    /// True if the condition is true.
    pub const fn is_ready(self) -> bool {
        match self {
            Self::NotReady => false,
            Self::ReadySince(_) | Self::Ready => true,
        }
    }

    /// The same with a transition time of the steady clock.
    pub fn by_steady_clock(self, now: Now) -> Self {
        match self {
            Self::ReadySince(since) => Self::ReadySince(now.to_steady(since)),
            Self::NotReady | Self::Ready => self,
        }
    }

    /// True if the pod has been ready for at least `min_ready_seconds` at `now` (C54). See
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
