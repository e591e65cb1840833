//! Never two pods of a DaemonSet on a node without surge, never three with (C22, C26, C34).
//!
//! Left out are pods whose labels somebody has just changed, that came without an owner just now, or that named no node
//! and have just been put on one: a replica that has not seen them there creates another one, and they may be back before
//! it arrives. And while a replica
//! may go by a spec that surges, one pod beside the new one is in order, terminating ones apart (C22).

use everynode_sandbox::kind::POD;

use super::{Checks, PendingWrite, Property, Violation, violation};
use crate::cluster_state;

/// Looks at a creation: what is beside it is there already.
pub fn check(write: &PendingWrite, checks: &Checks) -> Option<Violation> {
    if !write.creates(&POD) {
        return None;
    }
    let (cluster, now) = (&checks.cluster_state, write.now);
    let ds = cluster.daemon_set(&write.owner()?)?;
    let affinity = &write.body["spec"]["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let node = terms[0]["matchFields"][0]["values"][0].as_str()?;
    let surges = checks.spec_histories.get(&ds.uid).is_some_and(|history| history.may_surge(now));
    let beside: Vec<_> = cluster
        .pods_of(&ds.uid)
        .filter(|pod| cluster_state::is_on_node(pod, node) && cluster_state::selects(ds, pod))
        .filter(|pod| !checks.ambiguous_pods.is_recent(&pod.uid, now))
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
