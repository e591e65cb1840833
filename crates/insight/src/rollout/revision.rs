//! Which pods are of the current revision.

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::api::{DaemonSet, Overrides, Pod, Revision, RevisionHash};

use crate::snapshot::Snapshot;

/// The content of the current revision, by which its pods are known.
#[derive(Clone)]
pub(crate) struct CurrentContent<'a> {
    snapshot: &'a Snapshot,
    /// The hashes of the revisions of the current template (C41); empty if no revision could be
    /// read.
    hashes: BTreeSet<RevisionHash>,
    /// Its overrides (G57).
    overrides: Option<Arc<Overrides>>,
}

impl<'a> CurrentContent<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, daemon_set: &DaemonSet) -> Self {
        let revisions = snapshot.revisions_of(&daemon_set.key);
        let revisions = Revision::by_content(daemon_set, revisions, None);
        let mut hashes = revisions.variants;
        if revisions.current.is_empty() {
            // Nothing is known of the current revision yet.
            hashes.clear();
        }
        hashes.extend(revisions.current.into_iter().filter_map(Revision::hash));
        Self { snapshot, hashes, overrides: revisions.overrides }
    }

    /// True if a revision of the current template has this hash.
    pub(crate) fn is_of_template(&self, hash: &RevisionHash) -> bool {
        self.hashes.contains(hash)
    }

    /// True if the pod is of another revision. No pod is if the current one is unknown.
    pub(crate) fn is_outdated(&self, pod: &Pod) -> bool {
        let is_other = || pod.revision_hash().is_none_or(|hash| !self.hashes.contains(&hash));
        !self.hashes.is_empty() && (is_other() || self.has_other_override(pod))
    }

    /// True if the pod is of the current revision, as far as that is known.
    pub(crate) fn has(&self, pod: &Pod) -> bool {
        !self.hashes.is_empty() && !self.is_outdated(pod)
    }

    /// True if another override counts on the node of the pod than the one that made it.
    fn has_other_override(&self, pod: &Pod) -> bool {
        let node = pod.target_node_name().and_then(|node| self.snapshot.nodes.get(node));
        let tag = pod.tag();
        let Some(detail) = node
            .filter(|_| self.overrides.is_some() || tag.is_some())
            // Those of running pods are no part of a revision.
            .filter(|_| !self.snapshot.runs_beside)
        else {
            return false;
        };
        let of_node = self.overrides.as_ref().and_then(|it| it.of_node(&detail.node));
        of_node.map(|of_node| &of_node.tag) != tag.as_ref()
    }
}
