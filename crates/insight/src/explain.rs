//! Why each node runs a pod of a DaemonSet or not, and what its pod does. Nodes with the same
//! answer form a group; groups that need attention come first.
//!
//! The core decides if a node should run a pod, and what the controller does next there.

mod duration;
mod finding;
mod node;
mod problems;
mod without_nodes;

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{DaemonSetKey, NodeName, Timestamp};
use everynode_core::daemon_set::NodeCounts;
use schemars::JsonSchema;
use serde::Serialize;

use crate::controller_view::ControllerView;
use crate::reasons::SeenLabels;
use crate::rollout::{Evidence, Phase, Rollout, Strategy, progress};
use crate::situation::Situation;
use crate::snapshot::{ObjectKind, PodDetail, Snapshot};
use finding::Finding;

pub use crate::no_node::why_no_node;
pub use node::{AffinityCheck, NodeExplanation, PodExplanation, ReasonDetail, explain_node};

/// A DaemonSet with all nodes of the snapshot, in groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// The number of nodes; absent if nodes were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// The number of nodes that should run a pod.
    pub desired: usize,
    /// The number of nodes with a ready pod; absent if pods were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<usize>,
    /// The number of nodes with an available pod; absent if pods were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<usize>,
    /// The number of nodes whose pod is of the current revision; absent if pods or revisions were
    /// not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<usize>,
    /// The update strategy.
    pub update_strategy: Strategy,
    /// The progress of the rollout and what it waits for, in one sentence.
    pub rollout: String,
    /// What the operator should do about the DaemonSet as a whole; absent if there is nothing to
    /// do. What to do about nodes is in `groups`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Problems of the DaemonSet itself, and objects that could not be read.
    pub problems: Vec<String>,
    /// All nodes, those that need attention first. If nodes were not read, those with a pod.
    pub groups: Vec<NodeGroup>,
}

/// The nodes that share one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroup {
    /// The state of the nodes.
    pub situation: Situation,
    /// The reason; it names the affinity term, label, taint or container.
    pub why: String,
    /// The message of the scheduler, the kubelet or the container for the first of the nodes;
    /// absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the controller does next on these nodes, or what the operator should do; absent if
    /// there is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The names of the nodes, in order.
    pub nodes: Vec<String>,
    /// What there is to say of each of them, in the same order.
    #[serde(skip)]
    pub remarks: Vec<NodeRemark>,
}

/// The message about one node, and the next step there, as of a [`NodeGroup`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRemark {
    /// The message.
    pub detail: Option<String>,
    /// The next step.
    pub next: Option<String>,
}

/// Explains a DaemonSet of the snapshot at `now`; `None` if the snapshot lacks it.
pub fn explain(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Explanation> {
    let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
    let view = ControllerView::new(snapshot, daemon_set.clone(), now);
    let evidence = Evidence::new(snapshot, daemon_set, now);
    if !view.has_read(ObjectKind::Node) {
        return without_nodes::explain(&view, &evidence);
    }
    let has_pods = view.has_read(ObjectKind::Pod);
    let counts = counts(&view);
    let rollout = Rollout::of(snapshot, key, now)?;
    let findings = findings(&view, &evidence, &rollout);
    Some(Explanation {
        namespace: daemon_set.key.namespace.to_string(),
        name: daemon_set.key.name.to_string(),
        nodes: Some(findings.len()),
        desired: counts.desired,
        ready: has_pods.then_some(counts.ready),
        available: has_pods.then_some(counts.available),
        updated: counts.updated.filter(|_| view.knows_revisions_of_pods()),
        update_strategy: Strategy(daemon_set.update_strategy),
        rollout: rollout_summary(&view, &findings, &rollout),
        // If no node should run it, the groups of nodes tell.
        next: rollout.next.filter(|_| rollout.phase != Phase::Done),
        problems: problems::problems(&view),
        groups: groups(findings),
    })
}

/// Numbers of nodes.
struct Counts {
    desired: usize,
    ready: usize,
    available: usize,
    updated: Option<usize>,
}

/// The counts of the core. It does not look at the nodes of a DaemonSet that is being deleted, so
/// that its last status and its pods count then.
fn counts(view: &ControllerView<'_>) -> Counts {
    let (tally, daemon_set) = (view.tally(), view.daemon_set());
    if !daemon_set.terminating {
        let NodeCounts { desired, ready, available, updated, .. } = *tally;
        return Counts { desired, ready, available, updated: Some(updated) };
    }
    let nodes = |counts: &dyn Fn(&PodDetail) -> bool| {
        let pods = view.snapshot.pods_of(&daemon_set.key).filter(|detail| counts(detail));
        pods.filter_map(|detail| detail.pod.target_node_name()).collect::<BTreeSet<_>>().len()
    };
    Counts {
        desired: daemon_set.status.desired_number_scheduled as usize,
        ready: nodes(&|detail| detail.pod.readiness.is_ready()),
        available: nodes(&|detail| detail.is_available(daemon_set, view.now)),
        updated: None,
    }
}

/// The finding for every node of the snapshot.
fn findings<'a>(
    view: &ControllerView<'a>,
    evidence: &Evidence<'a>,
    rollout: &Rollout,
) -> Vec<(&'a NodeName, Finding)> {
    let seen = SeenLabels::of(view);
    let stuck = rollout.held_up.iter().filter(|held_up| held_up.stuck);
    let stuck: BTreeSet<&NodeName> = stuck.filter_map(|held_up| held_up.node.as_ref()).collect();
    let nodes = view.snapshot.nodes.keys();
    nodes
        .map(|name| (name, Finding::of(view, evidence, &seen, name).marked(stuck.contains(name))))
        .collect()
}

fn rollout_summary(
    view: &ControllerView<'_>,
    findings: &[(&NodeName, Finding)],
    rollout: &Rollout,
) -> String {
    if rollout.is_done_without_some() {
        return rollout.headline();
    }
    let reasons: Vec<progress::NodeReason<'_>> =
        findings.iter().map(|(node, finding)| (*node, finding.why.as_str())).collect();
    progress::summary(view, &reasons)
}

fn groups(findings: Vec<(&NodeName, Finding)>) -> Vec<NodeGroup> {
    let mut groups: BTreeMap<(Situation, String), NodeGroup> = BTreeMap::new();
    let mut set_aside: BTreeSet<String> = BTreeSet::new();
    for (node, finding) in findings {
        let Finding { situation, why, detail, next, is_set_aside } = finding;
        if is_set_aside {
            set_aside.insert(why.clone());
        }
        let group = groups.entry((situation, why.clone())).or_insert_with(|| NodeGroup {
            situation,
            why,
            detail: detail.clone(),
            next: next.clone(),
            nodes: Vec::new(),
            remarks: Vec::new(),
        });
        group.nodes.push(node.to_string());
        group.remarks.push(NodeRemark { detail, next });
    }
    let mut groups: Vec<NodeGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| {
        // They come after all nodes that hold the rollout up.
        let last = Situation::Outdated;
        let is_set_aside = set_aside.contains(&group.why);
        let situation = if is_set_aside { last } else { group.situation };
        (situation, is_set_aside, group.situation, std::cmp::Reverse(group.nodes.len()))
    });
    groups
}
