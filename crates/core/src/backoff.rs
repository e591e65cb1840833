//! The back-offs: when a pod that has ended is deleted, and so replaced (C24), when a pod is
//! created again on a node whose pods other clients delete (C23), when pods are created again after
//! admission has changed one (C28), and when a deleted revision is created again (C40).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::Timestamp;
use crate::node_table::NodeId;

/// Delay after the first failure.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// Maximum delay.
pub const DELAY_MAX: Duration = Duration::from_secs(15 * 60);
/// How long after the last failure the delay starts from the minimum again.
const FORGET_AFTER: Duration = Duration::from_secs(2 * 15 * 60);
/// Maximum delay of a node whose pods other clients delete.
const LOSS_DELAY_MAX: Duration = Duration::from_secs(60);
/// How long after the end of that delay a pod must live for the next delay to start anew.
const LOSS_FORGET_AFTER: Duration = Duration::from_secs(10);
/// Time between two removals of expired entries.
const COLLECT_EVERY: Duration = Duration::from_secs(60);

/// Why there is a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something has failed.
    Failure,
    /// Another client has deleted a pod before it was ready, or has changed its labels or owner.
    /// Once is no reason for a delay: somebody may want a new pod.
    Loss,
}

/// A delay. It doubles with each repetition of its cause up to a maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    cause: Cause,
    length: Duration,
    since: Timestamp,
}

/// The delays of one DaemonSet's nodes for one cause. A new generation resets them all. Upstream:
/// `failedPodsBackoff`, whose keys also contain the observed generation.
#[derive(Debug)]
pub(crate) struct Backoff {
    cause: Cause,
    generation: i64,
    entries: BTreeMap<NodeId, Delay>,
    collect_at: Option<Timestamp>,
}

impl Backoff {
    pub(crate) const fn new(cause: Cause) -> Self {
        Self { cause, generation: 0, entries: BTreeMap::new(), collect_at: None }
    }

    /// Ends all delays if the generation is a new one, and returns their nodes.
    pub(crate) fn set_generation(&mut self, generation: i64) -> Vec<NodeId> {
        if self.generation == generation {
            return Vec::new();
        }
        self.generation = generation;
        self.end_all()
    }

    /// Ends all delays, and returns their nodes.
    pub(crate) fn end_all(&mut self) -> Vec<NodeId> {
        self.collect_at = None;
        std::mem::take(&mut self.entries).into_keys().collect()
    }

    /// When the delay of this node ends; `None` if none is running.
    pub(crate) fn until(&self, node: NodeId, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entries.get(&node).filter(|entry| !entry.is_expired(now))?;
        Some(entry.end()).filter(|&until| now < until)
    }

    /// Lengthens the delay of this node, because its cause is there again. Returns the new delay.
    pub(crate) fn next(&mut self, node: NodeId, now: Timestamp) -> Duration {
        self.collect_at.get_or_insert(now + COLLECT_EVERY);
        let delay = Delay::after(self.cause, self.entries.get(&node).copied(), now);
        self.entries.insert(node, delay);
        delay.length
    }

    /// Drops the delay of a node that is deleted, so that its number may be reused, or where the
    /// cause may be gone. Returns whether there was one.
    pub(crate) fn forget(&mut self, node: NodeId) -> bool {
        self.entries.remove(&node).is_some()
    }

    /// Drops expired entries, at most once a minute.
    pub(crate) fn collect(&mut self, now: Timestamp) {
        if self.collect_at.is_some_and(|at| at <= now) {
            self.entries.retain(|_, entry| !entry.is_expired(now));
            self.collect_at = (!self.entries.is_empty()).then_some(now + COLLECT_EVERY);
        }
    }

    /// When [`collect`](Self::collect) may next drop an entry.
    pub(crate) const fn collect_at(&self) -> Option<Timestamp> {
        self.collect_at
    }
}

impl Delay {
    /// The delay after its cause at `now`. Ignores a last delay that was long ago.
    pub(crate) fn after(cause: Cause, last: Option<Self>, now: Timestamp) -> Self {
        let (first, max) = match cause {
            Cause::Failure => (DELAY_MIN, DELAY_MAX),
            Cause::Loss => (Duration::ZERO, LOSS_DELAY_MAX),
        };
        let last = last.filter(|last| !last.is_expired(now));
        let length = last.map_or(first, |last| (last.length * 2).clamp(DELAY_MIN, max));
        Self { cause, length, since: now }
    }

    pub(crate) fn end(&self) -> Timestamp {
        self.since + self.length
    }

    pub(crate) fn is_running(&self, now: Timestamp) -> bool {
        now < self.end()
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        match self.cause {
            Cause::Failure => now.since(self.since) > FORGET_AFTER,
            Cause::Loss => now.since(self.end()) > LOSS_FORGET_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NodeName;
    use crate::node_table::NodeTable;

    /// C24: there is no delay before the first failure; then it is 1 s, and doubles up to 15 min.
    /// It is dropped 30 min after the last failure.
    #[test]
    fn delays_double_up_to_15_minutes_and_are_dropped_after_30() {
        let node = NodeTable::default().intern(&NodeName::from("node"));
        let mut backoff = Backoff::new(Cause::Failure);
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
        assert_eq!(backoff.entries.len(), 1);
        now = now + FORGET_AFTER + Duration::from_millis(1);
        backoff.collect(now);
        assert_eq!((backoff.entries.len(), backoff.collect_at()), (0, None));
    }

    /// C24: a new observed generation ends the delay.
    #[test]
    fn a_new_generation_resets_the_delay() {
        let node = NodeTable::default().intern(&NodeName::from("node"));
        let mut backoff = Backoff::new(Cause::Failure);
        backoff.next(node, Timestamp(0));
        backoff.set_generation(2);
        assert_eq!(backoff.until(node, Timestamp(1)), None);
    }

    /// C23: somebody may delete a pod once without a delay; then it is 1 s, and doubles up to a
    /// minute. A pod that lives for more than 10 s ends the series.
    #[test]
    fn the_first_loss_causes_no_delay() {
        let node = NodeTable::default().intern(&NodeName::from("node"));
        let mut backoff = Backoff::new(Cause::Loss);
        let mut now = Timestamp::from_seconds(1000);
        let mut delays = Vec::new();
        for _ in 0..9 {
            let delay = backoff.next(node, now);
            delays.push(delay.as_secs());
            assert_eq!(backoff.until(node, now).is_some(), !delay.is_zero());
            now = now + delay + LOSS_FORGET_AFTER;
        }
        assert_eq!(delays, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.next(node, now + Duration::from_millis(1)), Duration::ZERO);
    }
}
