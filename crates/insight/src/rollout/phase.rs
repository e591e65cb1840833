//! The state of a rollout as a whole.

use std::fmt;

use everynode_core::api::{DaemonSet, ReasonClass, Timestamp, UpdateStrategy};
use schemars::JsonSchema;
use serde::Serialize;

use super::PROGRESS_DEADLINE;
use super::cause::CauseKind;
use super::completion::Completion;
use super::evidence::{Evidence, is_stated_guarded};
use super::guard::Guard;
use super::held_up::HeldUpPod;
use super::pause::Pause;
use crate::snapshot::Snapshot;

/// The state of a rollout, in the order in which operators should look at DaemonSets. Its text and
/// its JSON form are the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "State")]
pub enum Phase {
    /// Pods or nodes fail and do not recover without intervention, or have made no progress for
    /// 10 minutes.
    #[serde(rename = "stuck")]
    Failing,
    /// The DaemonSet is being deleted.
    Deleting,
    /// No controller has observed the latest spec yet.
    Unobserved,
    /// The rollout is under way.
    #[serde(rename = "rolling")]
    Progressing,
    /// The rollout is paused, and pods of older revisions are left.
    Paused,
    /// The rollout goes on when a person approves a wave, corrects the policy, or ends a failure.
    #[serde(rename = "on hold")]
    AwaitsPerson,
    /// With `OnDelete`: only pods that somebody has to delete are left.
    #[serde(rename = "on delete")]
    AwaitsDeletion,
    /// Every pod is available and of the current revision, except on nodes that are set aside:
    /// down since before the rollout, leaving, held, or joined since.
    Done,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The state of a rollout that nobody deletes.
pub(super) fn phase(
    evidence: &Evidence<'_>,
    guard: Option<&Guard>,
    held_up: &[HeldUpPod],
) -> Phase {
    let daemon_set = evidence.daemon_set();
    let status = &daemon_set.status;
    let all_there = status.current_number_scheduled >= status.desired_number_scheduled;
    let only_deletions =
        || held_up.iter().all(|held_up| held_up.cause.kind == CauseKind::AwaitsDeletion);
    let is_on_delete =
        daemon_set.strategy() == UpdateStrategy::OnDelete && !is_stated_guarded(daemon_set);
    let is_outdated = status.updated_number_scheduled < status.desired_number_scheduled;
    let class = guard.map(|guard| guard.reason.class());
    let awaits_person = class.is_some_and(ReasonClass::awaits_person);
    let has_failed = guard.is_some_and(Guard::has_failed);
    let completion = Completion::of(daemon_set.generation, status);
    match completion.without_set_aside(status, held_up, evidence.is_available_somewhere()) {
        Completion::Unobserved => Phase::Unobserved,
        // The counts may be those of another template: it failed at its end, or nobody runs it yet.
        Completion::Complete if has_failed => Phase::AwaitsPerson,
        Completion::Complete
            if status.desired_number_scheduled == 0
                && Pause::of(daemon_set) == Pause::Yes
                && evidence.is_pending() =>
        {
            Phase::Paused
        }
        Completion::Complete => match class.filter(|class| class.is_under_way()) {
            Some(_) if awaits_person => Phase::AwaitsPerson,
            Some(_) => Phase::Progressing,
            None => Phase::Done,
        },
        Completion::Unavailable | Completion::Outdated
            if held_up.iter().any(|held_up| held_up.stuck) =>
        {
            Phase::Failing
        }
        // A person is needed even if pods are still unavailable.
        Completion::Unavailable | Completion::Outdated
            if awaits_person && (is_outdated || has_failed) =>
        {
            Phase::AwaitsPerson
        }
        Completion::Unavailable | Completion::Outdated
            if is_outdated && Pause::of(daemon_set) == Pause::Yes =>
        {
            Phase::Paused
        }
        Completion::Outdated if is_on_delete && all_there && only_deletions() => {
            Phase::AwaitsDeletion
        }
        Completion::Unavailable | Completion::Outdated => Phase::Progressing,
    }
}

/// True if the latest spec is older than [`PROGRESS_DEADLINE`] and no controller has observed it.
pub(crate) fn is_long_unobserved(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    now: Timestamp,
) -> bool {
    let changes = snapshot.changes.get(&daemon_set.key);
    let changed_at = changes.and_then(|changes| changes.spec_at);
    daemon_set.status.observed_generation < daemon_set.generation
        && changed_at.is_some_and(|at| now.since(at) > PROGRESS_DEADLINE)
}
