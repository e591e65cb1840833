//! A connection as the requests on it can break it.

use std::sync::Arc;

use tokio::sync::watch;

/// What has become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Open,
    /// It carries nothing any more and stays open.
    Frozen,
    Closed,
}

/// The connection that a request came on; in the request's extensions.
#[derive(Clone, Debug)]
pub struct Link(Arc<watch::Sender<State>>);

impl Default for Link {
    fn default() -> Link {
        Link(Arc::new(watch::Sender::new(State::Open)))
    }
}

impl Link {
    pub fn close(&self) {
        self.0.send_replace(State::Closed);
    }

    pub fn freeze(&self) {
        // What is closed stays closed.
        self.0.send_if_modified(|state| {
            let is_open = *state == State::Open;
            if is_open {
                *state = State::Frozen;
            }
            is_open
        });
    }

    /// Waits until the connection is frozen or closed.
    pub async fn broken(&self) -> State {
        self.reaches(|state| state != State::Open).await
    }

    pub async fn closed(&self) {
        self.reaches(|state| state == State::Closed).await;
    }

    async fn reaches(&self, wanted: impl Fn(State) -> bool) -> State {
        let mut states = self.0.subscribe();
        let found = states.wait_for(|state| wanted(*state)).await;
        // The sender is here: there is no other end.
        found.map_or(State::Closed, |state| *state)
    }
}
