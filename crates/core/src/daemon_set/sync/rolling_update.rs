//! Replacing pods of older revisions (C50–C53). Upstream: `rollingUpdate`.
//!
//! The [step](crate::daemon_set::Step) of each node is known from its assessment. Here the budget
//! is divided among the nodes in [retry order](crate::daemon_set::index::RetryOrder) (C55). A node
//! from which [`manage`](super::manage) deletes in the same plan is left to it; a node on which it
//! creates has no pod and therefore uses the budget already. A policy may limit the pace as well:
//! on how many nodes the rollout begins in a minute (G5).

use crate::api::{Budget, NodeName, RevisionHash};
use crate::daemon_set::index::{AdmissionOrder, Admitted, NodeSet};
use crate::node_table::NodeId;
use crate::plan::Write;

use super::changes::ReplaceMethod;
use super::draft::Draft;
use super::{Room, SyncInput};

/// Replaces old pods within the budget, with the current revision's `hash`.
pub(in crate::daemon_set) fn rolling_update(
    input: &SyncInput<'_>,
    hash: &RevisionHash,
    draft: &mut Draft,
) {
    let Some(budget) = input.daemon_set.budget(input.counts.desired) else { return };
    let order = AdmissionOrder {
        retry_order: input.retry_order,
        pending_names: input.pending_names,
        now: input.now.steady,
    };
    let counts = (input.rules.guarded, input.counts);
    let admitted = input.groups.map(|groups| groups.admitted(budget, counts, &order));
    let candidates = Candidates::new(input, admitted.as_ref());
    match budget {
        Budget::Surge(max_surge) => surge(input, &candidates, max_surge, hash, draft),
        Budget::Unavailable(max_unavailable) => {
            replace(input, &candidates, max_unavailable, hash, draft);
        }
    }
}

/// The nodes on which the rollout may begin: all that need it, unless each group has a limit (G13).
struct Candidates<'a> {
    replace_now: &'a NodeSet,
    replace: &'a NodeSet,
    surge_now: &'a NodeSet,
    surge: &'a NodeSet,
    delete_agreed: &'a NodeSet,
}

impl<'a> Candidates<'a> {
    fn new(input: &SyncInput<'a>, admitted: Option<&'a Admitted>) -> Self {
        let all = input.work_sets;
        match admitted {
            None => Self {
                replace_now: &all.replace_now,
                replace: &all.replace,
                surge_now: &all.surge_now,
                surge: &all.surge,
                delete_agreed: &all.delete_agreed,
            },
            Some(Admitted { replace_now, replace, surge_now, surge, delete_agreed }) => {
                Self { replace_now, replace, surge_now, surge, delete_agreed }
            }
        }
    }
}

/// Deletes old pods first and lets the next sync create their replacements (C52).
///
/// A strategy that surges gets here, too, when no node is desired and its percentage is zero (C51).
/// No node is eligible then, and gets a new pod.
fn replace(
    input: &SyncInput<'_>,
    candidates: &Candidates<'_>,
    max_unavailable: usize,
    hash: &RevisionHash,
    draft: &mut Draft,
) {
    // Somebody agrees that these go, and is asked about no more nodes than the budget allows.
    delete_within_pace(input, &input.work_sets.delete_old, usize::MAX, hash, draft);
    let first = usize::from(input.counts.may_let_one_go());
    let agreed = input.counts.room_for_agreed(max_unavailable).max(first);
    delete_within_pace(input, candidates.delete_agreed, agreed, hash, draft);
    let room = input.room(max_unavailable);
    let room = room.after(begin(input, candidates.replace_now, room.nodes, hash, draft));
    begin(input, candidates.replace, room.available, hash, draft);
}

/// Creates new pods beside old ones, and deletes the old ones that are not needed any more (C53).
fn surge(
    input: &SyncInput<'_>,
    candidates: &Candidates<'_>,
    max_surge: usize,
    hash: &RevisionHash,
    draft: &mut Draft,
) {
    let sets = input.work_sets;
    for (name, id) in input.retry_order.sorted(&sets.delete_old) {
        delete_old(input, name, id, hash, draft);
    }
    // A creation of unknown outcome may be a surge that is not seen yet: no other node may use its
    // share of the budget.
    let reserved = |nodes| input.pending_names.nodes_reserving_surge(nodes, input.now.steady);
    let (again_now, again) = (reserved(candidates.surge_now), reserved(candidates.surge));
    let outside = input
        .pending_names
        .surges_outside([candidates.surge, candidates.surge_now], input.now.steady);
    let unseen = again_now.len() + again.len() + outside;
    // On nodes that should get no new pod, the old one is deleted.
    let room = input.room(max_surge);
    let unused = |room: Room| room.nodes.saturating_sub(unseen);
    let room = room.after(begin(input, candidates.replace_now, unused(room), hash, draft));
    let available = room.available.min(unused(room));
    let room = room.after(begin(input, candidates.replace, available, hash, draft));
    let budget = max_surge.saturating_sub(input.counts.uses_surge).min(room.starting);
    let budget = budget.saturating_sub(again_now.len() + outside);
    let others = input.retry_order.sorted(candidates.surge);
    let others = others.filter(|(name, _)| !again.contains_key(*name));
    let others = others.take(budget.saturating_sub(again.len()));
    // A smaller budget may not have room for all of them. Then none is sent again, because any of
    // them may be there.
    let fits = again.len() <= budget;
    let again = again.iter().filter(|_| fits).map(|(name, id)| (name, *id));
    let mut first = unused(room);
    let at_once = input.retry_order.sorted(candidates.surge_now).filter(|(name, _)| {
        let is_sent_again = again_now.contains_key(*name);
        let begins = is_sent_again || first > 0;
        first -= usize::from(begins && !is_sent_again);
        begins
    });
    let beginnings = room.nodes.saturating_sub(outside);
    for (name, id) in at_once.chain(again).chain(others).take(beginnings) {
        if draft.creations_left() == 0 {
            break;
        }
        if !draft.touched.contains(&id) && draft.may_begin(name, input.rollout.pace.as_deref()) {
            draft.create(input.governing_pod(name.clone(), id, hash));
            draft.begin(name, input.rollout.pace.as_deref());
        }
    }
}

/// Begins the rollout on the first `count` of these nodes: deletes their old pods, or asks whether
/// they may go. Returns on how many.
fn begin(
    input: &SyncInput<'_>,
    nodes: &NodeSet,
    count: usize,
    target: &RevisionHash,
    draft: &mut Draft,
) -> usize {
    if input.rollout.asks() {
        return ask(input, nodes, count, target, draft);
    }
    delete_within_pace(input, nodes, count, target, draft)
}

/// Asks whether the old pods of the first `count` of these nodes may go, or deletes those about
/// which nobody is asked (G54). Returns on how many nodes it did.
fn ask(
    input: &SyncInput<'_>,
    nodes: &NodeSet,
    count: usize,
    target: &RevisionHash,
    draft: &mut Draft,
) -> usize {
    let assessor = input.assessor();
    let mut asked = 0;
    for (name, id) in input.retry_order.sorted(nodes).take(count) {
        let old = assessor.old_pod(&input.slots[id.index()]);
        let Some(pod) = old.filter(|_| !draft.touched.contains(&id)) else { continue };
        if input.rollout.asks_about(pod, input.labels) {
            draft.patch(input.question(name, pod, target));
            asked += 1;
        } else {
            let one = NodeSet::from([(name.clone(), id)]);
            asked += delete_within_pace(input, &one, 1, target, draft);
        }
    }
    asked
}

/// Sets the annotation of new pods that says that their node is updated (G54).
pub(in crate::daemon_set) fn tell(input: &SyncInput<'_>, draft: &mut Draft) {
    let assessor = input.assessor();
    for (name, id) in input.retry_order.sorted(&input.work_sets.tells) {
        let pod = assessor.new_pod(&input.slots[id.index()]);
        if let Some((pod, hash)) = pod.and_then(|pod| Some((pod, input.labels.hash(pod.labels)?))) {
            let (pod, hash) = (pod.reference(Some(name)), hash.clone());
            draft.patch(Write::MarkReplaced { pod, hash });
        }
    }
}

/// Deletes the old pods of the first `count` of these nodes, or changes them, within the pace.
/// Returns how many.
fn delete_within_pace(
    input: &SyncInput<'_>,
    nodes: &NodeSet,
    count: usize,
    target: &RevisionHash,
    draft: &mut Draft,
) -> usize {
    let mut begun = 0;
    for (name, id) in input.retry_order.sorted(nodes).take(count) {
        if !draft.may_delete() {
            break;
        }
        if draft.may_begin(name, input.rollout.pace.as_deref())
            && delete_old(input, name, id, target, draft)
        {
            draft.begin(name, input.rollout.pace.as_deref());
            begun += 1;
        }
    }
    begun
}

/// Deletes the old pod on a node, or changes it in place; returns whether it did.
fn delete_old(
    input: &SyncInput<'_>,
    name: &NodeName,
    id: NodeId,
    target: &RevisionHash,
    draft: &mut Draft,
) -> bool {
    let old = input.assessor().old_pod(&input.slots[id.index()]);
    let Some(pod) = old.filter(|_| !draft.touched.contains(&id)) else { return false };
    match input.replace_method(name, id, pod, target) {
        ReplaceMethod::Change(change) => draft.change(id, change),
        ReplaceMethod::Delete => draft.delete(name, id, pod),
        ReplaceMethod::None => false,
    }
}
