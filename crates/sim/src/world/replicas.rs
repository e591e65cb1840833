//! The replicas: starts, crashes, frozen processes, broken networks and clocks that are set.

use std::time::Duration;

use everynode_controller::lease_name;
use everynode_core::api::Timestamp;
use everynode_core::daemon_set::Config;
use everynode_core::plan::ScheduleBy;
use everynode_sandbox::kinds::LEASE as LEASE_KIND;
use rand::RngExt;

use super::{ElectionTiming, ScheduledEvent, World};
use crate::replica::{LEASE_NAMESPACE, Replica, Settings, identity, timing};
use crate::role::Role;

/// How far most replicas' clocks differ from virtual time.
const SMALL_CLOCK_SKEW_MS: i64 = 900;
/// How far a clock differs that is wrong.
const SKEW_OF_SECONDS_MS: i64 = 60_000;
/// The same for the clock of a machine before its first answer from a time server.
const SKEW_OF_HOURS_MS: i64 = 2 * 3_600_000;
/// Without an answer for this long, the pings of a connection fail, and it is closed.
const PINGS_FAIL_AFTER_MS: i64 = 15_000;

impl World {
    /// Starts all replicas within a second.
    pub fn start_replicas(&mut self) {
        for role in self.setting.installation.roles() {
            for _ in 0..self.setting.replicas {
                let delay = self.rng.random_range(0..1_000);
                self.schedule(delay, ScheduledEvent::StartReplica { role: *role });
            }
        }
    }

    pub(super) fn start_replica(&mut self, role: Role) {
        if self.is_at_rest && self.has_replica(role) {
            return;
        }
        self.roles.push(role);
        let number = self.roles.len() as u64;
        let mode = self.setting.installation.mode(role);
        // At rest the clocks are right.
        let (clock_skew_ms, clock_drift_ppm) = match (self.draw_clock_skew(), self.draw_drift()) {
            _ if self.is_at_rest => (0, 0),
            drawn => drawn,
        };
        let settings = Settings {
            number,
            role,
            now: self.now,
            clock_skew_ms,
            clock_drift_ppm,
            seed: self.setting.seed.wrapping_add(number),
            timing: match self.setting.election {
                ElectionTiming::Fast => timing(15, 10, 2),
                ElectionTiming::Slow => timing(20, 15, 9),
                ElectionTiming::Rare => timing(60, 50, 40),
            },
            config: Config {
                mode: self.mutation.map_or(mode, |mutation| mutation.mode(mode)),
                burst_replicas: self.setting.burst_replicas as usize,
                schedule_by: match self.setting.schedule_by_controller {
                    true => ScheduleBy::Controller,
                    false => ScheduleBy::Scheduler,
                },
                status_interval: Duration::from_millis(self.setting.status_interval_ms.into()),
                ..Config::default()
            },
            namespace_node_selectors: self.setting.namespace_node_selectors,
            mutation: self.mutation,
            metrics: self.metrics.clone(),
        };
        self.log(|| {
            format!(
                "replica {number} starts ({role:?}), clock {clock_skew_ms:+} ms, drift \
                 {clock_drift_ppm:+} ppm"
            )
        });
        let replica = self.runtime.block_on(async { Replica::start(&settings, &self.outbox) });
        self.replicas.push(replica);
    }

    /// A process has ended. Another one is started in its place.
    pub(super) fn replica_ended(&mut self, number: u64, result: &str) {
        if !self.replicas.iter().any(|replica| replica.number == number) {
            return;
        }
        self.log(|| format!("replica {number} ends: {result}"));
        self.remove_replica(number);
        let role = self.role(number);
        if !self.is_at_rest || !self.has_replica(role) {
            let delay = self.rng.random_range(500..8_000);
            self.schedule(delay, ScheduledEvent::StartReplica { role });
        }
    }

    pub(super) fn role(&self, number: u64) -> Role {
        let index = usize::try_from(number - 1).expect("a small number");
        self.roles[index]
    }

    fn has_replica(&self, role: Role) -> bool {
        self.replicas.iter().any(|replica| replica.role == role)
    }

    fn remove_replica(&mut self, number: u64) {
        self.replicas.retain(|replica| replica.number != number);
        self.watches.retain(|watch| watch.replica != number);
    }

    /// Returns the number of a replica that holds a lease. If there are two, it is drawn.
    pub(super) fn leader(&mut self) -> Option<u64> {
        let roles = self.setting.installation.roles().iter();
        let leaders: Vec<u64> = roles.filter_map(|role| self.leader_of(*role)).collect();
        match leaders[..] {
            [] => None,
            [leader] => Some(leader),
            _ => Some(leaders[self.rng.random_range(0..leaders.len())]),
        }
    }

    /// Returns the number of the replica that holds the lease of a role.
    fn leader_of(&self, role: Role) -> Option<u64> {
        let (identity_of_leader, _) = self.leaders.get(&role)?;
        let numbers = self.replicas.iter().map(|replica| replica.number);
        numbers.into_iter().find(|number| identity(*number) == *identity_of_leader)
    }

    /// How many replicas of the role of this one have led.
    pub(super) fn leaders_of_role_of(&self, number: u64) -> u64 {
        self.leaders.get(&self.role(number)).map_or(0, |(_, leaders)| *leaders)
    }

    pub(super) fn replica_numbers(&self) -> Vec<u64> {
        self.replicas.iter().map(|replica| replica.number).collect()
    }

    /// Kills the leader. Its requests in flight still take effect, and no answer arrives.
    pub fn crash_leader(&mut self) {
        let Some(number) = self.leader() else { return };
        self.log(|| format!("replica {number}, the leader, crashes"));
        self.checks.record_fault("leader crashed");
        // The runtime still runs its tasks until the lease is lost, but nothing connects them to
        // the world any more.
        self.remove_replica(number);
        let delay = self.rng.random_range(1_000..10_000);
        self.schedule(delay, ScheduledEvent::StartReplica { role: self.role(number) });
    }

    /// Stops the leader as SIGTERM does. Returns its number.
    pub fn terminate_leader(&mut self) -> Option<u64> {
        let number = self.leader()?;
        self.log(|| format!("replica {number}, the leader, gets SIGTERM"));
        self.checks.record_fault("leader stopped");
        if let Some(replica) = self.replica(number) {
            replica.shutdown.cancel();
        }
        Some(number)
    }

    /// Freezes the leader's process or cuts its network, for a time in which another replica may
    /// become the leader or not.
    pub fn fence_leader(&mut self) {
        let lasts = self.rng.random_range(1_000..40_000);
        self.cut_off_leader(lasts);
    }

    /// Freezes the leader's process or cuts its network for this number of milliseconds.
    pub(super) fn cut_off_leader(&mut self, lasts_ms: i64) {
        let (Some(number), now) = (self.leader(), self.now) else { return };
        self.log(|| format!("replica {number}, the leader, is cut off for {lasts_ms} ms"));
        self.checks.record_fault("leader cut off");
        let Some(replica) = self.replica(number) else { return };
        replica.unreachable_until = Timestamp(now.0 + lasts_ms);
        self.schedule(lasts_ms, ScheduledEvent::Reconnect { replica: number });
        if lasts_ms > PINGS_FAIL_AFTER_MS {
            self.break_watches(|watch| watch.replica == number);
        }
    }

    /// Sets the leader's wall clock forward or back.
    pub fn set_clock_of_leader(&mut self) {
        let Some(number) = self.leader() else { return };
        let skew_ms = self.draw_clock_skew();
        let Some(replica) = self.replica(number) else { return };
        let by_ms = skew_ms - replica.clocks.skew_ms();
        replica.clocks.set_wall_clock(by_ms);
        self.log(|| format!("the clock of replica {number}, the leader, is set by {by_ms:+} ms"));
        self.checks.record_fault("clock of the leader set");
    }

    fn draw_clock_skew(&mut self) -> i64 {
        let max = if self.setting.wrong_clocks && self.rng.random_ratio(1, 2) {
            // Most relevant are differences of the order of minReadySeconds and back-offs.
            [SKEW_OF_SECONDS_MS, SKEW_OF_HOURS_MS][self.rng.random_range(0..2)]
        } else {
            SMALL_CLOCK_SKEW_MS
        };
        self.rng.random_range(-max..=max)
    }

    fn draw_drift(&mut self) -> i32 {
        let max = self.setting.clock_drift_ppm.cast_signed();
        // Schedules without drift draw nothing.
        if max == 0 { 0 } else { self.rng.random_range(-max..=max) }
    }

    pub(super) fn reconnect(&mut self, number: u64) {
        let now = self.now;
        if self.replica(number).is_some_and(|replica| replica.unreachable_until <= now) {
            self.log(|| format!("replica {number} continues"));
        }
    }

    pub(super) fn replica(&mut self, number: u64) -> Option<&mut Replica> {
        self.replicas.iter_mut().find(|replica| replica.number == number)
    }

    /// Returns for how long a replica is cut off, in milliseconds, or `None` if it is not.
    pub(super) fn cut_off_for(&mut self, number: u64) -> Option<i64> {
        let now = self.now;
        let until = self.replica(number)?.unreachable_until;
        (until > now).then_some(until.0 - now.0)
    }

    /// Notes who holds the leases.
    pub(super) fn note_leaders(&mut self) {
        for role in self.setting.installation.roles() {
            self.note_leader(*role);
        }
    }

    /// Notes who holds the lease of a role. A successor starts only after all late writes of its
    /// predecessor have taken effect (C63).
    fn note_leader(&mut self, role: Role) {
        let name = lease_name(self.setting.installation.mode(role));
        let lease = self.cluster.store().find(&LEASE_KIND, LEASE_NAMESPACE, name);
        let holder = lease.map(|lease| lease.value()["spec"]["holderIdentity"].clone());
        let holder = holder.as_ref().and_then(|holder| holder.as_str()).unwrap_or_default();
        let (known, number) = self.leaders.entry(role).or_default();
        if holder == known {
            return;
        }
        (*known, *number) = (holder.to_owned(), *number + 1);
        self.log(|| format!("the lease {name} is held by {holder:?}"));
        let roles = self.roles.clone();
        let is_of_predecessor = |event: &ScheduledEvent| {
            matches!(event, ScheduledEvent::LateRequestArrives { replica, .. }
                if roles.get(*replica as usize - 1) == Some(&role))
        };
        let late = self.event_queue.extract_if(.., |_, event| is_of_predecessor(event));
        for (_, event) in late.collect::<Vec<_>>() {
            self.handle(event);
        }
    }

    /// Ends all faults of replicas, and all replicas but one of each role, which costs less to
    /// simulate.
    pub(super) fn rest_replicas(&mut self) {
        self.is_at_rest = true;
        let now = self.now;
        let first_of = |role: Role| {
            let first = self.replicas.iter().find(|replica| replica.role == role)?;
            Some(first.number)
        };
        let roles = self.setting.installation.roles().iter();
        let remaining: Vec<u64> =
            roles.filter_map(|role| self.leader_of(*role).or_else(|| first_of(*role))).collect();
        for replica in &mut self.replicas {
            replica.clocks.set_right();
            replica.unreachable_until = now;
            if !remaining.contains(&replica.number) {
                replica.shutdown.cancel();
            }
        }
    }
}
