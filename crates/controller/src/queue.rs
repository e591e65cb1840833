//! The work queue: for which DaemonSet to plan next, and when. Sans-IO. The statuses of policies
//! have one, too.
//!
//! A key is queued at most once. A key that is added while it is processed is queued again when
//! that is done. Upstream: client-go's `workqueue` with its default rate limiter (C72).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use everynode_core::api::{DaemonSetKey, Timestamp};

use crate::backoff::ExponentialBackoff;
use crate::rate_limit::TokenBucket;

const BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(5), max: Duration::from_secs(1000) };
/// The longest back-off for [`RECOVERY_WINDOW`] after an outage that the watches have seen.
///
/// It applies to every failed write, because an API server that is reachable again may refuse for
/// a while what it allows later (403 while its caches are cold). A watch that reconnects starts the
/// window ([`Queue::retry_all`]).
const RECOVERY_BACKOFF_MAX: Duration = Duration::from_secs(2);
/// How long after an outage back-offs are limited by [`RECOVERY_BACKOFF_MAX`].
const RECOVERY_WINDOW: Duration = Duration::from_secs(60);
/// The longest delay before a write whose outcome is unknown is sent again (C35, C72).
///
/// Unlike [`RECOVERY_BACKOFF_MAX`] it needs no outage: when only the connection of one write breaks
/// or one request times out, no watch reconnects and [`Queue::retry_all`] is not called. It is
/// limited to unknown outcomes, because such a write may hold up the rest of a rollout, while a
/// write that the server refuses need not be repeated every few seconds.
pub(crate) const UNKNOWN_RETRY_MAX: Duration = Duration::from_secs(4);
/// Retries of all keys together: ten a second after a burst of a hundred.
const RETRY_LIMIT: TokenBucket = TokenBucket::new(Duration::from_millis(100), 100);

/// A work queue of the event loop.
#[derive(Debug)]
pub struct Queue<K = DaemonSetKey> {
    ready: VecDeque<K>,
    /// When each key was added that is in `ready`, or will be when its processing is done.
    dirty: BTreeMap<K, Timestamp>,
    processing: BTreeSet<K>,
    timers: BTreeSet<(Timestamp, K)>,
    /// The earliest timer of each key.
    due: BTreeMap<K, Timestamp>,
    failures: BTreeMap<K, u32>,
    /// Keys that are processed and had a failure.
    failing: BTreeSet<K>,
    retry_limit: TokenBucket,
    /// Until when [`RECOVERY_BACKOFF_MAX`] applies.
    recovery_ends_at: Timestamp,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: BTreeMap::new(),
            processing: BTreeSet::new(),
            timers: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            failing: BTreeSet::new(),
            retry_limit: RETRY_LIMIT,
            recovery_ends_at: Timestamp(0),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Queues the key. Returns whether it was not queued yet.
    pub fn add(&mut self, key: K, now: Timestamp) -> bool {
        if self.dirty.contains_key(&key) {
            return false;
        }
        self.dirty.insert(key.clone(), now);
        if !self.processing.contains(&key) {
            self.ready.push_back(key);
        }
        true
    }

    /// Queues the key at `at`, unless it is queued earlier.
    pub fn add_at(&mut self, key: K, at: Timestamp) {
        if let Some(&known) = self.due.get(&key) {
            if known <= at {
                return;
            }
            self.timers.remove(&(known, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.timers.insert((at, key));
    }

    /// Queues the key after a back-off that doubles with each failure of the key. All keys together
    /// are limited to ten retries a second after the first hundred (C72). Returns when.
    pub fn add_after_failure(&mut self, key: K, now: Timestamp) -> Timestamp {
        let is_recovering = now < self.recovery_ends_at;
        let max = if is_recovering { RECOVERY_BACKOFF_MAX } else { BACKOFF.max };
        let failures = self.failures.entry(key.clone()).or_default();
        let backoff = BACKOFF.delay(*failures).min(max);
        // A delay at its limit does not grow: after an outage it goes on from there.
        *failures += u32::from(backoff < max);
        let at = now + backoff.max(self.retry_limit.take(since_epoch(now)));
        self.add_at(key, at);
        at
    }

    /// Retries all keys with failures, because the server is reachable again, and resets their
    /// back-offs (C64). The limit over all keys still applies.
    pub fn retry_all(&mut self, now: Timestamp) {
        self.recovery_ends_at = now + RECOVERY_WINDOW;
        for key in std::mem::take(&mut self.failures).into_keys() {
            let at = now + self.retry_limit.take(since_epoch(now));
            self.add_at(key, at);
        }
    }

    /// Records a failure while the key is processed.
    pub fn failed(&mut self, key: &K) {
        self.failing.insert(key.clone());
    }

    /// True if the key has failed since the last call.
    pub fn has_failed(&mut self, key: &K) -> bool {
        self.failing.remove(key)
    }

    /// Resets the back-off of the key, which succeeded.
    pub fn forget_failures(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Removes the key, whose DaemonSet was deleted.
    pub fn remove(&mut self, key: &K) {
        self.failures.remove(key);
        self.failing.remove(key);
        if let Some(at) = self.due.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }

    /// Takes the next key and how long it waited. It is processed until [`done`](Self::done).
    pub fn pop(&mut self, now: Timestamp) -> Option<(K, Duration)> {
        self.enqueue_due(now);
        let key = self.ready.pop_front()?;
        let since = self.dirty.remove(&key).unwrap_or(now);
        self.processing.insert(key.clone());
        Some((key, now.since(since)))
    }

    /// Ends the processing of a key.
    pub fn done(&mut self, key: &K) {
        self.processing.remove(key);
        if self.dirty.contains_key(key) {
            self.ready.push_back(key.clone());
        }
    }

    /// True if the key is neither queued nor processed, and is not to be retried. For checkers.
    pub fn is_idle(&self, key: &K) -> bool {
        !self.dirty.contains_key(key)
            && !self.processing.contains(key)
            && !self.failures.contains_key(key)
    }

    /// When [`pop`](Self::pop) will return a key, if none is added before.
    pub fn next_at(&self) -> Option<Timestamp> {
        match self.ready.front() {
            Some(key) => self.dirty.get(key).copied(),
            None => self.timers.first().map(|(at, _)| *at),
        }
    }

    /// The number of keys that wait to be processed.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// True if no key waits to be processed.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    fn enqueue_due(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
        {
            let (_, key) = self.timers.pop_first().expect("the first timer was just seen");
            self.due.remove(&key);
            self.add(key, now);
        }
    }
}

fn since_epoch(now: Timestamp) -> Duration {
    now.since(Timestamp(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> DaemonSetKey {
        DaemonSetKey::new("ns", name)
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp(millis)
    }

    fn popped(queue: &mut Queue, now: i64) -> Option<String> {
        queue.pop(at(now)).map(|(key, _)| key.name.to_string())
    }

    /// C72: a key is processed by one worker at a time, and once for any number of changes.
    #[test]
    fn a_key_is_queued_once_and_again_if_it_changes_while_processed() {
        let mut queue = Queue::default();
        assert!(queue.add(key("a"), at(0)));
        assert!(!queue.add(key("a"), at(1)));
        queue.add(key("b"), at(2));
        assert_eq!(queue.pop(at(5)), Some((key("a"), Duration::from_millis(5))));
        queue.add(key("a"), at(6));
        assert_eq!(popped(&mut queue, 6).as_deref(), Some("b"));
        assert_eq!(popped(&mut queue, 6), None);
        queue.done(&key("a"));
        assert_eq!(popped(&mut queue, 7).as_deref(), Some("a"));
        queue.done(&key("a"));
        assert_eq!(popped(&mut queue, 8), None);
    }

    /// C54: of several times for one key only the earliest is kept.
    #[test]
    fn the_earliest_time_is_kept() {
        let mut queue = Queue::default();
        queue.add_at(key("a"), at(50));
        queue.add_at(key("a"), at(20));
        queue.add_at(key("a"), at(30));
        assert_eq!(queue.next_at(), Some(at(20)));
        assert_eq!(popped(&mut queue, 19), None);
        assert_eq!(popped(&mut queue, 20).as_deref(), Some("a"));
        queue.done(&key("a"));
        assert_eq!(queue.next_at(), None);
    }

    /// C72: failures are retried after 5 ms, doubling up to 1,000 s per DaemonSet.
    #[test]
    fn failures_back_off_up_to_a_thousand_seconds() {
        let mut queue = Queue::default();
        let mut waits = Vec::new();
        for i in 0..20i64 {
            let now = at(i * 10_000_000);
            waits.push(queue.add_after_failure(key("a"), now).since(now).as_millis());
            queue.remove_timer(&key("a"));
        }
        assert_eq!(&waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[17..], [655_360, 1_000_000, 1_000_000]);
        queue.forget_failures(&key("a"));
        let again = queue.add_after_failure(key("a"), at(0));
        assert!(again >= at(5));
    }

    /// C64, C72: when the server is reachable again after an outage of 21 s or 3 minutes, failed
    /// keys are retried at once, within the limit over all keys.
    #[test]
    fn failed_keys_are_retried_when_the_server_is_reachable_again() {
        for outage in [21_000, 180_000] {
            let mut queue = Queue::default();
            let mut next = 0;
            while next < outage {
                next = queue.add_after_failure(key("a"), at(next)).0;
                queue.remove_timer(&key("a"));
            }
            queue.add_at(key("a"), at(next));
            assert!(next - outage > 5_000, "its own retry is at {next}");
            queue.retry_all(at(outage));
            assert_eq!(popped(&mut queue, outage).as_deref(), Some("a"));
            queue.done(&key("a"));
            let again = queue.add_after_failure(key("a"), at(outage));
            assert_eq!(again, at(outage + 5));
        }
        let mut queue = Queue::default();
        for key in (0..150).map(|i| key(&i.to_string())) {
            for _ in 0..18 {
                queue.remove_timer(&key);
                queue.add_after_failure(key.clone(), at(0));
            }
        }
        assert_eq!(popped(&mut queue, 300_000), None);
        queue.retry_all(at(300_000));
        let retried = (0..150).filter(|_| popped(&mut queue, 300_000).is_some()).count();
        assert_eq!(retried, 100);
        let retried = (0..150).filter(|_| popped(&mut queue, 305_000).is_some()).count();
        assert_eq!(retried, 50);
    }

    /// C64: for a minute after an outage retries are at most 2 s apart, so that a server that
    /// refuses for a while (403) is asked again within 5 s of its first success.
    #[test]
    fn retries_are_frequent_for_a_minute_after_an_outage() {
        let mut queue = Queue::default();
        queue.retry_all(at(0));
        let mut now = at(0);
        while now < at(60_000) {
            let next = queue.add_after_failure(key("a"), now);
            queue.remove_timer(&key("a"));
            assert!(next.since(now) <= Duration::from_secs(2), "{now:?}: {next:?}");
            now = next;
        }
    }

    /// C72: once that minute is over, the delays go on from there, and do not jump to the longest.
    #[test]
    fn delays_grow_from_two_seconds_when_that_minute_is_over() {
        let mut queue = Queue::default();
        queue.retry_all(at(0));
        let mut now = at(0);
        let mut delays = Vec::new();
        while now < at(180_000) {
            let next = queue.add_after_failure(key("a"), now);
            queue.remove_timer(&key("a"));
            if now >= at(60_000) {
                delays.push(next.since(now).as_millis());
            }
            now = next;
        }
        assert_eq!(delays, [2_560, 5_120, 10_240, 20_480, 40_960, 81_920]);
    }

    /// C72: all DaemonSets together get a hundred retries at once, then ten a second.
    #[test]
    fn retries_of_all_keys_share_a_bucket() {
        let mut queue = Queue::default();
        let waits: Vec<u128> = (0..120)
            .map(|i| queue.add_after_failure(key(&i.to_string()), at(0)).since(at(0)).as_millis())
            .collect();
        assert!(waits[..100].iter().all(|&wait| wait == 5));
        assert_eq!(waits[100..103], [100, 200, 300]);
        assert_eq!(waits[119], 2000);
    }

    impl Queue {
        fn remove_timer(&mut self, key: &DaemonSetKey) {
            let failures = self.failures.clone();
            self.remove(key);
            self.failures = failures;
        }
    }
}
