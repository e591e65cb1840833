//! Whether a guarded rollout makes progress (G15). A node whose old pod never ends neither has the
//! target nor fails: without a limit, a rollout that is stuck would look like a slow one.

use std::time::Duration;

use crate::api::{RolloutPhase, RolloutRecord, Timestamp};
use crate::memo::Memo;
use crate::revisions::RevisionSet;

use super::input::RolloutInput;
use super::pace::MINUTE;
use super::stage::PhaseKey;
use super::wave::Waves;

/// How long a rollout that has something to do has created no pod of the target.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The maximum beside `minReadySeconds`; `None` without one.
    pub limit: Option<Duration>,
    /// Whether a pod of the target was created since the last plan.
    has_created: bool,
    /// `None` while the rollout has nothing to do, or must not do anything.
    without: Memo<PhaseKey, Option<WithoutProgress>>,
}

#[derive(Clone, Copy, Debug)]
struct WithoutProgress {
    /// When the last pod of the target was created, or the phase began, by the steady clock.
    since: Timestamp,
    min_ready: Duration,
}

impl Progress {
    /// When the rollout counts as stuck, by the steady clock, unless a pod is created before.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        let without = self.without.last().as_ref()?;
        Some(without.since + self.limit? + without.min_ready)
    }

    /// Whether the rollout has been without progress for too long.
    pub(super) fn is_stuck(&self, now: Timestamp) -> bool {
        self.ends_at().is_some_and(|at| at <= now)
    }

    /// Records that a watch has shown a new pod of the target.
    pub(crate) const fn record_creation(&mut self) {
        self.has_created = true;
    }

    /// Measures the time anew.
    pub(super) fn restart(&mut self) {
        self.without = Memo::default();
    }

    /// Determines since when the rollout is without progress. Time in which it bakes, or waits for
    /// an approval, does not count, nor do nodes that have failed. `record` is that of a rollout
    /// that moves forward and is not held.
    pub(super) fn refresh(
        &mut self,
        record: Option<&RolloutRecord>,
        waves: Option<&Waves>,
        input: &RolloutInput<'_>,
    ) {
        if std::mem::take(&mut self.has_created) {
            self.restart();
        }
        let is_updating = |record: &&RolloutRecord| {
            let group = waves.map(|waves| waves.group(&record.position));
            let has_work = group.is_some_and(|group| group.passed < group.open);
            record.phase == RolloutPhase::Updating && has_work
        };
        let Some(record) = record.filter(is_updating) else {
            self.restart();
            return;
        };
        let key = PhaseKey::new(record);
        let known = self.without.get(&key).copied().flatten();
        let since = known.map_or(input.now.steady, |known| known.since);
        let min_ready = Duration::from_secs(input.daemon_set.min_ready_seconds.into());
        self.without.set(key, Some(WithoutProgress { since, min_ready }));
    }
}

/// The maximum time without progress beside `minReadySeconds`: a node must become available within
/// `readyWithin` after its old pod has ended. With a pace, the next pod may wait for a minute.
pub(super) fn progress_limit(
    input: &RolloutInput<'_>,
    revisions: &RevisionSet<'_>,
) -> Option<Duration> {
    let policy = input.policy()?;
    let ready_within = policy.failure?.ready_within?;
    let pace = if policy.pods_per_minute.is_some() { MINUTE } else { Duration::ZERO };
    let old = revisions.old.iter().filter_map(|old| old.template.as_ref().ok());
    let templates = old.chain([&input.daemon_set.template]);
    let grace_period = templates.map(|template| template.termination_grace_period).max()?;
    Some(ready_within + grace_period + pace)
}
