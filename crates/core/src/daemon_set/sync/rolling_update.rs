//! Replacing pods of older revisions (C50–C53). Upstream: `rollingUpdate`.
//!
//! The [step](crate::daemon_set::Step) of each node is known from its assessment. Here the budget
//! is divided among the nodes in [retry order](crate::daemon_set::index::RetryOrder) (C55). A node
//! from which [`manage`](super::manage) deletes in the same plan is left to it; a node on which it
//! creates has no pod and therefore uses the budget already.

use crate::api::{Budget, RevisionHash};
use crate::daemon_set::index::NodeSet;

use super::SyncInput;
use super::draft::Draft;

/// Replaces old pods within the budget, with the current revision's `hash`.
pub(in crate::daemon_set) fn rolling_update(
    input: &SyncInput<'_>,
    hash: &RevisionHash,
    draft: &mut Draft,
) {
    match input.daemon_set.budget(input.counts.desired) {
        None => {}
        Some(Budget::Surge(max_surge)) => surge(input, max_surge, hash, draft),
        Some(Budget::Unavailable(max_unavailable)) => replace(input, max_unavailable, draft),
    }
}

/// Deletes old pods first and lets the next sync create their replacements (C52).
///
/// A strategy that surges gets here, too, when no node is desired and its percentage is zero (C51).
/// No node is eligible then, so all nodes with an available old pod are in `delete_old_if_spare`.
fn replace(input: &SyncInput<'_>, max_unavailable: usize, draft: &mut Draft) {
    let sets = input.work_sets;
    let beginnings = input.beginnings_left(max_unavailable);
    let begun = delete_old(input, &sets.replace_now, beginnings, draft);
    let surges = input.daemon_set.strategy().surges();
    let nodes = if surges { &sets.delete_old_if_spare } else { &sets.replace };
    let budget = max_unavailable.saturating_sub(input.counts.uses_unavailable);
    delete_old(input, nodes, budget.min(beginnings - begun), draft);
}

/// Creates new pods beside old ones, and deletes the old ones that are not needed any more (C53).
fn surge(input: &SyncInput<'_>, max_surge: usize, hash: &RevisionHash, draft: &mut Draft) {
    let sets = input.work_sets;
    delete_old(input, &sets.delete_old, usize::MAX, draft);
    delete_old(input, &sets.replace_now, usize::MAX, draft);
    let spare = input.counts.serves.saturating_sub(input.counts.desired);
    delete_old(input, &sets.delete_old_if_spare, spare, draft);
    // A creation of unknown outcome may be a surge that is not seen yet: no other node may use its
    // share of the budget.
    let reserved = |nodes| input.pending_names.nodes_reserving_surge(nodes, input.now.steady);
    let budget = max_surge.saturating_sub(input.counts.uses_surge);
    let budget = budget.saturating_sub(reserved(&sets.surge_now).len());
    let again = reserved(&sets.surge);
    let others = input.retry_order.sorted(&sets.surge);
    let others = others.filter(|(name, _)| !again.contains_key(*name));
    let others = others.take(budget.saturating_sub(again.len()));
    let again = again.iter().take(budget).map(|(name, id)| (name, *id));
    let beginnings = input.beginnings_left(max_surge);
    let at_once = input.retry_order.sorted(&sets.surge_now).take(beginnings);
    for (name, id) in at_once.chain(again).chain(others).take(beginnings) {
        if draft.creations_left() == 0 {
            break;
        }
        if !draft.touched.contains(&id) {
            draft.create(input.governing_pod(name.clone(), id, hash));
        }
    }
}

/// Deletes the old pods on the first `count` of these nodes; returns how many.
fn delete_old(input: &SyncInput<'_>, nodes: &NodeSet, count: usize, draft: &mut Draft) -> usize {
    let assessor = input.assessor();
    let mut deleted = 0;
    for (name, id) in input.retry_order.sorted(nodes).take(count) {
        if !draft.may_delete() {
            break;
        }
        let old = assessor.old_pod(&input.slots[id.index()]);
        if let Some(pod) = old.filter(|_| !draft.touched.contains(&id)) {
            deleted += usize::from(draft.delete(name, id, pod));
        }
    }
    deleted
}
