//! Changing running pods in place to the override of their node, beside the controller that makes
//! them of the template (G57).
//!
//! No wave of a rollout is waited for, as these overrides are no part of a revision.

use crate::api::Budget;
use crate::daemon_set::index::AdmissionOrder;
use crate::node::PodFlags;
use crate::node_table::NodeId;
use crate::plan::{NewChange, Write};

use super::SyncInput;
use super::draft::Draft;

/// Begins to change pods that have another override than their node: at once where the pod is not
/// available or has just started, others within budget, pace, pauses and windows.
pub(in crate::daemon_set) fn override_running(input: &SyncInput<'_>, draft: &mut Draft) {
    let sets = input.work_sets;
    for (_, id) in input.retry_order.sorted(&sets.override_now) {
        begin(input, id, draft);
    }
    if sets.r#override.is_empty() || input.daemon_set.is_paused() {
        return;
    }
    if let Some(at) = input.rollout.next_opening_at() {
        draft.requeue(at);
        return;
    }
    let budget = input.daemon_set.budget(input.counts.desired);
    let max = match budget {
        Some(Budget::Unavailable(max)) => max.max(1),
        // No policy limits how overrides go.
        Some(Budget::Surge(_)) | None => 1,
    };
    let (retry_order, pending_names) = (input.retry_order, input.pending_names);
    let order = AdmissionOrder { retry_order, pending_names, now: input.now.steady };
    let counts = (input.rules.guarded, input.counts);
    let admitted = input.groups.zip(budget).map(|(it, budget)| it.admitted(budget, counts, &order));
    let nodes = admitted.as_ref().map_or(&sets.r#override, |it| &it.r#override);
    let is_of_pod = |write: &&Write| matches!(write, Write::DeletePod(_) | Write::ChangePod(_));
    let begun = draft.plan.writes.iter().filter(is_of_pod).count();
    let room = input.counts.room_for_overrides(max).saturating_sub(begun);
    let pace = input.rollout.pace.as_deref();
    for (name, id) in input.retry_order.sorted(nodes).take(room) {
        if draft.may_begin(name, pace) && begin(input, id, draft) {
            draft.begin(name, pace);
        }
    }
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
            tag: self.labels.override_tag(pod.labels),
            r#override: self.override_of_node(id, self.daemon_set.overrides_of_running()),
            since: self.now.wall_seconds(),
        })
    }
}
