//! The agreement that an old pod goes: who is asked about it, and which new pods say that their
//! node is updated (G54). The questions and answers are annotations of the pods.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::{
    CourseEventKind, RecordReason, RevisionHash, RolloutPhase, RolloutRecord, Timestamp,
};
use crate::node::{PodFlags, PodView};

use super::input::RolloutInput;

/// By how much the clocks of two leaders may differ without a consequence for questions.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// The question whether an old pod may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// True if somebody agrees.
    pub is_agreed: bool,
    /// Until when the answer is awaited.
    pub until: Timestamp,
}

impl Asked {
    /// The question whether this pod may go for the target, if the policy wants an answer and it
    /// was asked.
    pub(super) fn about(pod: &PodView, input: &RolloutInput<'_>) -> Option<Self> {
        let within = input.agree_within()?;
        let is_asked = pod.flags.contains(PodFlags::ASKED);
        let known = input.replacements.get(&pod.uid).filter(|_| is_asked)?;
        let mut target = input.labels.current_hashes();
        let is_for_target = target.any(|hash| known.replacing.as_ref() == Some(hash));
        let since = known.since.filter(|_| is_for_target)?;
        let revisions = input.revisions();
        let record = revisions.current.and_then(|current| current.record.stored())?;
        let is_unasked =
            input.labels.hash(pod.labels).is_some_and(|hash| unasked(record, input).contains(hash));
        // Who agreed to an earlier attempt may have let jobs run again since. A question that seems
        // to come later than now was asked by a clock that was ahead, in whichever attempt.
        let ends = [CourseEventKind::Failed, CourseEventKind::Aborted];
        let was_repeated = record.course.events.iter().any(|event| ends.contains(&event.kind));
        let is_of_another =
            since < record.began || was_repeated && since > input.now.wall_seconds() + CLOCK_ERROR;
        if is_of_another || is_unasked {
            return None;
        }
        // By the clock of whoever asked: one that was ahead lengthens the wait by that difference.
        let until = input.now.to_steady(since) + within;
        Some(Self { is_agreed: known.is_agreed, until })
    }
}

/// The revisions whose pods go without a question: they failed, and nodes go back from them to the
/// target, which was complete before.
pub(super) fn unasked(record: &RolloutRecord, input: &RolloutInput<'_>) -> BTreeSet<RevisionHash> {
    let goes_back = record.phase == RolloutPhase::Complete && input.has_bad_pods();
    if goes_back { input.bad_revisions() } else { BTreeSet::new() }
}

/// How long before the end of a rollout, by the clock of its record, a pod became available that is
/// told after it: that clock may have been ahead.
const TOLD_LATE: Duration = Duration::from_secs(300);

/// Since when, by the clock of the API server, pods of the target have been available that state
/// that their node is updated: all of a rollout that goes forward by this record, or once it is
/// complete those that became so later.
pub(super) fn told_since(record: &RolloutRecord) -> Option<Timestamp> {
    let is_adopted = record.reason == Some(RecordReason::Adopted);
    match record.phase {
        RolloutPhase::Updating | RolloutPhase::Baking => Some(Timestamp::from_seconds(0)),
        RolloutPhase::Complete if !is_adopted => Some(record.since - TOLD_LATE),
        RolloutPhase::Complete
        | RolloutPhase::Pending
        | RolloutPhase::Failed
        | RolloutPhase::Superseded => None,
    }
}
