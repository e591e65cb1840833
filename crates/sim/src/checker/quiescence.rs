//! What holds at rest: placement, status and rollout are complete (C23, C70, C80).

use everynode_core::api::{DaemonSet, HASH_LABEL, Node, Pod, Status, Timestamp};

use super::{Property, Violation, violation};
use crate::cluster_state::{self, ClusterState};

/// Checks all DaemonSets that are not terminating.
pub fn check(cluster: &ClusterState, now: Timestamp) -> Option<Violation> {
    cluster.daemon_sets().filter(|ds| !ds.terminating).find_map(|ds| {
        placement(cluster, ds)
            .or_else(|| status(cluster, ds, now))
            .or_else(|| rollout(cluster, ds, now))
    })
}

fn placement(cluster: &ClusterState, ds: &DaemonSet) -> Option<Violation> {
    for node in cluster.nodes() {
        let name = node.name.as_str();
        let here: Vec<&Pod> = live_on(cluster, ds, name).collect();
        let eligibility = cluster_state::eligibility(&ds.template.placement, node);
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
    let mut live = cluster.pods_of(&ds.uid).filter(|pod| !pod.terminating);
    // An adopted pod may have no node (C20). The controller manages pods by node, so it leaves this
    // one alone.
    let pod = live.find(|pod| {
        let node = pod.target_node_name();
        node.is_some_and(|node| cluster.node(node.as_str()).is_none())
    })?;
    violation(Property::Placement, format!("{} is on a node that does not exist", pod.name))
}

/// Whether a surge is stuck: a taint appeared after the new pod was created and before it started.
/// The new pod cannot start, and the old one remains until it does (C26).
fn is_stuck_surge(ds: &DaemonSet, here: &[&Pod]) -> bool {
    let ready = here.iter().filter(|pod| pod.readiness.is_ready()).count();
    ds.update_strategy.surges() && here.len() == 2 && ready == 1
}

fn status(cluster: &ClusterState, ds: &DaemonSet, now: Timestamp) -> Option<Violation> {
    let mut status = Status {
        observed_generation: ds.generation,
        collision_count: ds.status.collision_count,
        ..Status::default()
    };
    for node in cluster.nodes() {
        let here = cluster
            .pods_of(&ds.uid)
            .filter(|pod| cluster_state::is_on_node(pod, node.name.as_str()));
        let oldest = here
            .filter(|pod| !(pod.terminating && pod.phase.is_terminal()))
            .min_by_key(|pod| (pod.node_name.is_none(), pod.creation_timestamp, pod.name.clone()));
        if !cluster_state::eligibility(&ds.template.placement, node).should_run() {
            status.number_misscheduled += u32::from(oldest.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = oldest else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += u32::from(pod.readiness.is_ready());
        status.number_available += u32::from(is_available(ds, pod, now));
        status.updated_number_scheduled += u32::from(is_updated(cluster, ds, pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    if status == ds.status {
        return None;
    }
    violation(
        Property::Status,
        format!("{}: the status is {:?}, correct is {status:?}", ds.key, ds.status),
    )
}

/// Every pod has the current revision, unless nodes that must not run a pod use up the budget.
fn rollout(cluster: &ClusterState, ds: &DaemonSet, now: Timestamp) -> Option<Violation> {
    let should_run =
        |node: &&Node| cluster_state::eligibility(&ds.template.placement, node).should_run();
    let desired = cluster.nodes().filter(should_run).count();
    let budget = ds.update_strategy.budget(desired)?.nodes();
    let stuck = cluster.nodes().filter(|node| !should_run(node));
    if stuck.filter(|node| uses_budget(cluster, ds, node, now)).count() >= budget {
        return None;
    }
    let mut live = cluster.pods_of(&ds.uid).filter(|pod| !pod.terminating);
    let old = live.find(|pod| {
        let node = pod.target_node_name().map_or("", |node| node.as_str());
        cluster.should_run(ds, node) && !is_updated(cluster, ds, pod)
    })?;
    violation(
        Property::Placement,
        format!("{}: pod {} does not have the current revision", ds.key, old.name),
    )
}

/// Whether a node that need not run a pod still uses one unit of the budget. This happens if a
/// taint appears between the creation of a new pod and its start: the pod may stay (C13), is not
/// available, and counts as unavailable (C52, C53), as in upstream. The rollout waits until the
/// taint or the pod is removed.
fn uses_budget(cluster: &ClusterState, ds: &DaemonSet, node: &Node, now: Timestamp) -> bool {
    let here = || live_on(cluster, ds, node.name.as_str());
    let has_unavailable_new =
        here().any(|pod| is_updated(cluster, ds, pod) && !is_available(ds, pod, now));
    has_unavailable_new && (!ds.update_strategy.surges() || here().count() > 1)
}

fn live_on<'a>(
    cluster: &'a ClusterState,
    ds: &'a DaemonSet,
    node: &'a str,
) -> impl Iterator<Item = &'a Pod> {
    cluster
        .pods_of(&ds.uid)
        .filter(move |pod| !pod.terminating && cluster_state::is_on_node(pod, node))
}

fn is_available(ds: &DaemonSet, pod: &Pod, now: Timestamp) -> bool {
    cluster_state::is_ready_for(pod, i64::from(ds.min_ready_seconds) * 1000, now)
}

fn is_updated(cluster: &ClusterState, ds: &DaemonSet, pod: &Pod) -> bool {
    let newest = cluster.newest_revision(&ds.uid);
    let hash = newest.and_then(|revision| revision.labels.get(HASH_LABEL));
    let by_hash = hash.is_some() && pod.labels.get(HASH_LABEL) == hash;
    by_hash
        || (ds.template_generation.is_some() && pod.template_generation() == ds.template_generation)
}
