//! The cluster behind a lock, and the notification of watchers after a change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use everynode_core::api::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, RwLock, RwLockReadGuard, watch};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use crate::kind::Kind;
use crate::store::Store;

/// The duration for which the components work before requests have their turn. It is longer the
/// longer they are behind: what requests do outside their turn fills the other cores meanwhile, and
/// nothing would fill them if the components went on alone in the end.
const TURN_MIN: Duration = Duration::from_millis(3);
const TURN_MAX: Duration = Duration::from_millis(20);
/// How much longer a turn is than the one before, in which the components did not finish.
const TURN_GROWTH: Duration = Duration::from_micros(250);
/// Maximum number of items of each sort in one step of the components: a turn is not much longer
/// than it should be.
const STEP_ITEMS: usize = 8;

/// The cluster behind one lock. A request has the lock for one call of the store or registry, the
/// components for one bounded step; nothing waits or serialises while it has the lock.
///
/// Requests and components take turns: those that wait for the other side are tasks, and their
/// threads do other work meanwhile. With the lock alone, the threads would wait for each other at
/// every step and every call.
pub struct SharedCluster {
    state: Mutex<State>,
    /// Requests share a turn; the components have theirs alone. It is fair to both.
    turns: RwLock<()>,
    /// Wakes the components after a write of a request.
    pub written: Notify,
    /// Ends watches when the server stops.
    pub stop: CancellationToken,
}

struct State {
    cluster: Box<dyn Cluster>,
    /// The duration of the components' next turn.
    turn: Duration,
    /// By the group and kind of the stored form.
    notifiers: BTreeMap<(&'static str, &'static str), KindNotifier>,
    /// The resourceVersion up to which watchers have been notified.
    notified: watch::Sender<u64>,
}

struct KindNotifier {
    kind: &'static Kind,
    newest: watch::Sender<u64>,
}

impl SharedCluster {
    /// Shares a cluster.
    pub fn new(cluster: impl Cluster) -> Self {
        let notified = watch::Sender::new(cluster.registry().store().resource_version());
        let (cluster, notifiers) = (Box::new(cluster), BTreeMap::new());
        let state = State { cluster, turn: TURN_MIN, notifiers, notified };
        Self {
            state: Mutex::new(state),
            turns: RwLock::new(()),
            written: Notify::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Waits until the components pause. They go on when the result is dropped, which should be
    /// soon.
    pub(crate) async fn turn_of_requests(&self) -> RwLockReadGuard<'_, ()> {
        self.turns.read().await
    }

    /// Reads the store.
    pub fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        self.read_cluster(|cluster| read(cluster.registry().store()))
    }

    /// Reads the cluster.
    pub(crate) fn read_cluster<T>(&self, read: impl FnOnce(&dyn Cluster) -> T) -> T {
        read(&*self.state.lock().cluster)
    }

    /// Writes to the cluster, and notifies watchers and components if the store changed.
    pub fn write<T>(&self, write: impl FnOnce(&mut dyn Cluster, Timestamp) -> T) -> T {
        let mut state = self.state.lock();
        let result = write(&mut *state.cluster, now());
        if state.notify_watchers() {
            self.written.notify_one();
        }
        result
    }

    /// Lets the components do a part of the due work; returns the time of the next step.
    pub(crate) async fn step(&self) -> Option<Timestamp> {
        let _turn = self.turns.write().await;
        let start = Instant::now();
        loop {
            let mut state = self.state.lock();
            let next = state.cluster.step(now(), STEP_ITEMS);
            let is_done = next.is_none_or(|next| next > now());
            if is_done || start.elapsed() >= state.turn {
                state.turn = turn_after(state.turn, is_done);
                state.notify_watchers();
                return next;
            }
        }
    }

    /// Drops the changes up to and including a resourceVersion; returns the newest one.
    pub(crate) fn compact(&self, resource_version: u64) -> u64 {
        let mut state = self.state.lock();
        state.notify_watchers();
        let store = state.cluster.registry_mut().store_mut();
        store.compact(resource_version);
        store.resource_version()
    }

    /// A receiver that is notified of each write to `kind`.
    pub(crate) fn subscribe(&self, kind: &'static Kind) -> watch::Receiver<u64> {
        let kind = kind.storage();
        let mut state = self.state.lock();
        let notified = *state.notified.borrow();
        let notifier = state
            .notifiers
            .entry((kind.group, kind.kind))
            .or_insert_with(|| KindNotifier { kind, newest: watch::Sender::new(notified) });
        notifier.newest.subscribe()
    }

    /// A receiver of the store's resourceVersion after each write.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.state.lock().notified.subscribe()
    }
}

impl State {
    /// Notifies the watchers of each kind that changed; returns whether there was a write.
    fn notify_watchers(&mut self) -> bool {
        let store = self.cluster.registry().store();
        let newest = store.resource_version();
        let notified = *self.notified.borrow();
        if newest == notified {
            return false;
        }
        for notifier in self.notifiers.values() {
            // Watchers of a kind that is not served any more must end.
            if !store.kinds().serves(notifier.kind)
                || store.has_changes_since(notifier.kind, notified)
            {
                notifier.newest.send_replace(newest);
            }
        }
        self.notified.send_replace(newest);
        true
    }
}

/// The duration of the turn after this one.
fn turn_after(turn: Duration, is_done: bool) -> Duration {
    if is_done { TURN_MIN } else { (turn + TURN_GROWTH).min(TURN_MAX) }
}

/// The current time: the sandbox's only clock.
pub fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S12: the turns of components that are behind grow to a bound, so that requests wait for a
    /// bounded time, and are short again afterwards.
    #[test]
    fn turns_grow_while_the_components_are_behind() {
        assert_eq!(turn_after(TURN_MIN, false), TURN_MIN + TURN_GROWTH);
        let behind = (0..1_000).fold(TURN_MIN, |turn, _| turn_after(turn, false));
        assert_eq!(behind, TURN_MAX);
        assert_eq!(turn_after(behind, true), TURN_MIN);
    }
}
