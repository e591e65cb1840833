//! What must be true once nobody changes anything any more (C23, C70, C80).

use everynode_core::object::{DaemonSet, Node, Pod, Status, UpdateStrategy};
use everynode_core::time::Timestamp;
use everynode_sandbox::store::Store;

use super::{Property, Violation, violation};
use crate::truth;

/// `is_whole`: every pod can become available, so rollouts must have come to their end.
pub fn check(store: &Store, is_whole: bool, now: Timestamp) -> Option<Violation> {
    let nodes = truth::nodes(store);
    let daemon_sets = truth::daemon_sets(store);
    daemon_sets.iter().filter(|ds| !ds.terminating).find_map(|ds| {
        let pods = truth::pods_of(store, &ds.uid);
        let live: Vec<&Pod> = pods.iter().filter(|pod| !pod.terminating).collect();
        placement(ds, &nodes, &live)
            .or_else(|| status(store, ds, &nodes, &pods, now))
            .or_else(|| is_whole.then(|| rollout(store, ds, &nodes, &live)).flatten())
    })
}

fn placement(ds: &DaemonSet, nodes: &[Node], live: &[&Pod]) -> Option<Violation> {
    for node in nodes {
        let name = node.name.as_str();
        let here: Vec<&str> = live
            .iter()
            .filter(|pod| truth::is_on(pod, name))
            .map(|pod| pod.name.as_str())
            .collect();
        let eligibility = truth::eligibility(ds, node);
        let right = match (eligibility.should_run(), eligibility.should_continue_running()) {
            (true, _) => here.len() == 1,
            // A surge that came to a node just before its taint stays pending, and the old pod with it.
            (false, true) => here.len() <= 1 + usize::from(truth::surges(ds)),
            (false, false) => here.is_empty(),
        };
        if !right {
            let message = format!("{} on {name} ({eligibility:?}): {here:?}", ds.key);
            return violation(Property::Placement, message);
        }
    }
    let lost =
        live.iter().find(|pod| !nodes.iter().any(|node| truth::is_on(pod, node.name.as_str())));
    lost.and_then(|pod| violation(Property::Placement, format!("{} has no node", pod.name)))
}

fn status(
    store: &Store,
    ds: &DaemonSet,
    nodes: &[Node],
    pods: &[Pod],
    now: Timestamp,
) -> Option<Violation> {
    let mut truth = Status {
        observed_generation: ds.generation,
        collision_count: ds.status.collision_count,
        ..Status::default()
    };
    let hash = current_hash(store, ds);
    for node in nodes {
        let here = pods.iter().filter(|pod| truth::is_on(pod, node.name.as_str()));
        let oldest = here
            .filter(|pod| !(pod.terminating && pod.phase.is_terminal()))
            .min_by_key(|pod| (pod.node_name.is_none(), pod.creation_timestamp, pod.name.clone()));
        if !truth::eligibility(ds, node).should_run() {
            truth.number_misscheduled += u32::from(oldest.is_some());
            continue;
        }
        truth.desired_number_scheduled += 1;
        let Some(pod) = oldest else { continue };
        truth.current_number_scheduled += 1;
        truth.number_ready += u32::from(pod.readiness.is_ready());
        let available = truth::is_ready_for(pod, i64::from(ds.min_ready_seconds) * 1000, now);
        truth.number_available += u32::from(available);
        truth.updated_number_scheduled += u32::from(is_updated(ds, pod, hash.as_deref()));
    }
    truth.number_unavailable = truth.desired_number_scheduled - truth.number_available;
    if truth == ds.status {
        return None;
    }
    violation(Property::Status, format!("{}: {:?} is told, {truth:?} is true", ds.key, ds.status))
}

fn rollout(store: &Store, ds: &DaemonSet, nodes: &[Node], live: &[&Pod]) -> Option<Violation> {
    match ds.update_strategy {
        UpdateStrategy::OnDelete | UpdateStrategy::Malformed => return None,
        UpdateStrategy::RollingUpdate { .. } => {}
    }
    let hash = current_hash(store, ds);
    let must_run = |pod: &Pod| {
        let mut nodes = nodes.iter().filter(|node| truth::is_on(pod, node.name.as_str()));
        nodes.any(|node| truth::eligibility(ds, node).should_run())
    };
    // A pod that a taint has kept from starting uses up maxUnavailable for as long as it is there, as upstream.
    if live.iter().any(|pod| !must_run(pod) && !pod.readiness.is_ready()) {
        return None;
    }
    let old = live.iter().find(|pod| must_run(pod) && !is_updated(ds, pod, hash.as_deref()))?;
    violation(
        Property::Placement,
        format!("{}: pod {} is not of the present revision", ds.key, old.name),
    )
}

fn is_updated(ds: &DaemonSet, pod: &Pod, hash: Option<&str>) -> bool {
    let by_hash = hash.is_some() && pod.revision_hash().as_ref().map(|hash| hash.as_str()) == hash;
    by_hash
        || (ds.template_generation.is_some() && pod.template_generation() == ds.template_generation)
}

fn current_hash(store: &Store, ds: &DaemonSet) -> Option<String> {
    let revisions = truth::revisions_of(store, &ds.uid);
    let newest = revisions.into_iter().max_by_key(|revision| revision.number)?;
    newest.labels.get(everynode_core::object::HASH_LABEL).map(|hash| hash.to_string())
}
