//! The status (C70). Upstream: `updateDaemonSetStatus`.

use crate::api::{Now, Status, Timestamp};
use crate::plan::{Notice, Write};

use super::SyncInput;
use super::draft::Draft;

/// What is known of earlier writes of the status.
#[derive(Clone, Copy)]
pub(in crate::daemon_set) struct StatusState {
    /// Whether the known status is older than one that this controller wrote, or the DaemonSet
    /// turned out to be deleted.
    pub is_stale: bool,
    pub written_at: Option<Timestamp>,
}

/// Writes the status if it changed. `observed_generation` is the generation that the plan acts on;
/// `None` if the plan only refreshes counts (C56).
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
        Some(at) => draft.status_due_at = Some(at),
        None => {
            let resource_version = input.daemon_set.resource_version;
            let was_paused = input.daemon_set.status.paused_since.is_some();
            let ends_pause = was_paused && status.paused_since.is_none();
            if ends_pause {
                draft.plan.notices.push(Notice::RolloutResumed);
            } else if !was_paused && status.paused_since.is_some() {
                draft.plan.notices.push(Notice::RolloutPaused);
            }
            draft.write(Write::UpdateStatus { resource_version, status, ends_pause });
        }
    }
}

/// When changed counts may be written again. A rollout changes them several times for each pod, and
/// each write of a status costs as much as one of a pod. A new observed generation is written at
/// once, and so is whether the rollout is paused.
fn due_at(input: &SyncInput<'_>, state: StatusState, status: &Status) -> Option<Timestamp> {
    let known = &input.daemon_set.status;
    let is_new = status.observed_generation != known.observed_generation
        || status.paused_since != known.paused_since;
    let last = state.written_at.filter(|_| !is_new)?;
    Some(last + input.config.status_interval)
}

fn status(input: &SyncInput<'_>, observed_generation: Option<i64>) -> Status {
    let known = &input.daemon_set.status;
    let counts = input.counts;
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
        paused_since: input
            .daemon_set
            .paused
            .then(|| known.paused_since.unwrap_or_else(|| whole_seconds(input.now))),
    }
}

/// The time of the wall clock as objects state it.
fn whole_seconds(now: Now) -> Timestamp {
    Timestamp::from_seconds(now.to_wall(now.steady).as_millis().div_euclid(1000))
}

fn number(nodes: usize) -> u32 {
    u32::try_from(nodes).expect("fewer than 2^32 nodes")
}
