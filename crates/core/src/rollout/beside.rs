//! The built-in controller that creates the pods of a guarded rollout beside it (G18, G19).

use crate::api::{DaemonSet, RevisionHash};
use crate::revisions::RevisionSet;

/// The revision of which the built-in controller makes the pod that replaces a deleted one; `None`
/// if that is not known, because the controller has not acted on the newest generation or has yet
/// to adopt a revision, or if no valid policy selects the DaemonSet or the controller rolls it out
/// by itself (G18, G19).
pub(crate) fn revision_beside(
    daemon_set: &DaemonSet,
    revisions: &RevisionSet<'_>,
) -> Option<RevisionHash> {
    let is_served = daemon_set.policy.valid().is_some()
        && !daemon_set.is_rolled_out_by_others()
        && daemon_set.status.observed_generation >= daemon_set.generation;
    let current = revisions.current.filter(|_| is_served && revisions.orphans.is_empty())?;
    let mut others = revisions.old.iter().chain(&revisions.duplicates);
    let is_newest = others.all(|other| other.number < current.number);
    current.hash().filter(|_| is_newest)
}
