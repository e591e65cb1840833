//! The timers of all components, in one ordered table.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::PodKey;

/// A scheduled call of a component. Timers are never cancelled: a component ignores a timer that is
/// outdated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A deadline of the pod's containers.
    Pod { uid: Arc<str> },
    /// The kubelets in this heartbeat slot renew their leases.
    Heartbeat { slot: u32 },
    /// The time in an annotation of the node is over, or its shutdown.
    Node { node: Arc<str> },
    /// The node's lease may have expired.
    Lease { node: Arc<str> },
    /// The pod's toleration of a taint ends.
    Evict { pod: PodKey },
    /// The node was deleted some time ago: its pods are removed.
    CollectPods { node: Arc<str> },
    /// A disruption budget may forget an eviction.
    Budget { namespace: Arc<str>, name: Arc<str> },
    /// Nodes begin or end to move.
    Churn,
    /// Old events are deleted.
    ExpireEvents,
}

/// All timers; those for the same time fire in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<(Timestamp, u64), Timer>,
    count: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: Timestamp, timer: Timer) {
        self.count += 1;
        self.due.insert((at, self.count), timer);
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Removes the first timer that is due at `now`, with the time for which it was set.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let at = entry.key().0;
        Some((at, entry.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S24: timers fire by time, then in the order in which they were set.
    #[test]
    fn timers_fire_by_time_then_by_age() {
        let mut timers = Timers::default();
        timers.set(Timestamp(2), Timer::Heartbeat { slot: 2 });
        timers.set(Timestamp(1), Timer::Heartbeat { slot: 1 });
        timers.set(Timestamp(1), Timer::Heartbeat { slot: 0 });
        assert_eq!(timers.next(), Some(Timestamp(1)));
        assert_eq!(timers.pop(Timestamp(0)), None);
        let mut fired = Vec::new();
        while let Some((_, Timer::Heartbeat { slot })) = timers.pop(Timestamp(9)) {
            fired.push(slot);
        }
        assert_eq!(fired, [1, 0, 2]);
    }
}
