//! Changing running pods in place to the override of their node, beside the controller that makes
//! them of the template (G57).
//!
//! No wave of a rollout is waited for, as these overrides are no part of a revision.

use crate::api::{Budget, Timestamp};
use crate::daemon_set::index::AdmissionOrder;
use crate::node::PodFlags;
use crate::node_table::NodeId;
use crate::plan::NewChange;

use super::SyncInput;
use super::draft::Draft;

/// Begins to change pods that have another override than their node, and are not available or have
/// just started. Returns true if available ones may be taken away in the same plan, and so may
/// those of another template.
pub(in crate::daemon_set) fn override_starting(input: &SyncInput<'_>, draft: &mut Draft) -> bool {
    let nodes = input.retry_order.sorted(&input.work_sets.override_now);
    // After a failure one request shows if others can succeed.
    let fails = input.changes.failure().is_some();
    let begun = nodes.take(if fails { 1 } else { usize::MAX });
    let begun = begun.filter(|(_, id)| begin(input, *id, draft)).count();
    begun == 0 || fails
}

/// Begins to change the other pods that have another override than their node, within budget, pace,
/// pauses and windows.
pub(in crate::daemon_set) fn override_running(input: &SyncInput<'_>, draft: &mut Draft) {
    let sets = input.work_sets;
    if sets.r#override.is_empty() || input.daemon_set.is_paused() {
        return;
    }
    if let Some(at) = closed_until(input) {
        draft.requeue(at);
        return;
    }
    let max = match input.daemon_set.budget(input.counts.desired) {
        Some(Budget::Unavailable(max)) => max.max(1),
        // Only a budget of available pods limits how overrides go.
        Some(Budget::Surge(_)) | None => 1,
    };
    let (retry_order, pending_names) = (input.retry_order, input.pending_names);
    let order = AdmissionOrder { retry_order, pending_names, now: input.now.steady };
    let admitted = input.groups.map(|groups| groups.admitted_overrides(&draft.touched, &order));
    let nodes = admitted.as_ref().unwrap_or(&sets.r#override);
    let mut room = input.counts.room_for_overrides(max).saturating_sub(draft.touched.len());
    let pace = input.rollout.pace.as_deref();
    for (name, id) in input.retry_order.sorted(nodes) {
        if room == 0 {
            break;
        }
        if draft.may_begin(name, pace) && begin(input, id, draft) {
            draft.begin(name, pace);
            room -= 1;
        }
    }
}

/// When a window opens, if the policy has some and none is open.
fn closed_until(input: &SyncInput<'_>) -> Option<Timestamp> {
    let now = input.now;
    let state = input.daemon_set.policy.valid()?.windows.at(now.to_wall(now.steady))?;
    state.opening().map(|_| now.to_steady(state.until()))
}

/// Begins to change the pod of a node; returns whether it did.
fn begin(input: &SyncInput<'_>, id: NodeId, draft: &mut Draft) -> bool {
    if draft.touched.contains(&id) {
        return false;
    }
    let change = input.new_override(id);
    change.is_some_and(|change| draft.change(id, change))
}

impl SyncInput<'_> {
    /// The change of a node's pod to the override that counts there.
    fn new_override(&self, id: NodeId) -> Option<NewChange> {
        let mut pods = self.slots[id.index()].pods.as_slice().iter();
        let pod = pods.find(|pod| pod.flags.contains(PodFlags::GETS_OVERRIDE))?;
        let hash = self.labels.hash(pod.labels)?;
        let template = self.history.template(hash)?;
        Some(NewChange {
            pod: pod.reference(Some(self.nodes.name(id))),
            hash: hash.clone(),
            from: template.canonical.clone(),
            to: template.canonical.clone(),
            tag: self.labels.tag(pod.labels).cloned(),
            r#override: self.override_of_node(id, self.daemon_set.overrides_of_running()),
            since: self.now.wall_seconds(),
        })
    }
}
