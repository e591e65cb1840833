//! Restarts of the API server that a replica speaks to.

use everynode_controller::api::Error;

use super::{Due, World};
use crate::watch_fault::Outage;

impl World {
    /// Why the API server of a replica answers nothing of what is asked now; it may restart just now.
    pub(super) fn is_refused(&mut self, number: u64) -> Option<Error> {
        let now = self.now;
        let refusal = self.term(number)?.outage.and_then(|outage| outage.refuse(now));
        if refusal.is_some() {
            return refusal;
        }
        let restart = self.faults.on_server(&mut self.rng)?;
        self.say(|| format!("the API server of replica {number} restarts: {restart:?}"));
        let outage = Outage::new(&restart, now);
        let term = self.term(number)?;
        term.outage = Some(outage);
        for feed in &mut term.feeds {
            feed.refuse();
        }
        outage.refuse(now)
    }

    /// A watch pauses before it asks a server again that refuses it.
    pub(super) fn ask_again(&mut self, number: u64, feed: usize) {
        const PAUSE_MS: i64 = 250;
        let Some(term) = self.terms.iter_mut().find(|term| term.number == number) else { return };
        term.feeds[feed].refuse();
        term.polled[feed] = true;
        self.schedule(PAUSE_MS, Due::Poll { term: number, feed });
    }
}
