//! Never more available pods taken down by us than maxUnavailable allows; none while surging (C52, C53).
//!
//! Only what is certain counts: a node is taken down when we delete the one pod of it, which has been
//! available beyond doubt, while nobody else has touched node, pod or template for a while. It is up
//! again at the first doubt.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::name::Uid;
use everynode_core::object::{DaemonSet, Pod, UpdateStrategy};
use everynode_core::time::Timestamp;
use everynode_sandbox::kind::{DAEMON_SET, POD};
use everynode_sandbox::store::Store;

use super::{Before, CALM_MS, Property, Told, Violation, violation};
use crate::truth;

/// Clocks may differ so much, and times are told in seconds.
const DOUBT_MS: i64 = 3_000;
/// A watch that breaks off and is back may be so far behind: a pod that became ready since then counts as unready.
const BEHIND_MS: i64 = 10_000;

#[derive(Debug, Default)]
pub struct Budget {
    down: BTreeMap<Uid, BTreeSet<String>>,
}

impl Budget {
    pub fn check(
        &mut self,
        before: &Before,
        told: &BTreeMap<Uid, Told>,
        disturbed: &BTreeMap<String, Timestamp>,
    ) -> Option<Violation> {
        if !before.deletes(&POD) {
            return None;
        }
        self.recover(before.store, told, disturbed, before.now);
        let object = before.object()?;
        let pod = truth::pod(object)?;
        let uid = pod.controller.clone()?;
        let ds = before.store.iter(&DAEMON_SET, None).find(|ds| ds.uid() == uid.to_string())?;
        let ds = truth::daemon_set(ds);
        let told = told.get(&uid)?;
        let node = pod.target_node_name()?.as_str();
        let is_calm = |at: Timestamp| before.now.0 - at.0 > CALM_MS;
        if !disturbed.get(node).is_none_or(|at| is_calm(*at))
            || !is_takedown(before.store, &ds, &pod, node, told, before.now)
        {
            return None;
        }
        let down = self.down.entry(uid).or_default();
        down.insert(node.to_owned());
        let allowed = if told.rolled { told.max_unavailable } else { 0 };
        if is_calm(told.changed_at) && is_current(before.store, &ds, &pod) {
            let message =
                format!("{}: pod {} is up to date and available, and is deleted", ds.key, pod.name);
            return violation(Property::Budget, message);
        }
        if down.len() <= allowed {
            return None;
        }
        let message = format!("{}: {down:?} taken down at once, {allowed} allowed", ds.key);
        violation(Property::Budget, message)
    }

    /// Notes what is up again.
    pub fn recover(
        &mut self,
        store: &Store,
        told: &BTreeMap<Uid, Told>,
        disturbed: &BTreeMap<String, Timestamp>,
        now: Timestamp,
    ) {
        for (uid, down) in self.down.iter_mut().filter(|(_, down)| !down.is_empty()) {
            let pods = truth::pods_of(store, uid);
            let ds = store.iter(&DAEMON_SET, None).find(|ds| ds.uid() == uid.to_string());
            let ds = ds.map(|ds| truth::daemon_set(ds));
            let nodes = truth::nodes(store);
            let must_run = |name: &str| {
                let node = nodes.iter().find(|node| node.name.as_str() == name);
                node.zip(ds.as_ref())
                    .is_some_and(|(node, ds)| truth::eligibility(ds, node).should_run())
            };
            let least = told.get(uid).map_or(0, |told| i64::from(told.min_ready_seconds.0) * 1000);
            let is_up =
                |pod: &Pod| !pod.terminating && truth::is_ready_for(pod, least - DOUBT_MS, now);
            down.retain(|node| {
                let touched = disturbed.get(node).is_some_and(|at| now.0 - at.0 <= CALM_MS);
                !touched
                    && must_run(node)
                    && !pods.iter().any(|pod| truth::is_on(pod, node) && is_up(pod))
            });
        }
    }
}

/// Whether deleting the pod surely takes its node down.
fn is_takedown(
    store: &Store,
    ds: &DaemonSet,
    pod: &Pod,
    node: &str,
    told: &Told,
    now: Timestamp,
) -> bool {
    let nodes = truth::nodes(store);
    let must_run = nodes
        .iter()
        .any(|known| known.name.as_str() == node && truth::eligibility(ds, known).should_run());
    let most = i64::from(told.min_ready_seconds.1) * 1000 + BEHIND_MS;
    let pods = truth::pods_of(store, &ds.uid);
    let alone = pods.iter().filter(|pod| !pod.terminating && truth::is_on(pod, node)).count() == 1;
    must_run
        && alone
        && !pod.terminating
        && !pod.phase.is_terminal()
        && !ds.terminating
        && truth::is_ready_for(pod, most, now)
}

/// Whether the pod carries the hash of the present template.
fn is_current(store: &Store, ds: &DaemonSet, pod: &Pod) -> bool {
    let UpdateStrategy::RollingUpdate { .. } = ds.update_strategy else { return false };
    let revisions = truth::revisions_of(store, &ds.uid);
    let newest = revisions.iter().max_by_key(|revision| revision.number);
    let hash = newest.and_then(|revision| revision.labels.get(everynode_core::object::HASH_LABEL));
    pod.revision_hash().is_some_and(|carried| hash.is_some_and(|hash| **hash == *carried.as_str()))
}
