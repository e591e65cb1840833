//! Which pods count for a node, and which are missing or have to go whatever their revision
//! (C20–C27).

use std::collections::BTreeSet;
use std::time::Duration;

use everynode_core::api::{
    IntOrPercent, Node, NodeName, Pod, PodPhase, Readiness, Timestamp, UpdateStrategy,
};

use crate::ownership::{self, Claim};
use crate::placement::{self, Answer};
use crate::{Effect, Objects, revisions};

/// The node that a pod runs on, or else the one that its affinity pins it to (C20).
pub(crate) fn node_of(pod: &Pod) -> Option<&NodeName> {
    pod.node_name.as_ref().or(pod.affinity_node_name.as_ref())
}

/// True if the pod has ended.
fn has_ended(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded)
}

/// The pods that occupy a node, in the order in which the first ones stay: scheduled ones, then
/// the oldest, then by name. A terminating pod does until it is terminal (C20, C22, C25).
pub(crate) fn on_node<'a>(objects: &'a Objects, node: &NodeName) -> Vec<&'a Pod> {
    let mut pods: Vec<&Pod> = ownership::pods(objects, Claim::Own)
        .filter(|pod| node_of(pod) == Some(node) && !(pod.terminating && has_ended(pod)))
        .collect();
    pods.sort_by_key(|pod| (pod.node_name.is_none(), pod.created(), &pod.name));
    pods
}

/// Those of [`on_node`] that nobody is deleting.
pub(crate) fn staying<'a>(objects: &'a Objects, node: &NodeName) -> Vec<&'a Pod> {
    on_node(objects, node).into_iter().filter(|pod| !pod.terminating).collect()
}

/// True if a node may have two pods during an update (C26, C51).
fn surges(objects: &Objects) -> bool {
    match objects.daemon_set.update_strategy {
        UpdateStrategy::OnDelete | UpdateStrategy::Malformed => false,
        UpdateStrategy::RollingUpdate { max_surge, .. } => {
            !matches!(max_surge, IntOrPercent::Int(0) | IntOrPercent::Percent(0))
        }
    }
}

/// True if the pod is available: ready for `minReadySeconds`, counted from when it was first seen
/// ready if the kubelet states a later time (C54).
pub(crate) fn is_available(objects: &Objects, pod: &Pod, now: Timestamp) -> bool {
    let seconds = objects.daemon_set.min_ready_seconds;
    match pod.readiness {
        Readiness::NotReady => false,
        Readiness::Ready => seconds == 0,
        Readiness::ReadySince(since) => {
            let seen = objects.memory.seen_ready.get(&pod.uid).copied().unwrap_or(now);
            seconds == 0 || since.min(seen) + Duration::from_secs(seconds.into()) <= now
        }
    }
}

/// True if the pod's condition `Ready` is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    pod.readiness != Readiness::NotReady
}

/// The answer for a node and the template (C10).
pub(crate) fn answer(objects: &Objects, node: &Node) -> Answer {
    let placement = &objects.daemon_set.template.placement;
    placement::answer(placement, &objects.namespace_node_selector, node)
}

/// The nodes by name (C55).
pub(crate) fn nodes(objects: &Objects) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = objects.nodes.iter().collect();
    nodes.sort_by_key(|node| &node.name);
    nodes
}

/// The pods that have ended, on nodes that may keep one and have no back-off (C24).
pub(crate) fn ended(objects: &Objects, now: Timestamp) -> Vec<&Pod> {
    let mut ended = Vec::new();
    for node in nodes(objects).into_iter().filter(|node| answer(objects, node).keep) {
        let backoff_end = objects.memory.ended_pods.get(&node.name);
        if backoff_end.is_none_or(|end| *end <= now) {
            ended.extend(staying(objects, &node.name).into_iter().filter(|pod| has_ended(pod)));
        }
    }
    ended
}

/// True if a node has recovered between these two versions, which ends the back-off of its pods: it
/// is ready again, was booted anew, or has neither the condition nor the taint of a pressure any
/// more (C24).
pub fn has_recovered(before: &Node, after: &Node) -> bool {
    let is_short_of = |node: &Node, what: &str| {
        let condition = format!("{what}pressure");
        let taint = format!("node.kubernetes.io/{what}-pressure");
        node.conditions.iter().any(|it| it.to_lowercase() == condition)
            || node.taints.iter().any(|it| *it.key == *taint)
    };
    let is_relieved = |what: &&str| is_short_of(before, what) && !is_short_of(after, what);
    let is_ready_again = before.not_ready_since().is_some() && after.not_ready_since().is_none();
    is_ready_again
        || before.boot_id != after.boot_id
        || ["memory", "disk", "pid"].iter().any(is_relieved)
}

/// The event for a pod that is deleted because it has ended (C24).
pub(crate) fn report(ended: &Pod) -> Effect {
    if ended.phase == PodPhase::Failed {
        Effect::ReportFailed(ended.name.clone())
    } else {
        Effect::ReportSucceeded(ended.name.clone())
    }
}

/// The pods that have to go whatever their revision: on nodes that must not keep one, beyond those
/// that a node may have, and unscheduled ones whose node does not exist (C23, C25–C27).
pub(crate) fn misplaced(objects: &Objects, now: Timestamp) -> Vec<&Pod> {
    let mut misplaced = Vec::new();
    let names: BTreeSet<&NodeName> =
        ownership::pods(objects, Claim::Own).filter_map(node_of).collect();
    for name in names {
        let pods = staying(objects, name);
        match objects.nodes.iter().find(|node| node.name == *name) {
            None => misplaced.extend(pods.into_iter().filter(|pod| pod.node_name.is_none())),
            Some(node) if answer(objects, node).keep => {
                misplaced.extend(surplus(objects, pods, now));
            }
            Some(_) => misplaced.extend(pods),
        }
    }
    misplaced
}

/// Those of a node's pods that have not ended and are too many: all but the oldest; with surge all
/// but the oldest new and the oldest old one, and the old one too if it is not ready or the new one
/// is available (C25, C26).
fn surplus<'a>(objects: &Objects, pods: Vec<&'a Pod>, now: Timestamp) -> Vec<&'a Pod> {
    let running: Vec<&Pod> = pods.into_iter().filter(|pod| !has_ended(pod)).collect();
    if !surges(objects) {
        return running.into_iter().skip(1).collect();
    }
    let oldest = |is_current| {
        let has_revision = |pod: &&Pod| revisions::is_current(objects, pod) == is_current;
        running.iter().copied().find(has_revision)
    };
    let (new, old) = (oldest(true), oldest(false));
    let must_old_go = match (new, old) {
        (Some(new), Some(old)) => !is_ready(old) || is_available(objects, new, now),
        (Some(_), None) | (None, _) => false,
    };
    let others = running.iter().copied().filter(|pod| Some(*pod) != new && Some(*pod) != old);
    others.chain(old.filter(|_| must_old_go)).collect()
}

/// The nodes that should run a pod and have none (C23).
pub(crate) fn missing(objects: &Objects, now: Timestamp) -> Vec<&NodeName> {
    let is_missing = |node: &&Node| {
        // A pod that has ended is deleted first; with surge a terminating one is not waited for
        // (C22, C24).
        let pods = if surges(objects) {
            staying(objects, &node.name)
        } else {
            on_node(objects, &node.name)
        };
        let awaits_former = !surges(objects) && has_former(objects, &node.name);
        let should_run = answer(objects, node).create;
        should_run && pods.is_empty() && !awaits_former && may_create(objects, &node.name, now)
    };
    nodes(objects).into_iter().filter(is_missing).map(|node| &node.name).collect()
}

/// True if a pod runs on the node that a former DaemonSet of this name has left (C36).
fn has_former(objects: &Objects, node: &NodeName) -> bool {
    let name = Some(&objects.daemon_set.key.name);
    let is_former = |pod: &&Pod| pod.controller_name.as_ref() == name && !has_ended(pod);
    let mut foreign = ownership::pods(objects, Claim::Foreign)
        .filter(|pod| pod.controller.is_some() && ownership::is_selected(objects, &pod.labels));
    foreign.any(|pod| is_former(&pod) && pod.node_name.as_ref() == Some(node))
}

/// True if a pod may be created on this node now. One that is to be adopted may become the node's
/// pod (C21, C23, C28, C34).
pub(crate) fn may_create(objects: &Objects, node: &NodeName, now: Timestamp) -> bool {
    let memory = &objects.memory;
    let waits = [memory.creations_from, memory.lost_pods.get(node).copied()];
    ownership::pods(objects, Claim::Adopt).all(|pod| node_of(pod) != Some(node))
        && waits.into_iter().flatten().all(|from| from <= now)
}
