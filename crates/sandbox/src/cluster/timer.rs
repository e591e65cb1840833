//! What is due when: one ordered table for all actors.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::time::Timestamp;

use super::key::PodKey;

/// Something that an actor wants to be woken for. A timer that no longer means anything is ignored by its actor when
/// it fires, so none is ever cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The pod's containers have something to do.
    Pod { uid: Arc<str> },
    /// The kubelets of this heartbeat slot renew their leases.
    Heartbeat { slot: u32 },
    /// The node's lease may have run out.
    Lease { node: Arc<str> },
    /// The pod has not tolerated a taint for as long as it tolerates it.
    Evict { pod: PodKey },
    /// The node has been gone for a while: its pods go.
    CollectPods { node: Arc<str> },
    /// The oldest events are too old.
    ExpireEvents,
}

/// All timers, those of one instant in the order in which they were set.
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

    /// Takes the first timer that is due at `now`, with its own time.
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
