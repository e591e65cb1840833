//! The results of writes (C60, C61).

use std::time::Duration;

use crate::api::{
    AdmissionChange, Now, Problem, ResourceVersion, Revision, Timestamp, Uid, UpdateStrategy,
};
use crate::backoff::{Cause, Delay};
use crate::daemon_set::sync::{self, Draft, SyncInput};
use crate::node::{PodView, ended_pods, surplus_pods};
use crate::node_table::NodeTable;
use crate::plan::{NewPod, Outcome, Plan, PodReference, Write, WriteResult, WriteTarget};

use super::DaemonSetState;

/// Time for which no pod is created after the API server refused one because the namespace is
/// terminating (C28).
const TERMINATING_NAMESPACE_PAUSE: Duration = Duration::from_secs(60);

impl DaemonSetState {
    /// Applies the result of a write. After the last result of a plan, the next plan is due: with a
    /// back-off after an [`Outcome::Failed`] or [`Outcome::Unknown`], else at once.
    pub fn apply_result(&mut self, result: WriteResult, now: Timestamp) {
        let WriteResult { write, outcome } = result;
        if is_of_status(&write) {
            self.status_writes.is_in_flight = false;
        }
        if let Write::WriteRecord { revision, record } = &write {
            self.record_written(revision, record.phase, &outcome, now);
        }
        self.apply_result_to_pace(&write, &outcome, now);
        match outcome {
            Outcome::Written { uid, resource_version } => {
                self.succeeded(&write, now);
                self.written(&write, uid, resource_version, now);
            }
            Outcome::Changed { uid, resource_version, change } => {
                match &write {
                    Write::CreatePod(new) if self.is_replaced(&change) => {
                        self.delay_creations(new, change, now);
                    }
                    _ => self.succeeded(&write, now),
                }
                self.written(&write, uid, resource_version, now);
            }
            Outcome::Gone => {
                self.clear_failure(&write);
                self.gone(&write);
            }
            Outcome::RevisionExists { revision, collision_count } => {
                if let Some(revision) = &revision {
                    let version = revision.resource_version;
                    self.expectations.expect_version(write.target().kind(), version);
                }
                if let Write::CreateRevision(new) = &write {
                    let existing = revision.as_deref();
                    self.history.record_collision(
                        new,
                        existing,
                        collision_count,
                        &self.daemon_set,
                        now,
                    );
                }
            }
            Outcome::NamespaceTerminating => {
                self.creation_limits.not_before = Some(now + TERMINATING_NAMESPACE_PAUSE);
            }
            Outcome::Skipped => self.not_written(&write),
            Outcome::Failed { .. } => self.failed(&write),
            Outcome::Unknown { .. } => self.unknown(&write, now),
        }
        self.expectations.record_result(now);
    }

    /// Records the writes of a plan that is about to be executed.
    pub(super) fn record_planned(&mut self, plan: &Plan, now: Timestamp) {
        self.expectations.record_sent(plan.writes.len());
        for write in &plan.writes {
            if let Some(uid) = write.deleted() {
                self.expectations.expect_deletion(uid.clone());
            }
            if is_of_status(write) {
                self.status_writes.is_in_flight = true;
                self.status_writes.last_at = Some(now);
            }
        }
    }

    /// A write was executed.
    fn written(
        &mut self,
        write: &Write,
        uid: Uid,
        resource_version: ResourceVersion,
        now: Timestamp,
    ) {
        // The pod may be seen with an earlier owner first, which ends the wait for its deletion. A
        // `Status` as answer has no version: then only the deletion is awaited.
        if let Some(uid) = write.deleted() {
            self.expectations.record_deletion_outcome(uid);
        }
        if let Write::CreatePod(new) = write {
            self.pending_names.settle(&new.node);
            self.expectations.expect_creation(uid, resource_version);
        }
        if let Write::CreateRevision(new) = write {
            self.history.record_creation(new, now);
        }
        self.expectations.expect_version(write.target().kind(), resource_version);
    }

    /// A write failed. A deletion that an earlier request may have executed is still awaited.
    fn failed(&mut self, write: &Write) {
        if !write.deleted().is_some_and(|uid| self.expectations.is_outcome_unknown(uid)) {
            write
                .target()
                .node()
                .into_iter()
                .for_each(|node| self.retry_order.record_failure(node));
            self.not_written(write);
        }
    }

    /// The outcome of a write is unknown. A creation is repeated under the same name (C35), after
    /// the nodes that have not been tried (C29). A deletion is still awaited, and repeated (C52).
    fn unknown(&mut self, write: &Write, now: Timestamp) {
        if let Write::CreatePod(new) = write {
            self.retry_order.record_failure(&new.node);
            if let Some(name) = &new.name {
                self.pending_names.record(&new.node, name, now);
            }
        } else if let Write::DeletePod(pod) = write {
            self.expectations.record_unknown_deletion(pod, now);
        } else {
            self.failed(write);
        }
    }

    fn succeeded(&mut self, write: &Write, now: Timestamp) {
        self.clear_failure(write);
        // While the delay runs, this may be the result of an earlier creation.
        if matches!(write, Write::CreatePod(_)) {
            self.creation_limits.delay.take_if(|delay| !delay.is_running(now));
        }
    }

    /// Whether the node still needs a pod, now or after the pod is deleted, because admission has
    /// changed this (C28).
    fn is_replaced(&self, change: &AdmissionChange) -> bool {
        match change {
            AdmissionChange::Labels | AdmissionChange::Controller | AdmissionChange::Node(_) => {
                true
            }
            AdmissionChange::RevisionLabels => {
                matches!(self.daemon_set.strategy(), UpdateStrategy::RollingUpdate { .. })
            }
        }
    }

    /// Delays the next creation, because admission has changed a pod so that another one would be
    /// created at once. Other pods that were created at the same time do not lengthen the delay.
    fn delay_creations(&mut self, new: &NewPod, change: AdmissionChange, now: Timestamp) {
        self.retry_order.record_failure(&new.node);
        if !self.creation_limits.delay.is_some_and(|delay| delay.is_running(now)) {
            self.creation_limits.delay =
                Some(Delay::after(Cause::Failure, self.creation_limits.delay, now));
        }
        if let Some(pod) = new.name.clone() {
            self.reports.problems.push(Problem::ChangedPod { pod, node: new.node.clone(), change });
        }
    }

    fn clear_failure(&mut self, write: &Write) {
        write.target().node().into_iter().for_each(|node| self.retry_order.clear(node));
    }

    /// A write was not executed, so its deletion is not awaited.
    fn not_written(&mut self, write: &Write) {
        if let Some(uid) = write.deleted().filter(|uid| !self.expectations.is_outcome_unknown(uid))
        {
            self.expectations.saw_deletion(uid);
        }
    }

    /// Counts deletions as failed whose outcome has been unknown for too long (C52).
    pub(super) fn give_up_deletions(&mut self, now: Timestamp) {
        for pod in self.expectations.give_up_deletions(now) {
            pod.node.iter().for_each(|node| self.retry_order.record_failure(node));
        }
    }

    /// Repeats the deletions of unknown outcome that would be planned now (C52).
    ///
    /// Each of them may already be executed. So if one would not be planned now, for example
    /// because maxUnavailable has become smaller, only those are repeated that need no budget.
    pub(super) fn repeat_deletions(&self, now: Now, nodes: &NodeTable, draft: &mut Draft) {
        let unknown: Vec<_> = self.expectations.deletions_to_repeat().collect();
        if unknown.is_empty() {
            return;
        }
        // Pods whose deletion has succeeded still count as available until the watch shows it. So
        // do nodes that have got a second pod, if the strategy does not surge any more.
        let surges = self.daemon_set.strategy().surges();
        let created = if surges { 0 } else { self.expectations.unseen_creations() };
        let deleted = self.expectations.unseen_deletions() + created;
        let mut repeated = self.wanted_deletions(&unknown, deleted, now, nodes);
        if repeated.len() < unknown.len() {
            repeated = self.wanted_deletions(&unknown, deleted + unknown.len(), now, nodes);
        }
        for pod in repeated {
            let pace = self.rollout.pace.as_deref();
            let begun = pod.node.iter().filter(|node| pace.is_some_and(|pace| pace.counts(node)));
            begun.for_each(|node| draft.begin(node, pace));
            draft.write(Write::DeletePod(pod.clone()));
        }
    }

    /// Those of `pods` that would be deleted now if `deleted` more pods were unavailable.
    fn wanted_deletions<'a>(
        &self,
        pods: &[&'a PodReference],
        deleted: usize,
        now: Now,
        nodes: &NodeTable,
    ) -> Vec<&'a PodReference> {
        let mut counts = self.index.counts;
        counts.uses_unavailable += deleted;
        counts.in_flight += deleted;
        counts.serves = counts.serves.saturating_sub(deleted);
        let input = SyncInput { counts: &counts, ..self.sync_input(now) };
        let assessor = input.assessor();
        let mut wanted = Draft::new(self.config.burst_replicas);
        // The counts of groups do not tell to which group the deleted pods belong.
        let fits_groups = input.groups.is_none() || deleted == 0;
        let creates_pods = self.creates_pods();
        let hash = if creates_pods {
            self.history.classify(&self.daemon_set).current.and_then(Revision::hash)
        } else {
            sync::revision_beside(&input)
        };
        if let Some(hash) = hash.filter(|_| fits_groups) {
            sync::rolling_update(&input, &hash, &mut wanted);
        }
        let is_wanted = |pod: &&&PodReference| {
            let is_it = |view: &PodView| view.uid == pod.uid;
            let id = pod.node.as_ref().and_then(|node| nodes.id(node));
            let is_surplus = id.and_then(|id| self.slots.get(id.index())).is_some_and(|slot| {
                surplus_pods(slot, &assessor).into_iter().any(is_it) || ended_pods(slot).any(is_it)
            });
            is_surplus && creates_pods
                || wanted.plan.writes.iter().any(|w| w.deleted() == Some(&pod.uid))
        };
        pods.iter().filter(is_wanted).copied().collect()
    }

    /// The object of a write does not exist, which its watch has yet to show.
    fn gone(&mut self, write: &Write) {
        // The deletion is awaited already.
        if let Some(uid) = write.deleted() {
            self.expectations.record_deletion_outcome(uid);
            return;
        }
        match write.target() {
            WriteTarget::Pod(pod) => self.expectations.record_gone(&pod.uid),
            WriteTarget::Revision(revision) => self.expectations.record_gone(&revision.uid),
            WriteTarget::DaemonSet => self.expectations.record_gone(&self.daemon_set.uid),
            // A creation has no existing target.
            WriteTarget::NewPod(_) | WriteTarget::NewRevision => {}
        }
    }
}

/// Whether the write is of the status, of which one is in flight at a time.
const fn is_of_status(write: &Write) -> bool {
    matches!(write, Write::UpdateStatus { .. } | Write::UpdateConditions { .. })
}
