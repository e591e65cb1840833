//! Preemption (S21): selects the pods on a node to evict for a pod with a higher priority.
//!
//! Only for pods that are pinned to one node, as those of a DaemonSet are. Other pods wait instead.

use super::{NAME, QueueKey};
use crate::cluster::component_context::ComponentContext;
use crate::cluster::event::{EventSubject, EventText};
use crate::condition;
use everynode_k8s::fit::{Misfit, PodNeeds, Room, Usage};

/// The pods with the lowest priority whose eviction makes room for the pod; `None` if even the
/// eviction of all of them does not.
pub(super) fn victims(
    room: &Room,
    needs: &PodNeeds,
    queue_key: &QueueKey,
    bound: Vec<(&QueueKey, &Usage)>,
) -> Option<Vec<QueueKey>> {
    if !room.misfits(needs).iter().all(Misfit::could_be_resolved) {
        return None;
    }
    let mut room = room.clone();
    let mut lower: Vec<(&QueueKey, &Usage)> =
        bound.into_iter().filter(|(other, _)| other.priority > queue_key.priority).collect();
    lower.iter().for_each(|(_, usage)| room.remove(usage));
    if !room.misfits(needs).is_empty() {
        return None;
    }
    // Keep as many as fit, by priority and then by age.
    lower.sort_by_key(|(queue_key, _)| *queue_key);
    let mut victims = Vec::new();
    for (other, usage) in lower {
        room.add(usage);
        if !room.misfits(needs).is_empty() {
            room.remove(usage);
            victims.push(other.clone());
        }
    }
    Some(victims)
}

/// Evicts a pod. Returns false if the pod is gone or terminating already.
pub(super) fn evict(
    context: &mut ComponentContext<'_>,
    victim: &QueueKey,
    by: &str,
    node: &str,
) -> bool {
    let Some(pod) = context.pod(&victim.key).filter(|pod| pod.uid() == &*victim.uid) else {
        return false;
    };
    if pod.is_terminating() {
        return false;
    }
    let message = format!("{NAME}: preempting to accommodate a higher priority pod");
    let status = condition::disrupted(&pod, "PreemptionByScheduler", &message, context.now);
    let message = format!("Preempted by pod {by} on node {node}");
    context.record(EventSubject::pod(&pod), EventText::normal(NAME, "Preempted", &message));
    if let Some(pod) = context.set_pod_status(&pod, status) {
        context.delete_pod(&pod);
    }
    true
}
