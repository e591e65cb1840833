//! The explanation of a DaemonSet without its nodes: the counts of its status, and its pods. So
//! nothing is said of nodes that have no pod, and not whether a node should have one.

use std::collections::BTreeMap;

use everynode_core::api::NodeName;

use super::finding::Finding;
use super::{Explanation, groups, problems};
use crate::controller_view::ControllerView;
use crate::rollout::{Cause, Evidence, Rollout, Strategy};
use crate::snapshot::ObjectKind;

pub(super) fn explain(view: &ControllerView<'_>, evidence: &Evidence<'_>) -> Option<Explanation> {
    let (snapshot, daemon_set) = (view.snapshot, view.daemon_set());
    let rollout = Rollout::of(snapshot, &daemon_set.key, view.now)?;
    let mut findings: BTreeMap<&NodeName, Finding> = BTreeMap::new();
    for detail in snapshot.pods_of(&daemon_set.key) {
        let Some(node) = detail.pod.target_node_name() else { continue };
        let finding = Finding::of_pod_alone(evidence, detail);
        match findings.get_mut(node) {
            Some(known) if known.situation <= finding.situation => {}
            Some(known) => *known = finding,
            None => {
                findings.insert(node, finding);
            }
        }
    }
    let mut problems = problems::problems(view);
    problems.extend(missing(&rollout, &evidence.cause_of_missing_pod(None)));
    let count = |count: u32| view.has_read(ObjectKind::Pod).then_some(count as usize);
    Some(Explanation {
        namespace: rollout.namespace.clone(),
        name: rollout.name.clone(),
        nodes: None,
        desired: rollout.desired as usize,
        ready: count(rollout.ready),
        available: count(rollout.available),
        updated: count(rollout.updated).filter(|_| view.knows_revisions_of_pods()),
        update_strategy: Strategy(daemon_set.update_strategy),
        rollout: rollout.headline(),
        next: rollout.next.clone(),
        problems,
        groups: groups(findings.into_iter().collect()),
    })
}

/// The nodes without a pod, as the status counts them.
fn missing(rollout: &Rollout, cause: &Cause) -> Option<String> {
    let nodes = match rollout.missing {
        0 => return None,
        1 => "1 node has no pod, and which one".to_owned(),
        nodes => format!("{nodes} nodes have no pod, and which ones"),
    };
    let message = cause.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("{nodes} is unknown: {}{message}", cause.text))
}
