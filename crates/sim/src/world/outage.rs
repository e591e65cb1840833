//! Restarts of the API server.

use super::World;
use crate::answer::Failure;
use crate::watch_fault::Outage;

impl World {
    /// Returns the failure of every request that arrives now, or `None` if the API server is up. A
    /// restart may start now.
    pub(super) fn server_failure(&mut self) -> Option<Failure> {
        let now = self.now;
        let failure = self.outage.and_then(|outage| outage.refuse(now));
        if failure.is_some() {
            return failure;
        }
        let restart = self.faults.draw_restart(&mut self.rng)?;
        self.log(|| format!("the API server restarts: {restart:?}"));
        let outage = Outage::new(&restart, now);
        self.outage = Some(outage);
        for watch in std::mem::take(&mut self.watches) {
            watch.break_connection();
        }
        outage.refuse(now)
    }
}
