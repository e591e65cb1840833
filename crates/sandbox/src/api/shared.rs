//! The cluster behind its one lock, and who is notified when it changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use everynode_core::time::Timestamp;
use parking_lot::{FairMutex, FairMutexGuard};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::kind::Kind;
use crate::registry::Registry;
use crate::store::Store;

/// One lock around everything: requests hold it for one call of the store, the actors for one
/// bounded step. Nothing waits while it is held, and nothing is serialised under it. Who waits longest gets it next:
/// actors that have much to do would else take it again and again.
pub(crate) struct SharedCluster {
    state: FairMutex<State>,
    /// Whether a request has requested the lock since this was last asked.
    requested: AtomicBool,
    /// Wakes the actors after a request's write.
    pub written: Notify,
    /// Ends watches when the server stops.
    pub stop: CancellationToken,
}

struct State {
    cluster: Cluster,
    /// By the group and kind of the stored form.
    notifiers: BTreeMap<(&'static str, &'static str), KindNotifier>,
    /// The resourceVersion up to which watchers have been notified.
    notified: u64,
}

struct KindNotifier {
    kind: &'static Kind,
    newest: watch::Sender<u64>,
}

impl SharedCluster {
    pub(crate) fn new(cluster: Cluster, stop: CancellationToken) -> Self {
        let notified = cluster.store().resource_version();
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

    /// Writes to the store, and tells watchers and actors if something came of it.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut Registry, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let result = write(state.cluster.registry_mut(), now());
        if state.notify_watchers() {
            self.written.notify_one();
        }
        result
    }

    /// Lets the actors do a part of what is due; returns when to call again.
    pub(crate) fn step(&self) -> Option<Timestamp> {
        let mut state = self.state.lock();
        let next = state.cluster.step(now());
        state.notify_watchers();
        next
    }

    /// Whether a request has requested the lock since this was last asked.
    pub(crate) fn was_requested(&self) -> bool {
        self.requested.swap(false, Ordering::Relaxed)
    }

    /// A receiver that wakes at each write to `kind`.
    pub(crate) fn subscribe(&self, kind: &'static Kind) -> watch::Receiver<u64> {
        let kind = kind.storage();
        let mut state = self.lock();
        let notified = state.notified;
        let notifier = state
            .notifiers
            .entry((kind.group, kind.kind))
            .or_insert_with(|| KindNotifier { kind, newest: watch::Sender::new(notified) });
        notifier.newest.subscribe()
    }

    fn lock(&self) -> FairMutexGuard<'_, State> {
        self.requested.store(true, Ordering::Relaxed);
        self.state.lock()
    }
}

impl State {
    /// Wakes the watchers of each kind that was written to; false if there was no write.
    fn notify_watchers(&mut self) -> bool {
        let store = self.cluster.store();
        let newest = store.resource_version();
        if newest == self.notified {
            return false;
        }
        for notifier in self.notifiers.values() {
            let has_news = |changes: Vec<_>| !changes.is_empty();
            if store.changes_since(notifier.kind, self.notified, 1).map_or(true, has_news) {
                notifier.newest.send_replace(newest);
            }
        }
        self.notified = newest;
        true
    }
}

/// The one clock of the sandbox.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
