//! Never two pods of a DaemonSet on a node without surge, never three with (C22, C26, C34).

use std::collections::BTreeMap;

use everynode_core::name::Uid;
use everynode_core::object::Pod;
use everynode_core::time::Timestamp;
use everynode_sandbox::kind::POD;

use super::{Before, CALM_MS, Property, Told, Violation, violation};
use crate::truth;

/// Looks at a creation: what is beside it is there already.
pub fn check(
    before: &Before,
    told: &BTreeMap<Uid, Told>,
    relabelled: &BTreeMap<String, Timestamp>,
) -> Option<Violation> {
    if !before.creates(&POD) {
        return None;
    }
    let ds = before.owner()?;
    let affinity = &before.body["spec"]["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let node = terms[0]["matchFields"][0]["values"][0].as_str()?;
    // One whose labels were changed may be released or adopted at this very moment.
    if relabelled.get(node).is_some_and(|at| before.now.0 - at.0 <= CALM_MS) {
        return None;
    }
    let surged = told.get(&ds.uid).is_some_and(|told| told.surged);
    let pods = truth::pods_of(before.store, &ds.uid);
    let selects = |pod: &Pod| ds.selector.as_ref().is_some_and(|s| s.matches(&pod.labels));
    let beside = pods.iter().filter(|pod| truth::is_on(pod, node) && selects(pod));
    let beside: Vec<_> = beside
        .filter(|pod| !pod.terminating || !(surged || pod.phase.is_terminal()))
        .map(|pod| format!("{} (terminating: {})", pod.name, pod.terminating))
        .collect();
    if beside.len() <= usize::from(surged) {
        return None;
    }
    violation(
        Property::Duplicate,
        format!("{}: a pod is created on {node} beside {}", ds.key, beside.join(", ")),
    )
}
