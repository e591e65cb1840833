//! A request, as handlers receive it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::api_server::ApiServer;
use super::connection::Connection;
use super::query::Parameters;
use super::route::Route;
use crate::authorization::User;
use crate::store::{Store, WatchCache};

/// A request whose body has been read.
pub(crate) struct Call {
    pub method: Method,
    pub headers: HeaderMap,
    pub parameters: Parameters,
    pub body: Bytes,
    pub api_server: ApiServer,
    pub read_faults: ReadFaults,
}

/// How injected faults change what a read shows; by default they don't.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadFaults {
    /// The number of latest writes that the shown state lacks.
    pub writes_behind: Option<u64>,
    /// The delay of the bookmark that ends the initial events.
    pub bookmark_after: Option<Duration>,
}

impl ReadFaults {
    /// The cache that answers a read: that of the API server, without the latest writes if a fault
    /// says so, but not older than `required` (S17).
    pub(crate) fn cache(
        self,
        store: &Store,
        api_server: &ApiServer,
        required: Option<u64>,
    ) -> WatchCache {
        let Some(behind) = self.writes_behind else { return api_server.cache(store) };
        let newest = store.resource_version();
        WatchCache::at(newest.saturating_sub(behind).max(required.unwrap_or(0)).min(newest))
    }
}

/// A call with its route and its user, who may make it.
pub(crate) struct AuthorizedCall {
    pub route: Route,
    pub path: String,
    /// `None` for an anonymous user, who may ask for the server's health and version.
    pub user: Option<User>,
    pub call: Call,
    pub connection: Connection,
}
