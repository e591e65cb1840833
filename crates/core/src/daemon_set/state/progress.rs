//! Whether a guarded rollout makes progress (G15). A node whose old pod never ends neither has the
//! target nor fails: without a limit, nobody would learn that the rollout is stuck.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{Position, RolloutPhase, RolloutRecord, Timestamp};
use crate::revisions::RevisionSet;
use crate::rollout::MINUTE;

use super::DaemonSetState;

/// How long a rollout that has something to do has created no pod of the target.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The maximum beside `minReadySeconds`; `None` without one.
    pub limit: Option<Duration>,
    /// Whether a pod of the target was created since the last plan.
    has_created: bool,
    /// `None` while the rollout has nothing to do, or must not do anything.
    without: Option<WithoutProgress>,
}

#[derive(Debug)]
struct WithoutProgress {
    position: Position,
    /// When the phase began, by the record.
    phase_since: Timestamp,
    /// When the last pod of the target was created, or the phase began, by the steady clock.
    since: Timestamp,
    min_ready: Duration,
}

impl Progress {
    /// When the rollout counts as stuck, by the steady clock, unless a pod is created before.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        let without = self.without.as_ref()?;
        Some(without.since + self.limit? + without.min_ready)
    }

    /// Records that a watch has shown a new pod of the target.
    pub(super) const fn record_creation(&mut self) {
        self.has_created = true;
    }

    /// Measures the time anew.
    pub(super) fn restart(&mut self) {
        self.without = None;
    }

    /// `record` is that of a rollout that has something to do.
    fn update(&mut self, record: Option<&RolloutRecord>, min_ready: Duration, now: Timestamp) {
        let has_created = std::mem::take(&mut self.has_created);
        let known = self.without.take().filter(|_| !has_created);
        let Some(RolloutRecord { position, since: phase_since, .. }) = record else { return };
        let is_same = |known: &WithoutProgress| {
            known.position == *position && known.phase_since == *phase_since
        };
        let since = known.filter(is_same).map_or(now, |known| known.since);
        let (position, phase_since) = (position.clone(), *phase_since);
        self.without = Some(WithoutProgress { position, phase_since, since, min_ready });
    }
}

impl DaemonSetState {
    /// The maximum time without progress beside `minReadySeconds`: a node must become available
    /// within `readyWithin` after its old pod has ended. With a pace, the next pod may wait for a
    /// minute.
    pub(super) fn progress_limit(&self, revisions: &RevisionSet<'_>) -> Option<Duration> {
        let policy = self.daemon_set.policy.valid()?;
        let ready_within = policy.failure?.ready_within?;
        let pace = if policy.pods_per_minute.is_some() { MINUTE } else { Duration::ZERO };
        let old = revisions.old.iter().filter_map(|old| old.template.as_ref().ok());
        let templates = old.chain([&self.daemon_set.template]);
        let grace_period = templates.map(|template| template.termination_grace_period).max()?;
        Some(ready_within + grace_period + pace)
    }

    /// Determines since when the rollout is without progress. Time in which it is paused, bakes, or
    /// waits for an approval or a window does not count, nor do nodes that have failed.
    pub(super) fn refresh_progress(&mut self, now: Timestamp) {
        let is_held = self.daemon_set.is_paused() || self.rollout.guarding.awaits_window();
        let is_updating = |record: &&Arc<RolloutRecord>| {
            let group = self.rollout.waves.as_ref().map(|waves| waves.group(&record.position));
            let has_work = group.is_some_and(|group| group.passed < group.open);
            record.phase == RolloutPhase::Updating && has_work && !is_held
        };
        let record = self.rollout.guarding.moving.as_ref().filter(is_updating).cloned();
        let min_ready = Duration::from_secs(self.daemon_set.min_ready_seconds.into());
        self.rollout.guarding.progress.update(record.as_deref(), min_ready, now);
    }

    /// Whether the rollout has been without progress for too long.
    pub(super) fn is_stuck(&self, now: Timestamp) -> bool {
        self.rollout.guarding.progress.ends_at().is_some_and(|at| at <= now)
    }
}
