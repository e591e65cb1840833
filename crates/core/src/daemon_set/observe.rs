//! What became of writes (C60, C61).

use std::time::Duration;

use crate::api::{ResourceVersion, Revision, Timestamp, Uid};
use crate::nodes::Nodes;
use crate::plan::{Outcome, Plan, Subject, Write, WriteResult};

use super::assess::Judge;
use super::draft::Draft;
use super::slot::PodView;
use super::{DaemonSetState, manage};

/// How long no pod is created after a refusal because the namespace is terminating (C28).
const TERMINATING_NAMESPACE_HOLD: Duration = Duration::from_secs(60);

impl DaemonSetState {
    /// Takes what became of a write. When the last write of a plan has come back, a new plan is due; after
    /// an [`Outcome::Failed`] or an [`Outcome::Unknown`], with a back-off.
    pub fn observe(&mut self, result: WriteResult, now: Timestamp) {
        let WriteResult { write, outcome } = result;
        if matches!(write, Write::UpdateStatus { .. }) {
            self.status_in_flight = false;
        }
        match outcome {
            Outcome::Written { uid, resource_version } => {
                write.subject().node().into_iter().for_each(|node| self.turns.forget(node));
                self.written(&write, uid, resource_version);
            }
            Outcome::Gone => {
                write.subject().node().into_iter().for_each(|node| self.turns.forget(node));
                self.gone(&write);
            }
            Outcome::RevisionExists { revision, collision_count } => {
                if let Some(revision) = &revision {
                    let version = revision.resource_version;
                    self.expectations.expect_version(write.subject().kind(), version);
                }
                if let Write::CreateRevision(new) = &write {
                    let existing = revision.as_deref();
                    self.history.refused(new, existing, collision_count, &self.daemon_set, now);
                }
            }
            Outcome::NamespaceTerminating => {
                self.no_creations_before = Some(now + TERMINATING_NAMESPACE_HOLD);
            }
            Outcome::Skipped => self.not_written(&write),
            Outcome::Failed { .. } => self.failed(&write),
            Outcome::Unknown { .. } => self.perhaps_written(&write, now),
        }
        self.expectations.returned(now);
    }

    /// Notes what is handed out to be written.
    pub(super) fn hand_out(&mut self, plan: &Plan, now: Timestamp) {
        self.expectations.sent(plan.writes.len());
        for write in &plan.writes {
            if let Some(uid) = write.deleted() {
                self.expectations.expect_deletion(uid.clone());
            }
            if matches!(write, Write::UpdateStatus { .. }) {
                self.status_in_flight = true;
                self.status_written_at = Some(now);
            }
        }
    }

    fn written(&mut self, write: &Write, uid: Uid, resource_version: ResourceVersion) {
        // Going is what is waited for, not a version.
        if let Some(uid) = write.deleted() {
            self.expectations.deletion_is_answered(uid);
            return;
        }
        if let Write::CreatePod(new) = write {
            self.pending_names.settle(&new.node);
            self.expectations.expect_creation(uid, resource_version);
        }
        self.expectations.expect_version(write.subject().kind(), resource_version);
    }

    /// A deletion that was sent before without a definite answer may have been done all the same.
    fn failed(&mut self, write: &Write) {
        if !write.deleted().is_some_and(|uid| self.expectations.is_unanswered(uid)) {
            write.subject().node().into_iter().for_each(|node| self.turns.refuse(node));
            self.not_written(write);
        }
    }

    /// A pod that may have been created, or may be yet, is created again under the same name (C35), after the nodes
    /// that have not been tried (C29). A deletion goes on being waited for, and is planned again (C52).
    fn perhaps_written(&mut self, write: &Write, now: Timestamp) {
        match write {
            Write::CreatePod(new) => {
                self.turns.refuse(&new.node);
                if let Some(name) = &new.name {
                    self.pending_names.keep(&new.node, name, now);
                }
            }
            Write::DeletePod(pod) => self.expectations.deletion_is_unanswered(pod, now),
            Write::AdoptPod(_)
            | Write::ReleasePod(_)
            | Write::AdoptRevision(_)
            | Write::ReleaseRevision(_)
            | Write::CreateRevision(_)
            | Write::LabelRevision { .. }
            | Write::RaiseRevision { .. }
            | Write::RaiseCollisionCount { .. }
            | Write::RelabelPod { .. }
            | Write::DeleteRevision(_)
            | Write::UpdateStatus { .. } => self.failed(write),
        }
    }

    fn not_written(&mut self, write: &Write) {
        if let Some(uid) = write.deleted().filter(|uid| !self.expectations.is_unanswered(uid)) {
            self.expectations.saw_deletion(uid);
        }
    }

    /// Deletions that have been without a definite answer for too long have failed (C52).
    pub(super) fn give_up_deletions(&mut self, now: Timestamp) {
        for pod in self.expectations.give_up_deletions(now) {
            pod.node.iter().for_each(|node| self.turns.refuse(node));
        }
    }

    /// Plans the deletions of unknown outcome again, as far as they would be planned now (C52).
    pub(super) fn repeat_deletions(&self, now: Timestamp, nodes: &Nodes, draft: &mut Draft) {
        if self.expectations.unanswered().next().is_none() {
            return;
        }
        let mut wanted = Draft::new(self.config.burst_replicas);
        let review = self.history.review(&self.daemon_set);
        if let Some(hash) = review.current.and_then(Revision::hash) {
            self.rolling_update(&hash, now, &mut wanted);
        }
        let judge = Judge::new(&self.daemon_set, &self.carried, now);
        for pod in self.expectations.unanswered() {
            let is_it = |view: &PodView| view.uid == pod.uid;
            let id = pod.node.as_ref().and_then(|node| nodes.id(node));
            let slot = id.and_then(|id| self.slots.get(id.index()));
            let goes_anyway = slot.is_some_and(|slot| {
                manage::surplus(slot, &judge).into_iter().any(is_it)
                    || manage::ended(slot).any(is_it)
            });
            if goes_anyway || wanted.plan.writes.iter().any(|w| w.deleted() == Some(&pod.uid)) {
                draft.write(Write::DeletePod(pod.clone()));
            }
        }
    }

    /// The object that was to be written is gone, and we have yet to see that.
    fn gone(&mut self, write: &Write) {
        // A deletion is waited for since it was handed out.
        if let Some(uid) = write.deleted() {
            self.expectations.deletion_is_answered(uid);
            return;
        }
        match write.subject() {
            Subject::Pod(pod) => self.expectations.expect_gone(&pod.uid),
            Subject::Revision(revision) => self.expectations.expect_gone(&revision.uid),
            Subject::DaemonSet => self.expectations.expect_gone(&self.daemon_set.uid),
            // What was to be created is not there yet.
            Subject::NewPod(_) | Subject::NewRevision => {}
        }
    }
}
