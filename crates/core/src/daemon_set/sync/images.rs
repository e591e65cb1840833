//! Pods that pull the images of the target ahead of its pods (G55).

use std::collections::BTreeSet;

use crate::api::NodeName;
use crate::plan::{NewPuller, Write};
use crate::rollout::RolloutState;

use super::SyncInput;
use super::draft::Draft;

/// Deletes all pullers of a DaemonSet that is being deleted: if its dependents are orphaned, nobody
/// else does (C32, G55).
pub(in crate::daemon_set) fn delete_pullers(rollout: &RolloutState, draft: &mut Draft) {
    for puller in rollout.images.unneeded(true, |_| false) {
        draft.patch(Write::DeletePuller(puller));
    }
}

/// Deletes pullers that nothing waits for any more, and creates those that nodes need, as many as
/// the policy lets pull at the same time. A node on which the plan begins pulls with its new pod.
pub(in crate::daemon_set) fn pull_images(input: &SyncInput<'_>, draft: &mut Draft) {
    let pulls = &input.rollout.images;
    let rule = input.rollout.image_rule();
    let unneeded =
        pulls.unneeded(rule.is_none(), |puller| RolloutState::is_of_target(puller, input.labels));
    for puller in unneeded {
        draft.patch(Write::DeletePuller(puller));
    }
    let Some(rule) = rule.filter(|_| input.rollout.may_pull()) else { return };
    let now = input.now.steady;
    pulls.next_settled_at(now).into_iter().for_each(|at| draft.requeue(at));
    let free = usize::from(rule.parallel.get()).saturating_sub(pulls.under_way(now));
    if free == 0 {
        return;
    }
    let current = input.history.classify(input.daemon_set).current;
    let Some((current, hash)) = current.and_then(|it| Some((it, it.hash()?))) else { return };
    let begun = draft.plan.writes.iter().filter_map(|write| match write {
        Write::DeletePod(pod) => pod.node.clone(),
        Write::CreatePod(new) => Some(new.node.clone()),
        _ => None,
    });
    let begun: BTreeSet<NodeName> = begun.collect();
    let due = pulls.due(input.now.steady).filter(|node| !begun.contains(*node));
    for node in due.take(free) {
        let (node, hash, revision) = (node.clone(), hash.clone(), current.reference());
        let id = input.nodes.id(&node);
        let of_node = id.and_then(|id| input.override_of_node(id, input.labels.overrides()));
        draft.create_puller(NewPuller { node, hash, revision, r#override: of_node });
    }
    pulls.next_due_at(input.now.steady).into_iter().for_each(|at| draft.requeue(at));
}
