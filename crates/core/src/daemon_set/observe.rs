//! What became of writes (C60, C61).

use std::time::Duration;

use crate::name::{ResourceVersion, Uid};
use crate::plan::{Outcome, Plan, Subject, Write, WriteResult};
use crate::time::Timestamp;

use super::DaemonSetState;

/// How long no pod is created after a refusal because the namespace is terminating (C28).
const TERMINATING_NAMESPACE_HOLD: Duration = Duration::from_secs(60);

/// How long no pod is created after a creation of which nothing could be learnt: by then watches are back.
const UNKNOWN_HOLD: Duration = Duration::from_secs(60);

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
                self.written(&write, uid, resource_version)
            }
            Outcome::Gone => self.gone(&write),
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
            Outcome::Failed { .. } => {
                write.subject().node().into_iter().for_each(|node| self.turns.refuse(node));
                self.not_written(&write);
            }
            Outcome::Unknown { resource_version, .. } => {
                write.subject().node().into_iter().for_each(|node| self.turns.refuse(node));
                self.perhaps_written(&write, resource_version, now);
            }
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
        if write.deleted().is_some() {
            return;
        }
        if matches!(write, Write::CreatePod(_)) {
            self.expectations.expect_creation(uid, resource_version);
        }
        self.expectations.expect_version(write.subject().kind(), resource_version);
    }

    /// Whether a pod was created shows once the watch has come far enough; if it is not known how far that
    /// is, no other one is created for a while (C34). A deletion goes on being waited for.
    fn perhaps_written(
        &mut self,
        write: &Write,
        resource_version: Option<ResourceVersion>,
        now: Timestamp,
    ) {
        match (write, resource_version) {
            (_, Some(version)) => self.expectations.expect_version(write.subject().kind(), version),
            (Write::CreatePod(_), None) => self.no_creations_before = Some(now + UNKNOWN_HOLD),
            (_, None) => {}
        }
    }

    fn not_written(&mut self, write: &Write) {
        if let Some(uid) = write.deleted() {
            self.expectations.saw_deletion(uid);
        }
    }

    /// The object that was to be written is gone, and we have yet to see that.
    fn gone(&mut self, write: &Write) {
        // A deletion is waited for since it was handed out.
        if write.deleted().is_some() {
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
