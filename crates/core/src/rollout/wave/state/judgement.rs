//! The times and limits by which the nodes of a rollout are judged (G33, G34).

use std::time::Duration;

use crate::api::{
    PrepareImages, RecordReason, RolloutPhase, RolloutPolicy, RolloutRecord, Timestamp,
};
use crate::node::Direction;
use crate::rollout::gate::Gate;
use crate::rollout::images::PullProgress;
use crate::rollout::input::RolloutInput;

use super::LONG_START;

/// By how much an attempt may be younger than its record says, which has whole seconds.
const RECORD_TIME_ERROR: Duration = Duration::from_secs(1);

/// The times and limits by which the nodes of a rollout are judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judgement {
    pub(super) now: Timestamp,
    pub(super) direction: Direction,
    /// False until a revision stores the target, and while its label is missing: nothing begins.
    pub(super) is_target_known: bool,
    /// When the attempt began, by the steady clock; `None` before that.
    pub(super) began: Option<Timestamp>,
    /// When the phase of the target's record began, by the clock that wrote it.
    pub(super) phase_since: Option<Timestamp>,
    /// When the attempt began, or once it is complete when it became so, by the same clock: nodes
    /// that were created later had no old pod.
    pub(super) joined_after: Option<Timestamp>,
    /// How long a node may be without an available pod, or absent, before it is set aside.
    pub(super) limit: Duration,
    pub(super) blame: Blame,
    state: AttemptState,
    /// True if the rollout may remove pods by the target's placement (G42).
    pub(super) may_remove: bool,
    /// How nodes pull the images of the target before their old pods go.
    pub(crate) images: Option<PrepareImages>,
    /// How long a pull may fail until its node is overdue. By default for ever.
    pub(super) failing_pull_limit: Option<Duration>,
}

/// How far the rollout is, as far as its nodes are judged by it.
#[derive(Clone, Copy, Debug, Default)]
enum AttemptState {
    /// It has not begun, goes by its steps, or has failed.
    #[default]
    Guarded,
    PromotedInFull,
    Complete {
        /// True if nodes that get the target later fail: the policy has a rule, and they do not go
        /// back to the target, nor was it found in use (G37, G40, G41).
        blames_late: bool,
    },
}

impl AttemptState {
    fn new(record: &RolloutRecord, goes_back: bool, has_rule: bool) -> Self {
        let is_adopted = record.reason == Some(RecordReason::Adopted);
        match record.phase {
            RolloutPhase::Complete => {
                Self::Complete { blames_late: has_rule && !goes_back && !is_adopted }
            }
            _ if record.is_promoted_in_full() => Self::PromotedInFull,
            _ => Self::Guarded,
        }
    }
}

/// The faults for which nodes are blamed (G34). By default none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blame {
    /// A pod of the target that does not become available within this time.
    pub(super) after: Option<Duration>,
    pub(super) max_restarts: Option<u8>,
    /// A pod of the target that cannot start.
    pub(super) cannot_start: bool,
    /// A pull of images that takes too long or, as a pod that cannot start, fails.
    pub(super) pulls: bool,
}

impl Judgement {
    /// `goes_back` is whether nodes go back to the target by the template.
    pub(crate) fn new(
        record: Option<&RolloutRecord>,
        gate: &Gate,
        (began, goes_back): (Option<Timestamp>, bool),
        may_remove: bool,
        input: &RolloutInput<'_>,
    ) -> Self {
        let rule = input.policy().and_then(|policy| policy.failure);
        let min_ready = Duration::from_secs(input.daemon_set.min_ready_seconds.into());
        let attempt = record.filter(|record| record.phase != RolloutPhase::Pending);
        let is_under_way = attempt.is_some_and(|record| record.phase.is_under_way());
        let blame = rule.filter(|_| is_under_way).map(|rule| Blame {
            after: rule.ready_within.map(|limit| limit + min_ready),
            max_restarts: rule.max_restarts,
            cannot_start: rule.cannot_start,
            pulls: true,
        });
        Self {
            now: input.now.steady,
            direction: gate.direction(),
            is_target_known: gate.is_target_known(),
            began,
            phase_since: record.map(|record| record.since),
            joined_after: record.map(|record| match is_under_way {
                true => record.began,
                false => record.since,
            }),
            limit: input.limit(),
            blame: blame.unwrap_or_default(),
            state: record
                .map(|record| AttemptState::new(record, goes_back, rule.is_some()))
                .unwrap_or_default(),
            may_remove,
            images: None,
            failing_pull_limit: failing_pull_limit(input.policy().map(|policy| &**policy)),
        }
    }

    /// True if the rollout is complete: nothing is blamed then.
    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.state, AttemptState::Complete { .. })
    }

    /// True if the rollout is complete, and nodes that get the target later fail (G40).
    pub(super) const fn blames_late(&self) -> bool {
        matches!(self.state, AttemptState::Complete { blames_late: true })
    }

    /// True if somebody has promoted the rollout in full, and it is not complete.
    pub(super) const fn is_promoted_in_full(&self) -> bool {
        matches!(self.state, AttemptState::PromotedInFull)
    }

    /// True if the images of the target must be there before an available old pod goes.
    pub(super) fn requires_images(&self) -> bool {
        self.images.is_some_and(|rule| rule.required)
    }

    /// When a node has pulled images for too long, or failed to, if it pulls any (G55).
    pub(super) fn overdue_at(&self, pulls: &PullProgress) -> Option<Timestamp> {
        pulls.overdue_at(self.images?.within, self.failing_pull_limit)
    }

    pub(super) fn is_overdue(&self, pulls: &PullProgress) -> bool {
        self.overdue_at(pulls).is_some_and(|at| at <= self.now)
    }

    /// True if a node may take any time to get an available pod of the target.
    pub(super) const fn is_endless(&self) -> bool {
        self.blame.after.is_none() && !self.is_complete()
    }

    pub(super) fn is_over(&self, since: Timestamp, limit: Duration) -> bool {
        since + limit <= self.now
    }

    /// True if something that began then was so before the attempt.
    pub(super) fn is_before_attempt(&self, since: Timestamp) -> bool {
        self.began.is_none_or(|began| since < began + RECORD_TIME_ERROR)
    }
}

/// How long a pull may fail until its node is overdue; `None` if for ever (G55).
pub(crate) fn failing_pull_limit(policy: Option<&RolloutPolicy>) -> Option<Duration> {
    policy.is_none_or(RolloutPolicy::counts_failed_starts).then_some(LONG_START)
}
