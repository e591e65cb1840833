//! How nodes go back from a failed revision: this controller replaces their pods, or beside the
//! built-in one the template is changed back (G15, G20).

use crate::api::{Now, Revision, RevisionHash, RolloutPhase, RolloutRecord};
use crate::config::RollBackDuty;
use crate::daemon_set::sync::Draft;
use crate::plan::{Notice, Write};
use crate::revisions::RevisionSet;
use crate::rollout::{RollbackProgress, Stage};

use super::DaemonSetState;

/// Why nodes do not go back although somebody has rolled the attempt back.
const CAME_AGAIN: &str =
    "its template came again after it was rolled back; nodes keep what they have";
/// Why nodes do not go back without the right to change the template.
const NOT_ALLOWED: &str =
    "nodes keep what they have until somebody undoes the change of the template";

impl DaemonSetState {
    /// How far nodes have gone back from a failed revision.
    pub(super) fn rollback(
        &self,
        stage: &Stage<'_>,
        revisions: &RevisionSet<'_>,
    ) -> RollbackProgress {
        let is_live = |hash: &RevisionHash| self.labels.is_live(hash);
        match (stage, self.rollout.gate.base()) {
            (Stage::Moving(_), _)
                if self.goes_back_beside() && self.bad_revisions().iter().any(is_live) =>
            {
                RollbackProgress::UnderWay
            }
            (Stage::Moving(_), _) => RollbackProgress::Done,
            (Stage::Failed { record, .. }, Some(_)) if !self.creates_pods() => {
                match self.was_rolled_back(record, revisions) {
                    _ if !self.may_roll_back() => RollbackProgress::Barred(NOT_ALLOWED),
                    true => RollbackProgress::Barred(CAME_AGAIN),
                    false => RollbackProgress::UnderWay,
                }
            }
            (_, None) => RollbackProgress::None,
            (_, Some(_)) if revisions.current_hashes().iter().any(is_live) => {
                RollbackProgress::UnderWay
            }
            (_, Some(_)) => RollbackProgress::Done,
        }
    }

    /// Whether nodes lack a revision that was complete before, beside the built-in controller:
    /// there nodes go back while that revision is the target.
    pub(super) fn goes_back_beside(&self) -> bool {
        let record = self.rollout.guarding.moving().filter(|_| !self.creates_pods());
        let record = record.filter(|record| record.phase == RolloutPhase::Complete);
        let waves = self.rollout.waves.as_deref();
        record.zip(waves).is_some_and(|(record, waves)| !waves.is_complete(&record.position))
    }

    /// Whether the template of this failed attempt was replaced by the base before. Then somebody
    /// has applied it again, who is not fought (G20).
    fn was_rolled_back(&self, record: &RolloutRecord, revisions: &RevisionSet<'_>) -> bool {
        let failed = revisions.current.map(|current| record.attempt(&current.pod_hash()));
        failed
            .as_deref()
            .is_some_and(|failed| self.daemon_set.rolled_back.as_deref() == Some(failed))
    }

    fn may_roll_back(&self) -> bool {
        self.config.mode.duties().roll_back == RollBackDuty::RestoreTemplate
    }

    /// Beside the built-in controller, plans to replace the template of a failed rollout with that
    /// of the base, once for each attempt (G20). Returns whether it did.
    pub(super) fn plan_roll_back(&self, now: Now, draft: &mut Draft) -> bool {
        if !self.may_roll_back() || self.daemon_set.is_paused() {
            return false;
        }
        let revisions = self.history.classify(&self.daemon_set);
        let stage = self.stage(&revisions, now);
        let Stage::Failed { record, goes_back: true, .. } = stage else { return false };
        let is_base = |old: &&&Revision| Some(&old.pod_hash()) == self.rollout.gate.base();
        let base = revisions.old.iter().find(is_base);
        let (Some(base), Some(current)) = (base, revisions.current) else { return false };
        if self.was_rolled_back(record, &revisions) {
            return false;
        }
        draft.plan.notices.push(Notice::RollingBack { base: base.name.clone() });
        draft.write(Write::RollBack {
            resource_version: self.daemon_set.resource_version,
            base: base.reference(),
            attempt: record.attempt(&current.pod_hash()).into(),
        });
        true
    }
}
