//! The nodes on which the overrides of a policy count.

use everynode_core::api::{DaemonSet, NodeName};
use schemars::JsonSchema;
use serde::Serialize;

use crate::snapshot::Snapshot;

/// An override of a policy, and the nodes on which it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverriddenNodes {
    /// Its name in the policy.
    pub name: String,
    /// The value of the label `everynode.dev/override` of its pods: the name and a hash.
    pub tag: String,
    /// The names of the nodes that it selects, and no override before it, whether or not they
    /// should run a pod.
    pub nodes: Vec<String>,
}

/// The overrides of the policy of a DaemonSet, in its order.
pub(crate) fn overridden_nodes(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
) -> Vec<OverriddenNodes> {
    let policy = daemon_set.policy.valid();
    let Some(overrides) = policy.and_then(|policy| policy.overrides()) else { return Vec::new() };
    let count = |tag: &str| -> Vec<String> {
        let nodes = snapshot.nodes.iter().filter(|(_, detail)| {
            overrides.of_node(&detail.node).is_some_and(|of_node| *of_node.tag == *tag)
        });
        nodes.map(|(name, _): (&NodeName, _)| name.to_string()).collect()
    };
    let all = overrides.list.iter().map(|it| OverriddenNodes {
        name: it.name.to_string(),
        tag: it.tag.to_string(),
        nodes: count(&it.tag),
    });
    all.collect()
}
