//! The results of a plan's writes: what each outcome means for the next plan (C60, C61).

use std::time::Duration;

use crate::api::{AdmissionChange, Problem, ResourceVersion, Timestamp, Uid, UpdateStrategy};
use crate::backoff::{Cause, Delay};
use crate::plan::{NewPod, Outcome, Write, WriteResult, WriteTarget};

use super::DaemonSetState;

/// Time for which no pod is created after the API server refused one because the namespace is
/// terminating (C28).
const TERMINATING_NAMESPACE_PAUSE: Duration = Duration::from_secs(60);

impl DaemonSetState {
    /// Applies the result of a write. After the last result of a plan, the next plan is due: with a
    /// back-off after an [`Outcome::Failed`] or [`Outcome::Unknown`], else at once.
    pub fn apply_result(&mut self, result: WriteResult, now: Timestamp) {
        let WriteResult { write, outcome } = result;
        if write.is_of_status() {
            self.reports.status.is_in_flight = false;
        }
        if let Write::WriteRecord { revision, record } = &write {
            let phase = record.phase;
            if self.rollout.apply_record_outcome(revision, phase, &outcome, now) {
                self.mark_all();
            }
        }
        self.apply_outcome_to_pace(&write, &outcome, now);
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
                let version = revision.as_ref().map(|revision| revision.resource_version);
                self.expect_version(&write, version);
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
            Outcome::ImagesPresent => {
                if let Write::PullImages(new) = &write {
                    self.rollout.images.record_present(&new.node);
                }
            }
            Outcome::CannotChange { message, written } => {
                self.cannot_change(&write, message);
                self.expect_version(&write, written);
            }
            Outcome::Begun { resource_version, message } => {
                self.refused(&write, message);
                self.expect_version(&write, Some(resource_version));
            }
            Outcome::NamespaceTerminating => {
                self.backoffs.creations.not_before = Some(now + TERMINATING_NAMESPACE_PAUSE);
            }
            Outcome::Skipped => self.not_written(&write),
            Outcome::Failed { message } => self.refused(&write, message),
            Outcome::Unknown { .. } => self.unknown(&write, now),
        }
        self.expectations.record_result(now);
    }

    /// Applies the outcome of a write by which the rollout may have begun on a node.
    fn apply_outcome_to_pace(&mut self, write: &Write, outcome: &Outcome, now: Timestamp) {
        let is_of_pod =
            matches!(write, Write::CreatePod(_) | Write::DeletePod(_) | Write::ChangePod(_));
        let node = write.target().node().filter(|_| is_of_pod);
        let (Some(pace), Some(node)) = (&mut self.rollout.pace, node) else { return };
        let is_repeated = match write.deleted() {
            Some(uid) => self.expectations.is_outcome_unknown(uid),
            None => self.index.pending_names.unsettled_nodes().any(|unsettled| unsettled == node),
        };
        pace.apply_outcome(node, outcome, is_repeated, now);
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
            self.index.pending_names.settle(&new.node);
            self.expectations.expect_creation(uid, resource_version);
        }
        if let Write::CreateRevision(new) = write {
            self.history.record_creation(new, now);
        }
        self.expect_version(write, Some(resource_version));
    }

    /// The next plan waits until the watch has shown this version.
    fn expect_version(&mut self, write: &Write, version: Option<ResourceVersion>) {
        if let (Some(version), Some(kind)) = (version, write.target().kind()) {
            self.expectations.expect_version(kind, version);
        }
    }

    /// The API server has refused a write.
    fn refused(&mut self, write: &Write, why: String) {
        match write {
            Write::CreatePod(_) => self.backoffs.creations.refusal = Some(why.into()),
            Write::AskForReplacement { .. } => self.asking.refusal = Some(why.into()),
            Write::PullImages(_) => self.rollout.images.set_refusal(Some(why.into())),
            Write::ChangePod(_) => self.changes.record_failure(why),
            Write::CopyConfigMap(new) => self.copying.record_outcome(new, Some(why)),
            _ => {}
        }
        self.failed(write);
    }

    /// A pod cannot be changed in place: it is replaced, or stays (G56).
    fn cannot_change(&mut self, write: &Write, why: String) {
        if let Write::ChangePod(change) = write {
            self.changes.record_refusal(change, why);
        }
        self.clear_failure(write);
    }

    /// A write failed. A deletion that an earlier request may have executed is still awaited.
    fn failed(&mut self, write: &Write) {
        self.asking.failed_marks += u32::from(matches!(write, Write::MarkReplaced { .. }));
        if !write.deleted().is_some_and(|uid| self.expectations.is_outcome_unknown(uid)) {
            write
                .target()
                .node()
                .into_iter()
                .for_each(|node| self.index.retry_order.record_failure(node));
            self.not_written(write);
        }
    }

    /// The outcome of a write is unknown. A creation is repeated under the same name (C35), after
    /// the nodes that have not been tried (C29). A deletion is still awaited, and repeated (C52).
    fn unknown(&mut self, write: &Write, now: Timestamp) {
        if let Write::CreatePod(new) = write {
            self.index.retry_order.record_failure(&new.node);
            if let Some(name) = &new.name {
                self.index.pending_names.record(&new.node, name, now);
            }
        } else if let Write::ChangePod(change) = write {
            self.changes.record_doubt(change, now);
        } else if let Write::DeletePod(pod) = write {
            self.expectations.record_unknown_deletion(pod, now);
        } else if let Write::PullImages(new) = write {
            self.rollout.images.record_unknown(&new.node, now);
            self.failed(write);
        } else {
            self.failed(write);
        }
    }

    fn succeeded(&mut self, write: &Write, now: Timestamp) {
        self.clear_failure(write);
        self.asking.failed_marks *= u32::from(!matches!(write, Write::MarkReplaced { .. }));
        self.asking.refusal.take_if(|_| matches!(write, Write::AskForReplacement { .. }));
        if let Write::ChangePod(change) = write {
            self.changes.record_sent(change);
        }
        if matches!(write, Write::PullImages(_)) {
            self.rollout.images.set_refusal(None);
        }
        if let Write::CopyConfigMap(new) = write {
            self.copying.record_outcome(new, None);
        }
        // While the delay runs, this may be the result of an earlier creation.
        if matches!(write, Write::CreatePod(_)) {
            self.backoffs.creations.delay.take_if(|delay| !delay.is_running(now));
            self.backoffs.creations.refusal = None;
        }
    }

    /// True if the node still needs a pod, now or after the pod is deleted, because admission has
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
        self.index.retry_order.record_failure(&new.node);
        if !self.backoffs.creations.delay.is_some_and(|delay| delay.is_running(now)) {
            self.backoffs.creations.delay =
                Some(Delay::after(Cause::Failure, self.backoffs.creations.delay, now));
        }
        if let Some(pod) = new.name.clone() {
            self.reports.problems.push(Problem::ChangedPod { pod, node: new.node.clone(), change });
        }
    }

    fn clear_failure(&mut self, write: &Write) {
        write.target().node().into_iter().for_each(|node| self.index.retry_order.clear(node));
    }

    /// A write was not executed, so its deletion is not awaited.
    fn not_written(&mut self, write: &Write) {
        if let Some(uid) = write.deleted().filter(|uid| !self.expectations.is_outcome_unknown(uid))
        {
            self.expectations.saw_deletion(uid);
        }
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
            WriteTarget::NewPod(_) | WriteTarget::NewPuller | WriteTarget::NewRevision => {}
            // Its watch shows it.
            WriteTarget::ConfigMap => {}
        }
    }
}
