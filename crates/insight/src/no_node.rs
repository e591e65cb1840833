//! Why no node at all should run a pod.

use std::collections::BTreeMap;

use everynode_core::api::{DaemonSetKey, Timestamp};
use everynode_core::placement::Reason;

use crate::controller_view::ControllerView;
use crate::reasons::{self, SeenLabels};
use crate::snapshot::Snapshot;

/// The maximum number of reasons in a sentence.
const REASONS_MAX: usize = 3;

/// Why no node of the snapshot should run a pod of the DaemonSet, in one sentence; `None` if one
/// should, or if the snapshot lacks the DaemonSet or has no nodes.
pub fn why_no_node(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<String> {
    let daemon_set = snapshot.daemon_sets.get(key)?.daemon_set.clone();
    sentence(&ControllerView::new(snapshot, daemon_set, now))
}

/// The reasons against all nodes: those against nodes that the template selects, then those of the
/// most nodes: `no node should run it: nodeSelector wants disktype=sdd, the node has no such label
/// (3 nodes)`.
pub(crate) fn sentence(view: &ControllerView<'_>) -> Option<String> {
    let nodes = &view.snapshot.nodes;
    if nodes.is_empty() || view.tally().desired > 0 {
        return None;
    }
    let mut counts: BTreeMap<(bool, String), usize> = BTreeMap::new();
    let seen = SeenLabels::of(view);
    for node in nodes.values() {
        let reasons = view.reasons_against(&node.node.name);
        let text = reasons::shared_text(&reasons, &node.node, &seen);
        *counts.entry((!is_meant(&reasons), text)).or_default() += 1;
    }
    let mut counts: Vec<((bool, String), usize)> = counts.into_iter().collect();
    counts.sort_by_key(|((is_other, _), count)| (*is_other, std::cmp::Reverse(*count)));
    let others = counts.len().saturating_sub(REASONS_MAX);
    let reasons = counts.iter().take(REASONS_MAX).map(|((_, reason), count)| match count {
        1 => format!("{reason} (1 node)"),
        count => format!("{reason} ({count} nodes)"),
    });
    let others = (others > 0).then(|| format!("{others} other reasons"));
    let reasons: Vec<String> = reasons.chain(others).collect();
    Some(format!("no node should run it: {}", reasons.join("; ")))
}

/// How to see what keeps the DaemonSet off all nodes; `None` if a node should run a pod.
pub(crate) fn next_step(view: &ControllerView<'_>) -> Option<String> {
    if view.tally().desired > 0 {
        return None;
    }
    let all = || view.snapshot.nodes.keys().map(|node| view.reasons_against(node));
    let reasons = all().find(|reasons| is_meant(reasons)).or_else(|| all().next())?;
    Some(reasons::next_step(&reasons, view))
}

/// True if the template selects the node, and only taints keep it off.
fn is_meant(reasons: &[Reason<'_>]) -> bool {
    reasons.iter().all(|reason| matches!(reason, Reason::Taint(_)))
}
