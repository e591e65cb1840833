//! The status (C70). Upstream: `updateDaemonSetStatus`.

use crate::api::{RolloutCondition, RolloutReason, Status, Timestamp};
use crate::config::StatusDuty;
use crate::plan::{Notice, Write};
use crate::rollout::Stated;

use super::SyncInput;
use super::draft::Draft;

/// Earlier writes of the status, as far as they are known.
#[derive(Clone, Copy)]
pub(in crate::daemon_set) struct StatusState {
    /// True if the known status is older than one that this controller wrote, or the DaemonSet
    /// turned out to be deleted.
    pub is_stale: bool,
    pub written_at: Option<Timestamp>,
}

/// Writes the status if it changed; beside the built-in controller only its conditions (G20).
/// `observed_generation` is the generation that the plan acts on; `None` if the plan only refreshes
/// counts (C56).
pub(in crate::daemon_set) fn plan_status(
    input: &SyncInput<'_>,
    state: StatusState,
    observed_generation: Option<i64>,
    draft: &mut Draft,
) {
    let status = status(input, observed_generation);
    if state.is_stale || status == input.daemon_set.status {
        return;
    }
    match due_at(input, state, &status).filter(|at| input.now.steady < *at) {
        Some(at) => draft.requeue(at),
        None if input.config.mode.duties().status == StatusDuty::Conditions => {
            draft.plan.notices.extend(window_notice(input, &status));
            draft.write(Write::UpdateConditions { rollout: status.rollout });
        }
        None => {
            let resource_version = input.daemon_set.resource_version;
            let known = input.daemon_set.status.rollout.as_ref();
            let ends_rollout = known.is_some() && status.rollout.is_none();
            match (is_paused(known), is_paused(status.rollout.as_ref())) {
                (true, false) => draft.plan.notices.push(Notice::RolloutResumed),
                (false, true) => draft.plan.notices.push(Notice::RolloutPaused),
                (true, true) | (false, false) => {}
            }
            draft.plan.notices.extend(window_notice(input, &status));
            draft.plan.notices.extend(rollback_notice(input, &status));
            draft.write(Write::UpdateStatus { resource_version, status, ends_rollout });
        }
    }
}

/// When changed counts may be written again. A rollout changes them several times for each pod, and
/// each write of a status costs as much as one of a pod. A new observed generation is written at
/// once, and so are the condition of a guarded or paused rollout and the counts of a DaemonSet that
/// is rolled out: users may wait for these.
fn due_at(input: &SyncInput<'_>, state: StatusState, status: &Status) -> Option<Timestamp> {
    let known = &input.daemon_set.status;
    let is_new = status.observed_generation != known.observed_generation
        || !is_stated_alike(input, known.rollout.as_ref());
    let last = state.written_at.filter(|_| !is_new && !is_rolled_out(status))?;
    Some(last + input.config.status_interval)
}

/// True if the known condition states the same, but for the numbers of nodes.
fn is_stated_alike(input: &SyncInput<'_>, known: Option<&RolloutCondition>) -> bool {
    match (input.rollout.condition(), known) {
        (None, None) => true,
        (Some(Stated { reason, message, headline, .. }), Some(known)) => {
            known.reason == *reason && known.message.starts_with(&message[..*headline])
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// True if every node that should run a pod has an available one of the current revision, and no
/// other node has one.
fn is_rolled_out(status: &Status) -> bool {
    let desired = status.desired_number_scheduled;
    status.updated_number_scheduled == desired
        && status.number_available == desired
        && status.number_misscheduled == 0
}

fn status(input: &SyncInput<'_>, observed_generation: Option<i64>) -> Status {
    let known = &input.daemon_set.status;
    let counts = input.counts;
    if input.config.mode.duties().status == StatusDuty::Conditions {
        return Status { rollout: rollout(input), ..known.clone() };
    }
    Status {
        observed_generation: observed_generation
            .map_or(known.observed_generation, |new| new.max(known.observed_generation)),
        collision_count: known.collision_count,
        desired_number_scheduled: number(counts.desired),
        current_number_scheduled: number(counts.current),
        number_misscheduled: number(counts.misscheduled),
        number_ready: number(counts.ready),
        number_available: number(counts.available),
        number_unavailable: number(counts.desired - counts.available),
        updated_number_scheduled: number(counts.updated),
        rollout: rollout(input),
    }
}

/// The condition of a guarded or paused rollout. Its time changes with its `status` (G21). What is
/// stated of the same generation remains while a new controller has yet to list ConfigMaps (G58).
fn rollout(input: &SyncInput<'_>) -> Option<RolloutCondition> {
    let Stated { reason, message, .. } = input.rollout.condition()?;
    let known = input.daemon_set.status.rollout.as_ref();
    let is_of_generation =
        input.daemon_set.status.observed_generation == input.daemon_set.generation;
    if known.is_some() && is_of_generation && input.copying.withholds_revision(input.now.steady) {
        return known.cloned();
    }
    let same = known.filter(|known| known.reason.status() == reason.status());
    let since = same.map_or_else(|| input.now.wall_seconds(), |known| known.since);
    Some(RolloutCondition { reason: *reason, message: message.clone(), since })
}

/// The report if the rollout begins to wait for a window, or no longer does.
fn window_notice(input: &SyncInput<'_>, status: &Status) -> Option<Notice> {
    let stated = status.rollout.as_ref()?;
    let known = input.daemon_set.status.rollout.as_ref().map(|known| known.reason);
    let has_waited = known == Some(RolloutReason::OutsideWindow);
    if stated.reason == RolloutReason::OutsideWindow {
        let message = stated.message.clone();
        return (!has_waited).then_some(Notice::OutsideWindow { message });
    }
    let goes_on = stated.reason == RolloutReason::Updating && !input.rollout.awaits_window();
    (has_waited && goes_on).then_some(Notice::WindowOpened)
}

/// The report if nodes begin to go back to the base.
fn rollback_notice(input: &SyncInput<'_>, status: &Status) -> Option<Notice> {
    let goes_back = |stated: Option<&RolloutCondition>| {
        stated.is_some_and(|stated| stated.reason == RolloutReason::RollingBack)
    };
    let known = input.daemon_set.status.rollout.as_ref();
    if !goes_back(status.rollout.as_ref()) || goes_back(known) {
        return None;
    }
    let base = input.rollout.gate.base()?;
    let revisions = input.history.classify(input.daemon_set).old;
    let base = revisions.into_iter().find(|old| old.pod_hash() == *base)?;
    Some(Notice::RollingBack { base: base.name.clone() })
}

fn is_paused(condition: Option<&RolloutCondition>) -> bool {
    condition.is_some_and(RolloutCondition::states_pause)
}

fn number(nodes: usize) -> u32 {
    u32::try_from(nodes).expect("fewer than 2^32 nodes")
}
