//! Restarts of the API server that a replica is connected to.

use everynode_controller::api::Error;

use super::{ScheduledEvent, World};
use crate::watch_fault::Outage;

impl World {
    /// Returns the error of every request to the API server of a replica, or `None` if it is up. A
    /// restart may start now.
    pub(super) fn server_refusal(&mut self, number: u64) -> Option<Error> {
        let now = self.now;
        let refusal = self.leader_run(number)?.outage.and_then(|outage| outage.refuse(now));
        if refusal.is_some() {
            return refusal;
        }
        let restart = self.faults.draw_restart(&mut self.rng)?;
        self.checks.record_fault("API server restarted");
        self.log(|| format!("the API server of replica {number} restarts: {restart:?}"));
        let outage = Outage::new(&restart, now);
        let run = self.leader_run(number)?;
        run.outage = Some(outage);
        for watch in &mut run.watches {
            watch.fail();
        }
        outage.refuse(now)
    }

    /// Schedules a watch to send its request again after a pause.
    pub(super) fn retry_watch(&mut self, number: u64, watch: usize) {
        const PAUSE_MS: i64 = 250;
        let Some(run) = self.leader_runs.iter_mut().find(|run| run.number == number) else {
            return;
        };
        run.watches[watch].fail();
        run.delivery_scheduled[watch] = true;
        self.schedule(PAUSE_MS, ScheduledEvent::DeliverWatch { run: number, watch });
    }
}
