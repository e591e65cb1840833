//! Restarts of API servers, and connections that break.

use everynode_core::api::Timestamp;

use super::World;
use crate::fault::happens;
use crate::open_watch::OpenWatch;
use crate::response::Failure;
use crate::watch_fault::{Outage, forbidden};

/// How long the rights of a replica are missing.
const FORBIDDEN_MS: i64 = 60_000;

impl World {
    /// Returns the failure of every request that arrives now at an API server, or `None` if it is
    /// up. A restart may start now.
    pub(super) fn server_failure(&mut self, server: usize) -> Option<Failure> {
        let now = self.now;
        let failure = self.api_servers.outage(server).and_then(|outage| outage.refuse(now));
        if failure.is_some() {
            return failure;
        }
        let restart = self.faults.draw_restart(&mut self.rng)?;
        self.checks.record_fault("API server restarted");
        self.log(|| format!("API server {server} restarts: {restart:?}"));
        let outage = Outage::new(&restart, now);
        *self.api_servers.outage(server) = Some(outage);
        self.break_watches(|watch| watch.server == server);
        outage.refuse(now)
    }

    /// Returns the refusal of every request of a replica whose rights are missing, as if somebody
    /// had deleted its role for a minute. That minute may start now. Its watches stay open.
    pub(super) fn missing_rights(&mut self, number: u64) -> Option<Failure> {
        let now = self.now;
        let starts = happens(self.faults.forbid, &mut self.rng);
        let replica = self.replica(number)?;
        if now < replica.forbidden_until {
            return Some(forbidden());
        }
        if !starts {
            return None;
        }
        replica.forbidden_until = Timestamp(now.0 + FORBIDDEN_MS);
        self.checks.record_fault("requests forbidden");
        self.log(|| format!("the requests of replica {number} are forbidden for a minute"));
        Some(forbidden())
    }

    /// Breaks the connection of a replica, which connects to one of the servers again. Its other
    /// watches end as well if there are several servers.
    pub(super) fn break_connection(&mut self, replica: u64) {
        self.api_servers.reconnect(replica, &mut self.rng);
        if self.api_servers.are_several() {
            self.checks.record_fault("connection to another API server");
            self.break_watches(|watch| watch.replica == replica);
        }
    }

    /// Breaks the connections of watches.
    pub(super) fn break_watches(&mut self, breaks: impl Fn(&OpenWatch) -> bool) {
        let broken = self.watches.extract_if(.., |watch| breaks(watch));
        for watch in broken.collect::<Vec<_>>() {
            self.api_servers.reconnect(watch.replica, &mut self.rng);
            watch.break_connection();
        }
    }
}
