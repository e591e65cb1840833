//! Where the rollout of the current template is (G7–G9, G15): the state that its record, its policy
//! and the time define, and what follows from it for pods.

use std::time::Duration;

use crate::api::{
    DaemonSet, Now, PolicySource, Position, RecordReason, RecordState, Revision, RolloutPhase,
    RolloutPolicy, RolloutRecord, Timestamp,
};
use crate::config::{Duties, PodDuty, RollBackDuty};
use crate::revisions::RevisionSet;

use super::gate::Movement;
use super::input::RolloutInput;

/// Where the rollout of the current template is. The main ways:
///
/// ```text
/// Pending ── it begins ─▶ Moving to a wave ── the last wave is done ─▶ Moving to all nodes
///                                                                        │ they are done
///                                                                        ▼
/// in use when a policy or a pause comes ───────────────────────────▶ Moving, complete
/// Moving ── nodes fail, no progress, a check fails, an abort ─▶ Failed ── its time ─▶ it goes back
/// Failed ── a retry ─▶ Moving to a wave
/// Moving ── the policy's steps change ─▶ Pending
/// ```
///
/// [`TransitionInput::change`](super::transition::TransitionInput::change) writes the record that
/// moves it along one of these arrows. A new template makes a new revision, which has no record:
/// its rollout is `Pending` until it may begin, and the old record becomes superseded. An earlier
/// template still has its own record. Wherever a rollout is, it is `Halted` while its policy is
/// missing or invalid, or its record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage<'a> {
    /// Nothing guards the rollout (G2).
    Unguarded,
    /// The built-in controller rolls out by itself, because the strategy is not `OnDelete`: nothing
    /// is done beside it (G18).
    NotGuarded,
    /// Nothing is replaced: without a policy the rollout is paused. It goes to all nodes if it was
    /// promoted in full.
    Paused { is_promoted: bool },
    /// The rollout is held until somebody acts.
    Halted { why: Halt, has_failed: bool },
    /// The rollout has not begun by the steps of this policy.
    Pending,
    /// The rollout is at the record's position, or complete.
    Moving(&'a RolloutRecord),
    /// The rollout has failed.
    Failed {
        record: &'a RolloutRecord,
        /// When nodes go back to the base, by the wall clock; `None` if they do not.
        back_at: Option<Timestamp>,
        /// True if they go back now.
        goes_back: bool,
    },
}

/// Why a rollout is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The policy is invalid (G7).
    PolicyInvalid,
    /// The policy makes too many waves of the nodes that there are (G50).
    TooManyWaves,
    /// The policy has a field that is about old pods, and the DaemonSet surges (G54, G56).
    Surge { field: &'static str },
    /// The policy is gone, and the rollout has yet to end (G7, G43).
    PolicyRemoved,
    /// The record cannot be read (G44).
    RecordUnreadable,
}

impl<'a> Stage<'a> {
    pub(super) fn new(input: &RolloutInput<'_>, revisions: &RevisionSet<'a>) -> Self {
        let RolloutInput { duties, daemon_set, now, .. } = *input;
        if duties.pods == PodDuty::DeleteOutdated && daemon_set.is_rolled_out_by_others() {
            return Self::NotGuarded;
        }
        let state = revisions.current.map(|current| &current.record);
        if let Some(RecordState::Malformed(_)) = state {
            return Self::Halted { why: Halt::RecordUnreadable, has_failed: false };
        }
        let record = state.and_then(|state| state.stored()).map(|record| &**record);
        let has_failed = record.is_some_and(|record| record.phase == RolloutPhase::Failed);
        let is_promoted = record.is_some_and(RolloutRecord::is_promoted_in_full);
        let aborted = record.filter(|it| it.reason == Some(RecordReason::Aborted));
        let needs_policy = !is_promoted && aborted.is_none();
        match &daemon_set.policy {
            PolicySource::None | PolicySource::Invalid(_) if is_promoted => {
                Self::without_guard(daemon_set, true)
            }
            PolicySource::None | PolicySource::Invalid(_) if let Some(record) = aborted => {
                Self::Failed { record, back_at: Some(record.since), goes_back: true }
            }
            PolicySource::None => match record {
                Some(record) if has_failed || record.phase.is_under_way() => {
                    Self::Halted { why: Halt::PolicyRemoved, has_failed }
                }
                Some(_) | None => Self::without_guard(daemon_set, false),
            },
            PolicySource::Invalid(_) => Self::Halted { why: Halt::PolicyInvalid, has_failed },
            PolicySource::Valid(_) if input.has_too_many_waves && needs_policy => {
                Self::Halted { why: Halt::TooManyWaves, has_failed }
            }
            PolicySource::Valid(policy)
                if let Some(field) = policy.field_against_surge()
                    && daemon_set.strategy().surges()
                    && needs_policy =>
            {
                Self::Halted { why: Halt::Surge { field }, has_failed }
            }
            // The record of the replaced template comes first (G11).
            PolicySource::Valid(_) if revisions.old.iter().any(|old| is_under_way(old)) => {
                Self::Pending
            }
            PolicySource::Valid(policy) => match record {
                Some(record) if has_failed => Self::failed(record, policy, now),
                Some(record) if record.phase == RolloutPhase::Complete => {
                    let is_base = !revisions.old.iter().any(|old| completed_after(old, record));
                    if is_base { Self::Moving(record) } else { Self::Pending }
                }
                // A rollout promoted in full skips the policy's steps, old or new.
                Some(record)
                    if record.is_promoted_in_full()
                        || record.has_begun() && record.steps_hash == policy.steps_hash =>
                {
                    Self::Moving(record)
                }
                Some(_) | None => Self::Pending,
            },
        }
    }

    /// An aborted rollout goes back at once, others as the policy says (G15). A clock that is
    /// behind the one that wrote the time of the failure makes that later, never at once (G51).
    fn failed(record: &'a RolloutRecord, policy: &RolloutPolicy, now: Now) -> Self {
        let after = match record.reason {
            Some(RecordReason::Aborted) => Some(Duration::ZERO),
            Some(
                RecordReason::Adopted
                | RecordReason::Promoted
                | RecordReason::PromotedInFull
                | RecordReason::NodesFailed(_)
                | RecordReason::NodesLost(_)
                | RecordReason::NoProgress
                | RecordReason::CheckFailed(_),
            )
            | None => policy.failure.and_then(|rule| rule.rollback_after),
        };
        let back_at = after.map(|after| record.since + after);
        let wall = now.to_wall(now.steady);
        let goes_back = back_at.is_some_and(|at| at <= wall);
        Self::Failed { record, back_at, goes_back }
    }

    const fn without_guard(daemon_set: &DaemonSet, is_promoted: bool) -> Self {
        if daemon_set.paused { Self::Paused { is_promoted } } else { Self::Unguarded }
    }

    /// True if the rollout waits while no window of its policy is open; a failed one would if it
    /// was retried. The first template replaces nothing, and going back does not wait: neither to
    /// the base after a failure, nor to a revision that was complete before.
    pub(super) fn needs_window(
        &self,
        revisions: &RevisionSet<'_>,
        has_bad_pods: impl FnOnce() -> bool,
    ) -> bool {
        match self {
            Self::Moving(record) if record.phase == RolloutPhase::Complete => !has_bad_pods(),
            Self::Pending | Self::Moving(_) | Self::Failed { .. } => !revisions.old.is_empty(),
            Self::Unguarded | Self::NotGuarded | Self::Paused { .. } | Self::Halted { .. } => false,
        }
    }

    /// Which pods are replaced; `None` if the target governs all nodes. `awaits_window` holds a
    /// rollout that goes forward. Beside the built-in controller nodes go back with the DaemonSet's
    /// template only (G20).
    pub(crate) fn movement(
        &self,
        duties: Duties,
        daemon_set: &DaemonSet,
        awaits_window: bool,
    ) -> Option<Movement> {
        let forward = |replaces| Some(Movement::Forward { replaces });
        let back = |replaces| match duties.roll_back {
            RollBackDuty::ReplacePods => Some(Movement::Back { replaces }),
            RollBackDuty::RestoreTemplate | RollBackDuty::Nothing => forward(false),
        };
        match self {
            Self::Unguarded => None,
            Self::Paused { is_promoted: true } => Some(Movement::Everywhere),
            Self::Paused { is_promoted: false }
            | Self::NotGuarded
            | Self::Pending
            | Self::Halted { has_failed: false, .. } => forward(false),
            Self::Halted { has_failed: true, .. } => back(false),
            Self::Moving(_) => forward(!daemon_set.is_paused() && !awaits_window),
            Self::Failed { goes_back: true, .. } => back(!daemon_set.is_paused()),
            Self::Failed { goes_back: false, .. } => forward(false),
        }
    }

    /// When the rollout goes back to the base, by the wall clock, if it will.
    pub(crate) const fn back_at(&self) -> Option<Timestamp> {
        match self {
            Self::Failed { back_at, goes_back: false, .. } => *back_at,
            Self::Failed { goes_back: true, .. }
            | Self::Unguarded
            | Self::NotGuarded
            | Self::Paused { .. }
            | Self::Halted { .. }
            | Self::Pending
            | Self::Moving(_) => None,
        }
    }

    /// Why the rollout is held until somebody acts, if it is.
    pub(super) const fn halt(&self) -> Option<Halt> {
        match self {
            Self::Halted { why, .. } => Some(*why),
            Self::Unguarded
            | Self::NotGuarded
            | Self::Paused { .. }
            | Self::Pending
            | Self::Moving(_)
            | Self::Failed { .. } => None,
        }
    }

    /// Up to where waves are open; `None` if no wave is.
    pub(crate) fn position(&self) -> Option<&'a Position> {
        match self {
            Self::Moving(record) => Some(&record.position),
            Self::Unguarded
            | Self::NotGuarded
            | Self::Paused { .. }
            | Self::Halted { .. }
            | Self::Pending
            | Self::Failed { .. } => None,
        }
    }
}

/// A phase of a rollout. Another attempt at the same wave has another time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PhaseKey {
    position: Position,
    /// When the phase began, by the record.
    since: Timestamp,
}

impl PhaseKey {
    pub(super) fn new(record: &RolloutRecord) -> Self {
        Self { position: record.position.clone(), since: record.since }
    }
}

/// True if the rollout of this revision was completed after the one of this record.
pub(super) fn completed_after(other: &Revision, record: &RolloutRecord) -> bool {
    let other = other.record.stored();
    other.is_some_and(|o| o.phase == RolloutPhase::Complete && o.since > record.since)
}

/// True if the rollout of this revision has yet to end.
fn is_under_way(revision: &Revision) -> bool {
    revision.record.stored().is_some_and(|record| record.phase.is_under_way())
}
