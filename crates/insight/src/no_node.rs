//! Why no node at all should run a pod.

use std::collections::BTreeMap;

use everynode_core::api::{DaemonSetKey, Timestamp};

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

/// The reasons against all nodes, those of the most nodes first: `no node should run it:
/// nodeSelector wants disktype=sdd, the node has no such label (3 nodes)`.
pub(crate) fn sentence(view: &ControllerView<'_>) -> Option<String> {
    let nodes = &view.snapshot.nodes;
    if nodes.is_empty() || view.tally().desired > 0 {
        return None;
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let seen = SeenLabels::of(view);
    for node in nodes.values() {
        let reasons = view.reasons_against(&node.node.name);
        *counts.entry(reasons::shared_text(&reasons, &node.node, &seen)).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others = counts.len().saturating_sub(REASONS_MAX);
    let reasons = counts.iter().take(REASONS_MAX).map(|(reason, count)| match count {
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
    let node = view.snapshot.nodes.keys().next()?;
    Some(reasons::next_step(&view.reasons_against(node), view))
}
