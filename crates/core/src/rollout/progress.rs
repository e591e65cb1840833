//! The progress of a guarded rollout: it is done with a node (G15, G47). A node whose old
//! pod never ends neither has the target nor fails: without a limit, a rollout that is stuck would
//! look like a slow one.

use std::time::Duration;

use crate::api::{RolloutPhase, RolloutRecord, Timestamp};
use crate::memo::Memo;
use crate::revisions::RevisionSet;

use super::input::RolloutInput;
use super::pace::MINUTE;
use super::stage::PhaseKey;
use super::wave::{LONG_START, News, Waves};

/// How long a rollout that has something to do has been done with no node.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub deadline: Option<Deadline>,
    /// `None` while the rollout has nothing to do, or must not do anything.
    clock: Memo<PhaseKey, Option<Clock>>,
}

/// The time without progress.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// Since this time, by the steady clock.
    Running(Timestamp),
    /// So much of it is over, while the rollout waits for a node that went down, or for the budget
    /// that outages of an earlier attempt use.
    Stopped(Duration),
}

impl Clock {
    fn stop(self, now: Timestamp) -> Self {
        match self {
            Self::Running(since) => Self::Stopped(now.since(since.min(now))),
            Self::Stopped(_) => self,
        }
    }

    fn run(self, now: Timestamp) -> Self {
        match self {
            Self::Running(_) => self,
            Self::Stopped(over) => Self::Running(now - over),
        }
    }
}

/// How long a rollout may be without progress, and what is said of it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// It fails (G15).
    Fails(Duration),
    /// The condition states that it is stuck (G47).
    Stated(Duration),
}

impl Progress {
    /// When the rollout counts as stuck, by the steady clock, unless it makes progress before.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        let (Deadline::Fails(after) | Deadline::Stated(after)) = self.deadline?;
        match (*self.clock.last())? {
            Clock::Running(since) => Some(since + after),
            Clock::Stopped(_) => None,
        }
    }

    /// True if the rollout fails, because it has been without progress for too long.
    pub(super) fn has_failed(&self, now: Timestamp) -> bool {
        matches!(self.deadline, Some(Deadline::Fails(_))) && self.stuck_since(now).is_some()
    }

    /// Since when the rollout has been without progress for too long, if it has.
    pub(super) fn stuck_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.ends_at().filter(|at| *at <= now)
    }

    /// Measures the time anew.
    pub(super) fn restart(&mut self) {
        self.clock = Memo::default();
    }

    /// Determines since when the rollout is without progress. Time in which it bakes, awaits an
    /// approval, or waits for a node that went down, for outages of an earlier attempt or for
    /// somebody to agree, does not count. `record` is that of a rollout that moves forward and is
    /// not held.
    pub(super) fn refresh(
        &mut self,
        record: Option<&RolloutRecord>,
        waves: Option<&mut Waves>,
        is_pulling_refused: bool,
        input: &RolloutInput<'_>,
    ) {
        let Some(waves) = waves else { return self.restart() };
        if waves.take(News::PROGRESS) {
            self.restart();
        }
        // While a wave bakes its nodes fail, or begin the bake time anew: nothing is late (G15).
        let may_bake = matches!(self.deadline, Some(Deadline::Stated(_)));
        let is_updating = |record: &&RolloutRecord| {
            let is_measured = match record.phase {
                RolloutPhase::Updating => true,
                RolloutPhase::Baking => may_bake,
                RolloutPhase::Pending
                | RolloutPhase::Complete
                | RolloutPhase::Failed
                | RolloutPhase::Superseded => false,
            };
            is_measured
                && waves.group(&record.position).open.left() > 0
                && !waves.is_complete(&record.position)
        };
        let Some(record) = record.filter(is_updating) else { return self.restart() };
        let (key, now) = (PhaseKey::new(record), input.now.steady);
        let known = self.clock.get(&key).copied().flatten().unwrap_or(Clock::Running(now));
        // Nodes that cannot pull, because no puller can be created, make no progress.
        let awaited = waves.awaited(&record.position, !is_pulling_refused);
        let clock = if awaited > 0 { known.stop(now) } else { known.run(now) };
        self.clock.set(key, Some(clock));
    }
}

/// The time without progress after which a rollout is stuck. A node must become available within
/// `readyWithin` after its old pod has ended, for which its kubelet may take longer than the grace
/// period: the node fails, or is set aside, first. With a pace, the next pod may wait for a minute.
pub(super) fn deadline(input: &RolloutInput<'_>, revisions: &RevisionSet<'_>) -> Option<Deadline> {
    let policy = input.policy()?;
    let pace = if policy.pods_per_minute.is_some() { MINUTE } else { Duration::ZERO };
    let old = revisions.old.iter().filter_map(|old| old.template.as_ref().ok());
    let templates = old.chain([&input.daemon_set.template]);
    let grace_period = templates.map(|template| template.termination_grace_period).max()?;
    let min_ready = Duration::from_secs(input.daemon_set.min_ready_seconds.into());
    let others = grace_period + pace + min_ready;
    match policy.failure.and_then(|rule| rule.ready_within) {
        Some(ready_within) => Some(Deadline::Fails(ready_within + others + LONG_START)),
        None if policy.progress_deadline.is_zero() => None,
        None => Some(Deadline::Stated(policy.progress_deadline + others)),
    }
}
