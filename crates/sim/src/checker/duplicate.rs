//! Never two pods of a DaemonSet on a node without surge, never three with (C22, C26, C34).
//!
//! Left out are pods whose labels somebody has just changed, that came without an owner just now, or that named no node
//! and have just been put on one: a replica that has not seen them there creates another one, and they may be back before
//! it arrives. And while a replica
//! may go by a spec that surges, one pod beside the new one is in order, terminating ones apart (C22).

use everynode_sandbox::kind::POD;

use super::{Before, Checks, Property, Violation, violation};
use crate::truth;

/// Looks at a creation: what is beside it is there already.
pub fn check(before: &Before, checks: &Checks) -> Option<Violation> {
    if !before.creates(&POD) {
        return None;
    }
    let (truth, now) = (&checks.truth, before.now);
    let ds = truth.daemon_set(&before.owner()?)?;
    let affinity = &before.body["spec"]["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let node = terms[0]["matchFields"][0]["values"][0].as_str()?;
    let surges = checks.told.get(&ds.uid).is_some_and(|told| told.may_surge(now));
    let beside: Vec<_> = truth
        .pods_of(&ds.uid)
        .filter(|pod| truth::is_on(pod, node) && truth::selects(ds, pod))
        .filter(|pod| !checks.relabelled.is_recent(&pod.uid, now))
        .filter(|pod| !pod.terminating || !(surges || pod.phase.is_terminal()))
        .map(|pod| format!("{} (terminating: {})", pod.name, pod.terminating))
        .collect();
    if beside.len() <= usize::from(surges) {
        return None;
    }
    violation(
        Property::Duplicate,
        format!("{}: a pod is created on {node} beside {}", ds.key, beside.join(", ")),
    )
}
