//! Deciding if a pod can be changed in place instead of being replaced (G56).

use crate::api::{DaemonSet, PodPhase, RevisionHash, Template};
use crate::node::{PodFlags, PodView, Slot, SlotFlags};
use crate::pod_changes::PodChanges;
use crate::revisions::{RevisionHistory, RevisionLabels};

/// The parts of a DaemonSet's state that decide whether its pods can be changed.
#[derive(Clone, Copy)]
pub(crate) struct InPlace<'a> {
    pub daemon_set: &'a DaemonSet,
    pub history: &'a RevisionHistory,
    pub labels: &'a RevisionLabels,
    pub changes: &'a PodChanges,
}

/// The ways in which a node with an old pod can get another revision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OldPod<'a> {
    /// It can be changed from this template to that one.
    Changes { from: &'a Template, to: &'a Template },
    /// It is replaced whatever the policy says: it does not run, goes for another reason, has
    /// another override than its node, or another change of it is not done. A kubelet that has yet
    /// to see that one may never restart a container for the next.
    IsReplaced,
    /// It cannot be changed, for this reason.
    CannotChange(&'a str),
}

impl<'a> InPlace<'a> {
    /// The way in which the node of an old pod can get the revision with the hash `to`.
    pub(crate) fn old_pod(&self, slot: &Slot, pod: &PodView, to: &RevisionHash) -> OldPod<'a> {
        let runs = pod.phase == PodPhase::Running && pod.flags.contains(PodFlags::SCHEDULED);
        let goes = slot.flags.contains(SlotFlags::LOSES_POD)
            || !slot.eligibility.should_continue_running();
        if !runs || goes {
            return OldPod::IsReplaced;
        }
        if let Some(why) = self.changes.refusal_of_revision(&pod.uid, to) {
            return OldPod::CannotChange(why);
        }
        if pod.is_changing() {
            return OldPod::IsReplaced;
        }
        let is_target = self.labels.current_hashes().any(|current| current == to);
        let another = if is_target { PodFlags::NOT_OF_TARGET } else { PodFlags::NOT_OF_BASE };
        if pod.flags.contains(another) {
            return OldPod::IsReplaced;
        }
        // Without the hash of a stored revision, the template generation may say it (C45).
        let own = match self.labels.are_of_template(pod.labels) {
            true => Some(&self.daemon_set.template),
            false => self.labels.hash(pod.labels).and_then(|hash| self.template(hash)),
        };
        match own.zip(self.template(to)) {
            Some((from, to)) if from.changes_in_place_to(to) => OldPod::Changes { from, to },
            Some(_) => OldPod::CannotChange(
                "its template differs in more than images, CPU and memory of containers, labels \
                 and annotations",
            ),
            None => OldPod::CannotChange("the template of its revision is not known"),
        }
    }

    /// The template of a revision.
    pub(crate) fn template(&self, hash: &RevisionHash) -> Option<&'a Template> {
        if self.labels.current_hashes().any(|current| current == hash) {
            return Some(&self.daemon_set.template);
        }
        self.history.template(hash)
    }
}
