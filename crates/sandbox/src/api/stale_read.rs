//! Reads that lack the latest writes (S17).

use super::api_server::ApiServer;
use super::call::ReadFaults;
use crate::store::{Store, WatchCache};

/// The cache that answers a read: that of the API server, without the latest writes if a fault says
/// so, but not older than `required`.
pub(crate) fn cache(
    store: &Store,
    api_server: &ApiServer,
    faults: ReadFaults,
    required: Option<u64>,
) -> WatchCache {
    let Some(behind) = faults.writes_behind else { return api_server.cache(store) };
    let newest = store.resource_version();
    WatchCache::at(newest.saturating_sub(behind).max(required.unwrap_or(0)).min(newest))
}
