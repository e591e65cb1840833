//! Restarts of API servers, and connections that break.

use super::World;
use crate::answer::Failure;
use crate::open_watch::OpenWatch;
use crate::watch_fault::Outage;

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
