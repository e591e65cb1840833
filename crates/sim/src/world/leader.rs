//! Which replica leads: elections, crashes and fenced leaders.

use everynode_core::daemon_set::Config;
use rand::RngExt;

use super::{BOOKMARK_MS, NO_LEADER_MS, ScheduledEvent, World};
use crate::leader_run::{LeaderRun, LeaderRunSettings};

impl World {
    /// Makes a replica the leader.
    pub fn elect(&mut self) {
        self.deliver_late_requests();
        self.leader_run_number += 1;
        let settings = LeaderRunSettings {
            clock_skew_ms: self.rng.random_range(-900..=900),
            supports_streaming_lists: self.rng.random_ratio(1, 2),
            config: Config {
                burst_replicas: self.setting.burst_replicas as usize,
                ..Config::default()
            },
            mutation: self.mutation,
            seed: self.setting.seed,
        };
        let number = self.leader_run_number;
        self.leader_runs.push(LeaderRun::new(number, settings));
        self.schedule(BOOKMARK_MS, ScheduledEvent::Bookmark { run: number });
        self.log(|| format!("replica {number} leads, clock {:+} ms", settings.clock_skew_ms));
        self.settle();
    }

    /// Removes the leader at once. Its requests in flight may still take effect.
    pub fn crash_leader(&mut self) {
        if self.leader_runs.iter().all(|run| run.network.is_fenced()) {
            return;
        }
        self.log(|| "the leader crashes".to_owned());
        self.checks.record_fault("leader crashed");
        self.leader_runs.clear();
        self.schedule(NO_LEADER_MS, ScheduledEvent::Elect);
    }

    /// Fences the leader, as if it could not renew its lease. It stops writing and continues to
    /// decide until it notices.
    pub fn fence_leader(&mut self) {
        let Some(run) = self.leader_runs.last().filter(|run| !run.network.is_fenced()) else {
            return;
        };
        run.network.fence();
        let number = run.number;
        self.log(|| format!("replica {number} is fenced"));
        self.checks.record_fault("leader fenced");
        let noticed = self.rng.random_range(0..3 * NO_LEADER_MS);
        self.schedule(noticed, ScheduledEvent::EndRun { run: number });
        self.schedule(NO_LEADER_MS, ScheduledEvent::Elect);
    }

    /// Serves a replica's delayed requests before its successor leads (C63).
    pub(super) fn deliver_late_requests(&mut self) {
        let late = self
            .event_queue
            .extract_if(.., |_, event| matches!(event, ScheduledEvent::LateRequestArrives { .. }));
        for (_, event) in late.collect::<Vec<_>>() {
            self.handle(event);
        }
    }
}
