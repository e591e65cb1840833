//! Changing pods in place instead of replacing them (G56).

use crate::api::{ChangeState, NodeName, RevisionHash, Template, UpdateMethod};
use crate::node::{Direction, PodView, changing_pods};
use crate::node_table::NodeId;
use crate::plan::{NewChange, Write};
use crate::rollout::{InPlace, OldPod};

use super::SyncInput;
use super::draft::Draft;

/// How a node gets the revision that governs it.
pub(super) enum Way {
    /// Its old pod is changed.
    Change(NewChange),
    /// Its old pod is deleted.
    Delete,
    /// Its old pod stays: it cannot be changed, and the policy allows nothing else.
    None,
}

/// Sends the requests of changes that this controller has not sent, and gives pods whose containers
/// run as their revision states it the labels of that revision.
pub(in crate::daemon_set) fn finish_changes(input: &SyncInput<'_>, draft: &mut Draft) {
    for (name, id) in input.retry_order.sorted(&input.work_sets.changes) {
        if draft.touched.contains(&id) {
            continue;
        }
        for pod in changing_pods(&input.slots[id.index()]) {
            let Some(known) = input.changes.get(&pod.uid) else { continue };
            let to = &known.change.to;
            if !input.changes.is_sent(&pod.uid, to) {
                let template = |hash| input.in_place().template(hash);
                let own = known.from.as_ref().and_then(template);
                if let Some((from, target)) = own.zip(template(to)) {
                    draft.patch(Write::ChangePod(input.new_change(name, pod, to, (from, target))));
                }
            } else if known.change.state == ChangeState::Done {
                let is_target = input.labels.current_hashes().any(|hash| hash == to);
                draft.patch(Write::FinishChange {
                    pod: pod.reference(Some(name)),
                    resource_version: known.change.version,
                    hash: to.clone(),
                    template_generation: input.daemon_set.template_generation.filter(|_| is_target),
                });
            }
        }
    }
}

impl SyncInput<'_> {
    pub(super) fn in_place(&self) -> InPlace<'_> {
        InPlace {
            daemon_set: self.daemon_set,
            history: self.history,
            labels: self.labels,
            changes: self.changes,
        }
    }

    /// How the node gets the revision that governs it, although it has this old pod. `target` is
    /// the hash of the current revision.
    pub(super) fn way(
        &self,
        node: &NodeName,
        id: NodeId,
        pod: &PodView,
        target: &RevisionHash,
    ) -> Way {
        let method = self.rollout.update_method();
        if method == UpdateMethod::Replace {
            return Way::Delete;
        }
        let slot = &self.slots[id.index()];
        let governing = self.rollout.gate.governing(slot.pods.as_slice(), slot.wave, self.labels);
        let to = governing.old.map_or(target, |(hash, _)| hash);
        match self.in_place().old_pod(slot, pod, to) {
            OldPod::Changes { from, to: template } => {
                Way::Change(self.new_change(node, pod, to, (from, template)))
            }
            OldPod::CannotChange(_)
                if method == UpdateMethod::InPlaceOnly
                    && self.rules.guarded == Some(Direction::Forward) =>
            {
                Way::None
            }
            OldPod::CannotChange(_) | OldPod::IsReplaced => Way::Delete,
        }
    }

    fn new_change(
        &self,
        node: &NodeName,
        pod: &PodView,
        to: &RevisionHash,
        (from, template): (&Template, &Template),
    ) -> NewChange {
        NewChange {
            pod: pod.reference(Some(node)),
            hash: to.clone(),
            from: from.canonical.clone(),
            to: template.canonical.clone(),
            r#override: self.override_of_pod(pod, to),
            since: self.now.wall_seconds(),
        }
    }
}
