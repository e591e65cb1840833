//! The cluster behind a lock, and the notification of watchers after a change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use everynode_core::api::Timestamp;
use parking_lot::{FairMutex, FairMutexGuard};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, STEP_MAX};
use crate::kind::Kind;
use crate::registry::Registry;
use crate::store::Store;

/// The cluster behind one lock. A request has the lock for one call of the store or registry, the
/// components for one bounded step; nothing waits or serialises while it has the lock. The lock is
/// fair, because components with much work would otherwise take it again and again.
pub(crate) struct SharedCluster {
    state: FairMutex<State>,
    /// Whether a request has requested the lock since the last step.
    requested: AtomicBool,
    /// Wakes the components after a write of a request.
    pub written: Notify,
    /// Ends watches when the server stops.
    pub stop: CancellationToken,
}

struct State {
    cluster: Cluster,
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
    pub(crate) fn new(cluster: Cluster, stop: CancellationToken) -> Self {
        let notified = watch::Sender::new(cluster.store().resource_version());
        let state = State { cluster, notifiers: BTreeMap::new(), notified };
        Self {
            state: FairMutex::new(state),
            requested: AtomicBool::new(false),
            written: Notify::new(),
            stop,
        }
    }

    /// Reads the store.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(self.lock().cluster.store())
    }

    /// Writes to the registry, and notifies watchers and components if the store changed.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut Registry, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let result = write(state.cluster.registry_mut(), now());
        if state.notify_watchers() {
            self.written.notify_one();
        }
        result
    }

    /// Lets the components do a part of the due work, a small one if requests want the lock;
    /// returns the time of the next step.
    pub(crate) fn step(&self) -> Option<Timestamp> {
        /// Each request waits for one step at most, so steps are short while there are requests.
        const ITEMS_BESIDE_REQUESTS: usize = 8;
        let is_requested = self.requested.swap(false, Ordering::Relaxed);
        let items_max = if is_requested { ITEMS_BESIDE_REQUESTS } else { STEP_MAX };
        let mut state = self.state.lock();
        let next = state.cluster.step(now(), items_max);
        state.notify_watchers();
        next
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
        let mut state = self.lock();
        let notified = *state.notified.borrow();
        let notifier = state
            .notifiers
            .entry((kind.group, kind.kind))
            .or_insert_with(|| KindNotifier { kind, newest: watch::Sender::new(notified) });
        notifier.newest.subscribe()
    }

    /// A receiver of the store's resourceVersion after each write.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.lock().notified.subscribe()
    }

    fn lock(&self) -> FairMutexGuard<'_, State> {
        self.requested.store(true, Ordering::Relaxed);
        self.state.lock()
    }
}

impl State {
    /// Notifies the watchers of each kind that changed; returns whether there was a write.
    fn notify_watchers(&mut self) -> bool {
        let store = self.cluster.store();
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

/// The current time: the sandbox's only clock.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
