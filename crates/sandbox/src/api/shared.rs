//! The cluster behind its one lock, and who is told when it changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use everynode_core::time::Timestamp;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::kind::Kind;
use crate::store::Store;

/// One lock around everything: requests hold it for one call of the store, the actors for one
/// bounded step. Nothing waits while it is held, and nothing is serialised under it.
pub struct Shared {
    state: Mutex<State>,
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
        Shared { state: Mutex::new(state), written: Notify::new(), stop }
    }

    /// Reads the store.
    pub fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(self.lock().cluster.store())
    }

    /// Writes to the store, and tells watchers and actors if something came of it.
    pub fn write<T>(&self, write: impl FnOnce(&mut Store, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let result = write(state.cluster.store_mut(), now());
        if state.tell() {
            self.written.notify_one();
        }
        result
    }

    /// Lets the actors do a part of what is due; returns when to call again.
    pub fn step(&self) -> Option<Timestamp> {
        let mut state = self.lock();
        let next = state.cluster.step(now());
        state.tell();
        next
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

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug of ours; one more request that fails is better than a
        // server in which all do.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
