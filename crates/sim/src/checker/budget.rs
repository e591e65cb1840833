//! The controller makes at most `maxUnavailable` available pods unavailable, and none with surge
//! (C52, C53).
//!
//! The checker counts only certain cases. A node counts as unavailable when the controller deletes
//! its only pod, which has certainly been available, and nobody else has changed the node or the
//! pod within the last 30 s. The node stops counting as soon as it may have an available pod. The
//! limit is the highest of all specs that a replica may act on.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{DaemonSet, Node, NodeName, Pod, Timestamp, Uid, UpdateStrategy};
use everynode_sandbox::kind::POD;

use super::{
    EventTimes, OBSERVATION_DELAY_MAX_MS, PendingWrite, Property, SpecHistory, Violation,
    is_recent, violation,
};
use crate::cluster_state::{self, ClusterState, eligibility};

/// Clocks differ by up to this time, rounding to seconds included.
const CLOCK_TOLERANCE_MS: i64 = 3_000;
/// A reopened watch may be behind by this time. A pod that has become ready since then may still
/// count as not ready. Where faults stall watches, the time is [`OBSERVATION_DELAY_MAX_MS`].
const WATCH_DELAY_MS: i64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Budget {
    down: BTreeMap<Uid, BTreeSet<String>>,
}

impl Budget {
    pub(super) fn check(
        &mut self,
        write: &PendingWrite,
        cluster: &ClusterState,
        spec_histories: &BTreeMap<Uid, SpecHistory>,
        changed_nodes: &EventTimes<String>,
    ) -> Option<Violation> {
        if !write.deletes(&POD) {
            return None;
        }
        let now = write.now;
        self.remove_recovered(cluster, spec_histories, changed_nodes, now);
        let pod = cluster.pod(&write.target.namespace, &write.target.name)?;
        let uid = pod.controller.clone()?;
        let (ds, history) = (cluster.daemon_set(&uid)?, spec_histories.get(&uid)?);
        let node = pod.target_node_name()?.as_str();
        if changed_nodes.is_recent(node, now)
            || !makes_unavailable(write, cluster, ds, pod, history)
        {
            return None;
        }
        let down = self.down.entry(uid).or_default();
        down.insert(node.to_owned());
        if !is_recent(history.changed_at, now) && is_current(cluster, ds, pod) {
            let message = format!(
                "{}: pod {} is deleted although it is current and available",
                ds.key, pod.name
            );
            return violation(Property::Budget, message);
        }
        // The replica may still count nodes that were deleted recently.
        let nodes = cluster.nodes().count() + changed_nodes.recent_count(now);
        let allowed = history.possible_specs(now).map(|spec| spec.max_unavailable(nodes)).max()?;
        if down.len() <= allowed {
            return None;
        }
        let message = format!("{}: {down:?} are made unavailable, {allowed} allowed", ds.key);
        violation(Property::Budget, message)
    }

    /// Removes the nodes that may have an available pod again.
    pub(super) fn remove_recovered(
        &mut self,
        cluster: &ClusterState,
        spec_histories: &BTreeMap<Uid, SpecHistory>,
        changed_nodes: &EventTimes<String>,
        now: Timestamp,
    ) {
        for (uid, down) in self.down.iter_mut().filter(|(_, down)| !down.is_empty()) {
            let Some((ds, history)) = cluster.daemon_set(uid).zip(spec_histories.get(uid)) else {
                down.clear();
                continue;
            };
            let least =
                history.possible_specs(now).map(|spec| spec.min_ready_seconds).min().unwrap_or(0);
            let least = i64::from(least) * 1000 - CLOCK_TOLERANCE_MS;
            let is_up =
                |pod: &Pod| !pod.terminating && cluster_state::is_ready_for(pod, least, now);
            down.retain(|node| {
                !changed_nodes.is_recent(node.as_str(), now)
                    && cluster.should_run(ds, node)
                    && !cluster
                        .pods_of(uid)
                        .any(|pod| cluster_state::is_on_node(pod, node) && is_up(pod))
            });
        }
    }
}

/// Whether deleting the pod certainly makes its node unavailable.
fn makes_unavailable(
    write: &PendingWrite,
    cluster: &ClusterState,
    ds: &DaemonSet,
    pod: &Pod,
    history: &SpecHistory,
) -> bool {
    let Some(node) = pod.target_node_name().map(NodeName::as_str) else { return false };
    let now = write.now;
    let delay = if write.watches_stall { OBSERVATION_DELAY_MAX_MS } else { WATCH_DELAY_MS };
    let most = history.possible_specs(now).map(|spec| spec.min_ready_seconds).max().unwrap_or(0);
    let most = i64::from(most) * 1000 + delay;
    let here = cluster
        .pods_of(&ds.uid)
        .filter(|pod| !pod.terminating && cluster_state::is_on_node(pod, node));
    // A deletion may follow from a spec by which the node must not run the pod (C23).
    let should_run = |node: &Node| {
        history.possible_specs(now).all(|spec| eligibility(&spec.placement, node).should_run())
    };
    cluster.node(node).is_some_and(should_run)
        && here.count() == 1
        && !pod.terminating
        && !pod.phase.is_terminal()
        && !ds.terminating
        && cluster_state::is_ready_for(pod, most, now)
}

/// Whether the pod has the hash of the current template. The revision's number is not compared,
/// because the controller may raise it while it replaces the first pods of an undo (C42).
fn is_current(cluster: &ClusterState, ds: &DaemonSet, pod: &Pod) -> bool {
    let UpdateStrategy::RollingUpdate { .. } = ds.update_strategy else { return false };
    let Some(hash_of_pod) = pod.revision_hash() else { return false };
    let mut current =
        cluster.revisions_of(&ds.uid).filter(|revision| revision.stores(&ds.template));
    current.any(|revision| revision.hash().is_some_and(|hash| hash == hash_of_pod))
}
