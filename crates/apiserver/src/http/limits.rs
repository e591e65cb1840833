//! Limits on what clients use of the server.

use std::time::Duration;

use rustix::process::{Resource::Nofile, Rlimit, getrlimit, setrlimit};

/// Limits on what a client can consume.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections. A further one closes the oldest one on which no request had
    /// valid credentials, or waits in the kernel's backlog if there is none.
    pub connections: usize,
    /// Maximum number of connections of a client.
    pub client_connections: usize,
    /// Maximum duration of a TLS handshake.
    pub tls_handshake: Duration,
    /// Maximum time from the TLS handshake until the first bytes of a request.
    pub first_request: Duration,
    /// Maximum time from the end of one request to the end of the next one's head. It exceeds the
    /// 90 s for which HTTP clients commonly keep an idle connection, so that the client closes it
    /// first.
    pub request_head: Duration,
    /// Maximum time for the arrival of a request's body.
    pub request_body: Duration,
    /// Maximum size of a request's body in bytes.
    pub request_body_bytes: usize,
    /// Maximum size of a request's head in bytes.
    pub request_head_bytes: u32,
    /// Maximum number of concurrent HTTP/2 streams per connection.
    pub concurrent_streams: u32,
    /// Maximum time without progress while data is written to a client, for the connection and for
    /// each response on it.
    pub stalled_write: Duration,
    /// Maximum number of requests other than watches until their response is sent.
    pub requests: Share,
    /// Maximum number of watches.
    pub watches: Share,
    /// Maximum size in bytes of all request bodies at a time.
    pub body_bytes: Share,
    /// Maximum size in bytes of all responses that are not sent yet.
    pub response_bytes: Share,
}

/// A limit for each client, and one for all clients together. Clients are users.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// For each client.
    pub client: usize,
    /// For all clients.
    pub total: usize,
}

const MEBIBYTE: usize = 1024 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            client_connections: 8_192,
            first_request: Duration::from_secs(10),
            tls_handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(100),
            request_body: Duration::from_secs(60),
            request_body_bytes: 3 * MEBIBYTE,
            request_head_bytes: 64 * 1024,
            concurrent_streams: 1_000,
            stalled_write: Duration::from_secs(60),
            requests: Share { client: 10_000, total: 20_000 },
            watches: Share { client: 2_000, total: 8_000 },
            body_bytes: Share { client: 64 * MEBIBYTE, total: 256 * MEBIBYTE },
            response_bytes: Share { client: 512 * MEBIBYTE, total: 1024 * MEBIBYTE },
        }
    }
}

impl Limits {
    /// The limits with no more connections than this process can have files open. Raises its limit
    /// of open files as far as it may.
    pub(crate) fn within_file_limit(self) -> Self {
        /// Files for everything but connections, such as those of the runtime and of logs.
        const OTHERS: usize = 32;
        let files = getrlimit(Nofile);
        // Refused only for a value above the maximum, which this is not.
        let _ = setrlimit(Nofile, Rlimit { current: files.maximum, ..files });
        let Some(files) = getrlimit(Nofile).current else { return self };
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        Self { connections: self.connections.min(files.saturating_sub(OTHERS).max(1)), ..self }
    }
}
