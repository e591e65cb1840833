//! Namespaces.

use std::collections::BTreeMap;

use everynode_core::api::NAMESPACE_NODE_SELECTOR_ANNOTATION;
use everynode_sandbox::json::Value;

use super::Node;
use super::metadata::Metadata;

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Namespace {
    pub metadata: Metadata,
    /// The labels that its pods require of a node (C15).
    node_selector: BTreeMap<String, String>,
}

impl Namespace {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let annotation =
            object["metadata"]["annotations"][NAMESPACE_NODE_SELECTOR_ANNOTATION].as_str();
        let requirements = annotation.unwrap_or_default().split(',');
        let requirements = requirements.filter_map(|requirement| requirement.split_once('='));
        let node_selector =
            requirements.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
        Self { metadata: Metadata::parse(object), node_selector: node_selector.collect() }
    }

    /// Whether new pods of the namespace may run on the node.
    pub(in crate::checker) fn allows(&self, node: &Node) -> bool {
        self.node_selector.iter().all(|(key, value)| node.metadata.labels.get(key) == Some(value))
    }
}
