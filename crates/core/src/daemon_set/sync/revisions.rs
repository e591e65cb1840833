//! The revision history: repairing it, and finding the hash of the current revision (C40–C46).
//! Upstream: `constructHistory`, `cleanupHistory`.

use crate::api::RevisionHash;
use crate::plan::Write;
use crate::revisions::{CollisionAction, RevisionSet};
use crate::rollout::base_without_policy;

use super::SyncInput;
use super::draft::Draft;

/// The revision that new pods are created from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon_set) enum PodRevision {
    /// The current revision is stored.
    Stored { hash: RevisionHash, has_duplicates: bool },
    /// Another object stores the current template under the name of the revision (C43).
    StoredByOther { hash: RevisionHash },
    /// Something must be written before pods can be.
    Missing,
}

/// Repairs the history, and finds the revision for new pods.
pub(in crate::daemon_set) fn plan_revisions(
    input: &SyncInput<'_>,
    draft: &mut Draft,
) -> PodRevision {
    let set = input.history.classify(input.daemon_set);
    repair(input, &set, draft);
    let Some(current) = set.current else {
        // An orphan may store the current template, so adoption comes first.
        let number = set.current_number();
        return if set.orphans.is_empty() {
            plan_creation(input, number, draft)
        } else {
            PodRevision::Missing
        };
    };
    let Some(hash) = current.hash() else { return PodRevision::Missing };
    plan_deduplication(input, &set, &hash, draft);
    PodRevision::Stored { hash, has_duplicates: !set.duplicates.is_empty() }
}

/// Deletes the oldest revisions beyond `revisionHistoryLimit` that no pod has, except the base
/// (C44, G16).
pub(in crate::daemon_set) fn truncate_history(input: &SyncInput<'_>, draft: &mut Draft) {
    let limit = input.daemon_set.revision_history_limit as usize;
    if input.history.len() <= limit {
        return;
    }
    let set = input.history.classify(input.daemon_set);
    let excess = set.old.len().saturating_sub(limit);
    let base = input.rollout.gate.base().cloned().or_else(|| base_without_policy(&set));
    let is_live = |hash: RevisionHash| {
        // A pod that is being changed in place still has its former label.
        input.labels.is_live(&hash) || base.as_ref() == Some(&hash) || input.changes.is_from(&hash)
    };
    let unused = set.old.iter().filter(|old| !is_live(old.pod_hash()));
    for revision in unused.take(excess).filter(|revision| !revision.terminating) {
        draft.write(Write::DeleteRevision(revision.reference()));
    }
}

/// Creates the revision of the current template, or resolves a collision of its name (C40, C43).
fn plan_creation(input: &SyncInput<'_>, number: i64, draft: &mut Draft) -> PodRevision {
    let new = input.history.new_revision(input.daemon_set, number);
    match input.history.collision_action(&new, input.now.steady) {
        Some(CollisionAction::UseHash(hash)) => return PodRevision::StoredByOther { hash },
        Some(CollisionAction::Wait) => {}
        Some(CollisionAction::RaiseCount(collision_count)) => {
            let resource_version = input.daemon_set.resource_version;
            draft.write(Write::RaiseCollisionCount { resource_version, collision_count });
        }
        None if input.creations_suspended || input.copying.withholds_revision(input.now.steady) => {
        }
        None => match input.history.delayed_until(&new, input.now.steady) {
            Some(end) => draft.requeue(end),
            None => draft.write(Write::CreateRevision(new)),
        },
    }
    PodRevision::Missing
}

/// Gives the current hash to pods with the hash of a duplicate, then deletes the duplicate if it
/// has existed for a while (C42). Until then such pods count as up to date.
fn plan_deduplication(
    input: &SyncInput<'_>,
    set: &RevisionSet<'_>,
    current: &RevisionHash,
    draft: &mut Draft,
) {
    let may_delete = input.history.may_delete_duplicates(input.now.steady);
    for duplicate in &set.duplicates {
        let live = duplicate.hash().filter(|h| h != current && input.labels.is_live(h));
        match live {
            Some(hash) => plan_relabelling(input, &hash, current, draft),
            None if duplicate.terminating || !may_delete => {}
            None => draft.write(Write::DeleteRevision(duplicate.reference())),
        }
    }
}

fn plan_relabelling(
    input: &SyncInput<'_>,
    old: &RevisionHash,
    new: &RevisionHash,
    draft: &mut Draft,
) {
    let placed = input.slots.iter().flat_map(|slot| slot.pods.as_slice());
    for pod in placed.chain(input.unplaced.values()) {
        let is_old = input.labels.hash(pod.labels) == Some(old) && !pod.is_changing();
        if is_old && !pod.is_orphan() {
            draft.patch(Write::RelabelPod { pod: pod.reference(None), hash: new.clone() });
        }
    }
}

/// Repairs owners, labels and the current revision's number (C21, C42).
fn repair(input: &SyncInput<'_>, set: &RevisionSet<'_>, draft: &mut Draft) {
    for revision in &set.orphans {
        draft.write(Write::AdoptRevision(revision.reference()));
    }
    for revision in &set.releases {
        draft.write(Write::ReleaseRevision(revision.reference()));
    }
    for revision in set.unlabelled() {
        let hash = revision.name.as_str().into();
        draft.write(Write::LabelRevision { revision: revision.reference(), hash });
    }
    let number = set.current_number();
    if let Some(current) = set.current.filter(|c| c.hash().is_some() && c.number < number) {
        let (revision, template_generation) =
            (current.reference(), input.daemon_set.template_generation);
        draft.write(Write::RaiseRevision { revision, number, template_generation });
    }
}
