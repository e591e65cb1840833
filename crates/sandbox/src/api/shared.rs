//! The cluster behind its one lock, and who is told when it changed.

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
pub struct Shared {
    state: FairMutex<State>,
    /// Whether a request has wanted the lock since this was last asked.
    wanted: AtomicBool,
    /// Wakes the actors after a request's write.
    pub written: Notify,
    /// Ends watches when the server stops.
    pub stop: CancellationToken,
}

struct State {
    cluster: Cluster,
    /// By the group and kind of the stored form.
    feeds: BTreeMap<(&'static str, &'static str), Feed>,
    /// The resourceVersion up to which watchers have been told.
    told: u64,
}

struct Feed {
    kind: &'static Kind,
    newest: watch::Sender<u64>,
}

impl Shared {
    pub fn new(cluster: Cluster, stop: CancellationToken) -> Shared {
        let told = cluster.store().resource_version();
        let state = State { cluster, feeds: BTreeMap::new(), told };
        Shared {
            state: FairMutex::new(state),
            wanted: AtomicBool::new(false),
            written: Notify::new(),
            stop,
        }
    }

    /// Reads the store.
    pub fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(self.lock().cluster.store())
    }

    /// Writes to the store, and tells watchers and actors if something came of it.
    pub fn write<T>(&self, write: impl FnOnce(&mut Registry, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let result = write(state.cluster.registry_mut(), now());
        if state.tell() {
            self.written.notify_one();
        }
        result
    }

    /// Lets the actors do a part of what is due; returns when to call again.
    pub fn step(&self) -> Option<Timestamp> {
        let mut state = self.state.lock();
        let next = state.cluster.step(now());
        state.tell();
        next
    }

    /// Whether a request has wanted the lock since this was last asked.
    pub fn was_wanted(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }

    /// A receiver that wakes at each write to `kind`.
    pub fn subscribe(&self, kind: &'static Kind) -> watch::Receiver<u64> {
        let kind = kind.storage();
        let mut state = self.lock();
        let told = state.told;
        let feed = state
            .feeds
            .entry((kind.group, kind.kind))
            .or_insert_with(|| Feed { kind, newest: watch::Sender::new(told) });
        feed.newest.subscribe()
    }

    fn lock(&self) -> FairMutexGuard<'_, State> {
        self.wanted.store(true, Ordering::Relaxed);
        self.state.lock()
    }
}

impl State {
    /// Wakes the watchers of each kind that was written to; false if there was no write.
    fn tell(&mut self) -> bool {
        let store = self.cluster.store();
        let newest = store.resource_version();
        if newest == self.told {
            return false;
        }
        for feed in self.feeds.values() {
            let has_news = |changes: Vec<_>| !changes.is_empty();
            if store.changes_since(feed.kind, self.told, 1).map_or(true, has_news) {
                feed.newest.send_replace(newest);
            }
        }
        self.told = newest;
        true
    }
}

/// The one clock of the sandbox.
pub fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
