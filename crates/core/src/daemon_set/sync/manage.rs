//! One pod on each eligible node and none elsewhere (C22–C27). Upstream: `manage`.

use crate::api::RevisionHash;
use crate::node::{ended_pods, surplus_pods};

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

/// Deletes pods that have ended, on the nodes whose back-off is over (C24).
fn delete_ended(input: &SyncInput<'_>, draft: &mut Draft) {
    for (name, id) in input.retry_order.sorted(&input.work_sets.has_ended) {
        for pod in ended_pods(&input.slots[id.index()]) {
            if draft.delete(name, id, pod) {
                draft.ended.push((id, pod.clone()));
            }
        }
        if !draft.may_delete() {
            break;
        }
    }
}
