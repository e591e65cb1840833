//! The API servers behind the one address. The watch cache of each may follow the store with a
//! delay, so that one server does not know yet what another one has told (S7).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::shared::SharedCluster;
use crate::kind::Kind;
use crate::store::{Store, WatchCache};

/// Maximum time for which a read waits until the cache has reached a state, as upstream.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// The API servers, which serve the connections in turn.
pub(crate) struct ApiServers(Vec<ApiServer>);

/// The API server of a connection; by default its cache is never behind the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiServer {
    /// The resourceVersion that the cache has reached; `None` if it is never behind.
    reached: Option<watch::Receiver<u64>>,
}

impl ApiServers {
    /// Starts a server for each lag, or one without lag if there is none. The tasks end when the
    /// cluster stops.
    pub(crate) fn start(
        lags: &[Duration],
        shared: &Arc<SharedCluster>,
    ) -> (Self, Vec<JoinHandle<()>>) {
        let (mut servers, mut tasks) = (Vec::new(), Vec::new());
        for lag in lags {
            let newest = shared.newest();
            let reached = watch::Sender::new(*newest.borrow());
            if lag.is_zero() {
                servers.push(ApiServer::default());
            } else {
                servers.push(ApiServer::with_cache(reached.subscribe()));
                tasks.push(tokio::spawn(follow(Arc::clone(shared), newest, *lag, reached)));
            }
        }
        if servers.is_empty() {
            servers.push(ApiServer::default());
        }
        (Self(servers), tasks)
    }

    /// The server of the connection with a number.
    pub(crate) fn of_connection(&self, number: usize) -> ApiServer {
        self.0[number % self.0.len()].clone()
    }
}

/// Follows the store with a delay.
async fn follow(
    shared: Arc<SharedCluster>,
    mut newest: watch::Receiver<u64>,
    lag: Duration,
    reached: watch::Sender<u64>,
) {
    let mut unseen: VecDeque<(Instant, u64)> = VecDeque::new();
    loop {
        let wait = unseen.front().map(|(written, _)| lag.saturating_sub(written.elapsed()));
        tokio::select! {
            () = shared.stop.cancelled() => return,
            // The sender is in `shared`, so this never fails.
            Ok(()) = newest.changed() => {
                unseen.push_back((Instant::now(), *newest.borrow_and_update()));
            }
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {
                if let Some((_, resource_version)) = unseen.pop_front() {
                    reached.send_replace(resource_version);
                }
            }
        }
    }
}

impl ApiServer {
    /// A server whose cache has seen everything up to the resourceVersion in `reached`.
    pub(crate) fn with_cache(reached: watch::Receiver<u64>) -> Self {
        Self { reached: Some(reached) }
    }

    /// The state of the store that the server's cache has reached.
    pub(crate) fn cache(&self, store: &Store) -> WatchCache {
        let reached = self.reached.as_ref().map(|reached| *reached.borrow());
        WatchCache::at(reached.unwrap_or_else(|| store.resource_version()))
    }

    /// A receiver that is notified when the cache has changes of `kind`, and maybe without any.
    pub(crate) fn subscribe(
        &self,
        shared: &SharedCluster,
        kind: &'static Kind,
    ) -> watch::Receiver<u64> {
        self.reached.clone().unwrap_or_else(|| shared.subscribe(kind))
    }

    /// Waits until the cache has reached a state, but not for ever.
    pub(crate) async fn wait_until(&self, resource_version: u64) {
        let Some(mut reached) = self.reached.clone() else { return };
        let is_reached = reached.wait_for(|reached| *reached >= resource_version);
        // After the time the read is refused, because the cache is still behind.
        let _reached_or_not = tokio::time::timeout(WAIT_MAX, is_reached).await;
    }
}
