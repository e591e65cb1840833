//! The nodes on which the overrides of a policy count.

use everynode_core::api::{
    CANNOT_CHANGE, DaemonSet, NodeName, OVERRIDE_LABEL, Pod, Revision, stated_after,
    stated_without_override,
};
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
    let Some(overrides) = policy.and_then(|policy| policy.stated_overrides()) else {
        return Vec::new();
    };
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

/// That a running pod of a node is without the override that counts there, beside the built-in
/// controller, which makes pods of the template; with the reason, if the controller states one.
pub(crate) fn missing_override(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    node: &NodeName,
) -> Option<String> {
    if !snapshot.runs_beside || snapshot.is_not_guarded(daemon_set) {
        return None;
    }
    let overrides = daemon_set.policy.valid()?.stated_overrides();
    let of_node = overrides.and_then(|it| it.of_node(&snapshot.nodes.get(node)?.node));
    let tag = of_node.map(|it| &it.tag);
    let mut pods = snapshot.in_namespace(&daemon_set.key.namespace);
    let has_other = |pod: &Pod| {
        pod.controller.as_ref() == Some(&daemon_set.uid)
            && pod.target_node_name() == Some(node)
            && !pod.terminating
            && pod.labels.get(OVERRIDE_LABEL) != tag
    };
    let pod = pods.find(|detail| has_other(&detail.pod))?;
    let lacks = match (of_node, pod.pod.labels.get(OVERRIDE_LABEL)) {
        (Some(of_node), _) => format!("without the resources of override {}", of_node.name),
        (None, Some(tag)) => format!("still with the resources of override {tag}"),
        (None, None) => return None,
    };
    let stated = daemon_set.status.rollout.as_ref().map(|stated| &*stated.message);
    let why = stated.and_then(|message| stated_without_override(message, node));
    let why = why.or_else(|| stated_after(stated?, CANNOT_CHANGE));
    Some(match why {
        Some(why) => format!("{lacks}: {why}"),
        None => format!("{lacks}, until it is changed in place"),
    })
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
