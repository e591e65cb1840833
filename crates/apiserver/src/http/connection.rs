//! A client's connection: whether it has an owner, whether the client takes the responses, and how
//! the server ends it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::quota::Reservation;
use crate::status::Status;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Open,
    /// It stays open and no more bytes are read from it or written to it.
    Frozen,
    Closed,
}

/// Identifies a response of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResponseId(u64);

/// The connection on which a request arrived; it is in the request's extensions.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Determines which API server serves the connection.
    pub number: usize,
    shared: Arc<Shared>,
}

struct Shared {
    state: watch::Sender<ConnectionState>,
    /// Set by the first request with valid credentials.
    owner: OnceLock<Reservation>,
    responses: AtomicU64,
    /// Since when the client takes nothing of the data that a response has for it.
    untaken: Mutex<BTreeMap<ResponseId, Instant>>,
}

impl Connection {
    pub(crate) fn new(number: usize) -> Self {
        let shared = Shared {
            state: watch::Sender::new(ConnectionState::Open),
            owner: OnceLock::new(),
            responses: AtomicU64::new(0),
            untaken: Mutex::default(),
        };
        Self { number, shared: Arc::new(shared) }
    }

    /// True if it is open, and no request on it had valid credentials.
    pub(crate) fn may_be_closed(&self) -> bool {
        self.shared.owner.get().is_none() && *self.shared.state.borrow() != ConnectionState::Closed
    }

    /// Records that a request had valid credentials, with the reservation of the connection that
    /// `reserve` makes for the first one.
    pub(crate) fn set_owner(
        &self,
        reserve: impl FnOnce() -> Result<Reservation, Status>,
    ) -> Result<(), Status> {
        if self.shared.owner.get().is_none() {
            // If another request on the same connection is first, its reservation stays.
            let _ = self.shared.owner.set(reserve()?);
        }
        Ok(())
    }

    pub(crate) fn next_response(&self) -> ResponseId {
        ResponseId(self.shared.responses.fetch_add(1, Ordering::Relaxed))
    }

    /// The response has data that the client should take.
    pub(crate) fn response_has_data(&self, id: ResponseId) {
        self.shared.untaken.lock().insert(id, Instant::now());
    }

    /// The client has taken all data that the response has so far.
    pub(crate) fn response_waits(&self, id: ResponseId) {
        self.shared.untaken.lock().remove(&id);
    }

    /// Waits until the client takes nothing of a response for the time `limit`.
    pub(crate) async fn stalled(&self, limit: Duration) {
        loop {
            tokio::time::sleep(limit / 4).await;
            let is_stalled = |since: &Instant| since.elapsed() >= limit;
            if self.shared.untaken.lock().values().any(is_stalled) {
                return;
            }
        }
    }

    pub(crate) fn close(&self) {
        self.shared.state.send_replace(ConnectionState::Closed);
    }

    /// Freezes the connection unless it is closed.
    pub(crate) fn freeze(&self) {
        self.shared.state.send_if_modified(|state| {
            let is_open = *state == ConnectionState::Open;
            if is_open {
                *state = ConnectionState::Frozen;
            }
            is_open
        });
    }

    /// Waits until the connection is frozen or closed.
    pub(crate) async fn interrupted(&self) -> ConnectionState {
        self.reaches(|state| state != ConnectionState::Open).await
    }

    /// Waits until the connection is closed.
    pub(crate) async fn closed(&self) {
        self.reaches(|state| state == ConnectionState::Closed).await;
    }

    async fn reaches(&self, wanted: impl Fn(ConnectionState) -> bool) -> ConnectionState {
        let mut states = self.shared.state.subscribe();
        let found = states.wait_for(|state| wanted(*state)).await;
        // `self` owns a sender, so this wait never ends because all senders are gone.
        found.map_or(ConnectionState::Closed, |state| *state)
    }
}
