//! Which pods are of the current revision.

use std::collections::BTreeSet;

use everynode_core::api::{DaemonSet, Pod, Revision, RevisionHash};

use crate::snapshot::Snapshot;

/// The hashes of the revisions of the current template (C41); empty if no revision could
/// be read.
pub(crate) fn current_hashes(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
) -> BTreeSet<RevisionHash> {
    let revisions = snapshot.revisions_of(&daemon_set.key);
    let (current, _) = Revision::by_template(daemon_set, revisions);
    current.into_iter().filter_map(Revision::hash).collect()
}

/// True if the pod is of another revision than the `current` ones. No pod is if these are unknown.
pub(super) fn is_outdated(pod: &Pod, current: &BTreeSet<RevisionHash>) -> bool {
    !current.is_empty() && pod.revision_hash().is_none_or(|hash| !current.contains(&hash))
}
