//! Namespaces.

use everynode_core::api::{Labels, NAMESPACE_NODE_SELECTOR_ANNOTATION};
use everynode_sandbox::json::Value;

use super::metadata::Metadata;

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Namespace {
    pub metadata: Metadata,
    /// The labels that its pods require of a node (C15).
    pub node_selector: Labels,
}

impl Namespace {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let annotation =
            object["metadata"]["annotations"][NAMESPACE_NODE_SELECTOR_ANNOTATION].as_str();
        let requirements = annotation.unwrap_or_default().split(',');
        let requirements = requirements.filter_map(|requirement| requirement.split_once('='));
        let node_selector = requirements.map(|(key, value)| (key.trim(), value.trim())).collect();
        Self { metadata: Metadata::parse(object), node_selector }
    }
}
