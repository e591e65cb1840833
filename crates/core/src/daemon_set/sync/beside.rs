//! The revision beside the built-in controller, which creates the pods: outdated ones are deleted
//! (G18–G20).

use crate::api::RevisionHash;

use super::SyncInput;

/// The revision of which the built-in controller makes the pod that replaces a deleted one; `None`
/// if that is not known, because the controller has not acted on the newest generation or has yet
/// to adopt a revision, or if no valid policy selects the DaemonSet or the controller rolls it out
/// by itself (G18, G19).
pub(in crate::daemon_set) fn revision_beside(input: &SyncInput<'_>) -> Option<RevisionHash> {
    let daemon_set = input.daemon_set;
    let is_served = daemon_set.policy.valid().is_some()
        && !daemon_set.is_rolled_out_by_others()
        && daemon_set.status.observed_generation >= daemon_set.generation;
    let set = input.history.classify(daemon_set);
    let current = set.current.filter(|_| is_served && set.orphans.is_empty())?;
    let mut others = set.old.iter().chain(&set.duplicates);
    let is_newest = others.all(|other| other.number < current.number);
    current.hash().filter(|_| is_newest)
}
