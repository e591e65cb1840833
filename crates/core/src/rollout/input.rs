//! The input of a rollout: the parts of its DaemonSet's state that it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    DaemonSet, Labels, Now, Replacement, RevisionHash, RolloutPhase, RolloutPolicy, RolloutRecord,
    Timestamp, Uid, UpdateMethod,
};
use crate::config::{Clocks, Duties, PodDuty};
use crate::copying::ConfigWait;
use crate::node::{PodView, Slot};
use crate::node_table::NodeId;
use crate::pod_changes::PodChanges;
use crate::revisions::{RevisionHistory, RevisionLabels, RevisionSet};

use super::in_place::{InPlace, OldPod};

/// How long a node may be without an available pod before it counts as broken, or absent before it
/// counts as lost, if the policy states no `readyWithin` (G33).
const READY_WITHIN: Duration = Duration::from_secs(600);

/// The parts of a DaemonSet's state that its rollout reads, at one time.
#[derive(Clone, Copy)]
pub(crate) struct RolloutInput<'a> {
    pub now: Now,
    pub duties: Duties,
    pub daemon_set: &'a DaemonSet,
    /// Number of its changes so far: with the same number it is the same, but for its status.
    pub daemon_set_changes: u64,
    pub namespace_node_selector: &'a Labels,
    pub history: &'a RevisionHistory,
    pub labels: &'a RevisionLabels,
    pub slots: &'a [Slot],
    /// Why the last pod could not be created, if that is so.
    pub refusal: Option<&'a str>,
    /// Why nobody can be asked whether an old pod may go, if that is so (G54).
    pub question_refusal: Option<&'a Arc<str>>,
    /// Why the rollout does not begin, as far as ConfigMaps are concerned (G58).
    pub config_wait: Option<&'a ConfigWait>,
    /// The pods that somebody is asked about, or has agreed to replace.
    pub replacements: &'a BTreeMap<Uid, Replacement>,
    /// The pods that are changed in place.
    pub changes: &'a PodChanges,
    /// Why the pod of a node keeps other resources than those of its override (G57).
    pub keeps_override: &'a BTreeMap<NodeId, Arc<str>>,
    /// Why pods could not be changed until now that are to get another override in place.
    pub override_failure: Option<&'a Arc<str>>,
    /// The order that was reported as one without effect, of which no record tells (G43).
    pub reported_order: Option<&'a Arc<str>>,
    /// True if all desired nodes have an available pod of the target, and no other node has a pod.
    pub is_rolled_out: bool,
    /// The number of nodes that have a pod and should run none.
    pub misscheduled: usize,
    /// True if the policy makes too many waves of the nodes that there are (G50).
    pub has_too_many_waves: bool,
    pub clocks: Clocks,
}

impl<'a> RolloutInput<'a> {
    /// True if anything guards or pauses the rollout, or did before.
    pub(crate) fn is_guarded(&self) -> bool {
        self.daemon_set.is_guarded() || self.history.has_records()
    }

    /// The policy that guards the rollout, if it is valid.
    pub(super) fn policy(&self) -> Option<&'a Arc<RolloutPolicy>> {
        self.daemon_set.policy.valid()
    }

    /// For how long a node waits until somebody agrees that its old pod goes, if one must. With
    /// surge nobody is asked (G54).
    pub(super) fn agree_within(&self) -> Option<Duration> {
        let within = self.policy()?.agree_within();
        within.filter(|_| !self.daemon_set.strategy().surges())
    }

    /// How nodes get another template. With surge pods are replaced, and so are those that cannot
    /// be changed once the rollout was promoted in full, or where nodes go back to a template that
    /// was complete before (G56).
    pub(super) fn update_method(&self) -> UpdateMethod {
        let policy = self.policy().filter(|_| !self.daemon_set.strategy().surges());
        let method = policy.map_or(UpdateMethod::Replace, |policy| policy.update);
        if method != UpdateMethod::InPlaceOnly {
            return method;
        }
        let revisions = self.revisions();
        let record = revisions.current.and_then(|current| current.record.stored());
        let replaces =
            |record: &RolloutRecord| record.is_promoted_in_full() || record.was_complete_before();
        match record.is_some_and(|record| replaces(record)) {
            true => UpdateMethod::InPlaceIfPossible,
            false => method,
        }
    }

    /// Why the old pod of a node cannot be changed in place to the target, if the policy allows
    /// nothing else (G56).
    pub(super) fn obstacle(&self, slot: &Slot) -> Option<&'a str> {
        if self.update_method() != UpdateMethod::InPlaceOnly {
            return None;
        }
        let (daemon_set, history) = (self.daemon_set, self.history);
        let in_place = InPlace { daemon_set, history, labels: self.labels, changes: self.changes };
        let target = self.labels.current_hashes().next()?;
        let active = |pod: &&PodView| !pod.is_orphan() && !pod.is_terminating();
        // Of several pods all but one are deleted first.
        let mut pods = slot.pods.as_slice().iter().filter(active);
        let (Some(old), None) = (pods.next(), pods.next()) else { return None };
        if !old.is_given_up() && old.is_updated(self.labels) {
            return None;
        }
        match in_place.old_pod(slot, old, target) {
            OldPod::CannotChange(why) => Some(why),
            OldPod::Changes { .. } | OldPod::IsReplaced => None,
        }
    }

    pub(super) fn revisions(&self) -> RevisionSet<'a> {
        self.history.classify(self.daemon_set)
    }

    /// True if the built-in controller creates the pods.
    pub(super) fn is_beside(&self) -> bool {
        self.duties.pods == PodDuty::DeleteOutdated
    }

    /// How long a node may be without an available pod, or absent, until it is set aside.
    pub(super) fn limit(&self) -> Duration {
        let rule = self.policy().and_then(|policy| policy.failure);
        let min_ready = Duration::from_secs(self.daemon_set.min_ready_seconds.into());
        rule.and_then(|rule| rule.ready_within).unwrap_or(READY_WITHIN) + min_ready
    }

    /// Since when an earlier controller may have taken pods away so that they still use the budget
    /// (G14): since the first known rollout was at work, or for the [limit](Self::limit), by the
    /// wall clock. `None` if none was at work.
    pub(super) fn taken_since(&self) -> Option<Timestamp> {
        let revisions = self.revisions();
        let all = revisions.old.iter().chain(&revisions.current);
        let records = all.filter_map(|revision| revision.record.stored());
        let at_work = records.filter(|record| match record.phase {
            RolloutPhase::Updating
            | RolloutPhase::Baking
            | RolloutPhase::Failed
            | RolloutPhase::Superseded => true,
            RolloutPhase::Pending | RolloutPhase::Complete => false,
        });
        let first = at_work.map(|record| record.first_began()).min()?;
        Some(first.max(self.now.to_wall(self.now.steady) - self.limit()))
    }

    /// The older revisions that failed or were superseded, or are about to be.
    pub(super) fn bad_revisions(&self) -> BTreeSet<RevisionHash> {
        let is_bad = |phase: RolloutPhase| match phase {
            RolloutPhase::Failed
            | RolloutPhase::Superseded
            | RolloutPhase::Updating
            | RolloutPhase::Baking => true,
            RolloutPhase::Pending | RolloutPhase::Complete => false,
        };
        let old = self.revisions().old.into_iter();
        let bad = old.filter(|old| old.record.stored().is_some_and(|record| is_bad(record.phase)));
        bad.map(|old| old.pod_hash()).collect()
    }

    /// True if a pod with this hash has another override than its node under the target.
    fn has_outdated_pods_with(&self, hash: &RevisionHash) -> bool {
        let mut pods = self.slots.iter().flat_map(|slot| slot.pods.as_slice());
        pods.any(|pod| self.labels.hash(pod.labels) == Some(hash) && !pod.is_updated(self.labels))
    }

    /// True if the pod has one of them.
    pub(super) fn is_of_bad_revision(&self, pod: &PodView) -> bool {
        let hash = self.labels.hash(pod.labels);
        hash.is_some_and(|hash| self.bad_revisions().contains(hash))
    }

    /// True if a pod has one of them that was tried after the rollout of the target was complete:
    /// nodes go back to the target.
    pub(super) fn has_bad_pods(&self) -> bool {
        let revisions = self.revisions();
        let target = revisions.current.and_then(|current| current.record.stored());
        // Times are whole seconds, and that of the end may be a second late (G36).
        let complete_since = target.map(|record| record.since - Duration::from_secs(2));
        let bad = self.bad_revisions();
        revisions.old.iter().any(|old| {
            let began = old.record.stored().map(|record| record.began);
            let hash = old.pod_hash();
            began >= complete_since
                && bad.contains(&hash)
                && match revisions.variants.contains(&hash) {
                    true => self.has_outdated_pods_with(&hash),
                    false => self.labels.is_live(&hash),
                }
        })
    }
}
