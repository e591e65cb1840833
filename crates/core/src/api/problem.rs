//! Malformed fields.

use std::sync::Arc;
use std::time::Duration;

use super::names::{NodeName, PodName, RevisionName};

/// A malformed part of an object. It is reported, and the rest of the object still counts (C4).
///
/// `field` is the path of the malformed field, `message` states what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// `spec.selector` of the DaemonSet: nothing is planned.
    Selector {
        /// Why the field is malformed.
        message: Arc<str>,
    },
    /// `spec.template` of the DaemonSet as a whole: nothing is planned.
    Template {
        /// Why the field is malformed.
        message: Arc<str>,
    },
    /// A term of the required node affinity: it matches no node.
    NodeAffinity {
        /// Path of the term.
        field: Arc<str>,
        /// Why the term is malformed.
        message: Arc<str>,
    },
    /// A toleration: it tolerates no taint.
    Toleration {
        /// Path of the toleration.
        field: Arc<str>,
        /// Why the toleration is malformed.
        message: Arc<str>,
    },
    /// `spec.updateStrategy`: no pod is replaced for its revision.
    UpdateStrategy {
        /// Path of the malformed field.
        field: Arc<str>,
        /// Why the field is malformed.
        message: Arc<str>,
    },
    /// The annotation that pauses the rollout is neither `true` nor `false`: the rollout is paused
    /// (G6, G7).
    Paused {
        /// The value of the annotation.
        value: Arc<str>,
    },
    /// The rollout policy: no pod is replaced (G7).
    Policy {
        /// The field, and why it is malformed.
        message: Arc<str>,
    },
    /// The annotation with an order: it is ignored (G10).
    Order {
        /// Why it is malformed.
        message: Arc<str>,
    },
    /// The record of a rollout: the rollout is held (G44).
    Record {
        /// `metadata.name` of the revision.
        name: RevisionName,
        /// Why it is malformed.
        message: Arc<str>,
    },
    /// A record that names another revision than the one that it is on: it is ignored (G44).
    ForeignRecord {
        /// `metadata.name` of the revision.
        name: RevisionName,
    },
    /// `data` of a ControllerRevision: the revision matches no template.
    Revision {
        /// `metadata.name` of the revision.
        name: RevisionName,
        /// Why the data is malformed.
        message: Arc<str>,
    },
    /// A pod that neither runs on a node nor is pinned to one: it is ignored (C20).
    PodWithoutNode {
        /// `metadata.name` of the pod.
        pod: PodName,
    },
    /// The node selector annotation of the namespace: it restricts nothing (C15).
    NamespaceNodeSelector {
        /// Why the annotation is malformed.
        message: Arc<str>,
    },
    /// A pod that admission has changed: it does not count for the node for which it was created,
    /// and creations pause (C28).
    ChangedPod {
        /// `metadata.name` of the pod.
        pod: PodName,
        /// The node for which the pod was created.
        node: NodeName,
        /// The change.
        change: AdmissionChange,
    },
    /// A pod that cannot be changed in place: it is replaced, or with `InPlaceOnly` stays (G56).
    UnchangedPod {
        /// `metadata.name` of the pod.
        pod: PodName,
        /// Why it cannot.
        why: Arc<str>,
        /// True if only its override is to change: it stays (G57).
        stays: bool,
    },
    /// Other clients delete the pods of a node again and again, or change their labels or owner,
    /// before they are ready: the next creation is delayed (C23).
    LostPods {
        /// The node.
        node: NodeName,
        /// For how long.
        delay: Duration,
    },
}

/// A change of a created pod by admission, so that it does not count for its node (C28).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdmissionChange {
    /// The labels: the selector does not match them, so the pod is released (C21).
    Labels,
    /// The owner: another object is the controller.
    Controller,
    /// The node; `None` if the pod is neither on a node nor pinned to one (C20).
    Node(Option<NodeName>),
    /// The labels that show the revision are missing: a rolling update replaces the pod (C45).
    RevisionLabels,
}

impl Problem {
    /// The `reason` of the event that reports the problem (C71).
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Selector { .. } => "InvalidSelector",
            Self::Template { .. } => "InvalidTemplate",
            Self::NodeAffinity { .. } => "InvalidNodeAffinity",
            Self::Toleration { .. } => "InvalidToleration",
            Self::UpdateStrategy { .. } => "InvalidUpdateStrategy",
            Self::Paused { .. } => "InvalidPausedAnnotation",
            Self::Policy { .. } => "InvalidRolloutPolicy",
            Self::Order { .. } => "InvalidRolloutOrder",
            Self::Record { .. } | Self::ForeignRecord { .. } => "InvalidRolloutRecord",
            Self::Revision { .. } => "InvalidRevision",
            Self::PodWithoutNode { .. } => "PodWithoutNode",
            Self::NamespaceNodeSelector { .. } => "InvalidNamespaceNodeSelector",
            Self::ChangedPod { .. } => "PodChangedByAdmission",
            Self::UnchangedPod { .. } => "PodNotChangedInPlace",
            Self::LostPods { .. } => "PodsLost",
        }
    }
}
