//! The watches that replicas have opened, on the API server's side.

use std::io;

use bytes::Bytes;
use everynode_sandbox::kind::Kind;
use everynode_sandbox::store::{Store, WatchCache};
use hyper::body::Frame;

use crate::response::Lines;

/// An open watch.
pub(crate) struct OpenWatch {
    /// Identifies the watch.
    pub number: u64,
    /// The replica that has opened it.
    pub replica: u64,
    /// The API server that serves it.
    pub server: usize,
    /// The kind of the objects.
    pub kind: &'static Kind,
    /// The namespace of the objects; empty for all.
    pub namespace: String,
    /// The version up to which changes have been sent.
    pub position: u64,
    /// The version at which the initial events are complete, until the bookmark that says so.
    pub list_ends_at: Option<u64>,
    /// True if a delivery is scheduled.
    pub delivery_scheduled: bool,
    /// Takes the lines.
    pub lines: Lines,
}

/// The replica has closed the watch.
pub(crate) struct Closed;

impl OpenWatch {
    /// True if the server has something to send, whose cache has reached some version.
    pub(crate) fn has_changes(&self, store: &Store, cache: WatchCache) -> bool {
        let reached = cache.reached(store, self.kind);
        self.list_ends_at.is_some_and(|version| version <= reached)
            || self.position < reached
                && cache
                    .changes_since(store, self.kind, self.position, 1)
                    .map_or(true, |changes| !changes.is_empty())
    }

    /// Sends a line.
    pub(crate) fn send(&self, line: Vec<u8>) -> Result<(), Closed> {
        self.lines.unbounded_send(Ok(Frame::data(Bytes::from(line)))).map_err(|_| Closed)
    }

    /// Breaks the connection instead of ending the answer.
    pub(crate) fn break_connection(&self) {
        // If the replica has closed the watch, there is no connection to break.
        let _ = self.lines.unbounded_send(Err(io::ErrorKind::ConnectionReset.into()));
    }
}
