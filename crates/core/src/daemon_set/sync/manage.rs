//! One pod on each eligible node and none elsewhere (C22–C27). Upstream: `manage`.

use crate::api::{NodeName, PodPhase, RevisionHash};
use crate::node::{PodView, ended_pods, surplus_pods};
use crate::plan::Notice;

use super::SyncInput;
use super::draft::Draft;

/// Deletes ended and surplus pods, then creates missing ones of the revision that governs their
/// node. `hash` is that of the current revision.
pub(in crate::daemon_set) fn manage(input: &SyncInput<'_>, hash: &RevisionHash, draft: &mut Draft) {
    delete_ended(input, draft);
    let assessor = input.assessor();
    for (name, id) in input.retry_order.sorted(&input.work_sets.has_surplus) {
        for pod in surplus_pods(&input.slots[id.index()], &assessor) {
            draft.delete(name, id, pod);
        }
        if !draft.may_delete() {
            break;
        }
    }
    let without_pod = input.retry_order.sorted(&input.work_sets.needs_pod);
    for (name, id) in without_pod.take(draft.creations_left()) {
        draft.create(input.governing_pod(name.clone(), id, hash));
    }
}

/// Deletes succeeded pods, and failed ones whose back-off is over (C24).
fn delete_ended(input: &SyncInput<'_>, draft: &mut Draft) {
    for (name, id) in input.retry_order.sorted(&input.work_sets.has_ended) {
        let is_backed_off = input.failed_pods.until(id, input.now.steady).is_some();
        for pod in ended_pods(&input.slots[id.index()]) {
            let has_failed = pod.phase == PodPhase::Failed;
            if (has_failed && is_backed_off) || !draft.delete(name, id, pod) {
                continue;
            }
            if has_failed {
                draft.failed.push(id);
            }
            draft.plan.notices.push(notice_of_end(pod, name));
        }
        if !draft.may_delete() {
            break;
        }
    }
}

fn notice_of_end(pod: &PodView, node: &NodeName) -> Notice {
    let (pod_name, node) = (pod.name.clone(), node.clone());
    match pod.phase {
        PodPhase::Failed => Notice::FailedDaemonPod { pod: pod_name, node },
        PodPhase::Succeeded | PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            Notice::SucceededDaemonPod { pod: pod_name, node }
        }
    }
}
