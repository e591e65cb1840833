//! Back-off of failed pods (C24): how soon a failed pod is deleted, and so replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::Timestamp;
use crate::node_table::NodeId;

const DELAY_MIN: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(15 * 60);
const FORGET_AFTER: Duration = Duration::from_secs(2 * 15 * 60);
const COLLECT_EVERY: Duration = Duration::from_secs(60);

/// The back-off of one DaemonSet's nodes. The DaemonSet's UID is that of its state; a new observed
/// generation starts afresh.
#[derive(Debug, Default)]
pub struct Backoff {
    observed_generation: i64,
    entries: BTreeMap<NodeId, Entry>,
    collect_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Entry {
    delay: Duration,
    updated_at: Timestamp,
}

impl Backoff {
    /// Forgets everything if the generation is another one.
    pub fn set_observed_generation(&mut self, observed_generation: i64) {
        if self.observed_generation != observed_generation {
            *self = Self { observed_generation, ..Self::default() };
        }
    }

    /// Until when a failed pod on this node is left alone; `None` if it may go now.
    pub fn until(&self, node: NodeId, now: Timestamp) -> Option<Timestamp> {
        // A failure that lies ahead has not been: the clock was set back.
        let is_past = |entry: &&Entry| entry.updated_at <= now && !entry.is_expired(now);
        let entry = self.entries.get(&node).filter(is_past)?;
        Some(entry.updated_at + entry.delay).filter(|&until| now < until)
    }

    /// A failed pod on this node is being deleted.
    pub fn next(&mut self, node: NodeId, now: Timestamp) {
        self.collect_at.get_or_insert(now + COLLECT_EVERY);
        let last = self.entries.get(&node).filter(|entry| !entry.is_expired(now));
        let delay = last.map_or(DELAY_MIN, |entry| (entry.delay * 2).min(DELAY_MAX));
        self.entries.insert(node, Entry { delay, updated_at: now });
    }

    /// The node is gone, and its number may be given to another.
    pub fn forget(&mut self, node: NodeId) {
        self.entries.remove(&node);
    }

    /// Drops what is expired, once a minute.
    pub fn collect(&mut self, now: Timestamp) {
        if self.collect_at.is_some_and(|at| at <= now) {
            self.entries.retain(|_, entry| !entry.is_expired(now));
            self.collect_at = (!self.entries.is_empty()).then_some(now + COLLECT_EVERY);
        }
    }

    /// When there may be something to drop.
    pub const fn collect_at(&self) -> Option<Timestamp> {
        self.collect_at
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    fn is_expired(&self, now: Timestamp) -> bool {
        now.since(self.updated_at) > FORGET_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NodeName;
    use crate::node_table::NodeTable;

    /// C24: the first failure goes at once; then 1 s, doubling, at most 15 min; forgotten after 30 min
    /// without a failure, and collected once a minute.
    #[test]
    fn delays_double_to_a_quarter_of_an_hour_and_are_forgotten_after_twice_that() {
        let node = NodeTable::default().intern(&NodeName::from("node"));
        let mut backoff = Backoff::default();
        let mut now = Timestamp::from_seconds(1000);
        let mut delays = Vec::new();
        for _ in 0..12 {
            assert_eq!(backoff.until(node, now), None);
            backoff.next(node, now);
            let until = backoff.until(node, now).expect("backed off");
            delays.push(until.since(now).as_secs());
            now = until;
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);

        now = now + FORGET_AFTER;
        backoff.next(node, now);
        assert_eq!(backoff.until(node, now), Some(now + Duration::from_secs(1)));
        backoff.collect(now);
        assert_eq!(backoff.len(), 1);
        now = now + FORGET_AFTER + Duration::from_millis(1);
        backoff.collect(now);
        assert_eq!((backoff.len(), backoff.collect_at()), (0, None));
    }

    /// C24: a clock that is set back lets no failed pod wait longer.
    #[test]
    fn a_clock_that_is_set_back_ends_a_delay() {
        let node = NodeTable::default().intern(&NodeName::from("node"));
        let mut backoff = Backoff::default();
        backoff.next(node, Timestamp::from_seconds(1000));
        assert_eq!(backoff.until(node, Timestamp::from_seconds(10)), None);
    }

    /// C24: the key holds the observed generation.
    #[test]
    fn a_new_generation_starts_afresh() {
        let node = NodeTable::default().intern(&NodeName::from("node"));
        let mut backoff = Backoff::default();
        backoff.next(node, Timestamp(0));
        backoff.set_observed_generation(2);
        assert_eq!(backoff.until(node, Timestamp(1)), None);
    }
}
