//! A node has at most one pod of a DaemonSet, or two with surge (C22, C26, C34).
//!
//! Exemptions:
//!
//! - Pods whose labels others have just changed, that they have just created without a controller,
//!   or that the scheduler has just bound: a replica that has not observed this creates another
//!   pod, and the first one may match again before that request arrives.
//! - If a spec that a replica may act on surges, one pod beside the new one is allowed (C26), and
//!   terminating ones do not count (C22).
//! - Terminal pods that are terminating do not count: a terminating pod occupies its node only
//!   until it is terminal (C22).

use everynode_sandbox::kind::POD;

use super::{Checks, PendingWrite, Property, Violation, violation};
use crate::cluster_state;

/// Checks a creation against the pods that exist.
pub(super) fn check(write: &PendingWrite, checks: &Checks) -> Option<Violation> {
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
