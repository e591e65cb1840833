//! The output of the core: the writes of one sync and the results that they return with.
//!
//! A [`Write`] contains everything that its execution needs; a caller decides nothing. The outcome
//! of each write returns to the core as a [`WriteResult`].

mod change;
mod config_map;
mod display;
mod notice;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    AdmissionChange, CheckKind, DaemonSetKey, NodeName, NodeOverride, PodName, ResourceVersion,
    Revision, RevisionHash, RevisionName, RolloutCheck, RolloutCondition, RolloutRecord, Status,
    Timestamp, Uid, WaveName,
};

pub use change::NewChange;
pub use config_map::{CopyReference, NewCopy};
pub use display::{ADMISSION_CHANGED, OTHERS_DELETE};
pub use notice::{Notice, Supersession, Transition};

pub use crate::backoff::DELAY_MAX as ENDED_POD_DELAY_MAX;

/// The longest time after the API server has refused a pod until one is created again (C72).
pub const CREATION_RETRY_MAX: Duration = Duration::from_secs(60);

/// How long a record or a change in place of unknown outcome is awaited: an API server executes a
/// request within a minute, and a watch shows it soon after (G9, G56).
pub(crate) const UNKNOWN_FOR: Duration = Duration::from_secs(90);

/// The annotation of an event about a pod that has ended: how many seconds after it the next pod of
/// its node, which `related` names, is kept if it ends, too (C24). No other object states it.
pub const BACKOFF_ANNOTATION: &str = "everynode.dev/backoff-seconds";

/// The `reportingController` of the events.
pub const REPORTING_CONTROLLER: &str = "everynode";

/// The outcome of one sync of one DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Writes to execute. Writes of different kinds or on different nodes are independent (C29).
    /// `CreatePod`s are executed in batches that start small and double (C28).
    pub writes: Vec<Write>,
    /// Checks to ask beside the writes. Each answer returns once, by
    /// [`apply_check_answer`](crate::daemon_set::DaemonSetState::apply_check_answer) (G5).
    pub questions: Vec<CheckQuestion>,
    /// Events to report on the DaemonSet (C71).
    pub notices: Vec<Notice>,
    /// When the next plan is due if nothing changes before.
    pub requeue_at: Option<Timestamp>,
    /// Set if no new write of a pod or a revision was planned, because earlier writes have not been
    /// seen (C60).
    pub waiting: Option<Waiting>,
}

/// One write to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Make the DaemonSet the pod's controller, after a GET has confirmed that the DaemonSet exists
    /// and is not terminating (C21).
    AdoptPod(PodReference),
    /// Remove the DaemonSet from the pod's owners (C21).
    ReleasePod(PodReference),
    /// The same as `AdoptPod`, for a revision (C21).
    AdoptRevision(RevisionReference),
    /// Remove the DaemonSet from the revision's owners (C21).
    ReleaseRevision(RevisionReference),
    /// Store the current template as a revision. If its name is taken, the outcome is
    /// [`Outcome::RevisionExists`] (C40).
    CreateRevision(NewRevision),
    /// Add the missing hash label of a revision (C42).
    LabelRevision {
        /// The revision without the label.
        revision: RevisionReference,
        /// The value of the label.
        hash: RevisionHash,
    },
    /// Raise `revision` of a revision that became current again (C42).
    RaiseRevision {
        /// The revision.
        revision: RevisionReference,
        /// Its new number.
        number: i64,
        /// The template generation, which it gets as well (C41).
        template_generation: Option<i64>,
    },
    /// Store the state of a rollout on its revision. It is the only write of its plan (G9).
    WriteRecord {
        /// The revision.
        revision: RevisionReference,
        /// The new record.
        record: Arc<RolloutRecord>,
    },
    /// Set `status.collisionCount` (C43).
    RaiseCollisionCount {
        /// The version of the DaemonSet that the decision is based on.
        resource_version: ResourceVersion,
        /// The new count.
        collision_count: i32,
    },
    /// Replace the pod's hash label, which is that of a duplicate revision (C42).
    RelabelPod {
        /// The pod.
        pod: PodReference,
        /// The hash of the current revision.
        hash: RevisionHash,
    },
    /// Ask whether an old pod may go, by its annotations (G54).
    AskForReplacement {
        /// The pod.
        pod: PodReference,
        /// The hash of the target.
        hash: RevisionHash,
        /// The time, by the wall clock, in whole seconds.
        since: Timestamp,
        /// True if an answer to an earlier question is there, which is removed.
        withdraws: bool,
    },
    /// State on a new pod that its node is updated (G54).
    MarkReplaced {
        /// The pod.
        pod: PodReference,
        /// The hash of its revision.
        hash: RevisionHash,
    },
    /// Change a running pod in place to another revision, as far as that has not happened yet: its
    /// images, labels and annotations, and then its resources (G56). If the pod or its API server
    /// does not allow it, the outcome is [`Outcome::CannotChange`].
    ChangePod(NewChange),
    /// Give a pod that was changed in place the labels of its revision: its containers run as the
    /// revision states it (G56).
    FinishChange {
        /// The pod.
        pod: PodReference,
        /// `metadata.resourceVersion` of the pod that states it: the write fails if anything has
        /// changed since, such as another image or another change in place (C61).
        resource_version: ResourceVersion,
        /// The hash of the revision.
        hash: RevisionHash,
        /// The template generation, for the pod's label; `None` for an older revision.
        template_generation: Option<i64>,
        /// The tag of its override, for the pod's label and annotation (G57).
        tag: Option<Arc<str>>,
    },
    /// Create a pod that pulls the images of the target to its node, unless the status of the node
    /// lists them. Then the outcome is [`Outcome::ImagesPresent`] (G55).
    PullImages(NewPuller),
    /// Delete such a pod, with its UID as precondition (G55).
    DeletePuller(PodReference),
    /// Create an immutable copy of a ConfigMap, which the DaemonSet owns. If its content is another
    /// one by now, or it is gone, the outcome is [`Outcome::Skipped`] (G58).
    CopyConfigMap(NewCopy),
    /// Delete a copy that no revision has any more (G58).
    DeleteCopy(CopyReference),
    /// Delete a duplicate, or a revision beyond the history limit (C42, C44).
    DeleteRevision(RevisionReference),
    /// Create a pod (C30).
    CreatePod(NewPod),
    /// Delete a pod, with its UID as precondition (C61).
    DeletePod(PodReference),
    /// Write the status (C70).
    UpdateStatus {
        /// The version of the DaemonSet that the status was computed from.
        resource_version: ResourceVersion,
        /// The new status.
        status: Status,
        /// True if the conditions of a guarded or paused rollout are removed (G21).
        ends_rollout: bool,
    },
    /// Set the conditions of a guarded or paused rollout, and nothing else of the status, which the
    /// built-in controller writes (G20, G21).
    UpdateConditions {
        /// Their statement; `None` removes them.
        rollout: Option<RolloutCondition>,
    },
    /// Replace the DaemonSet's template with that of the base (G20).
    RollBack {
        /// The version of the DaemonSet that has the failed template.
        resource_version: ResourceVersion,
        /// The base.
        base: RevisionReference,
        /// The failed attempt, for
        /// [`ROLLED_BACK_ANNOTATION`](crate::api::ROLLED_BACK_ANNOTATION).
        attempt: Arc<str>,
    },
}

/// A check that is asked for a wave (G5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckQuestion {
    /// The DaemonSet.
    pub daemon_set: DaemonSetKey,
    /// The revision that is rolled out.
    pub revision: RevisionHash,
    /// The wave, as orders name it.
    pub wave: WaveName,
    /// When it began to bake, or before that the attempt, by its record: the same wave may be tried
    /// again later.
    pub since: Timestamp,
    /// The check.
    pub check: RolloutCheck,
    /// The question, with the values of its variables.
    pub kind: CheckKind,
    /// When it is asked, by the steady clock.
    pub asked: Timestamp,
    /// The same by the wall clock.
    pub asked_wall: Timestamp,
    /// Which Job of a `cronJob` is meant: 1, or 2 after the first one was deleted.
    pub job_number: u8,
    /// True if an answer has shown that this Job exists. Then it is not created again.
    pub has_job: bool,
}

/// The pod that a write changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodReference {
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`: the write fails if another pod has the name (C61).
    pub uid: Uid,
    /// The node that the pod runs on or is pinned to, if the write depends on it.
    pub node: Option<NodeName>,
}

/// The revision that a write changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionReference {
    /// `metadata.name`.
    pub name: RevisionName,
    /// `metadata.uid`: the write fails if another revision has the name (C61).
    pub uid: Uid,
    /// `metadata.resourceVersion`: an update fails if the revision has changed (C61).
    pub resource_version: ResourceVersion,
}

/// A revision to create, which stores the current template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    /// `metadata.name`: the name of the DaemonSet and the hash.
    pub name: RevisionName,
    /// The value of the hash label.
    pub hash: RevisionHash,
    /// `revision`.
    pub number: i64,
    /// The collision count that was hashed with the template (C43).
    pub collision_count: Option<i32>,
    /// The overrides that it stores beside the template, in the form of
    /// [`Overrides::text`](crate::api::Overrides::text) (G57).
    pub overrides: Option<Arc<str>>,
    /// The copies of ConfigMaps that it stores, in the form of
    /// [`ConfigCopies::text`](crate::api::ConfigCopies::text) (G58).
    pub copies: Option<Arc<str>>,
}

/// A pod to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPod {
    /// The name of an earlier creation for this node that may still take effect: with the same
    /// name, both create at most one pod. `None` if the executor chooses a random name. In a
    /// [`WriteResult`] it is the name that was sent last (C35).
    pub name: Option<PodName>,
    /// The node on which the pod is to run.
    pub node: NodeName,
    /// The hash of the pod's revision, for its label.
    pub hash: RevisionHash,
    /// The template generation, for the pod's label (C45). `None` for an older revision (G16).
    pub template_generation: Option<i64>,
    /// The template of an older revision, in the form of
    /// [`Template::canonical`](crate::api::Template::canonical); `None` for the current one (G16).
    pub template: Option<Arc<str>>,
    /// The difference from the template on its node, if there is one (G57).
    pub r#override: Option<Arc<NodeOverride>>,
    /// Which component binds the pod to its node (C31).
    pub schedule_by: ScheduleBy,
}

/// A pod to create that pulls the images of the current template to a node (G55).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPuller {
    /// The node.
    pub node: NodeName,
    /// The hash of the current revision.
    pub hash: RevisionHash,
    /// The current revision, which is the controller of the pod.
    pub revision: RevisionReference,
    /// The difference from the template on the node, if there is one (G57).
    pub r#override: Option<Arc<NodeOverride>>,
}

/// Which component binds pods to nodes (C31).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleBy {
    /// The scheduler: required node affinity pins the pod to its node.
    #[default]
    Scheduler,
    /// This controller: the pod is created with `spec.nodeName`.
    Controller,
}

/// A write and its outcome. Every write of a plan must be returned exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResult {
    /// The write, as it was planned; the name of a created pod is filled in.
    pub write: Write,
    /// The outcome of the write.
    pub outcome: Outcome,
}

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The write succeeded. A deleted object may still be terminating.
    Written {
        /// `metadata.uid` in the response.
        uid: Uid,
        /// `metadata.resourceVersion` in the response.
        resource_version: ResourceVersion,
    },
    /// `CreatePod` only: the pod was created, but admission has changed it so that it does not
    /// count for its node (C28).
    Changed {
        /// `metadata.uid` in the response.
        uid: Uid,
        /// `metadata.resourceVersion` in the response.
        resource_version: ResourceVersion,
        /// The change.
        change: AdmissionChange,
    },
    /// The object does not exist any more, or another object has its name. For a deletion this is a
    /// success.
    Gone,
    /// `CreateRevision` only: the name is taken. Both fields were read from the API server after
    /// the refusal.
    RevisionExists {
        /// The revision that has the name; `None` if it belongs to another kind of controller.
        revision: Option<Box<Revision>>,
        /// `status.collisionCount` of the DaemonSet.
        collision_count: Option<i32>,
    },
    /// `PullImages` only: the node has the images already.
    ImagesPresent,
    /// `ChangePod` only: this pod cannot be changed in place, now or later.
    CannotChange {
        /// The cause.
        message: String,
        /// `metadata.resourceVersion` of the pod, if a part of the change was written.
        written: Option<ResourceVersion>,
    },
    /// `ChangePod` only: a part of the change was written, and the rest failed.
    Begun {
        /// `metadata.resourceVersion` in the response.
        resource_version: ResourceVersion,
        /// The cause, for the log.
        message: String,
    },
    /// Refused because the namespace is terminating, which is no error (C28).
    NamespaceTerminating,
    /// Not attempted, because an earlier batch of creations had an error (C28).
    Skipped,
    /// Refused.
    Failed {
        /// The cause, for the log.
        message: String,
    },
    /// No response states whether the write took effect or will. `CreatePod` and `DeletePod` are
    /// repeated until one does (C35, C52); a record is awaited, and a pod counts as one that is
    /// being changed (G9, G56). Report other writes as [`Outcome::Failed`]: repeating them does no
    /// harm.
    Unknown {
        /// The cause, for the log.
        message: String,
    },
}

/// The writes that must be seen before pods and revisions are written again (C56, C60).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Number of writes whose results are missing.
    pub in_flight: usize,
    /// Number of created pods that have not been seen.
    pub creations: usize,
    /// Number of objects that have not been seen deleted or terminating.
    pub deletions: usize,
    /// Number of kinds whose watch has not reached the last write.
    pub stale_kinds: usize,
}

/// How far the watch of each kind is: the highest resourceVersion of its events and bookmarks, or
/// that of the last list (C60).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// The watch of DaemonSets.
    pub daemon_sets: ResourceVersion,
    /// The watch of pods.
    pub pods: ResourceVersion,
    /// The watch of ControllerRevisions.
    pub revisions: ResourceVersion,
}

impl Plan {
    /// The number of writes of each kind, by [`Write::verb`], for logs and tests.
    pub fn summary(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.writes.iter().for_each(|write| *counts.entry(write.verb()).or_default() += 1);
        counts
    }
}

impl Write {
    /// The kind of write in two words, such as `create pod`.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::AdoptPod(_) => "adopt pod",
            Self::ReleasePod(_) => "release pod",
            Self::AdoptRevision(_) => "adopt revision",
            Self::ReleaseRevision(_) => "release revision",
            Self::CreateRevision(_) => "create revision",
            Self::LabelRevision { .. } => "label revision",
            Self::RaiseRevision { .. } => "raise revision",
            Self::WriteRecord { .. } => "write record",
            Self::RaiseCollisionCount { .. } => "raise collisionCount",
            Self::RelabelPod { .. } => "relabel pod",
            Self::AskForReplacement { .. } => "ask for replacement",
            Self::MarkReplaced { .. } => "mark replaced",
            Self::ChangePod(_) => "change pod",
            Self::FinishChange { .. } => "finish change",
            Self::PullImages(_) => "pull images",
            Self::DeletePuller(_) => "delete puller",
            Self::CopyConfigMap(_) => "copy configmap",
            Self::DeleteCopy(_) => "delete copy",
            Self::DeleteRevision(_) => "delete revision",
            Self::CreatePod(_) => "create pod",
            Self::DeletePod(_) => "delete pod",
            Self::UpdateStatus { .. } => "update status",
            Self::UpdateConditions { .. } => "update conditions",
            Self::RollBack { .. } => "roll back",
        }
    }

    pub(crate) const fn target(&self) -> WriteTarget<'_> {
        match self {
            Self::CreatePod(new) => WriteTarget::NewPod(new),
            Self::AdoptPod(pod)
            | Self::ReleasePod(pod)
            | Self::RelabelPod { pod, .. }
            | Self::AskForReplacement { pod, .. }
            | Self::MarkReplaced { pod, .. }
            | Self::ChangePod(NewChange { pod, .. })
            | Self::FinishChange { pod, .. }
            | Self::DeletePuller(pod)
            | Self::DeletePod(pod) => WriteTarget::Pod(pod),
            Self::PullImages(_) => WriteTarget::NewPuller,
            Self::CopyConfigMap(_) | Self::DeleteCopy(_) => WriteTarget::ConfigMap,
            Self::CreateRevision(_) => WriteTarget::NewRevision,
            Self::AdoptRevision(revision)
            | Self::ReleaseRevision(revision)
            | Self::LabelRevision { revision, .. }
            | Self::RaiseRevision { revision, .. }
            | Self::WriteRecord { revision, .. }
            | Self::DeleteRevision(revision) => WriteTarget::Revision(revision),
            Self::RaiseCollisionCount { .. }
            | Self::UpdateStatus { .. }
            | Self::UpdateConditions { .. }
            | Self::RollBack { .. } => WriteTarget::DaemonSet,
        }
    }

    /// True if the write is of the status, of which one is in flight at a time.
    pub(crate) const fn is_of_status(&self) -> bool {
        matches!(self, Self::UpdateStatus { .. } | Self::UpdateConditions { .. })
    }

    /// The UID of the object that the write deletes, if it deletes one.
    pub const fn deleted(&self) -> Option<&Uid> {
        let deletes = matches!(self, Self::DeletePod(_) | Self::DeleteRevision(_));
        match self.target() {
            WriteTarget::Pod(pod) if deletes => Some(&pod.uid),
            WriteTarget::Revision(revision) if deletes => Some(&revision.uid),
            WriteTarget::NewPod(_)
            | WriteTarget::NewPuller
            | WriteTarget::ConfigMap
            | WriteTarget::Pod(_)
            | WriteTarget::NewRevision
            | WriteTarget::Revision(_)
            | WriteTarget::DaemonSet => None,
        }
    }
}

/// The object that a write changes or creates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteTarget<'a> {
    NewPod(&'a NewPod),
    /// A pod that only pulls images.
    NewPuller,
    /// A copy of a ConfigMap.
    ConfigMap,
    Pod(&'a PodReference),
    NewRevision,
    Revision(&'a RevisionReference),
    DaemonSet,
}

impl<'a> WriteTarget<'a> {
    /// The kind whose watch will show the write. Plans do not wait for copies of ConfigMaps: the
    /// rollout does.
    pub(crate) const fn kind(self) -> Option<ObjectKind> {
        match self {
            Self::NewPod(_) | Self::NewPuller | Self::Pod(_) => Some(ObjectKind::Pod),
            Self::NewRevision | Self::Revision(_) => Some(ObjectKind::Revision),
            Self::DaemonSet => Some(ObjectKind::DaemonSet),
            Self::ConfigMap => None,
        }
    }

    /// The node of the pod.
    pub(crate) const fn node(self) -> Option<&'a NodeName> {
        match self {
            Self::NewPod(pod) => Some(&pod.node),
            Self::Pod(pod) => pod.node.as_ref(),
            Self::NewPuller
            | Self::ConfigMap
            | Self::NewRevision
            | Self::Revision(_)
            | Self::DaemonSet => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    DaemonSet,
    Pod,
    Revision,
}

impl ObjectKind {
    pub(crate) const ALL: [Self; 3] = [Self::DaemonSet, Self::Pod, Self::Revision];
}
