//! Namespaces.

use super::labels::Labels;

/// The node selector in a namespace's annotation (C15).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceNodeSelector {
    /// Labels that a node must have to get a pod of the namespace.
    pub labels: Labels,
    /// Why the annotation is malformed. A malformed one restricts nothing (C4).
    pub malformed: Option<String>,
}

impl NamespaceNodeSelector {
    /// True if the selector equals that of a namespace without the annotation.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.malformed.is_none()
    }
}

impl From<Labels> for NamespaceNodeSelector {
    fn from(labels: Labels) -> Self {
        Self { labels, malformed: None }
    }
}
