//! The status (C70).

use crate::api::{Status, Timestamp};
use crate::plan::{Kind, Write};

use super::DaemonSetState;
use super::draft::Draft;

impl DaemonSetState {
    /// Writes the status if it changed. `observed_generation` is the generation that this plan has dealt
    /// with; `None` if it only refreshes counts (C56).
    pub(super) fn plan_status(
        &self,
        observed_generation: Option<i64>,
        now: Timestamp,
        draft: &mut Draft,
    ) {
        // What is known of the status is older than what we have written ourselves, or the DaemonSet
        // turned out to be gone.
        let is_stale = self.status_in_flight
            || self.expectations.is_stale(Kind::DaemonSet)
            || self.expectations.is_expected_gone(&self.daemon_set.uid);
        let status = self.status(observed_generation);
        if is_stale || status == self.daemon_set.status {
            return;
        }
        match self.status_due_at(&status, now).filter(|at| now < *at) {
            Some(at) => draft.status_due_at = Some(at),
            None => {
                let resource_version = self.daemon_set.resource_version;
                draft.write(Write::UpdateStatus { resource_version, status });
            }
        }
    }

    /// When the counts may be written again. A rollout changes them several times for each pod, and each
    /// write of them costs as much as one of a pod. A generation that has been dealt with is told at once.
    fn status_due_at(&self, status: &Status, now: Timestamp) -> Option<Timestamp> {
        let is_news = status.observed_generation != self.daemon_set.status.observed_generation;
        // A write that lies ahead has not been: the clock was set back.
        let last = self.status_written_at.filter(|last| !is_news && *last <= now)?;
        Some(last + self.config.status_interval)
    }

    fn status(&self, observed_generation: Option<i64>) -> Status {
        let known = &self.daemon_set.status;
        let tally = &self.tally;
        Status {
            observed_generation: observed_generation
                .map_or(known.observed_generation, |new| new.max(known.observed_generation)),
            collision_count: known.collision_count,
            desired_number_scheduled: count(tally.desired),
            current_number_scheduled: count(tally.current),
            number_misscheduled: count(tally.misscheduled),
            number_ready: count(tally.ready),
            number_available: count(tally.available),
            number_unavailable: count(tally.desired - tally.available),
            updated_number_scheduled: count(tally.updated),
        }
    }
}

fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).expect("fewer than 2^32 nodes")
}
