//! A request, as handlers receive it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::api_server::ApiServer;
use super::connection::Connection;
use super::query::Parameters;
use super::route::Route;
use crate::authorization::User;

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

/// A call with its route and its user, who may make it.
pub(crate) struct AuthorizedCall {
    pub route: Route,
    pub path: String,
    /// `None` for an anonymous user, who may ask for the server's health and version.
    pub user: Option<User>,
    pub call: Call,
    pub connection: Connection,
}
