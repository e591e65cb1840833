//! Namespaces.

use super::labels::Labels;

/// What a namespace's annotation restricts its pods to (C15).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceNodeSelector {
    /// Empty: no restriction.
    pub labels: Labels,
    /// What is wrong with the annotation, which then restricts nothing (C4).
    pub malformed: Option<String>,
}

impl NamespaceNodeSelector {
    /// Whether it is as if there were no annotation.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.malformed.is_none()
    }
}

impl From<Labels> for NamespaceNodeSelector {
    fn from(labels: Labels) -> Self {
        Self { labels, malformed: None }
    }
}
