//! The client's connection, as far as injected faults act on it.

use std::sync::Arc;

use tokio::sync::watch;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Open,
    /// It stays open and no more bytes are read from it or written to it.
    Frozen,
    Closed,
}

/// The connection on which a request arrived; it is in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Determines which API server serves the connection.
    pub number: usize,
    state: Arc<watch::Sender<ConnectionState>>,
}

impl Connection {
    pub(crate) fn new(number: usize) -> Self {
        Self { number, state: Arc::new(watch::Sender::new(ConnectionState::Open)) }
    }

    pub(crate) fn close(&self) {
        self.state.send_replace(ConnectionState::Closed);
    }

    /// Freezes the connection unless it is closed.
    pub(crate) fn freeze(&self) {
        self.state.send_if_modified(|state| {
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
        let mut states = self.state.subscribe();
        let found = states.wait_for(|state| wanted(*state)).await;
        // `self` owns a sender, so this wait never ends because all senders are gone.
        found.map_or(ConnectionState::Closed, |state| *state)
    }
}
