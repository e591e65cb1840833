//! What must be true once nobody changes anything any more (C23, C70, C80).

use everynode_core::api::{DaemonSet, HASH_LABEL, Node, Pod, Status, Timestamp};

use super::{Property, Violation, violation};
use crate::truth::{self, Truth};

pub fn check(truth: &Truth, now: Timestamp) -> Option<Violation> {
    truth.daemon_sets().filter(|ds| !ds.terminating).find_map(|ds| {
        placement(truth, ds).or_else(|| status(truth, ds, now)).or_else(|| rollout(truth, ds, now))
    })
}

fn placement(truth: &Truth, ds: &DaemonSet) -> Option<Violation> {
    for node in truth.nodes() {
        let name = node.name.as_str();
        let here: Vec<&Pod> = live_on(truth, ds, name).collect();
        let eligibility = truth::eligibility(&ds.template.placement, node);
        let right = match (eligibility.should_run(), eligibility.should_continue_running()) {
            (true, _) => here.len() == 1,
            (false, true) => here.len() <= 1 || is_stuck_surge(ds, &here),
            (false, false) => here.is_empty(),
        };
        if !right {
            let here: Vec<&str> = here.iter().map(|pod| pod.name.as_str()).collect();
            let message = format!("{} on {name} ({eligibility:?}): {here:?}", ds.key);
            return violation(Property::Placement, message);
        }
    }
    let mut live = truth.pods_of(&ds.uid).filter(|pod| !pod.terminating);
    // One that names no node is somebody's own, adopted, and left alone (C20).
    let lost = live.find(|pod| {
        let node = pod.target_node_name();
        node.is_some_and(|node| truth.node(node.as_str()).is_none())
    })?;
    violation(Property::Placement, format!("{} is on a node that is gone", lost.name))
}

/// A surge that came to a node just before its taint: the new pod can't start, and the old one serves on (C26).
fn is_stuck_surge(ds: &DaemonSet, here: &[&Pod]) -> bool {
    let ready = here.iter().filter(|pod| pod.readiness.is_ready()).count();
    ds.update_strategy.surges() && here.len() == 2 && ready == 1
}

fn status(truth: &Truth, ds: &DaemonSet, now: Timestamp) -> Option<Violation> {
    let mut status = Status {
        observed_generation: ds.generation,
        collision_count: ds.status.collision_count,
        ..Status::default()
    };
    for node in truth.nodes() {
        let here = truth.pods_of(&ds.uid).filter(|pod| truth::is_on(pod, node.name.as_str()));
        let oldest = here
            .filter(|pod| !(pod.terminating && pod.phase.is_terminal()))
            .min_by_key(|pod| (pod.node_name.is_none(), pod.creation_timestamp, pod.name.clone()));
        if !truth::eligibility(&ds.template.placement, node).should_run() {
            status.number_misscheduled += u32::from(oldest.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = oldest else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += u32::from(pod.readiness.is_ready());
        status.number_available += u32::from(is_available(ds, pod, now));
        status.updated_number_scheduled += u32::from(is_updated(truth, ds, pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    if status == ds.status {
        return None;
    }
    violation(Property::Status, format!("{}: {:?} is told, {status:?} is true", ds.key, ds.status))
}

/// Every pod is of the present revision, unless nodes that must not run a pod hold the rollout up.
fn rollout(truth: &Truth, ds: &DaemonSet, now: Timestamp) -> Option<Violation> {
    let must_run = |node: &&Node| truth::eligibility(&ds.template.placement, node).should_run();
    let desired = truth.nodes().filter(must_run).count();
    let budget = ds.update_strategy.budget(desired)?.nodes();
    let stuck = truth.nodes().filter(|node| !must_run(node));
    if stuck.filter(|node| holds_up(truth, ds, node, now)).count() >= budget {
        return None;
    }
    let mut live = truth.pods_of(&ds.uid).filter(|pod| !pod.terminating);
    let old = live.find(|pod| {
        let node = pod.target_node_name().map_or("", |node| node.as_str());
        truth.must_run(ds, node) && !is_updated(truth, ds, pod)
    })?;
    violation(
        Property::Placement,
        format!("{}: pod {} is not of the present revision", ds.key, old.name),
    )
}

/// Whether a node that must not run a pod uses up one of the budget all the same: a taint came between a new pod's
/// creation and its start. It may stay (C13), is not available, and so counts (C52, C53), upstream as here: the
/// rollout waits until the taint or the pod is taken away.
fn holds_up(truth: &Truth, ds: &DaemonSet, node: &Node, now: Timestamp) -> bool {
    let here = || live_on(truth, ds, node.name.as_str());
    let has_unavailable_new =
        here().any(|pod| is_updated(truth, ds, pod) && !is_available(ds, pod, now));
    has_unavailable_new && (!ds.update_strategy.surges() || here().count() > 1)
}

fn live_on<'a>(
    truth: &'a Truth,
    ds: &'a DaemonSet,
    node: &'a str,
) -> impl Iterator<Item = &'a Pod> {
    truth.pods_of(&ds.uid).filter(move |pod| !pod.terminating && truth::is_on(pod, node))
}

fn is_available(ds: &DaemonSet, pod: &Pod, now: Timestamp) -> bool {
    truth::is_ready_for(pod, i64::from(ds.min_ready_seconds) * 1000, now)
}

fn is_updated(truth: &Truth, ds: &DaemonSet, pod: &Pod) -> bool {
    let newest = truth.newest_revision(&ds.uid);
    let hash = newest.and_then(|revision| revision.labels.get(HASH_LABEL));
    let by_hash = hash.is_some() && pod.labels.get(HASH_LABEL) == hash;
    by_hash
        || (ds.template_generation.is_some() && pod.template_generation() == ds.template_generation)
}
