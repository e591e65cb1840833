//! Malformed fields.

use std::sync::Arc;

use super::names::{PodName, RevisionName};

/// Something malformed in an object that does not stop the rest (C4). `field` is its path, `message`
/// says what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    Selector {
        message: Arc<str>,
    },
    /// The template can't be read at all: nothing is done for the DaemonSet.
    Template {
        message: Arc<str>,
    },
    NodeAffinity {
        field: Arc<str>,
        message: Arc<str>,
    },
    Toleration {
        field: Arc<str>,
        message: Arc<str>,
    },
    UpdateStrategy {
        field: Arc<str>,
        message: Arc<str>,
    },
    Revision {
        name: RevisionName,
        message: Arc<str>,
    },
    /// A pod whose node is known neither by `spec.nodeName` nor by its affinity (C20).
    PodWithoutNode {
        pod: PodName,
    },
    NamespaceNodeSelector {
        message: Arc<str>,
    },
}

impl Problem {
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
