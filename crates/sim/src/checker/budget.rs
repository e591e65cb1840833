//! Never more available pods taken down by us than maxUnavailable allows; none while surging (C52, C53).
//!
//! Only what is certain counts: a node is taken down when we delete the one pod of it, which has been
//! available beyond doubt, while nobody else has touched node, pod or template for a while. It is up
//! again at the first doubt. What is allowed is the most that any spec allows by which a replica may go.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{DaemonSet, Node, Pod, Timestamp, Uid, UpdateStrategy};
use everynode_sandbox::kind::POD;

use super::{Before, Property, Times, Told, Violation, is_recent, violation};
use crate::truth::{self, Truth, eligibility};

/// Clocks may differ so much, and times are told in seconds.
const DOUBT_MS: i64 = 3_000;
/// A watch that breaks off and is back may be so far behind: a pod that became ready since then counts as unready.
const BEHIND_MS: i64 = 10_000;

#[derive(Debug, Default)]
pub struct Budget {
    down: BTreeMap<Uid, BTreeSet<String>>,
}

impl Budget {
    pub(super) fn check(
        &mut self,
        before: &Before,
        truth: &Truth,
        told: &BTreeMap<Uid, Told>,
        disturbed: &Times<String>,
    ) -> Option<Violation> {
        if !before.deletes(&POD) {
            return None;
        }
        let now = before.now;
        self.recover(truth, told, disturbed, now);
        let pod = truth.pod(&before.target.namespace, &before.target.name)?;
        let uid = pod.controller.clone()?;
        let (ds, told) = (truth.daemon_set(&uid)?, told.get(&uid)?);
        let node = pod.target_node_name()?.as_str();
        if disturbed.is_recent(node, now) || !is_takedown(truth, ds, pod, node, told, now) {
            return None;
        }
        let down = self.down.entry(uid).or_default();
        down.insert(node.to_owned());
        if !is_recent(told.since, now) && is_current(truth, ds, pod) {
            let message =
                format!("{}: pod {} is up to date and available, and is deleted", ds.key, pod.name);
            return violation(Property::Budget, message);
        }
        // Nodes that have just gone may still be counted.
        let nodes = truth.nodes().count() + disturbed.recent_count(now);
        let allowed = told.in_force(now).map(|spec| spec.max_unavailable(nodes)).max()?;
        if down.len() <= allowed {
            return None;
        }
        let message = format!("{}: {down:?} taken down at once, {allowed} allowed", ds.key);
        violation(Property::Budget, message)
    }

    /// Notes what is up again.
    pub(super) fn recover(
        &mut self,
        truth: &Truth,
        told: &BTreeMap<Uid, Told>,
        disturbed: &Times<String>,
        now: Timestamp,
    ) {
        for (uid, down) in self.down.iter_mut().filter(|(_, down)| !down.is_empty()) {
            let Some((ds, told)) = truth.daemon_set(uid).zip(told.get(uid)) else {
                down.clear();
                continue;
            };
            let least = told.in_force(now).map(|spec| spec.min_ready_seconds).min().unwrap_or(0);
            let least = i64::from(least) * 1000 - DOUBT_MS;
            let is_up = |pod: &Pod| !pod.terminating && truth::is_ready_for(pod, least, now);
            down.retain(|node| {
                !disturbed.is_recent(node.as_str(), now)
                    && truth.must_run(ds, node)
                    && !truth.pods_of(uid).any(|pod| truth::is_on(pod, node) && is_up(pod))
            });
        }
    }
}

/// Whether deleting the pod surely takes its node down.
fn is_takedown(
    truth: &Truth,
    ds: &DaemonSet,
    pod: &Pod,
    node: &str,
    told: &Told,
    now: Timestamp,
) -> bool {
    let most = told.in_force(now).map(|spec| spec.min_ready_seconds).max().unwrap_or(0);
    let most = i64::from(most) * 1000 + BEHIND_MS;
    let here = truth.pods_of(&ds.uid).filter(|pod| !pod.terminating && truth::is_on(pod, node));
    // A spec that did not want the pod here may be what it is deleted by.
    let must_run = |node: &Node| {
        told.in_force(now).all(|spec| eligibility(&spec.placement, node).should_run())
    };
    truth.node(node).is_some_and(must_run)
        && here.count() == 1
        && !pod.terminating
        && !pod.phase.is_terminal()
        && !ds.terminating
        && truth::is_ready_for(pod, most, now)
}

/// Whether the pod carries the hash of the present template. The number does not tell: after an undo it may be raised
/// while the first pods are replaced.
fn is_current(truth: &Truth, ds: &DaemonSet, pod: &Pod) -> bool {
    let UpdateStrategy::RollingUpdate { .. } = ds.update_strategy else { return false };
    let Some(carried) = pod.revision_hash() else { return false };
    let mut current = truth.revisions_of(&ds.uid).filter(|revision| revision.stores(&ds.template));
    current.any(|revision| revision.hash().is_some_and(|hash| hash == carried))
}
