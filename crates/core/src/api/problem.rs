//! Malformed fields.

use std::sync::Arc;

use super::names::{PodName, RevisionName};

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
            Self::Revision { .. } => "InvalidRevision",
            Self::PodWithoutNode { .. } => "PodWithoutNode",
            Self::NamespaceNodeSelector { .. } => "InvalidNamespaceNodeSelector",
        }
    }
}
