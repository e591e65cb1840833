//! Which of the waiting requests is served next: clients take turns, and so do the connections of a
//! client. So a client that floods the server waits for itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A limited number of turns at a time.
pub(crate) struct Turns(Mutex<State>);

struct State {
    free: usize,
    /// The clients that have waiting requests.
    clients: BTreeMap<Arc<str>, Client>,
    /// The same clients in the order in which they get turns.
    order: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct Client {
    /// The waiting requests of each connection.
    connections: BTreeMap<usize, VecDeque<oneshot::Sender<Turn>>>,
    /// The same connections in the order in which they get turns.
    order: VecDeque<usize>,
}

/// The right to be served until this is dropped.
pub(crate) struct Turn(Option<Arc<Turns>>);

impl Turns {
    pub(crate) fn new(turns: usize) -> Arc<Self> {
        let (clients, order) = (BTreeMap::new(), VecDeque::new());
        Arc::new(Self(Mutex::new(State { free: turns, clients, order })))
    }

    /// Waits for a turn.
    pub(crate) async fn take(self: &Arc<Self>, client: &Arc<str>, connection: usize) -> Turn {
        let waiting = {
            let state = &mut *self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return Turn(Some(Arc::clone(self)));
            }
            let (sender, receiver) = oneshot::channel();
            state.wait(client, connection, sender);
            receiver
        };
        waiting.await.expect("a waiting request keeps its place until it gets a turn")
    }

    /// Gives a turn that is over to the next request that still waits.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let next = {
                let state = &mut *self.0.lock();
                match state.next() {
                    Some(next) => next,
                    None => {
                        state.free += 1;
                        return;
                    }
                }
            };
            match next.send(Turn(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // The client of that request is gone: the loop offers the turn to the next one.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

impl State {
    fn wait(&mut self, client: &Arc<str>, connection: usize, sender: oneshot::Sender<Turn>) {
        let of_client = self.clients.entry(Arc::clone(client)).or_insert_with(|| {
            self.order.push_back(Arc::clone(client));
            Client::default()
        });
        let of_connection = of_client.connections.entry(connection).or_insert_with(|| {
            of_client.order.push_back(connection);
            VecDeque::new()
        });
        of_connection.push_back(sender);
    }

    /// The oldest request of the connection and client whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let name = self.order.pop_front()?;
        let client = self.clients.get_mut(&name).expect("a client in the order waits");
        let connection = client.order.pop_front().expect("a client has a waiting connection");
        let waiting = client.connections.get_mut(&connection).expect("a connection in the order");
        let next = waiting.pop_front();
        if waiting.is_empty() {
            client.connections.remove(&connection);
        } else {
            client.order.push_back(connection);
        }
        if client.order.is_empty() {
            self.clients.remove(&name);
        } else {
            self.order.push_back(name);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll(future: &mut Pin<Box<impl Future<Output = Turn>>>) -> Option<Turn> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    /// S12: the one request of a client waits for one request of another client that floods the
    /// server, not for all, and the connections of a client take turns as well.
    #[test]
    fn clients_and_their_connections_take_turns() {
        let turns = Turns::new(1);
        let [flood, other] = ["flood", "other"].map(Arc::<str>::from);
        let first = poll(&mut Box::pin(turns.take(&flood, 0))).expect("a free turn");
        let requests = [(&flood, 0), (&flood, 0), (&flood, 0), (&flood, 1), (&other, 2)];
        let mut waiting: Vec<_> = requests
            .map(|(client, connection)| Box::pin(turns.take(client, connection)))
            .into_iter()
            .collect();
        assert!(waiting.iter_mut().all(|request| poll(request).is_none()));
        let mut order = Vec::new();
        let mut turn = Some(first);
        while order.len() < waiting.len() {
            drop(turn.take());
            for (index, request) in waiting.iter_mut().enumerate() {
                if !order.contains(&index)
                    && let Some(given) = poll(request)
                {
                    order.push(index);
                    turn = Some(given);
                    break;
                }
            }
        }
        assert_eq!(order, [0, 4, 3, 1, 2]);
    }

    /// S12: the turn of a request that was aborted goes to the next one, and none is lost.
    #[test]
    fn an_aborted_request_passes_its_turn_on() {
        let turns = Turns::new(1);
        let client: Arc<str> = "ann".into();
        let first = poll(&mut Box::pin(turns.take(&client, 0))).expect("a free turn");
        let mut aborted = Box::pin(turns.take(&client, 0));
        let mut given = Box::pin(turns.take(&client, 0));
        let mut last = Box::pin(turns.take(&client, 0));
        assert!([&mut aborted, &mut given, &mut last].into_iter().all(|one| poll(one).is_none()));
        drop(aborted);
        drop(first);
        // It has its turn, and is aborted before it knows.
        drop(given);
        let turn = poll(&mut last).expect("a turn");
        drop((turn, last));
        let mut again = pin!(turns.take(&client, 0));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(again.as_mut().poll(context).is_ready());
    }
}
