//! What is to be done: all output of the core as one value.
//!
//! Writes carry what their execution needs and leave nothing to decide. What became of each comes back
//! as a [`WriteResult`].

mod display;

use std::collections::BTreeMap;

use crate::api::{
    NodeName, PodName, Problem, ResourceVersion, Revision, RevisionHash, RevisionName, Status,
    Timestamp, Uid,
};

/// The outcome of one sync of one DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// To be executed; those of different kinds and on different nodes don't depend on each other (C29).
    /// `CreatePod`s go in slow-start batches (C28).
    pub writes: Vec<Write>,
    pub notices: Vec<Notice>,
    /// When to plan again if nothing happens before.
    pub requeue_at: Option<Timestamp>,
    /// Set if pods and revisions were left alone because something written is yet to be seen (C60).
    pub waiting: Option<Waiting>,
}

/// One write to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Make the DaemonSet the pod's controller, after a live GET has confirmed the DaemonSet (C21).
    AdoptPod(PodReference),
    /// Remove the DaemonSet from the pod's owners (C21).
    ReleasePod(PodReference),
    /// As `AdoptPod`.
    AdoptRevision(RevisionReference),
    /// As `ReleasePod`.
    ReleaseRevision(RevisionReference),
    /// Store the current template (C40). If the name is taken: [`Outcome::RevisionExists`].
    CreateRevision(NewRevision),
    /// Give a revision the hash label that it lacks (C42).
    LabelRevision { revision: RevisionReference, hash: RevisionHash },
    /// Raise `revision` (C42).
    RaiseRevision { revision: RevisionReference, number: i64 },
    /// Set `status.collisionCount` (C43).
    RaiseCollisionCount { resource_version: ResourceVersion, collision_count: i32 },
    /// Set the pod's hash label (C42).
    RelabelPod { pod: PodReference, hash: RevisionHash },
    /// Delete a duplicate, or one beyond the history limit (C42, C44).
    DeleteRevision(RevisionReference),
    /// Create a pod from the current template (C30).
    CreatePod(NewPod),
    /// Delete a pod, with its UID as precondition (C61).
    DeletePod(PodReference),
    /// Write the status (C70).
    UpdateStatus { resource_version: ResourceVersion, status: Status },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodReference {
    pub name: PodName,
    pub uid: Uid,
    /// The node that it is on or aimed at.
    pub node: Option<NodeName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionReference {
    pub name: RevisionName,
    pub uid: Uid,
    pub resource_version: ResourceVersion,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    pub name: RevisionName,
    pub hash: RevisionHash,
    pub number: i64,
    /// What was hashed along with the template (C43).
    pub collision_count: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPod {
    /// The name under which a creation for this node has been sent before, if that may still take effect: under the same
    /// name both together make one pod at most (C35). `None`: whoever executes the write draws a name. In a
    /// [`WriteResult`] it is the name that was sent last.
    pub name: Option<PodName>,
    pub node: NodeName,
    pub hash: RevisionHash,
    pub template_generation: Option<i64>,
    pub schedule_by: ScheduleBy,
}

/// Who binds pods to nodes (C31).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleBy {
    /// The pod is aimed at its node by node affinity.
    #[default]
    Scheduler,
    /// The pod is created with `spec.nodeName`.
    Controller,
}

/// A write and what became of it. Every write of a plan must come back, exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResult {
    pub write: Write,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server answered with this object. For a delete: it is done or under way.
    Written { uid: Uid, resource_version: ResourceVersion },
    /// There is no such object any more (or another one under its name). What a delete wants.
    Gone,
    /// `CreateRevision` only: the name is taken. Both were read live after the refusal;
    /// `collision_count` is that of the DaemonSet. `None`: taken by another kind's revision, which is of no use.
    RevisionExists { revision: Option<Box<Revision>>, collision_count: Option<i32> },
    /// Refused because the namespace is terminating: no error (C28).
    NamespaceTerminating,
    /// Not tried, because an earlier batch of creates had an error (C28).
    Skipped,
    /// Refused. The message is for people.
    Failed { message: String },
    /// `CreatePod` and `DeletePod` only: no answer tells whether it has been done, or will be. It is sent
    /// again until one does (C35, C52); other writes may be planned again as if they had failed.
    Unknown { message: String },
}

/// What there is to tell people, on the DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// C24
    FailedDaemonPod { pod: PodName, node: NodeName },
    /// C24
    SucceededDaemonPod { pod: PodName, node: NodeName },
    /// C33
    SelectingAll,
    /// C60: this many creations and deletions were not seen for too long.
    ExpectationLapsed { creations: usize, deletions: usize, writes: usize },
    /// C4
    Problem(Problem),
}

impl Notice {
    /// The `reason` of the event (C71).
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::FailedDaemonPod { .. } => "FailedDaemonPod",
            Self::SucceededDaemonPod { .. } => "SucceededDaemonPod",
            Self::SelectingAll => "SelectingAll",
            Self::ExpectationLapsed { .. } => "ExpectationLapsed",
            Self::Problem(problem) => problem.reason(),
        }
    }

    /// Whether the event's `type` is `Warning` and not `Normal`.
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::SucceededDaemonPod { .. } => false,
            Self::FailedDaemonPod { .. }
            | Self::SelectingAll
            | Self::ExpectationLapsed { .. }
            | Self::Problem(_) => true,
        }
    }
}

/// What is yet to be seen before the next step (C56, C60).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Writes whose results have not come back.
    pub in_flight: usize,
    pub creations: usize,
    pub deletions: usize,
    /// Kinds whose watch has not reached what was written.
    pub stale_kinds: usize,
}

/// How far the watch of each kind has come: the highest resourceVersion that an event or a bookmark had,
/// or the one that the last list had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    pub daemon_sets: ResourceVersion,
    pub pods: ResourceVersion,
    pub revisions: ResourceVersion,
}

impl Plan {
    /// How many writes there are of each kind, by name, for logs and tests.
    pub fn summary(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for write in &self.writes {
            *counts.entry(write.verb()).or_default() += 1;
        }
        counts
    }
}

impl Write {
    /// What is done, in two words.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::AdoptPod(_) => "adopt pod",
            Self::ReleasePod(_) => "release pod",
            Self::AdoptRevision(_) => "adopt revision",
            Self::ReleaseRevision(_) => "release revision",
            Self::CreateRevision(_) => "create revision",
            Self::LabelRevision { .. } => "label revision",
            Self::RaiseRevision { .. } => "raise revision",
            Self::RaiseCollisionCount { .. } => "raise collisionCount",
            Self::RelabelPod { .. } => "relabel pod",
            Self::DeleteRevision(_) => "delete revision",
            Self::CreatePod(_) => "create pod",
            Self::DeletePod(_) => "delete pod",
            Self::UpdateStatus { .. } => "update status",
        }
    }

    pub(crate) const fn target(&self) -> WriteTarget<'_> {
        match self {
            Self::CreatePod(new) => WriteTarget::NewPod(new),
            Self::AdoptPod(pod)
            | Self::ReleasePod(pod)
            | Self::RelabelPod { pod, .. }
            | Self::DeletePod(pod) => WriteTarget::Pod(pod),
            Self::CreateRevision(_) => WriteTarget::NewRevision,
            Self::AdoptRevision(revision)
            | Self::ReleaseRevision(revision)
            | Self::LabelRevision { revision, .. }
            | Self::RaiseRevision { revision, .. }
            | Self::DeleteRevision(revision) => WriteTarget::Revision(revision),
            Self::RaiseCollisionCount { .. } | Self::UpdateStatus { .. } => WriteTarget::DaemonSet,
        }
    }

    /// The UID of what is deleted.
    pub(crate) const fn deleted(&self) -> Option<&Uid> {
        let deletes = matches!(self, Self::DeletePod(_) | Self::DeleteRevision(_));
        match self.target() {
            WriteTarget::Pod(pod) if deletes => Some(&pod.uid),
            WriteTarget::Revision(revision) if deletes => Some(&revision.uid),
            WriteTarget::NewPod(_)
            | WriteTarget::Pod(_)
            | WriteTarget::NewRevision
            | WriteTarget::Revision(_)
            | WriteTarget::DaemonSet => None,
        }
    }
}

/// What a write is of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteTarget<'a> {
    NewPod(&'a NewPod),
    Pod(&'a PodReference),
    NewRevision,
    Revision(&'a RevisionReference),
    DaemonSet,
}

impl<'a> WriteTarget<'a> {
    /// The kind whose watch will show the write.
    pub const fn kind(self) -> ObjectKind {
        match self {
            Self::NewPod(_) | Self::Pod(_) => ObjectKind::Pod,
            Self::NewRevision | Self::Revision(_) => ObjectKind::Revision,
            Self::DaemonSet => ObjectKind::DaemonSet,
        }
    }

    /// The node that a pod is, or is to be, on or aimed at.
    pub const fn node(self) -> Option<&'a NodeName> {
        match self {
            Self::NewPod(pod) => Some(&pod.node),
            Self::Pod(pod) => pod.node.as_ref(),
            Self::NewRevision | Self::Revision(_) | Self::DaemonSet => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectKind {
    DaemonSet,
    Pod,
    Revision,
}
