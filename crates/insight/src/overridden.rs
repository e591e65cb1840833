//! The nodes on which the overrides of a policy count.

use everynode_core::api::{DaemonSet, NodeName, Revision};
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

/// True if the newest revision that has the template of a DaemonSet has other overrides than its
/// policy states.
pub(crate) fn changes_overrides(snapshot: &Snapshot, daemon_set: &DaemonSet) -> bool {
    let revisions = snapshot.revisions_of(&daemon_set.key);
    let revisions = Revision::by_content(daemon_set, revisions, None);
    let others = revisions.old.iter().filter(|old| revisions.variants.contains(&old.pod_hash()));
    let newest = others.map(|old| old.number).max();
    newest > revisions.current.last().map(|current| current.number)
}
